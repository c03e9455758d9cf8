"""Pictures: every kind of chart in every format, the same each time, hostile texts as they stand."""

from __future__ import annotations

import struct
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tilewright.core import UsageError
from tilewright.insight.chart import XY, Axis, Bars, Dimension, Drawn, Grid, Parallel, Series
from tilewright.plots import PlotError, draw
from tilewright.plots.axes import log_ticks, shown
from tilewright.plots.draw import picture

pytest.importorskip("matplotlib")

HOSTILE = "$\\frac{a}{b}$ <script>alert('x')</script> \x1b[31m & _\u202e\U0001f600 漢字"
NAN, INF = float("nan"), float("inf")

CURVE = XY(
    "Best time so far", Axis("Trial", "trial"), Axis("Time of a call", "s", "log"),
    (
        Series("best so far", [0, 3, 9], [4e-3, 2e-3, 2e-3], "step", [3e-3, 1.9e-3, 1.9e-3], [5e-3, 2.1e-3, 2.1e-3],
               emphasis=True),
        Series("measured", list(range(10)), [4e-3 - 2e-4 * i for i in range(10)]),
        Series("slope", [1.0, 9.0], [3e-3, 4e-3], "line"),
    ),
    alt="It falls from 4 ms to 2 ms.", note="A note.",
)  # fmt: skip
BARS = Bars("Failures", Axis("Trials", "trial"), (("crash", 3.0), ("timeout", 1.0)), alt="3 crashed.")
PARALLEL = Parallel(
    "Knobs", (Dimension("MR", ("1", "2", "4")), Dimension("pack", ("a", "b"))), ((0, 1), (2, 0), (1, 1)),
    (3e-3, 1e-3, 2e-3), Axis("Time of a call", "s", "log"), alt="Three trials.",
)  # fmt: skip
SHARES = Bars("Shares", Axis("Share", "share"), (("a", 0.9), ("b", 0.1)), "a.", low=(0.7, 0.0), high=(1.0, 0.2))
GRID = Grid(
    "Two knobs", Axis("MR", categories=("2", "4")), Axis("pack", categories=("a", "b")), Axis("Time", "s", "log"),
    ((1e-3, None), (2e-3, 4e-3)), alt="The fastest is at MR=2 and pack=a.",
)  # fmt: skip
CHARTS: dict[str, Drawn] = {"curve": CURVE, "bars": BARS, "parallel": PARALLEL, "shares": SHARES, "grid": GRID}


def texts(svg: bytes) -> list[str]:
    """Every text that the picture shows, and its title and description."""
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter() if e.tag.endswith(("}text", "}title", "}desc"))]


@pytest.mark.parametrize(
    ("name", "dark"), [("curve", False), ("bars", True), ("parallel", False), ("shares", True), ("grid", False)]
)
def test_every_chart_in_every_format_twice_the_same(name: str, dark: bool, tmp_path: Path) -> None:
    chart = CHARTS[name]
    for suffix, start in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        path = draw(chart, tmp_path / f"picture{suffix}", dark)
        data = path.read_bytes()
        assert data.startswith(start)
        if suffix == ".svg" or chart is CURVE:  # what could differ in the others, their date, is in every one
            assert picture(chart, suffix, dark) == data
        if suffix == ".png":
            width, height = struct.unpack(">II", data[16:24])
            assert width > 1000
            assert height > 600


def test_several_charts_are_drawn_below_each_other(tmp_path: Path) -> None:
    charts = [CURVE, BARS, SHARES]
    svg = draw(charts, tmp_path / "all.svg").read_bytes()
    assert picture(charts, ".svg") == svg
    found = texts(svg)
    assert found[:2] == ["Best time so far", "It falls from 4 ms to 2 ms. 3 crashed. a."]
    assert {"Failures", "Shares", "90% (70% to 100%)"} <= set(found)
    alone, together = (struct.unpack(">II", picture(c, ".png")[16:24])[1] for c in (CURVE, charts))
    assert together > alone


def test_an_svg_names_itself_and_shows_units() -> None:
    svg = picture(CURVE, ".svg")
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "tw-title tw-desc"
    found = texts(svg)
    assert found[:2] == ["Best time so far", "It falls from 4 ms to 2 ms."]
    assert {"2 ms", "4 ms", "Trial", "Time of a call", "best so far", "measured", "A note."} <= set(found)
    assert b"<script" not in svg
    assert b"date" not in svg.lower()


