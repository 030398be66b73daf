"""A worker by hand, with nothing of `mosaic.worker`, as one in another language would be.

`plain_worker.py FLAW` breaks the contract in one way; `plain_worker.py none` keeps it.
"""

import hashlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path

FLAW, *ARGUMENTS = sys.argv[1:]
CAPABILITIES = {
    "worker_type": "plain",
    "supported_paradigms": ["sequential"],
    "env_families": [],
    "action_spaces": [],
    "observation_spaces": [],
    "max_agents": 1,
    "supports_checkpointing": True,
    "supports_self_play": False,
    "supports_population_based_training": False,
    "supports_pause_resume": True,
    "requires_gpu": False,
    "estimated_memory_mb": 64,
}
DESCRIPTION = {
    "contract": 2 if FLAW == "another contract" else 1,
    "name": "plain",
    "version": "1",
    "title": "Plain",
    "capabilities": CAPABILITIES,
    "fields": {"algorithm": "algorithm", "params": None, "total_steps": "steps", "environment": None, "seed": None},
    "config_schema": {
        "type": "object",
        "properties": {
            "run_id": {"type": "string"},
            "algorithm": {"type": "string", "default": "count"},
            "steps": {"type": "integer", "minimum": 1, "default": 5},
        },
        "required": [],
        "additionalProperties": False,
    },
    "algorithms": {"count": {"title": "Count", "params_schema": {"type": "object"}, "description": "", "facts": {}}},
    "example_config": {"steps": 0} if FLAW == "example that does not fit" else {"steps": 5},
}


def say(kind, **fields):
    print(json.dumps({"type": kind, "time": time.time(), **fields}), flush=True)


def refuse(message):
    if FLAW == "traceback for a bad config":
        raise ValueError(message)
    print(f"config: {message}", file=sys.stderr)
    sys.exit(1 if FLAW == "wrong exit code for a bad config" else 2)


def load(path):
    try:
        config = json.loads(Path(path).read_text())
    except ValueError:
        refuse("the file is not JSON")
    if not isinstance(config, dict):
        refuse("the file does not hold an object")
    if FLAW != "no job descriptors":
        config = config.get("metadata", {}).get("worker", {}).get("config", config)
    known = DESCRIPTION["config_schema"]["properties"]
    for name, value in config.items():
        if name not in known and FLAW != "takes any field":
            refuse(f"field {name!r}: unknown")
        if name == "steps" and not (isinstance(value, int) and value >= 1):
            refuse(f"field {'number' if FLAW == 'names another field' else name!r}: got {value!r}, allowed: 1 or more")
        if name == "algorithm" and value != "count":
            refuse(f"field {name!r}: got {value!r}, allowed: count")
    return config


class Run:
    def __init__(self, config):
        self.config = config
        self.folder = Path(os.environ["MOSAIC_RUN_DIR"])
        self.total = config.get("steps", 5)
        self.attempt = int(os.environ["MOSAIC_ATTEMPT"])
        self.stop = self.paused = False
        self.beaten = 0.0
        self.step = 0
        if FLAW != "ignores SIGTERM":
            signal.signal(signal.SIGTERM, lambda number, frame: setattr(self, "stop", True))
        else:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def go(self):
        resume = os.environ.get("MOSAIC_RESUME_FROM")
        if resume and FLAW != "begins anew":
            self.step = json.loads((Path(resume) / "state.json").read_text())
        if FLAW != "no run_started":
            run_id = "other" if FLAW == "another run_id" else self.config["run_id"]
            say("run_started", run_id=run_id, worker="plain", version=1)
        while self.step < self.total and not self.stop:
            self.listen(0.02 if self.total > 100 else 0)
            self.beat()
            if self.paused and FLAW != "works while paused":
                continue
            self.step += 1
            if FLAW == "says nothing of its work":
                continue
            say("metric", step=-self.step if FLAW == "steps run backwards" else self.step, values={"x": 1.0})
            if FLAW == "prints into its telemetry":
                print("Epoch 1 of 10", flush=True)
        if not (FLAW == "no checkpoint at the end" and self.stop):
            self.save()
        if FLAW != "no analytics.json":
            (self.folder / "analytics.json").write_text("{}")
        if FLAW != "no run_completed":
            stopped = self.stop and FLAW != "says finished when stopped"
            say("run_completed", step=self.step, reason="stopped" if stopped else "finished")
        return 3 if FLAW == "fails when stopped" and self.stop else 0

    def listen(self, wait):
        if not select.select([sys.stdin], [], [], wait)[0]:
            return
        line = sys.stdin.buffer.raw.readline()
        if not line:
            self.stop = FLAW != "outlives its shepherd"
            time.sleep(0.02)
            return
        command = json.loads(line)["type"]
        if command == "stop" and FLAW != "ignores stop":
            self.stop = True
        elif command == "checkpoint" and FLAW != "ignores checkpoint":
            self.save()
        elif command in ("pause", "resume") and FLAW != "ignores pause":
            self.paused = command == "pause"
            self.beaten = 0.0

    def beat(self):
        every = 30.0 if FLAW == "heartbeats at its own pace" else float(os.environ.get("MOSAIC_HEARTBEAT_S", 30))
        if time.monotonic() > self.beaten + every:
            self.beaten = time.monotonic()
            say("heartbeat", step=self.step, state="paused" if self.paused else "running")

    def save(self):
        path = self.folder / "checkpoints" / f"{self.step}-{self.attempt}"
        path.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self.step).encode()
        (path / "state.json").write_bytes(content + b" " * (FLAW == "file changed after its card"))
        card = {
            "worker": "plain",
            "algorithm": "count",
            "environment": "",
            "step": self.step + (FLAW == "card of another step"),
            "files": {"state.json": {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}},
        }
        if FLAW != "no card":
            (path / "card.json").write_text(json.dumps(card))
        said = path if FLAW == "path from the root" else path.relative_to(self.folder)
        say("checkpoint", step=self.step, path=str(said))


def main():
    if "--describe" in ARGUMENTS:
        print("loading..." if FLAW == "prints before its description" else "", json.dumps(DESCRIPTION))
        return 0
    config = load(ARGUMENTS[ARGUMENTS.index("--config") + 1])
    if "--dry-run" in ARGUMENTS:
        if FLAW == "prints in a dry run":
            print("fine")
        return 0
    return Run(config).go()


sys.exit(main())
