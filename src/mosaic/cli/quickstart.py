"""`mosaic quickstart`: from nothing to a trained and evaluated policy, explained on the way."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from mosaic.cli.options import json_option, make_client

if TYPE_CHECKING:
    from mosaic.client import Client, Run

WORKER = "cleanrl"
# Short rollouts and many passes over each: learns CartPole in a fifth of the steps that CleanRL's defaults take.
TRAINING: dict[str, Any] = {
    "algo": "ppo",
    "env_id": "CartPole-v1",
    "total_timesteps": 102_400,
    "seed": 1,
    "extras": {
        "checkpoint_interval": 25_600,
        "algo_params": {
            "num_envs": 8,
            "num_steps": 32,
            "num_minibatches": 1,
            "update_epochs": 20,
            "learning_rate": 0.001,
            "gamma": 0.98,
            "gae_lambda": 0.8,
            "ent_coef": 0.0,
        },
    },
}
ABOUT = "CleanRL's PPO on Gymnasium's CartPole-v1: balance a pole, one point a step, 500 at most"
EPISODES = 100
# What the policy got before it had learned much: the mean of so many first episodes.
FIRST_EPISODES = 20
EVALUATION_SEED = 1000


@click.command("quickstart")
@click.option(
    "--steps",
    type=click.IntRange(min=1000),
    default=TRAINING["total_timesteps"],
    show_default=True,
    metavar="N",
    help="How long to train.",
)
@json_option
def command(steps: int, as_json: bool) -> int:
    """Set everything up, train a policy and see how good it is.

    Installs the worker that it needs (PyTorch among it), starts the daemon, trains PPO on CartPole for half a minute
    and evaluates what it has learned.
    """
    from mosaic.cli.submission import exit_code_of
    from mosaic.cli.watch import watch
    from mosaic.cli.workers import installed_for_run
    from mosaic.client.lifecycle import start_daemon

    client = make_client()
    tell = _Teller(quiet=as_json)
    tell.step(1, f"The worker {WORKER!r}, in an environment of its own")
    worker = installed_for_run(client.home, WORKER, tell.detail)
    tell.detail(f"{worker.distribution} {worker.version} in {worker.folder}")
    tell.step(2, "The daemon, which queues and starts runs")
    started = start_daemon(client)
    tell.detail({"running": "runs already"}.get(started.how, "started") + f": {started.info.url}")
    tell.step(3, ABOUT)
    run = client.submit(WORKER, {**TRAINING, "total_timesteps": steps}, tags=["quickstart"])
    tell.detail(f"run {run.name}")
    tell.blank()
    code = exit_code_of(run.wait()) if as_json else watch(run)
    if code:
        return code
    tell.blank()
    tell.step(4, f"Evaluating what it has learned, over {EPISODES} episodes")
    evaluation = _evaluate(client, run)
    tell.detail(f"run {evaluation.name}")
    if evaluation.wait().state == "SUCCEEDED":
        _tell_result(run, _result(client, run, evaluation), as_json=as_json)
    return exit_code_of(evaluation)


class _Teller:
    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def step(self, number: int, text: str) -> None:
        self._line(f"[{number}/4] {text}")

    def detail(self, text: str) -> None:
        self._line(f"      {text}")

    def blank(self) -> None:
        self._line("")

    def _line(self, text: str) -> None:
        if not self._quiet:
            click.echo(text)
            sys.stdout.flush()


def _evaluate(client: Client, run: Run) -> Run:
    extras = {
        "mode": "policy_eval",
        "policy_path": str(run.folder / _checkpoints(run)[-1]),
        "eval_episodes": EPISODES,
        "eval_batch_size": 10,
    }
    config = {"algo": TRAINING["algo"], "env_id": TRAINING["env_id"], "seed": EVALUATION_SEED, "extras": extras}
    return client.submit(WORKER, config, name=f"{run.name}-evaluated", tags=["quickstart"])


def _checkpoints(run: Run) -> list[str]:
    from mosaic.store import RunReader

    with RunReader(run.folder / "run.sqlite") as reader:
        return [row["path"] for row in reader.checkpoints() if not row.get("superseded")]


def _result(client: Client, run: Run, evaluation: Run) -> dict[str, Any]:
    first = [float(row["episode_return"]) for row in islice(run.telemetry(kinds=["episode"]), FIRST_EPISODES)]
    (completed,) = evaluation.telemetry(kinds=["run_completed"])
    return {
        "run": run.view,
        "evaluation": evaluation.view,
        "return_before": sum(first) / len(first) if first else None,
        "return_after": completed["summary"]["return"],
        "folder": str(run.folder),
        "checkpoints": _checkpoints(run),
        "login_url": client.login_url(),
    }


def _tell_result(run: Run, result: dict[str, Any], *, as_json: bool) -> None:
    from mosaic.cli import format
    from mosaic.cli.output import print_json

    if as_json:
        print_json(result)
        return
    before, after = result["return_before"], result["return_after"]
    mean, low, high = (format.number(round(value, 1)) for value in (after["mean"], *after["ci95"]))
    click.echo("")
    if before is not None:
        click.echo(f"Return before:        {format.number(round(before, 1))}, its first {FIRST_EPISODES} episodes")
    click.echo(f"Return after:         {mean}, evaluated over {EPISODES} episodes (95% interval {low} to {high})")
    click.echo(f"Run folder:           {result['folder']}")
    click.echo(f"Its last checkpoint:  {result['checkpoints'][-1]}")
    click.echo(f"In a browser, once:   {result['login_url']}")
    click.echo("")
    following = (
        (f"mosaic show {run.name}", "everything about this run"),
        (f"mosaic train {WORKER} --help", "train something of your own; its hyperparameters are flags"),
        ("mosaic down", "stop the daemon"),
    )
    for index, (typed, about) in enumerate(following):
        click.echo(f"{'Next:' if index == 0 else '':6}{typed:28} {about}")
