"""Reading a schedule's knobs into the fields of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, TypeVar

from tilewright.core import Value

P = TypeVar("P")


def decided(plan: Callable[..., P], values: Mapping[str, Value], **more: object) -> P:
    """A plan (a dataclass) with the fields ``more``, and every other field from the knob of its name.

    The knob is named like the field, in small letters or capitals. Raises ``KeyError`` for a missing knob, unless the
    field has a default.
    """
    for name, capitals, needed in _fields(plan):
        if name not in more:
            if name in values:
                more[name] = values[name]
            elif needed or capitals in values:
                more[name] = values[capitals]
    return plan(**more)


@lru_cache(maxsize=64)
def _fields(plan: Any) -> tuple[tuple[str, str, bool], ...]:
    """Name of every field, its name in capitals, and whether the field has no default."""
    return tuple((f.name, f.name.upper(), f.default is MISSING) for f in fields(plan))
