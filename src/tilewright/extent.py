"""Sizes that differ from call to call: a parameter is given as ``m=1..4096``, and kernels are told it at each call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

_TEXT = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*")
_NAMED = re.compile(r"(\w+)=(\d+)\.\.(\d+)(?:\*(\d+))?")


class Extent(int):
    """The extent of an axis that each call chooses: ``unit`` times a size ``name`` from ``low`` to ``high``, inclusive.

    As a number it is the greatest. Multiplied by a number it is an extent again; whatever else is computed from one is
    a plain number, and means the greatest.
    """

    low: int
    name: str
    unit: int

    def __new__(cls, high: int, low: int, name: str, unit: int = 1) -> Extent:
        made = super().__new__(cls, high * unit)
        made.low, made.name, made.unit = low, name, unit
        return made

    def __getnewargs__(self) -> tuple[int, int, str, int]:  # type: ignore[override]
        return self.high, self.low, self.name, self.unit

    @property
    def high(self) -> int:
        return int(self) // self.unit

    @property
    def argument(self) -> str:
        """What kernels call the size among their launch arguments."""
        return f"extent_{self.name}"

    def text(self, size: str) -> str:
        """C text of the extent, given that of the size."""
        return size if self.unit == 1 else f"({size} * {self.unit}L)"

    def takes(self, size: int) -> bool:
        """Whether a call may choose it."""
        return self.low <= size <= self.high

    def __mul__(self, other: int) -> int:
        product = int(self) * other
        whole = type(other) is int and other > 0
        return Extent(self.high, self.low, self.name, self.unit * other) if whole else product

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{self.name}={self.low}..{self.high}" + (f"*{self.unit}" if self.unit > 1 else "")

    __str__ = int.__repr__


Size = Annotated[int, "size"]
"""A whole number or an :class:`Extent`, which JSON holds as the text ``m=1..4096``."""


def span_of(given: object) -> tuple[int, int] | None:
    """Least and greatest size that ``1..4096`` means, or ``None`` for anything but such a text."""
    found = _TEXT.fullmatch(given) if isinstance(given, str) else None
    return (int(found[1]), int(found[2])) if found else None


def write_size(size: int) -> int | str:
    return repr(size) if isinstance(size, Extent) else size


def read_size(stored: int | str) -> int:
    """Raises ``ValueError`` for a text that is none of :func:`write_size`."""
    if not isinstance(stored, str):
        return stored
    found = _NAMED.fullmatch(stored)
    if found is None:
        raise ValueError(f"{stored!r} is no size")
    return Extent(int(found[3]), int(found[2]), found[1], int(found[4] or 1))


def spread(low: int, high: int, count: int) -> list[int]:
    """At most ``count`` sizes, ``low`` and ``high`` among them, evenly spaced by their logarithm."""
    steps = max(1, count - 1)
    return sorted({round(low * (high / low) ** (k / steps)) for k in range(steps + 1)})


def params_at(params: Mapping[str, Any], extent: Extent, size: int) -> dict[str, Any]:
    """Parameters with a size in place of their range. A shape of one axis is ``1..4096,``, a size ``1..4096``."""
    plain = str(params[extent.name]).replace(f"{extent.low}..{extent.high}", str(size))
    return {**params, extent.name: int(plain) if plain.isdigit() else plain.removesuffix(",")}


def size_in(params: Mapping[str, Any], extent: Extent, given: object) -> int | None:
    """The size for which :func:`params_at` gives the parameter this value; ``None`` where none of the range does."""
    before, _, after = str(params[extent.name]).removesuffix(",").partition(f"{extent.low}..{extent.high}")
    text = str(given)
    middle = text[len(before) : len(text) - len(after)]
    if text != before + middle + after or not middle.isdigit() or not extent.takes(int(middle)):
        return None
    return int(middle)


def settle(value: object, size: int) -> object:
    """A JSON value with what it is for one size, or for another extent, in place of an extent."""
    if isinstance(value, str):
        found = _NAMED.fullmatch(value)
        return write_size(size * int(found[4] or 1)) if found else value
    if isinstance(value, list):
        return [settle(v, size) for v in value]
    if isinstance(value, dict):
        return {k: settle(v, size) for k, v in value.items()}
    return value
