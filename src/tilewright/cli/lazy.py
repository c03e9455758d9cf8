"""Groups that import their commands on use, so that ``--help`` is instant."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

import click


class LazyGroup(click.Group):
    """A group whose commands are imported on use.

    ``lazy``: by command, its module in ``tilewright.cli``, its name in the module, and its help. ``sections``: the
    commands under each heading of the help; all other commands come last.
    """

    def __init__(
        self,
        *args: object,
        lazy: Mapping[str, tuple[str, str, str]],
        sections: Mapping[str, Sequence[str]] | None = None,
        **options: object,
    ) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.lazy = lazy
        listed = {n for names in (sections or {}).values() for n in names}
        rest = [n for n in lazy if n not in listed]
        self.sections = {**(sections or {}), **({"Commands": rest} if rest else {})}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, name, _ = self.lazy[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"tilewright.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.lazy[name][2]) for name in names])
