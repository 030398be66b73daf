"""One daemon for each home: who holds its lock.

Imports little, so that a second daemon knows at once that it is one.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

from mosaic.flock import try_lock
from mosaic.paths import Home

HOST = "127.0.0.1"
# A look at the lock from outside (`mosaic status`) holds it for an instant.
LOCK_PATIENCE_S = 0.5
TAKEOVER_PATIENCE_S = 30.0


class AlreadyRunning(Exception):
    """Another daemon holds this home; the text says which."""


def take_lock(home: Home, *, takeover: bool) -> int:
    """The lock as a descriptor that holds it; raises AlreadyRunning."""
    home.trainer.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home.daemon_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if takeover and not try_lock(descriptor, wait_s=LOCK_PATIENCE_S):
        _ask_to_stop(home)
        patience = TAKEOVER_PATIENCE_S
    else:
        patience = LOCK_PATIENCE_S
    if not try_lock(descriptor, wait_s=patience):
        os.close(descriptor)
        raise AlreadyRunning(f"another daemon has this home ({home.root}): {_describe_holder(home)}")
    home.daemon_info.unlink(missing_ok=True)  # of one that was killed: nobody is to look for us there
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _describe_holder(home: Home) -> str:
    pid = home.daemon_lock.read_text().strip()
    try:
        info = json.loads(home.daemon_info.read_bytes())
    except (FileNotFoundError, ValueError):
        info = {}
    # What daemon.json says may be of one that is gone.
    if str(info.get("pid")) != pid:
        return f"pid {pid}, which is just starting"
    return f"pid {pid}, {info['url']}, version {info['version']}"


def _ask_to_stop(home: Home) -> None:
    """Handover: the old daemon starts nothing more, finishes its answers and lets go of the lock."""
    try:
        url = urlsplit(json.loads(home.daemon_info.read_bytes())["url"])
        token = home.token.read_text().strip()
    except (FileNotFoundError, ValueError):
        return
    connection = http.client.HTTPConnection(url.hostname or HOST, url.port, timeout=5)
    try:
        connection.request("POST", "/api/v1/daemon/shutdown", headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException) as error:
        print(f"mosaic daemon: the old daemon does not answer ({error}); waiting for its lock", file=sys.stderr)
    finally:
        connection.close()
