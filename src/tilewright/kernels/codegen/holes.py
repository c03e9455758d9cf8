"""Kernel text with holes: C++ as it will be printed, and names where the schedule decides.

``$name`` or ``${name}`` stands for a text. A line that begins with ``$if name:`` is there where that hole is true, one
with ``$unless name:`` where it is not. A line that is a hole and nothing else may stand for any number of lines, which
are indented as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Template

_CONDITION = re.compile(r"\$(if|unless) (\w+):")
_ALONE = re.compile(r"( *)\$(\w+)")


def fill(text: str, holes: Mapping[str, object]) -> str:
    """The text with its holes filled, each by ``str`` of its value. Raises ``KeyError`` for a hole without one."""
    return "\n".join(_lines(text, holes))


def filled(text: str, holes: Mapping[str, object]) -> list[str]:
    """The lines of :func:`fill`, for a hole of another text."""
    return fill(text, holes).split("\n")


def _lines(text: str, holes: Mapping[str, object]) -> Iterator[str]:
    for line in text.split("\n"):
        condition = _CONDITION.match(line)
        if condition is not None:
            if bool(holes[condition[2]]) != (condition[1] == "if"):
                continue
            line = line[condition.end() :]
        alone = _ALONE.fullmatch(line)
        value = holes[alone[2]] if alone is not None else None
        if alone is not None and isinstance(value, (list, tuple)):
            yield from (f"{alone[1]}{x}" if x else "" for x in map(str, value))
        else:
            yield Template(line).substitute(holes)
