"""A watched run as a picture in the terminal, redrawn as it changes."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from mosaic.cli import format
from mosaic.cli.output import STATE_STYLES, ascii_only
from mosaic.cli.watch_lines import state_text
from mosaic.cli.watch_model import WatchModel

LABEL_WIDTH = 12


class Screen:
    """Drawn anew from the model each time that rich asks."""

    def __init__(self, model: WatchModel, *, live: bool = True) -> None:
        self.model = model
        self.live = live

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Group(*self._lines(options.max_width, ascii_only(console)))

    def _lines(self, width: int, plain: bool) -> list[RenderableType]:
        model = self.model
        lines = [self._title(), self._bar(width, plain)]
        if model.curve:
            lines.append(self._curve(width, plain))
        if model.metrics:
            lines += self._metrics(width)
        if model.stage is not None:
            stage = model.stage
            place = f"  {stage['index']} of {stage['total']}" if stage.get("index") and stage.get("total") else ""
            lines.append(_labelled("stage", stage["name"] + place))
        if model.checkpoint is not None:
            lines.append(_labelled("checkpoint", f"step {model.checkpoint['step']:,}"))
        lines += [_labelled("log" if index == 0 else "", line) for index, line in enumerate(model.logs)]
        if self.live:
            hint = "Ctrl-C stops watching; the run goes on" if model.connected else "the daemon is away; waiting for it"
            lines.append(Text(hint, style="dim" if model.connected else "yellow"))
        for line in lines:
            line.no_wrap = True
            line.overflow = "ellipsis"
        return list(lines)

    def _title(self) -> Text:
        view = self.model.view
        config = view["config"]
        what = [str(config[key]) for key in ("algorithm", "algo", "env_id", "description") if config.get(key)]
        text = Text.assemble(
            (view["name"], "bold"),
            "  ",
            (state_text(self.model).removeprefix(view["name"] + " "), STATE_STYLES[view["state"]]),
        )
        return text.append(f"  {view['worker']} {' '.join(what)}", style="dim")

    def _bar(self, width: int, plain: bool) -> Text:
        model = self.model
        told = [f"step {format.count(model.step)}" + (f" of {model.total:,}" if model.total else "")]
        if model.rate and model.view["state"] == "RUNNING":
            told.append(f"{model.rate:,.0f} steps/s")
        if model.seconds_left is not None:
            told.append(f"{format.duration(model.seconds_left)} left")
        words = "  ".join(told)
        if model.fraction is None:
            return Text(words)
        length = max(8, min(40, width - len(words) - 8))
        bar = format.bar(model.fraction, length, ascii_only=plain)
        style = STATE_STYLES[model.view["state"]]
        return Text.assemble((bar, style), f" {format.percent(model.fraction):>4}  ", words)

    def _curve(self, width: int, plain: bool) -> Text:
        model = self.model
        told = f" {format.number(model.recent_return)}" + (f"  {model.episodes:,} episodes" if model.episodes else "")
        length = max(8, min(60, width - LABEL_WIDTH - len(told) - 1))
        curve = format.sparkline(model.curve, length, ascii_only=plain)
        return Text.assemble((f"{'return':{LABEL_WIDTH}}", "dim"), (curve, "cyan"), told)

    def _metrics(self, width: int) -> list[Text]:
        """As many on a line as fit, at most three lines."""
        lines: list[str] = [""]
        for name, value in self.model.metrics.items():
            part = f"{name} {format.number(value)}"
            if lines[-1] and len(lines[-1]) + len(part) + 3 > width - LABEL_WIDTH:
                lines.append("")
            lines[-1] += ("   " if lines[-1] else "") + part
        shown = lines[:3]
        if len(lines) > 3:
            shown[-1] += "   ..."
        return [_labelled("metrics" if index == 0 else "", line) for index, line in enumerate(shown)]


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:{LABEL_WIDTH}}", "dim"), text)
