"""``tilewright completion``: the script by which a shell completes commands, operators, parameters and runs."""

from __future__ import annotations

import os

import click

from tilewright.cli.declare import argument, declared, wants_json
from tilewright.cli.output import emit_json
from tilewright.core import UsageError

WHERE = {
    "bash": 'eval "$(tilewright completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(tilewright completion zsh)"     # in ~/.zshrc, after compinit',
    "fish": "tilewright completion fish | source     # in ~/.config/fish/config.fish",
}
"""The command that loads the script, by shell."""


@declared("completion")
def command(shell: str | None = argument(type=click.Choice(list(WHERE)), required=False)) -> None:
    """Print the script that makes a shell complete commands, operators, parameters and runs.

    \b
    Examples:
      eval "$(tilewright completion bash)"    # in ~/.bashrc
      tilewright completion fish | source     # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in WHERE:
        raise UsageError(
            f"no completion for the shell {name!r}" if name else "no shell is named, and $SHELL is not set",
            f"Name one: tilewright completion {'|'.join(WHERE)}",
        )
    made = get_completion_class(name)
    assert made is not None
    root = click.get_current_context().find_root().command
    script = f"# {WHERE[name]}\n{made(root, {}, 'tilewright', '_TILEWRIGHT_COMPLETE').source()}"
    if wants_json():
        emit_json({"shell": name, "script": script})
    else:
        click.echo(script)
