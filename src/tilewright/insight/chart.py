"""What a chart shows, without how it is drawn: pages, files and terminals draw the same descriptions.

Numbers are plain: seconds, shares, floating-point operations a second. Whoever draws them chooses the units that a
person reads (``Axis.unit`` says what the numbers are).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

SCALES = ("linear", "log")
UNITS = ("", "s", "flop/s", "flop/byte", "trial", "share", "date")
"""What numbers on an axis are; ``date`` is in seconds since the epoch, ``share`` between 0 and 1."""
MODES = ("points", "line", "step")


@dataclass(frozen=True)
class Axis:
    """``label`` without a unit; ``scale`` is one of ``SCALES``, ``unit`` one of ``UNITS``.

    ``categories``: what the whole numbers from 0 stand for, where the axis has no numbers of its own.
    """

    label: str
    unit: str = ""
    scale: str = "linear"
    categories: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"label": self.label, "unit": self.unit, "scale": self.scale}
        return data | {"categories": list(self.categories)} if self.categories else data


@dataclass(frozen=True)
class Series:
    """Points of one kind, all of one length. ``mode``: one of ``MODES``; a ``step`` keeps its value until the next.

    ``low`` and ``high`` bound each ``y`` (a noise band). ``trials`` names each point's trial as ``(run, number)``, so
    that it can be opened. ``emphasis``: the series that the chart is about.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    mode: str = "points"
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    trials: Sequence[tuple[str, int]] = ()
    emphasis: bool = False

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.name, "mode": self.mode, "emphasis": self.emphasis, "x": _plain(self.x), "y": _plain(self.y),
        }  # fmt: skip
        if self.low:
            data |= {"low": _plain(self.low), "high": _plain(self.high)}
        if self.trials:
            data["trials"] = [list(t) for t in self.trials]
        return data


@dataclass(frozen=True)
class XY:
    """Series over two axes. ``alt``: in one sentence, what it shows, for those who cannot see it."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    alt: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "xy", "title": self.title, "alt": self.alt, "note": self.note, "x": self.x.to_json(),
            "y": self.y.to_json(), "series": [s.to_json() for s in self.series],
        }  # fmt: skip


@dataclass(frozen=True)
class Bars:
    """A value a label, drawn as horizontal bars in the given order. ``axis`` says what the values are."""

    title: str
    axis: Axis
    bars: tuple[tuple[str, float], ...]
    alt: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "bars", "title": self.title, "alt": self.alt, "note": self.note, "axis": self.axis.to_json(),
            "labels": [name for name, _ in self.bars], "values": _plain([v for _, v in self.bars]),
        }  # fmt: skip


@dataclass(frozen=True)
class Dimension:
    """One axis of parallel coordinates: the values that occur, in order, as texts."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates: a line a row. ``rows`` hold positions in each dimension's ``values``.

    ``colour``: a number a row (``axis`` says what it is; less is better). ``trials``: as in ``Series``.
    """

    title: str
    dimensions: tuple[Dimension, ...]
    rows: tuple[tuple[int, ...], ...]
    colour: tuple[float, ...]
    axis: Axis
    trials: tuple[tuple[str, int], ...] = ()
    alt: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "parallel", "title": self.title, "alt": self.alt, "note": self.note, "axis": self.axis.to_json(),
            "dimensions": [{"name": d.name, "values": list(d.values)} for d in self.dimensions],
            "rows": [list(r) for r in self.rows], "colour": _plain(self.colour),
            "trials": [list(t) for t in self.trials],
        }  # fmt: skip


Chart = Union[XY, Bars, Parallel]


@dataclass(frozen=True)
class Table:
    """Rows of plain values under named columns: shown on pages, and given as CSV and JSON.

    ``name`` is its part of an address: letters, digits and hyphens. ``links`` gives, by column, an address for each row
    (``None`` for none), relative to the site's root.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    links: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        names = [c.name for c in self.columns]
        rows = [dict(zip(names, map(_value, row), strict=True)) for row in self.rows]
        return {"name": self.name, "rows": rows}


@dataclass(frozen=True)
class Column:
    """``name`` is a key for scripts, ``title`` a heading; ``unit`` one of ``UNITS``, ``""`` for texts and counts."""

    name: str
    title: str
    unit: str = ""
    numeric: bool = False


def _value(value: Any) -> Any:
    """A table's value as JSON has it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(numbers: Sequence[float]) -> list[float | None]:
    """As JSON has them: no infinities and no NaN."""
    return [float(v) if math.isfinite(v) else None for v in numbers]
