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

TOPICS = {
    "tune": ("tune", "misses", "ops", "space"),
    "kernels": ("best", "kernels", "bench", "verify", "lock"),
    "runs": ("runs", "show", "explain", "plot", "dashboard"),
    "check": ("check", "prepare"),
    "models": ("extract", "run"),
    "bundle": ("bundle",),
    "bundle_keys": ("bundle key",),
    "database": ("db", "db export", "db import", "db merge", "db pending", "db rebuild"),
    "database_upkeep": ("db backup", "db gc", "db grants", "db stats", "db upgrade"),
    "farm": ("farm",),
    "farm_processes": ("farm up", "farm server", "farm scheduler", "farm keeper", "farm runner", "farm builder"),
    "farm_certificates": ("farm init", "farm issue", "farm revoke", "farm certs", "farm users"),
    "machine": ("doctor", "config", "completion", "cache", "model"),
}
"""The pages of docs/cli, with their commands. A group brings the commands below it that have no page of their own."""

PAGES = {f"tilewright {path}": topic for topic, paths in TOPICS.items() for path in paths}


def markdown(_docs: Path) -> str:
    """The options of all commands, and a table that leads to each command's page."""
    ctx, command = next(_walk())
    toctree = "\n".join(f"cli/{topic}" for topic in TOPICS)
    return "\n".join([*_command(ctx, command, "cli/"), "```{toctree}\n:hidden:\n\n" + toctree + "\n```\n"])


def topic(_docs: Path, name: str) -> str:
    """The commands of one page, each under a heading of its own."""
    found = [(ctx, each) for ctx, each in _walk() if ctx.parent and _page(ctx.command_path) == name]
    return "\n".join(line for ctx, each in found for line in [f"## {ctx.command_path}\n", *_command(ctx, each, "")])


def _page(path: str) -> str:
    """The page of a command: its own, or that of the group above it."""
    above = path
    while above not in PAGES:
        above = above.rpartition(" ")[0]
        if not above:
            raise ValueError(f"docs/_ext/cli_reference.py has no page for {path}")
    return PAGES[above]


def _walk(
    ctx: click.Context | None = None, command: click.Command = app
) -> Iterator[tuple[click.Context, click.Command]]:
    """Every command, with the context that knows its full name."""
    ctx = ctx or click.Context(command, info_name="tilewright")
    yield ctx, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None, name
            yield from _walk(click.Context(child, info_name=name, parent=ctx), child)


def _command(ctx: click.Context, command: click.Command, folder: str) -> Iterator[str]:
    """What ``--help`` says of one command. ``folder`` leads from the page to docs/cli."""
    yield f"```text\n{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}\n```\n"
    yield _prose(command.help or "")
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if options:
        yield "| option | what it does | default |\n|---|---|---|"
        yield "\n".join(_row(o, ctx) for o in options) + "\n"
    if isinstance(command, click.Group):
        yield "| command | what it does |\n|---|---|"
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            path = f"{ctx.command_path} {name}"
            link = f"{folder}{_page(path)}.md#{path.replace(' ', '-')}"
            yield f"| [`{path}`]({link}) | {_cell(child.get_short_help_str(200))} |"
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
