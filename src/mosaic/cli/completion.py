"""`mosaic completion`."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the shell completion for bash, zsh or fish.

    \b
    bash:  eval "$(mosaic completion bash)"          in ~/.bashrc
    zsh:   eval "$(mosaic completion zsh)"           in ~/.zshrc, after compinit
    fish:  mosaic completion fish | source           in ~/.config/fish/config.fish

    It completes commands, options, runs and workers, and a worker's hyperparameters after `mosaic train WORKER`.
    """
    from click.shell_completion import get_completion_class

    from mosaic.cli.app import COMPLETE_VARIABLE, group

    kind = get_completion_class(shell)
    assert kind is not None
    # Not `.source()`: bash's checks its version by running another bash, which costs more than all the rest.
    made = kind(group, {}, "mosaic", COMPLETE_VARIABLE)
    click.echo(made.source_template % made.source_vars())
