"""The content of a chart, without how it is drawn: pages, files and terminals draw the same descriptions.

Numbers are plain: seconds, shares, floating-point operations a second. Whoever draws them chooses the units that a
person reads (``Axis.unit`` says what the numbers are).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, Union

import numpy as np

from tilewright.serialization import Json
from tilewright.units import with_unit

T = TypeVar("T")
UNITS = ("", "s", "flop/s", "flop/byte", "trial", "share", "times", "date")
"""What numbers on an axis are; ``date`` is in seconds since the epoch, ``share`` between 0 and 1, ``times`` a ratio."""


class _Drawn(Json):
    """A kind of chart, which its JSON names."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _plain({"kind": self.kind, **super().to_json()})
        return data


@dataclass(frozen=True)
class Axis(Json, sparse=("categories",)):
    """``label`` without a unit; ``scale`` is ``linear`` or ``log``, ``unit`` one of ``UNITS``.

    ``categories``: what the whole numbers from 0 stand for, where the axis has no numbers of its own.
    """

    label: str
    unit: str = ""
    scale: str = "linear"
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series(Json, sparse=("low", "high", "trials", "role")):
    """Points of one kind, all of one length. ``mode``: ``points``, ``line`` or ``step`` (a value holds until the next).

    ``low`` and ``high`` bound each ``y`` (a noise band). ``trials`` names each point's trial as ``(run, number)``, so
    that it can be opened. ``emphasis``: the series that the chart is about. ``role``: what its points are, which says
    their colour (``colours.ROLES``); empty for one of several of a kind.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    mode: str = "points"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    trials: Sequence[tuple[str, int]] = ()
    emphasis: bool = False
    role: str = ""

    @property
    def colour(self) -> str:
        """One of ``colours.ROLES``, or empty for the next of the others."""
        return "main" if self.emphasis else self.role


@dataclass(frozen=True)
class XY(_Drawn):
    """Series over two axes. ``alt``: in one sentence, what it shows, for those who cannot see it."""

    kind = "xy"

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alt: str = ""
    note: str = ""


@dataclass(frozen=True)
class Bars(_Drawn, sparse=("low", "high", "reference", "role")):
    """A value a label, drawn as horizontal bars in the given order. ``axis`` says what the values are.

    ``low`` and ``high`` bound each value; they are equal where its bounds
    are not known. ``reference``: a value that bars are read against, drawn as a line and always within sight: 1 for
    ratios and for shares of a whole. ``role``: as in ``Series``.
    """

    kind = "bars"

    title: str
    axis: Axis
    bars: tuple[tuple[str, float], ...]
    alt: str = ""
    note: str = ""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    reference: float | None = None
    role: str = "main"

    @property
    def most(self) -> float:
        """The end of the scale: the greatest value, bound or reference."""
        values = [*(v for _, v in self.bars), *self.high, self.reference or 0.0]
        return max((v for v in values if math.isfinite(v)), default=0.0) or 1.0

    def text(self, place: int) -> str:
        """A bar's value in words, with its bounds."""
        known = self.low and self.low[place] < self.high[place]
        numbers = [self.bars[place][1], *((self.low[place], self.high[place]) if known else ())]
        value, *bounds = (with_unit(n, self.axis.unit) for n in numbers)
        return f"{value} ({' to '.join(bounds)})" if bounds else value

    def to_json(self) -> dict[str, Any]:
        data = super().to_json()
        bars = data.pop("bars")
        return {**data, "labels": [name for name, _ in bars], "values": [value for _, value in bars]}


@dataclass(frozen=True)
class Dimension(Json):
    """One axis of parallel coordinates: the values that occur, in order, as texts."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Parallel(_Drawn):
    """Parallel coordinates: a line a row. ``rows`` hold positions in each dimension's ``values``.

    ``colour``: a number a row (``axis`` says what it is; less is better). ``trials``: as in ``Series``.
    """

    kind = "parallel"

    title: str
    dimensions: tuple[Dimension, ...]
    rows: tuple[tuple[int, ...], ...]
    colour: tuple[float, ...]
    axis: Axis
    trials: tuple[tuple[str, int], ...] = ()
    alt: str = ""
    note: str = ""


@dataclass(frozen=True)
class Grid(_Drawn):
    """A value for each pair of categories of two axes, less is better: ``cells`` in rows of ``y``, ``None`` where none
    is known. ``axis`` says what the values are. ``trials`` names each cell's trial as in ``Series``.
    """

    kind = "grid"

    title: str
    x: Axis
    y: Axis
    axis: Axis
    cells: tuple[tuple[float | None, ...], ...]
    trials: tuple[tuple[tuple[str, int] | None, ...], ...] = ()
    alt: str = ""
    note: str = ""


Chart = Union[XY, Bars, Parallel]
"""What a run is drawn as."""
Drawn = Union[Chart, Grid]
"""Everything that pages and files draw."""


@dataclass(frozen=True)
class Table:
    """Rows of plain values under named columns: shown on pages, and given as CSV and JSON.

    ``name`` is its part of an address: letters, digits and hyphens. ``links`` gives, by column, an address for each row
    (``None`` for none), relative to the site's root. ``texts``: what pages show in place of a column's values.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    links: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @staticmethod
    def of(
        name: str, title: str, items: Sequence[T], columns: Mapping[Column, Callable[[T], Any]],
        links: Mapping[str, Sequence[str | None]] | None = None,
    ) -> Table:  # fmt: skip
        """A row an item; ``columns``: each with what reads its value of an item."""
        rows = tuple(tuple(read(item) for read in columns.values()) for item in items)
        return Table(name, title, tuple(columns), rows, links or {})

    def to_json(self) -> dict[str, Any]:
        names = [c.name for c in self.columns]
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in self.rows]
        return {"name": self.name, "rows": rows}


@dataclass(frozen=True)
class Column:
    """``name`` is a key for scripts, ``title`` a heading; ``unit`` one of ``UNITS``, ``""`` for texts and counts.

    ``shown``: whether pages show the column; CSV and JSON have all of them, earlier names too.
    """

    name: str
    title: str
    unit: str = ""
    numeric: bool = False
    shown: bool = True


def _plain(value: Any) -> Any:
    """As JSON has it: numbers are Python's own, without infinities and NaN."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.number):
        return float(value) if math.isfinite(value) else None
    return value
