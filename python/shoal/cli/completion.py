"""`shoal completion SHELL`: prints click's script with which a shell completes commands, flags and paths."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from shoal.cli import _display

EXAMPLES = """\b
Examples:
  eval "$(shoal completion bash)"                                    in ~/.bashrc; bash 4.4 or later
  eval "$(shoal completion zsh)"                                     in ~/.zshrc, after compinit
  shoal completion fish > ~/.config/fish/completions/shoal.fish      once
"""


@click.command("completion", short_help="Print the script that completes commands in your shell.", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and their values in SHELL.

    The script asks the command `shoal` for completions, so it stays correct when shoal is updated.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  # click knows these three
    # The variable that click looks for when the script calls the command.
    _display.out(kind(ctx.find_root().command, {}, "shoal", "_SHOAL_COMPLETE").source().rstrip())
