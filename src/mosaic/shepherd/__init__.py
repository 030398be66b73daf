"""The shepherd: one small process per run that spawns the worker, journals what it says and tells how it ended.

`python -m mosaic.shepherd RUN_DIR` starts one. It exits with 0 when exit.json tells how the attempt ended (whatever
the outcome), 2 when it was called wrongly or launch.json is unusable, 3 when it refused (another shepherd holds the
lock, or this attempt was started before), 4 when there was no room for exit.json or no folder to put it in. Only 0
leaves an end on record.

For others: `launch` (what the daemon fills in), `control.send`, `status.read_status`, `exit_record.read_exit`,
`recovery.bury` (record a LOST attempt and clear away what it left).
"""
