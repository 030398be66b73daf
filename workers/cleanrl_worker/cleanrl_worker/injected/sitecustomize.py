"""Python imports this before anything else in the process that runs a CleanRL script, and in its children.

Only the launcher's environment puts this folder on the path. A sitecustomize that was there before is not shadowed.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

from cleanrl_worker.patches import install

_here = str(Path(__file__).parent)
_shadowed = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != _here])
if _shadowed is not None and _shadowed.loader is not None:
    _shadowed.loader.exec_module(module_from_spec(_shadowed))

install()
