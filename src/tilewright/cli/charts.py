"""Charts on a terminal: braille dots for lines, characters for points, blocks for bars.

Colours have the meaning that they have on pages, but charts are readable without them. A terminal without Unicode gets
ASCII characters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.insight.chart import XY, Axis, Bars, Series
from tilewright.insight.colours import ON_TERMINALS, OTHERS_ON_TERMINALS
from tilewright.units import with_unit

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST = 100
"""Most columns of a chart."""
ROWS = 10
NAME = 24
"""Most columns of a bar's name."""

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille character: by column, then row from the top."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class _Glyphs:
    roles: Mapping[str, str]
    points: str
    best: str
    line: str
    side: str
    tick: str
    corner: str
    floor: str


_UNICODE = _Glyphs({"measured": "·", "early": "∘", "failed": "×", "limit": "+"}, "□◇△▽", "●", "━", "│", "┤", "└", "─")
_ASCII = _Glyphs({"measured": ".", "early": "o", "failed": "x", "limit": "+"}, "%&$=", "@", "*", "|", "+", "+", "-")


@dataclass
class _Canvas:
    """A drawing of ``rows`` x ``columns`` cells; each cell has 4 x 2 braille dots, or one character."""

    columns: int
    rows: int
    dots: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    marks: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def mark(self, x: float, y: float, glyph: str, style: str) -> None:
        """Puts a character at a position; coordinates are from 0 to 1, from the lower left."""
        self.marks[self._row(y), min(int(x * self.columns), self.columns - 1)] = (glyph, style)

    def line(self, x0: float, y0: float, x1: float, y1: float, style: str) -> None:
        wide, high = self.columns * 2 - 1, self.rows * 4 - 1
        steps = max(1, math.ceil(max(abs(x1 - x0) * wide, abs(y1 - y0) * high)))
        for i in range(steps + 1):
            t = i / steps
            column, row = round((x0 + t * (x1 - x0)) * wide), round((1 - y0 - t * (y1 - y0)) * high)
            cell = (row // 4, column // 2)
            bits, before = self.dots.get(cell, (0, style))
            self.dots[cell] = (bits | _DOTS[column % 2][row % 4], style or before)

    def _row(self, y: float) -> int:
        return min(int((1 - y) * self.rows), self.rows - 1)

    def row(self, number: int, ascii_only: bool) -> Text:
        from rich.text import Text

        text = Text()
        for column in range(self.columns):
            if (number, column) in self.dots:
                bits, style = self.dots[number, column]
                text.append("*" if ascii_only else chr(0x2800 + bits), style)
            else:
                text.append(*self.marks.get((number, column), (" ", "")))
        return text


@dataclass(frozen=True)
class _Scale:
    """Maps an axis's values to positions from 0 to 1, and back."""

    axis: Axis
    low: float
    high: float

    @staticmethod
    def of(axis: Axis, values: Sequence[float]) -> _Scale:
        low, high = min(values), max(values)
        if low == high:
            low, high = (low / 1.1, high * 1.1) if axis.scale == "log" else (low - 0.5, high + 0.5)
        return _Scale(axis, low, high)

    def place(self, value: float) -> float:
        if self.axis.scale == "log":
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        if self.axis.scale == "log":
            return math.exp(math.log(self.low) * (1 - place) + math.log(self.high) * place)
        return self.low + place * (self.high - self.low)

    def text(self, place: float) -> str:
        from tilewright.database.text import visible_text

        names = self.axis.categories
        if names:
            return visible_text(names[min(max(round(self.value(place)), 0), len(names) - 1)])[:12]
        value = self.value(place)
        return with_unit(float(round(value)) if self.axis.unit == "trial" else value, self.axis.unit)


def xy_lines(chart: XY, width: int, rows: int = ROWS, ascii_only: bool = False) -> list[Text]:
    """The chart as lines of at most ``width`` columns: title, plot with both axes, and legend."""
    from rich.text import Text

    from tilewright.database.text import visible_text

    glyphs = _ASCII if ascii_only else _UNICODE
    drawn = [(s, _usable(chart, s)) for s in chart.series]
    drawn = [(s, points) for s, points in drawn if points]
    lines = [_cut(Text(visible_text(chart.title), "bold"), width)]
    if not drawn:
        return [*lines, _cut(Text(visible_text(chart.alt), "dim"), width)]
    x = _Scale.of(chart.x, [p[0] for _, points in drawn for p in points])
    y = _Scale.of(chart.y, [p[1] for _, points in drawn for p in points])
    ticks = {round(i * (rows - 1) / 3): y.text(1 - round(i * (rows - 1) / 3) / (rows - 1)) for i in range(4)}
    margin = max(map(len, ticks.values()))
    canvas = _Canvas(max(width - margin - 2, 8), rows)
    legend: list[Text] = []
    others = itertools.count()
    for series, points in drawn:
        places = [(x.place(a), y.place(b)) for a, b in points]
        number = -1 if series.colour else next(others)
        style = _style(series, number)
        if series.mode == "points":
            other = glyphs.points[number % len(glyphs.points)]
            glyph = glyphs.best if series.emphasis else glyphs.roles.get(series.role, other)
            for a, b in places:
                canvas.mark(a, b, glyph, style)
        else:
            glyph = glyphs.line
            _trace(canvas, series, places, style)
        legend.append(_cut(Text.assemble((f"{glyph} ", style), visible_text(series.name)), width - margin - 2))
    for number in range(rows):
        side = glyphs.tick if number in ticks else glyphs.side
        lines.append(Text(f"{ticks.get(number, ''):>{margin}} {side}").append_text(canvas.row(number, ascii_only)))
    lines.append(Text(" " * (margin + 1) + glyphs.corner + glyphs.floor * canvas.columns))
    lines.append(Text(" " * (margin + 2) + _floor(x, visible_text(chart.x.label), canvas.columns)))
    return [*lines, *_rows(legend, margin + 2, width)]


def _style(series: Series, number: int) -> str:
    """A series' colour: its role's, or for a series without a role the colour at index ``number``."""
    colour = ON_TERMINALS.get(series.colour) or OTHERS_ON_TERMINALS[number % len(OTHERS_ON_TERMINALS)]
    return f"bold {colour}" if series.emphasis else colour


def _rows(names: Sequence[Text], indent: int, width: int) -> list[Text]:
    """The legend's rows: names side by side, as many in each row as fit."""
    from rich.text import Text

    rows: list[Text] = []
    for name in names:
        if rows and len(rows[-1]) + 3 + len(name) <= width:
            rows[-1].append("   ").append_text(name)
        else:
            rows.append(Text(" " * indent).append_text(name))
    return rows


def _usable(chart: XY, series: Series) -> list[tuple[float, float]]:
    return [
        (a, b) for a, b in zip(series.x, series.y, strict=True)
        if math.isfinite(a) and math.isfinite(b)
        and (chart.x.scale != "log" or a > 0) and (chart.y.scale != "log" or b > 0)
    ]  # fmt: skip


def _trace(canvas: _Canvas, series: Series, places: list[tuple[float, float]], style: str) -> None:
    for (x0, y0), (x1, y1) in zip(places, [*places[1:], places[-1]], strict=True):
        if series.mode == "step":
            canvas.line(x0, y0, x1, y0, style)
            canvas.line(x1, y0, x1, y1, style)
        else:
            canvas.line(x0, y0, x1, y1, style)


def _floor(x: _Scale, label: str, columns: int) -> str:
    """The line below the x axis: least value, label, greatest value."""
    left, right = x.text(0.0), x.text(1.0)
    room = columns - len(left) - len(right)
    middle = label if len(label) + 2 <= room else ""
    return f"{left}{middle:^{max(room, 1)}}{right}"


def _cut(text: Text, width: int) -> Text:
    text.rstrip()
    text.truncate(width, overflow="crop")
    return text


def bar_lines(chart: Bars, width: int, ascii_only: bool = False, limit: int = 12) -> list[Text]:
    """The bars as lines: name, bar, value. If there are more than ``limit`` bars, a last line counts the rest."""
    from rich.text import Text

    from tilewright.database.text import visible_text

    lines = [_cut(Text(visible_text(chart.title), "bold"), width)]
    bars = [(visible_text(n)[:NAME], v, chart.text(i)) for i, (n, v) in enumerate(chart.bars) if math.isfinite(v)]
    if not bars:
        return [*lines, _cut(Text(visible_text(chart.alt), "dim"), width)]
    names = max(len(n) for n, _, _ in bars[:limit])
    room = max(width - names - max(len(text) for _, _, text in bars[:limit]) - 2, 4)
    high = max(v for _, v, _ in bars) or 1.0
    for name, value, shown in bars[:limit]:
        bar = _bar(max(value, 0.0) / high * room, ascii_only)
        lines.append(Text(f"{name:<{names}} ").append(bar, ON_TERMINALS.get(chart.role, "")).append(f" {shown}"))
    if len(bars) > limit:
        lines.append(Text(f"and {len(bars) - limit} more", "dim"))
    return lines


def _bar(length: float, ascii_only: bool) -> str:
    """A bar of ``length`` columns, rounded to an eighth; a length above 0 is always visible."""
    if ascii_only:
        return "#" * max(round(length), length > 0)
    eighths = max(round(length * 8), length > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def print_chart(out: Console, chart: XY | Bars) -> None:
    """Prints a chart as wide as the console, at most ``WIDEST`` columns."""
    width = min(out.width, WIDEST)
    ascii_only = out.options.ascii_only
    lines = (
        xy_lines(chart, width, ascii_only=ascii_only) if isinstance(chart, XY) else bar_lines(chart, width, ascii_only)
    )
    for line in lines:
        out.print(line, no_wrap=True, crop=True)