def test_hostile_texts_are_drawn_as_they_stand() -> None:
    charts: list[Drawn] = [
        XY(HOSTILE, Axis(HOSTILE, categories=(HOSTILE, "b")), Axis(HOSTILE), (
            Series("_" + HOSTILE, [0, 1], [1, 2]), Series(HOSTILE, [0, 1], [2, 1], "line")), HOSTILE, HOSTILE),
        Bars(HOSTILE, Axis(HOSTILE), ((HOSTILE, 1.0),), HOSTILE, HOSTILE),
        Parallel(HOSTILE, (Dimension(HOSTILE, (HOSTILE, "$x$")),), ((0,), (1,)), (1.0, 2.0), Axis(HOSTILE),
                 alt=HOSTILE, note=HOSTILE),
        XY(HOSTILE, Axis(""), Axis(""), (), HOSTILE),
    ]  # fmt: skip
    for chart in charts:
        svg = picture(chart, ".svg")
        found = texts(svg)
        assert any("$\\frac{a}{b}$ <script>" in t for t in found)
        assert all("\x1b" not in t and "\u202e" not in t for t in found)
        assert b"<script" not in svg
        assert picture(chart, ".png")
    assert picture(charts[1], ".pdf")


@pytest.mark.parametrize(
    "series",
    [
        (),
        (Series("empty", [], []),),
        (Series("nothing finite", [0.0, 1.0], [NAN, INF]),),
        (Series("no place on a log axis", [0.0, 1.0], [0.0, -1.0]),),
    ],
)
def test_without_points_the_picture_says_so(series: tuple[Series, ...]) -> None:
    chart = XY("Empty", Axis("x"), Axis("y", "s", "log"), series, alt="None was measured.")
    assert any("Nothing to draw. None was measured." in " ".join(t.split()) for t in texts(picture(chart, ".svg")))
    assert any("Nothing to draw" in t for t in texts(picture(Bars("Empty", Axis("x"), ()), ".svg")))
    assert any("Nothing" in t for t in texts(picture(Parallel("Empty", (), (), (), Axis("y")), ".svg")))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0.0], [1e-3]),
        ([1.0, 2.0, NAN], [1e-3, 1e-3, 1e-3]),
        ([0.0, 1e6], [1e-9, 1e3]),
        ([0.0, 1.0, 2.0], [1e-99, 1e300, 1e99]),
        ([5.0, 5.0], [1.0, 1.0001]),
        ([1.7e9, 1.8e9], [1e-3, 2e-3]),
    ],
)
def test_extreme_ranges_have_ticks(x: list[float], y: list[float]) -> None:
    for unit in ("trial", "date", "share", "s", ""):
        chart = XY("Range", Axis("x", unit), Axis("y", "s", "log"), (Series("s", x, y), Series("t", x, y, "step")))
        assert picture(chart, ".svg")


@pytest.mark.parametrize("high", [1.01, 1.3, 2.0, 7.0, 40.0, 1e3, 1e9, 1e200])
def test_log_ticks_are_round_and_as_many_as_can_be_read(high: float) -> None:
    found = log_ticks(1.37e-4, 1.37e-4 * high)
    assert 2 <= len(found) <= 12
    assert all(1.37e-4 * 0.999 <= t <= 1.37e-4 * high * 1.001 for t in found)


def test_other_files_are_refused_and_unwritable_ones_told(tmp_path: Path) -> None:
    for name in ("run.txt", "run", "run.svg.py", ".svg"):
        with pytest.raises(UsageError) as caught:
            draw(BARS, tmp_path / name)
        assert ".svg, .png or .pdf" in caught.value.hint
        assert not (tmp_path / name).exists()
    with pytest.raises(UsageError, match="cannot write"):
        draw(BARS, tmp_path / "no such folder" / "run.svg")


def test_a_users_own_settings_do_not_show(tmp_path: Path) -> None:
    import matplotlib

    plain = picture(CURVE, ".svg")
    with matplotlib.rc_context({"font.size": 30, "text.parse_math": True, "lines.linewidth": 9}):
        assert picture(CURVE, ".svg") == plain
        assert matplotlib.rcParams["font.size"] == 30
    assert "matplotlib.pyplot" not in sys.modules


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError) as caught:
        picture(BARS, ".svg")
    assert "tilewright[plot]" in caught.value.hint


def test_long_names_are_cut() -> None:
    assert shown("x" * 500, 10) == "xxxxxxxxx…"
    assert shown("a\nb") == "a\\x0ab"
