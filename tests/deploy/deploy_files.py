"""Reading what is in ``deploy/``, and holding its command lines against the real commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from tilewright.cli.app import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PORT = 8786
ROUTES_PORT = 8787
DASHBOARD_PORT = 8765
UID = 65532
ONLINE = ("runner", "builder", "ping", "ready", "status")
"""Commands of ``farm`` that need an address."""


def parse_command(words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What click makes of ``tilewright WORDS``. Raises ``click.UsageError`` for what the command does not take."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("TILEWRIGHT_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        command: click.Command | None = app
        ctx = click.Context(app, info_name="tilewright")
        rest = list(words)
        while isinstance(command, click.Group):
            if not rest:
                raise click.UsageError("no command is named")
            name = rest.pop(0)
            command = command.get_command(ctx, name)
            if command is None:
                raise click.UsageError(f"there is no command {name}")
        with command.make_context(words[-1], rest, parent=ctx) as inner:
            values = dict(inner.params)
    if words[0] == "farm" and words[1] in ONLINE and not str(values["address"]).startswith("tls://"):
        raise click.UsageError(f"{' '.join(words)} has no address")
    if words[0] == "farm" and not values.get("certs"):
        raise click.UsageError(f"{' '.join(words)} has no certificates")
    return values


def refused(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Why the command line would not work; empty if it would."""
    try:
        parse_command(words, environment)
    except click.ClickException as e:
        return f"tilewright {' '.join(words)}: {e.format_message()}"
    return ""


# --------------------------------------------------------------------------- units of systemd


@dataclass(frozen=True)
class Unit:
    """A unit's settings in order, as (section, key, value); keys may repeat."""

    name: str
    settings: tuple[tuple[str, str, str], ...]

    def all(self, key: str, section: str = "Service") -> list[str]:
        return [v for s, k, v in self.settings if (s, k) == (section, key)]


def read_unit(name: str, text: str) -> Unit:
    """Reads what ``systemd.syntax(7)`` describes, without line continuations, which none of ours needs."""
    section, out = "", []
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        assert not line.endswith("\\")
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, found, value = line.partition("=")
        assert found, line
        out.append((section, key, value))
    return Unit(name, tuple(out))


# --------------------------------------------------------------------------- the Dockerfile


@dataclass(frozen=True)
class Stage:
    """A build stage: its name, what it starts from, and its instructions (those of its parents not included)."""

    name: str
    base: str
    steps: tuple[tuple[str, str], ...]


def read_dockerfile(text: str) -> tuple[list[tuple[str, str]], dict[str, Stage]]:
    """Instructions before the first stage, and the stages by name, in order."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    first: list[tuple[str, str]] = []
    stages: dict[str, Stage] = {}
    for line in joined.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            current = name or str(len(stages))
            stages[current] = Stage(current, base, ())
        elif stages:
            last = stages[current]
            stages[current] = Stage(last.name, last.base, (*last.steps, (word, rest)))
        else:
            first.append((word, rest))
    return first, stages


def lineage(stages: Mapping[str, Stage], name: str) -> list[tuple[str, str]]:
    """The instructions that make an image, its parents' first."""
    stage = stages[name]
    return [*(lineage(stages, stage.base) if stage.base in stages else []), *stage.steps]


def targets(stages: Mapping[str, Stage]) -> list[str]:
    """The stages that people build: those that say what to run."""
    return [n for n, s in stages.items() if any(w == "CMD" for w, _ in s.steps)]


# --------------------------------------------------------------------------- walking parsed YAML


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where everything in a nest of maps and lists is."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*prefix, key)
        yield from paths(inner, (*prefix, key))


def at(value: Any, path: Sequence[Any], default: Any = None) -> Any:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return default
    return value
