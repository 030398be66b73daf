"""`mosaic record`: a living run's frames become a movie."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from mosaic.cli.options import json_option, run_argument
from mosaic.client.errors import MosaicError, NotPossible
from mosaic.paths import Home, RunFolder

FORMATS = (".mp4", ".webm", ".gif")


@click.command("record")
@run_argument
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The movie.  [default: in the run's videos/]"
)
@click.option("--stream", metavar="NAME", help="Which stream, such as env-0.  [default: grid if there is one]")
@click.option(
    "--seconds", type=click.FloatRange(min=0, min_open=True), metavar="S", help="So long.  [default: to the end]"
)
@click.option("--every-episodes", type=click.IntRange(1), metavar="N", help="A clip of every Nth episode instead.")
@click.option("--format", "form", type=click.Choice([suffix[1:] for suffix in FORMATS]), help="[default: mp4]")
@click.option(
    "--fps", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="At most so many a second."
)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="S",
    help="So long for a first frame.  [default: 60; for clips, as long as the run]",
)
@json_option
def command(
    reference: str,
    out: Path | None,
    stream: str | None,
    seconds: float | None,
    every_episodes: int | None,
    form: str | None,
    fps: int,
    wait: float | None,
    as_json: bool,
) -> None:
    """Record a run's live picture to a video file.

    Until the run ends, or Ctrl-C: what was recorded by then is kept. Reads the run's frames itself: no daemon is
    needed, and the run is not slowed down by more than any other viewer.
    """
    from mosaic.cli.local_runs import find_run
    from mosaic.cli.output import print_json, say
    from mosaic.shepherd.status import FINAL_STATES, read_status

    if out is not None and every_episodes is None and out.suffix not in FORMATS:
        raise click.UsageError(f"--out: got {out.name!r}, allowed: a name ending in {', '.join(FORMATS)}")
    run = find_run(Home.from_environment(), reference)
    state = read_status(run.folder).state
    if state in FINAL_STATES:
        kept = f"its movies are in {run.folder.videos}" if run.folder.videos.is_dir() else "nothing of it was recorded"
        raise NotPossible(f"run {run.name} has ended ({state}); {kept}")
    given = {
        "--output": out,
        "--stream": stream,
        "--seconds": seconds,
        "--every-episodes": every_episodes,
        "--format": form,
        "--fps": fps,
        "--wait": wait,
    }
    if not as_json:
        say(f"recording {run.name}; Ctrl-C ends the recording")
    written = _record(run.folder, [f"{flag}={value}" for flag, value in given.items() if value is not None])
    if as_json:
        print_json({"files": written})
        return
    for path in written:
        click.echo(path)


def _record(folder: RunFolder, arguments: list[str]) -> list[str]:
    """Run the recorder, which writes the names of its files. Ctrl-C reaches it as well, and it ends as it should."""
    from mosaic.cli.output import say

    argv = [sys.executable, "-P", "-m", "mosaic.recorder", str(folder.path), *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said, errors = process.communicate()
        except KeyboardInterrupt:
            said, errors = process.communicate()
    lines = errors.strip().splitlines()
    if process.returncode != 0:
        raise MosaicError(lines[-1] if lines else f"the recorder ended with exit code {process.returncode}")
    for line in lines:
        say(line)
    return said.splitlines()
