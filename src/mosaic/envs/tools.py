"""uv and pip as child processes, with the settings that pip has on this machine; their output handed on by lines."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mosaic.envs.errors import InstallFailed
from mosaic.envs.locks import Report
from mosaic.paths import CHECKOUT

# pip's setting -> what uv calls it, and how uv separates several values.
_PIP_TO_UV = {
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", ""),
    "extra-index-url": ("UV_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", ""),
}
# Later sections win, as in pip.
_PIP_SECTIONS = ("global", "install", ":env:")


@dataclass(frozen=True)
class Tools:
    """The uv and pip that live in the platform's own environment `venv`."""

    venv: Path
    hold: tuple[int, ...] = ()  # file descriptors that the children inherit: our locks
    log: Path | None = None  # where all output is kept

    @classmethod
    def of_this_process(cls, *, hold: tuple[int, ...] = (), log: Path | None = None) -> Tools:
        return cls(Path(sys.prefix), hold, log)

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    def uv(self, arguments: Sequence[str | Path], report: Report) -> None:
        self.run([self.venv / "bin" / "uv", *arguments], report, self.uv_environment)

    def pip(self, arguments: Sequence[str | Path], report: Report) -> None:
        self.run([self.python, "-m", "pip", *arguments], report, dict(os.environ))

    @cached_property
    def pip_settings(self) -> dict[str, str]:
        """What pip is configured with here (files and environment), by uv's names of the settings."""
        listed = subprocess.run(
            [self.python, "-m", "pip", "config", "list"], capture_output=True, text=True, cwd=CHECKOUT
        )
        if listed.returncode != 0:
            said = " ".join(listed.stderr.split())[-400:]
            raise InstallFailed(
                f"what pip is configured with on this machine cannot be read (`pip config list`): {said}"
            )
        return pip_settings_for_uv(listed.stdout.splitlines())

    @cached_property
    def uv_environment(self) -> dict[str, str]:
        """Our environment; pip's settings where uv has none of its own; the platform's Python first in line."""
        environment = self.pip_settings | dict(os.environ)
        environment["PATH"] = f"{base_python().parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        environment.setdefault("UV_PYTHON_PREFERENCE", "system")
        environment["NO_COLOR"] = "1"
        if sys.platform == "linux":
            environment.setdefault("UV_LINK_MODE", "hardlink")
        return environment

    def torch_is_at_hand(self) -> bool:
        """Do the configured find-links provide torch? A folder is looked into, an address is trusted to."""
        places = self.uv_environment.get("UV_FIND_LINKS", "").split(",")
        return any("://" in place or any(Path(place).glob("torch-*.whl")) for place in places if place)

    def run(self, argv: Sequence[str | Path], report: Report, environment: Mapping[str, str]) -> None:
        """Run to the end, each line of output to `report` and to the log; InstallFailed says why it failed."""
        lines: list[str] = []
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            cwd=CHECKOUT,
            pass_fds=self.hold,
        )
        with process:
            try:
                for line in process.stdout or ():
                    lines.append(line.rstrip())
                    self._keep(line)
                    # "Using Python" would name a folder that is still to be renamed.
                    if line.strip() and not line.startswith("Using Python"):
                        report(line.rstrip())
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            raise InstallFailed(reason(lines) or f"{Path(argv[0]).name} ended with exit code {process.returncode}")

    def _keep(self, line: str) -> None:
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(line)


def base_python() -> Path:
    """The Python behind this one's virtual environment: the real file, not a link to it.

    An environment made from it dangles visibly when the machine's Python moves on to another version.
    """
    linked = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return Path(os.path.realpath(linked))


def pip_settings_for_uv(listed: Iterable[str]) -> dict[str, str]:
    """Turn the lines of `pip config list` (section.name='value') into environment variables of uv."""
    found: dict[str, dict[str, str]] = {section: {} for section in _PIP_SECTIONS}
    for line in listed:
        key, _, literal = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found and name in _PIP_TO_UV:
            found[section][name] = str(ast.literal_eval(literal))
    settings: dict[str, str] = {}
    for section in _PIP_SECTIONS:
        for name, value in found[section].items():
            variable, separator = _PIP_TO_UV[name]
            settings[variable] = separator.join(value.split()) if separator else value
    if "UV_INDEX" in settings:
        # pip takes the best version over all its indexes; uv would stop at the first that knows the name.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return settings


def reason(lines: Sequence[str]) -> str:
    """The one line that says why uv or pip failed: from its first line of error on, without the drawing."""
    starts = [i for i, line in enumerate(lines) if re.match(r"\s*(error|ERROR|\u00d7)", line)]
    told = lines[starts[0] :] if starts else lines[-1:]
    words = re.sub(r"[\u00d7│├╰─▶\s]+", " ", " ".join(told)).strip()
    words = words.removeprefix("error: ").removeprefix("ERROR: ")
    return words if len(words) <= 400 else words[:397] + "..."
