"""A schedule's decisions as fields of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, TypeVar

from tilewright.core import Value

P = TypeVar("P")


def decided(plan: Callable[..., P], values: Mapping[str, Value], **more: object) -> P:
    """A plan (a dataclass) with ``more``, and in every other field the value of the knob of its name.

    The knob has the field's name, or that in capitals. Raises ``KeyError`` for a knob that the schedule lacks, unless
    the field has a default.
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
    """Of every field its name, that in capitals, and whether it has no default."""
    return tuple((f.name, f.name.upper(), f.default is MISSING) for f in fields(plan))
