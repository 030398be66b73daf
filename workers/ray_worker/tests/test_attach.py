"""Training on a cluster that is there already: with its token, and it outlives the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SMALL, merged
from mosaic.worker import ConfigError
from ray_worker.cluster import check_reachable

HEAD = """
import os, sys
from ray_worker.cluster import own_cluster
from ray_worker.config import ResourceConfig
with own_cluster(ResourceConfig(num_workers=1), 1):
    import ray
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_TOKEN_PATH"], flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_joins_with_the_token_and_leaves_the_cluster_alive(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as head:
        assert head.stdout is not None
        address, token = head.stdout.readline().split()
        for attempt, (token_file, code) in enumerate([(token, 0), (str(tmp_path / "none"), 2), (token, 0)]):
            resources = {"num_workers": 1, "address": address, "token_file": token_file}
            config = merged(SMALL, {"resources": resources})
            if code == 2:
                (tmp_path / "none").write_text("0" * 64)
            folder = tmp_path / f"run{attempt}"
            folder.mkdir()
            path = folder / "config.json"
            path.write_text(json.dumps(config))
            done = subprocess.run(
                [sys.executable, "-m", "ray_worker.cli", "--config", str(path)],
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=250,
            )
            assert done.returncode == code, done.stderr[-1500:]
        head.communicate("\n")
        assert head.returncode == 0


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1"])
def test_where_no_cluster_is_is_said_at_once(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_reachable(address)
    (error,) = caught.value.errors
    assert error.field == "resources.address"
    assert "HOST:PORT" in error.message
