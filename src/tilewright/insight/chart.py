"""Descriptions of charts, independent of drawing: pages, files and terminals draw them.

Numbers are in base units: seconds, shares, floating-point operations a second. ``Axis.unit`` names the unit; the
drawing code chooses prefixes for people.
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
"""Units of an axis. ``date``: seconds since the epoch; ``share``: a number from 0 to 1; ``times``: a ratio."""


class _Drawn(Json):
    """Base of all kinds of charts; the JSON names the ``kind``."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _plain({"kind": self.kind, **super().to_json()})
        return data


@dataclass(frozen=True)
class Axis(Json, sparse=("categories",)):
    """An axis. ``label`` has no unit; ``scale`` is ``linear`` or ``log``, ``unit`` one of ``UNITS``.

    ``categories``: names for the positions 0, 1, 2 ... of an axis of categories.
    """

    label: str
    unit: str = ""
    scale: str = "linear"
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series(Json, sparse=("low", "high", "trials", "role")):
    """A series of points. ``mode``: ``points``, ``line`` or ``step`` (a value holds until the next).

    ``low`` and ``high`` bound each ``y`` (a noise band). ``trials``: each point's trial as ``(run, number)``, for
    links. ``emphasis``: marks the chart's main series. ``role``: the meaning of the points, which decides their colour
    (``colours.ROLES``); empty for a series that is one of several alike.
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
        """One of ``colours.ROLES``, or empty for the next colour without a role."""
        return "main" if self.emphasis else self.role


@dataclass(frozen=True)
class XY(_Drawn):
    """Series over two axes. ``alt``: the chart's content in one sentence, for screen readers."""

    kind = "xy"

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alt: str = ""
    note: str = ""


@dataclass(frozen=True)
class Bars(_Drawn, sparse=("low", "high", "reference", "role")):
    """Horizontal bars: a value for each label, in the given order. ``axis`` describes the values.

    ``low`` and ``high`` bound each value; they are equal for a value with unknown bounds. ``reference``: a value to
    compare bars with, drawn as a line that is always visible: 1 for ratios and for shares. ``role``: as in ``Series``.
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
        """A bar's value as text, with its bounds if they are known."""
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
    """An axis of parallel coordinates: the occurring values as texts, in order."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Parallel(_Drawn):
    """Parallel coordinates: a line for each row. ``rows`` hold indices into each dimension's ``values``.

    ``colour``: a number for each row, described by ``axis``; less is better. ``trials``: as in ``Series``.
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
    """A heat map: a value for each pair of categories of two axes; less is better.

    ``cells``: rows along ``y``, ``None`` for an unknown value. ``axis`` describes the values. ``trials``: each cell's
    trial, as in ``Series``.
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
"""The charts of a run."""
Drawn = Union[Chart, Grid]
"""All charts that pages and files draw."""


@dataclass(frozen=True)
class Table:
    """A table of plain values with named columns, for pages, CSV and JSON.

    ``name``: its segment of an address: letters, digits and hyphens. ``links``: by column, an address for each row
    (or ``None``), relative to the site's root. ``texts``: by column, texts that pages show in place of the values.
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
        """Builds a table with a row for each item; ``columns``: each with the function that reads its value."""
        rows = tuple(tuple(read(item) for read in columns.values()) for item in items)
        return Table(name, title, tuple(columns), rows, links or {})

    def to_json(self) -> dict[str, Any]:
        names = [c.name for c in self.columns]
        rows = [dict(zip(names, map(_plain, row), strict=True)) for row in self.rows]
        return {"name": self.name, "rows": rows}


@dataclass(frozen=True)
class Column:
    """A column. ``name``: its key for scripts; ``title``: its heading; ``unit``: one of ``UNITS``, ``""`` for texts and
    counts.

    ``shown``: whether pages show the column. CSV and JSON have all columns, also under earlier names.
    """

    name: str
    title: str
    unit: str = ""
    numeric: bool = False
    shown: bool = True


def _plain(value: Any) -> Any:
    """Converts a value to JSON: NumPy's numbers become Python's, infinities and NaN become ``None``."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.number):
        return float(value) if math.isfinite(value) else None
    return value
