"""``tilewright plot`` and the charts of ``tilewright show``."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.examples import DEVICE, SETTINGS, example_record, example_schedule, example_task
from tilewright.cli.charts import bar_lines, print_chart, xy_lines
from tilewright.core import Failure, FailureKind, Proposal, Schedule, TrialRecord
from tilewright.database import Database
from tilewright.insight.chart import XY, Axis, Bars, Series
from tilewright.insight.colours import ON_TERMINALS, OTHERS, OTHERS_ON_TERMINALS, ROLES

HOSTILE = "[red]\x1b[31m <b>$x$ [/]"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A database with two runs of one task, one of another, one with hostile names, and one without a trial."""
    path = str(tmp_path_factory.mktemp("plot") / "t.db")
    ids = []
    with Database.open(path) as db:
        for task, count in ((example_task(), 60), (example_task(), 20), (example_task(m=9), 5)):
            ids.append(db.add_run(task, DEVICE, "evolutionary", 0, count, SETTINGS))
            db.add_trials(ids[-1], [example_record(n) for n in range(count)])
            db.finish_run(ids[-1], "done", {})
        task = example_task(m=10)
        task = replace(task, workload=replace(task.workload, op=HOSTILE))
        ids.append(db.add_run(task, replace(DEVICE, model=HOSTILE), HOSTILE, 0, 8, SETTINGS))
        good = example_record(0)
        strange = Schedule(HOSTILE, 1, ((HOSTILE, HOSTILE), ("k", 1)))
        other = Schedule(HOSTILE, 1, ((HOSTILE, "$"), ("k", 2)))
        db.add_trials(
            ids[-1],
            [
                TrialRecord(0, Proposal(strange, 1.0, HOSTILE), good.outcome, 0.0, 1.7e9),
                TrialRecord(1, Proposal(other, 2.0, HOSTILE), good.outcome, 0.0, 1.7e9),
                TrialRecord(2, Proposal(example_schedule(3)), Failure(FailureKind.CRASH, HOSTILE), 0.0, 1.7e9),
            ],
        )
        ids.append(db.add_run(example_task(m=11), DEVICE, "random", 0, 4, SETTINGS))
        ids.append(db.add_run(example_task(m=9), DEVICE, "random", 0, 4, SETTINGS))
    return path, ids


