"""MOSAIC: run reinforcement-learning libraries side by side, lose nothing, watch everything.

Importing this package is free: workers import `mosaic.worker` in environments that hold nothing of the platform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaic.client import Client as Client

__version__ = "0.1.0"
__all__ = ["Client", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from mosaic.client import Client

        return Client
    raise AttributeError(f"module 'mosaic' has no attribute {name!r}")
