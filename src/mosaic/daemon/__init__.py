"""The trainer daemon: queue, resources, API. Disposable: killing it at any moment harms no run."""
