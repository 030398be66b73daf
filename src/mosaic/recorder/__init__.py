"""Records what passes on a run's lane: `python -m mosaic.recorder RUN_DIR`. A reader like any other."""
