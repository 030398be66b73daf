"""What goes wrong with one run in a way that nobody thought of keeps no other from starting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mosaic.daemon import dispatcher as module
from mosaic.daemon.dispatcher import Dispatcher
from mosaic.daemon.hub import Hub
from mosaic.daemon.job import JobSpec, make_job
from mosaic.daemon.launching import write_job
from mosaic.daemon.programs import Program, Programs
from mosaic.daemon.registry import Registry
from mosaic.daemon.resources import Capacity
from mosaic.daemon.ulid import UlidMaker
from mosaic.envs import WorkerEnvs
from mosaic.paths import Home


class OddPrograms(Programs):
    asked = 0

    def is_installed(self, worker: str) -> bool:
        return True

    def program(self, worker: str, config_file: Path) -> Program:
        if worker == "odd":
            self.asked += 1
            raise KeyError("capabilities")
        return Program(["true"], pauses=False)


async def submit(home: Home, registry: Registry, worker: str, new_id: UlidMaker) -> str:
    job = make_job(JobSpec(worker=worker), new_id(), 0.0, worker, {})
    write_job(home.run(job.run_id), job, {})
    return registry.add(job).run_id


def test_the_others_start_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TROUBLE_PAUSE_S", 0.05)
    home = Home(tmp_path / "home")

    async def scenario() -> Any:
        registry = Registry(home.registry)
        programs = OddPrograms(WorkerEnvs(home))
        made = Dispatcher(home, registry, programs, Capacity(2, 1000, ()), Hub())
        new_id = UlidMaker()
        odd = await submit(home, registry, "odd", new_id)
        good = await submit(home, registry, "good", new_id)
        running = asyncio.create_task(made.run())
        made.wake()
        async with asyncio.timeout(45):
            while registry.get(good).state != "SUCCEEDED" or programs.asked < 2:  # type: ignore[union-attr]
                await asyncio.sleep(0.02)
        assert registry.get(odd).state in ("ACTIVE", "QUEUED")  # type: ignore[union-attr]
        await made.stop()
        await running
        registry.close()

    asyncio.run(scenario())
    assert "KeyError('capabilities'): trying again" in caplog.text
