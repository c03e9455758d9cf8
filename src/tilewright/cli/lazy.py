"""Groups whose commands are imported when they are used, so that ``--help`` is instant."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """``lazy``: by command, the module of ``tilewright.cli`` and the name in it that define it, and its help."""

    def __init__(self, *args: object, lazy: Mapping[str, tuple[str, str, str]], **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, name, _ = self.lazy[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"tilewright.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in self.lazy.items()])
