"""Drawing of charts into files; the bytes are deterministic."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from tilewright.core import TilewrightError, UsageError
from tilewright.database.text import visible_text
from tilewright.errors import explained_writing, needed
from tilewright.files import SHARED, replace_file
from tilewright.insight.chart import XY, Bars, Drawn, Grid, Parallel
from tilewright.plots.axes import shown
from tilewright.plots.theme import DARK, LIGHT, Theme, settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
SIZE = (8.4, 5.0)
"""Width and height of a picture in inches, at ``DPI`` dots an inch in a PNG."""
DPI = 144
NOTE = 132
"""Largest number of characters of a line of the note below a chart."""


class PlotError(TilewrightError):
    """A picture that cannot be drawn on this machine."""

    kind = "plot"


def check_path(path: str | Path) -> Path:
    """Returns ``path`` as a ``Path``. Raises ``UsageError`` unless the file's suffix is one of :data:`SUFFIXES`."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"{visible_text(path.name)!r} is not the name of a picture file",
            "Write a file that ends in .svg, .png or .pdf",
        )
    return path


def draw(chart: Drawn | Sequence[Drawn], path: str | Path, dark: bool = False) -> Path:
    """Draws a chart, or several charts below each other, into the file ``path``; returns the path.

    The suffix ``.svg``, ``.png`` or ``.pdf`` chooses the format; a file at ``path`` is replaced. Raises ``UsageError``
    for another suffix and for a file that cannot be written, ``PlotError`` without Matplotlib.
    """
    path = check_path(path)
    data = picture(chart, path.suffix.lower(), dark)
    with explained_writing(path, "Name another file", UsageError):
        replace_file(path, data, SHARED)
    return path


def picture(chart: Drawn | Sequence[Drawn], suffix: str, dark: bool = False) -> bytes:
    """The bytes of a picture of a chart or several charts; ``suffix`` is one of :data:`SUFFIXES`."""
    theme = DARK if dark else LIGHT
    charts = list(chart) if isinstance(chart, Sequence) else [chart]
    with _matplotlib(theme), warnings.catch_warnings():
        # A PNG shows a box for a letter that the font lacks; with an SVG the reader's font may have the letter.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = _figure(charts, theme)
        out = io.BytesIO()
        title, about = visible_text(charts[0].title), visible_text(" ".join(c.alt for c in charts))
        metadata: dict[str, dict[str, str | None]] = {
            ".svg": {"Title": title, "Date": None, "Creator": None},
            ".png": {"Title": title, "Description": about, "Software": None},
            ".pdf": {"Title": title, "Subject": about, "CreationDate": None, "Creator": None, "Producer": None},
        }
        figure.savefig(out, format=suffix[1:], dpi=DPI if suffix == ".png" else "figure", metadata=metadata[suffix])
        return _described(out.getvalue(), about) if suffix == ".svg" else out.getvalue()


@contextmanager
def _matplotlib(theme: Theme) -> Iterator[None]:
    """Tilewright's settings of Matplotlib for one picture, without a window system or state of ``pyplot``."""
    matplotlib = needed("matplotlib", "plots need Matplotlib, which is not installed", "plot", PlotError)
    ours: dict[Any, Any] = {k: v for k, v in matplotlib.rcParamsDefault.items() if k != "backend"}
    with matplotlib.rc_context(ours | settings(theme)):
        yield


def _figure(charts: Sequence[Drawn], theme: Theme) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    heights = [SIZE[1] if len(charts) == 1 else _height(c) for c in charts]
    figure = Figure(figsize=(SIZE[0], sum(heights)), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    if len(charts) == 1:
        _draw(figure, charts[0], theme)
    else:
        parts: Any = figure.subfigures(len(charts), height_ratios=heights)
        for part, chart in zip(parts, charts, strict=True):
            _draw(part, chart, theme)
    return figure


def _height(chart: Drawn) -> float:
    """Inches of a chart among others; a chart of bars has the height that its bars need."""
    return min(SIZE[1], 2.0 + 0.3 * len(chart.bars)) if isinstance(chart, Bars) else 0.8 * SIZE[1]


def _draw(figure: Any, chart: Drawn, theme: Theme) -> None:
    """Draws one chart with its title and its note into a figure, or a part of a figure."""
    from tilewright.plots import bars, grid, parallel, xy

    figure.suptitle(shown(chart.title), x=0.015, ha="left", fontsize=13, fontweight="bold")
    axes: Any = figure.add_subplot()
    drawers: dict[type, Callable[[Any, Any, Theme], bool]] = {
        XY: xy.draw_xy, Bars: bars.draw_bars, Grid: grid.draw_grid, Parallel: parallel.draw_parallel,
    }  # fmt: skip
    if not drawers[type(chart)](axes, chart, theme):
        text = textwrap.fill(f"Nothing to draw. {visible_text(chart.alt)}", 70)
        axes.set_axis_off()
        axes.text(0.5, 0.5, text, ha="center", va="center", color=theme.muted, transform=axes.transAxes)
    note = textwrap.wrap(visible_text(chart.note), NOTE)[:6]
    if note:
        figure.supxlabel("\n".join(note), x=0.015, ha="left", fontsize=8.5, color=theme.muted)


def _described(svg: bytes, about: str) -> bytes:
    """An SVG with a title and a description, which screen readers read."""
    text = svg.decode()
    text = text.replace("<svg ", '<svg role="img" aria-labelledby="tw-title tw-desc" ', 1)
    text = text.replace("<title>", '<title id="tw-title">', 1)
    return text.replace("</title>", f'</title>\n <desc id="tw-desc">{escape(about)}</desc>', 1).encode()
