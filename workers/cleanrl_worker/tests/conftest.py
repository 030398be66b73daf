"""The tests that start scripts need the worker's own environment; in another one there is nothing to collect."""

import importlib.util

needed = ("torch", "gym", "cleanrl", "safetensors", "cleanrl_worker")
collect_ignore_glob = [] if all(importlib.util.find_spec(name) for name in needed) else ["test_*.py"]
