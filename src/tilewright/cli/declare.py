"""Declares commands by their signatures: the default of a parameter is its option or argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class _Declared:
    """A parameter that Click fills. ``make``: ``click.option`` or ``click.argument``."""

    make: Callable[..., Callable[[Function], Function]]
    names: Sequence[str]
    settings: Mapping[str, Any]
    bounds: tuple[float | None, float | None] = (None, None)

    def add(self, function: Function, name: str, annotation: Any) -> Function:
        """Declares this parameter of a function; its type follows from ``annotation``."""
        several = get_origin(annotation) is tuple
        kind = next(k for k in (get_args(annotation) or (annotation,)) if k is not NoneType)
        found: dict[str, Any] = {}
        if several:
            found["nargs" if self.make is click.argument else "multiple"] = -1 if self.make is click.argument else True
        if kind is bool:
            found["is_flag"] = True
        elif kind is Path:
            found["type"] = click.Path(path_type=Path)
        elif kind is not str:
            low, high = self.bounds
            ranges: dict[Any, Callable[..., Any]] = {int: click.IntRange, float: click.FloatRange}
            found["type"] = kind if low is None and high is None else ranges[kind](low, high)
        names = (name,) if self.make is click.argument else (*(self.names or (f"--{name.replace('_', '-')}",)), name)
        return self.make(*names, **{**found, **self.settings})(function)


@dataclass(frozen=True, eq=False)
class _Group:
    """A parameter that is an instance of a dataclass, whose fields are declared like parameters."""

    kind: type[Any]


def option(*names: str, low: float | None = None, high: float | None = None, **settings: Any) -> Any:
    """Declares an option with its parameter's name, or ``names``. Its type follows from the annotation: ``bool`` is a
    flag, a tuple may be repeated. ``low``, ``high``: bounds of a number. ``settings``: further settings of Click."""
    if settings.get("default") is not None:
        settings.setdefault("show_default", True)
    return _Declared(click.option, names, settings, (low, high))


def argument(**settings: Any) -> Any:
    """Declares an argument; a tuple takes all remaining words."""
    return _Declared(click.argument, (), settings)


def options(kind: type[Any]) -> Any:
    """Declares options that several commands share, as an instance of the dataclass ``kind``."""
    return _Group(kind)


def _note_json(context: click.Context, _param: click.Parameter, value: bool) -> None:
    context.meta[__name__] = value


_JSON = click.option(
    "--json", is_flag=True, expose_value=False, callback=_note_json, help="Print one JSON object on stdout."
)


def wants_json() -> bool:
    """Whether the running command was given ``--json``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(__name__))


def declared(name: str, group: click.Group | None = None) -> Callable[[Function], click.Command]:
    """Decorator that makes a function a command, of ``group`` if given, with ``--json`` and its declared
    parameters."""

    def make(function: Function) -> click.Command:
        hints = get_type_hints(function)
        whole = {n: p.default for n, p in inspect.signature(function).parameters.items()}
        groups = {n: d.kind for n, d in whole.items() if isinstance(d, _Group)}

        @wraps(function)
        def call(**given: Any) -> Any:
            for n, kind in groups.items():
                given[n] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
            return function(**given)

        added = _JSON(call if groups else function)
        for n, default in reversed(whole.items()):
            if isinstance(default, _Declared):
                added = default.add(added, n, hints[n])
            elif n in groups:
                inner = get_type_hints(groups[n])
                for f in reversed(fields(groups[n])):
                    added = f.default.add(added, f.name, inner[f.name])
        return (group.command if group else click.command)(name)(added)

    return make