def test_every_chart_of_a_run_into_a_folder(cli: Any, stored: tuple[str, list[str]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path, ids = stored
    folder = tmp_path / "charts" / "of run"
    reply = cli(
        "plot", ids[0], "--chart", "all", "--knob", "MR", "--with", ids[1], "-o", str(folder), "--db", path, "--json"
    )
    assert reply.code == 0, reply.err
    names = {"best", "time", "calibration", "learning", "roofline", "importance", "failures", "knob", "parallel"}
    assert set(reply.json["charts"]) == set(reply.json["files"]) == names | {"compare"}
    assert {p.name for p in folder.iterdir()} == {f"{n}.svg" for n in names | {"compare"}}
    best = reply.json["charts"]["best"]["series"][0]
    assert best["y"][-1] == pytest.approx(1e-3 / 59)
    again = cli("plot", ids[0], "--chart", "best", "-o", str(folder / "best.svg"), "--db", path)
    assert again.code == 0
    assert "60 trials, 12 failed" in again.err
    assert again.out == ""


@pytest.mark.parametrize(
    ("options", "chart"), [((), "best"), (("--knob", "KC"), "knob"), (("--chart", "failures"), "failures")]
)
def test_json_alone_needs_no_file(
    cli: Any, stored: tuple[str, list[str]], options: tuple[str, ...], chart: str
) -> None:
    path, ids = stored
    reply = cli("plot", ids[0], *options, "--db", path, "--json")
    assert reply.code == 0
    assert (reply.json["run"], reply.json["chart"], reply.json["file"]) == (ids[0], chart, None)
    assert reply.json["data"]["alt"]


def test_with_compares_and_the_last_run_is_the_default(cli: Any, stored: tuple[str, list[str]]) -> None:
    path, ids = stored
    reply = cli("plot", ids[0], "--with", ids[1], "--db", path, "--json")
    assert [s["name"].split()[0] for s in reply.json["data"]["series"]] == ids[:2]
    assert cli("plot", "--db", path, "--json").json["run"] == ids[-1]
    assert "another task" in cli("plot", ids[0], "--with", ids[2], "--db", path, "--json").err
    shown = cli("plot", ids[2], "--with", ids[5], "--db", path, "--json").json["data"]
    assert f"{ids[5]} has no measured trial" in shown["alt"]


def test_a_picture_in_the_dark(cli: Any, stored: tuple[str, list[str]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path, ids = stored
    for dark in ((), ("--dark",)):
        file = tmp_path / "r.svg"
        assert cli("plot", ids[0], "-o", str(file), *dark, "--db", path).code == 0
        assert ("#15191e" in file.read_text()) is bool(dark)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "run.txt"], "ends in .svg, .png or .pdf"),
        (["-o", "run"], "ends in .svg, .png or .pdf"),
        ([], "Add -o run.svg"),
        (["--chart", "knob", "-o", "r.svg"], "Add --knob NAME, with one of MR, pack, unroll, KC"),
        (["--knob", "XX", "-o", "r.svg"], "Its knobs are MR"),
        (["--chart", "compare", "-o", "r.svg"], "Add --with RUN"),
        (["--chart", "best", "--knob", "MR", "-o", "r.svg"], "--knob does not go with"),
        (["--chart", "best", "--with", "last", "-o", "r.svg"], "--with does not go with"),
        (["--chart", "pie", "-o", "r.svg"], "'pie' is not one of"),
        (["--chart", "all", "-o", "file.svg"], "Write -o FOLDER"),
        (["-o", "missing/r.svg"], "cannot write"),
    ],
)
def test_mistakes_are_told_in_one_line(
    cli: Any, stored: tuple[str, list[str]], arguments: list[str], said: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path, ids = stored
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.svg").write_text("mine")
    reply = cli("plot", ids[0], *arguments, "--db", path)
    assert reply.code == 2
    assert said in reply.err
    assert reply.err.count("\n") == 1
    assert (tmp_path / "file.svg").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["file.svg"]


def test_without_the_extra_it_is_named(
    cli: Any, stored: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ids = stored
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    reply = cli("plot", ids[0], "-o", str(tmp_path / "r.svg"), "--db", path)
    assert reply.code == 1
    assert "tilewright[plot]" in reply.err


@pytest.mark.parametrize("which", [3, 4])
def test_hostile_names_and_an_empty_run(
    cli: Any, stored: tuple[str, list[str]], tmp_path: Path, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    path, ids = stored
    reply = cli("plot", ids[which], "--chart", "all", "-o", str(tmp_path), "--db", path)
    assert reply.code == 0, reply.err
    assert (tmp_path / "best.svg").exists()
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli("show", ids[which], "--all-charts", "--db", path)
    assert shown.code == 0, shown.err
    assert "\x1b" not in shown.out + reply.err
    if which == 3:
        assert "[red]\\x1b[31m <b>$x$ [/]" in shown.out
        assert "<b>" not in (tmp_path / "best.svg").read_text()


def test_show_draws_the_curve_failures_and_the_model(
    cli: Any, stored: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ids = stored
    for width in (80, 50):
        monkeypatch.setenv("COLUMNS", str(width))
        reply = cli("show", ids[0], "--db", path)
        assert reply.code == 0
        assert max(map(len, reply.out.splitlines())) <= width
        assert "\x1b" not in reply.out
        for word in ("least so far", "└───", "Failures by kind", "failed (compile): 2", "Rank correlation", "█"):
            assert word in reply.out
        assert any("\u2800" <= c <= "\u28ff" for c in reply.out)
    assert "Does the cost model improve?" not in reply.out
    data = cli("show", ids[0], "--db", path, "--json").json
    assert len(data["trial_records"]) == 60
    assert data["cost_model"]["rank_correlation"] == pytest.approx(1.0)


def test_show_has_more_charts_when_asked(cli: Any, stored: tuple[str, list[str]]) -> None:
    path, ids = stored
    reply = cli("show", ids[0], "--all-charts", "--db", path)
    for word in (
        "Time since the start",
        "Does the cost model improve?",
        "Roofline",
        "Which knobs of",
        "peak is unknown",
    ):
        assert word in reply.out


CURVE = XY(
    "Curve", Axis("Trial", "trial"), Axis("Time", "s", "log"),
    (Series("best", [0, 5, 9], [4e-3, 1e-3, 1e-3], "step", emphasis=True), Series("measured", [2, 9], [2e-3, 4e-3], role="measured")),
    alt="It falls.",
)  # fmt: skip


def test_a_curve_in_braille() -> None:
    lines = [line.plain for line in xy_lines(CURVE, 40, rows=4)]
    assert lines == [
        "Curve",
        "   4 ms ┤⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⠉⡇            ·",
        "2.52 ms ┤                 ⡇             ",
        "1.59 ms ┤      ·          ⡇             ",
        "   1 ms ┤                 ⣇⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀",
        "        └───────────────────────────────",
        "         0            Trial            9",
        "         ━ best   · measured",
    ]


def test_colours_mean_what_they_mean_on_pages() -> None:
    assert set(ON_TERMINALS) == set(ROLES)
    assert len(OTHERS_ON_TERMINALS) == len(OTHERS)
    assert len({*ON_TERMINALS.values(), *OTHERS_ON_TERMINALS}) == len(ROLES) + len(OTHERS)
    several = (*CURVE.series, *(Series(f"run {n}", [n], [2e-3]) for n in range(2)))
    last = xy_lines(replace(CURVE, series=several), 60)[-1]
    styles = {last.plain[span.start] for span in last.spans}, [str(span.style) for span in last.spans]
    assert styles == ({"━", "·", "□", "◇"}, ["bold bright_blue", "bright_black", *OTHERS_ON_TERMINALS[:2]])
    (bar,) = bar_lines(Bars("Bars", Axis("", "share"), (("a", 0.5),), role="failed"), 40)[1:]
    assert [str(span.style) for span in bar.spans] == ["red"]


def test_without_unicode_there_are_ascii_signs() -> None:
    out = Console(file=io.TextIOWrapper(io.BytesIO(), "ascii"), width=60)
    for chart in (CURVE, Bars("Bars", Axis("", "share"), (("a", 0.5), ("b", 0.001))), XY("E", Axis(""), Axis(""), ())):
        assert isinstance(chart, XY | Bars)
        print_chart(out, chart)
    out.file.flush()
    text = out.file.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "****" in text
    assert "#####" in text


def test_bars_are_to_scale_and_as_many_as_fit() -> None:
    bars = Bars("Bars", Axis("", "trial"), tuple((f"k{i}", float(2**i)) for i in range(6))[::-1])
    lines = [line.plain for line in bar_lines(bars, 40, limit=4)]
    assert lines[0] == "Bars"
    assert [line.count("█") for line in lines[1:5]] == [34, 17, 8, 4]
    assert lines[5] == "and 2 more"
    shares = Bars("Shares", Axis("", "share"), (("a", 0.5),), low=(0.4,), high=(0.75,))
    assert bar_lines(shares, 40)[1].plain.endswith("█ 50% (40% to 75%)")
    assert bar_lines(Bars("None", Axis(""), (), alt="none"), 40)[1].plain == "none"


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [0.0, -1.0], [1e-300, 1e300]])
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    x = [float(i) for i in range(len(values))]
    for scale in ("linear", "log"):
        for mode in ("points", "line", "step"):
            chart = XY("Any", Axis("x"), Axis("y", "s", scale), (Series("s", x, values, mode),))
            assert all(len(line) <= 30 for line in xy_lines(chart, 30))
