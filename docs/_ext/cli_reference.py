"""Every command with its options, read from the command line itself."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tilewright.cli.app import app


def markdown(_docs: Path) -> str:
    return "\n".join(_command(click.Context(app, info_name="tilewright"), app, 2))


def walk(ctx: click.Context, command: click.Command) -> Iterator[tuple[click.Context, click.Command]]:
    """A command and all below it, with the contexts that know their full names."""
    yield ctx, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None, name
            yield from walk(click.Context(child, info_name=name, parent=ctx), child)


def _command(ctx: click.Context, command: click.Command, level: int) -> Iterator[str]:
    for inner, each in walk(ctx, command):
        depth = level + (0 if inner.parent is None else 1 if inner.parent.parent is None else 2)
        usage = " ".join(each.collect_usage_pieces(inner))
        yield f"{'#' * depth} {inner.command_path}\n\n```text\n{inner.command_path} {usage}\n```\n"
        yield _prose(each.help or "")
        options = [p for p in each.params if isinstance(p, click.Option) and not p.hidden]
        if options:
            yield "| option | what it does | default |\n|---|---|---|"
            yield "\n".join(_row(o, inner) for o in options) + "\n"
        if isinstance(each, click.Group):
            yield "| command | what it does |\n|---|---|"
            for name in each.list_commands(inner):
                child = each.get_command(inner, name)
                assert child is not None
                path = f"{inner.command_path} {name}"
                yield f"| [`{path}`](#{path.replace(' ', '-')}) | {_cell(child.get_short_help_str(200))} |"
            yield ""


def _prose(text: str) -> str:
    """Help as click keeps it: paragraphs that begin with ``\\b`` keep their lines, and hold examples."""
    out = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\f", ""))):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            title, *rest = textwrap.dedent("\n".join(lines[1:])).splitlines()
            # What stands indented under a title is typed, other kept lines are a table of their own.
            typed = bool(rest) and all(line.startswith("  ") for line in rest)
            body = [line.removeprefix("  ") for line in rest] if typed else [title, *rest]
            language = "sh" if typed and "tilewright" in paragraph else "text"
            out.append((f"{title}\n\n" if typed else "") + f"```{language}\n" + "\n".join(body) + "\n```")
        else:
            out.append(_text(" ".join(line.strip() for line in lines)))
    return "\n\n".join(out) + "\n"


def _row(option: click.Option, ctx: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" `{option.make_metavar(ctx)}`"
    help_, _, default = (option.help or "").partition("[default: ")
    default = default.rstrip("]") or _default(option)
    variable = option.envvar if isinstance(option.envvar, str) else ""
    note = f" Environment: `{variable}`." if variable else ""
    return f"| {names}{_cell(value)} | {_cell(help_.strip())}{note} | {_cell(default)} |"


def _default(option: click.Option) -> str:
    value: Any = option.default
    if option.required:
        return "required"
    if option.is_flag or option.multiple or not isinstance(value, (str, int, float)):
        return ""
    return str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|") if "`" in text else _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Help is no Markdown: what would be markup in it is not."""
    return re.sub(r"([\\*_\[\]<>`#$])", r"\\\1", text)
