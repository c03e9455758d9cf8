"""Template substitution in kernel text: C++ with placeholders, whose values the schedule determines.

A value replaces ``$name`` or ``${name}``. The line ``$if name: text`` is kept if the value is true, ``$unless name:
text`` if the value is false. A line that is one placeholder takes a value of several lines, and indents each line as
the placeholder is indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from string import Template

_CONDITION = re.compile(r"\$(if|unless) (\w+):")
_ALONE = re.compile(r"( *)\$(\w+)")


def substitute(text: str, mapping: Mapping[str, object]) -> str:
    """The text with ``str`` of a value for each placeholder. Raises ``KeyError`` for a placeholder without a value."""
    return "\n".join(_lines(text, mapping))


def substituted(text: str, mapping: Mapping[str, object]) -> list[str]:
    """The lines of :func:`substitute`, as the value of a placeholder in another text."""
    return substitute(text, mapping).split("\n")


def _lines(text: str, mapping: Mapping[str, object]) -> Iterator[str]:
    for line in text.split("\n"):
        condition = _CONDITION.match(line)
        if condition is not None:
            if bool(mapping[condition[2]]) != (condition[1] == "if"):
                continue
            line = line[condition.end() :]
        alone = _ALONE.fullmatch(line)
        value = mapping[alone[2]] if alone is not None else None
        if alone is not None and isinstance(value, (list, tuple)):
            yield from (f"{alone[1]}{x}" if x else "" for x in map(str, value))
        else:
            yield Template(line).substitute(mapping)
