"""How a run is told of: a log, plain lines, a bar."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest

import tilewright
from tilewright.core import UsageError
from tilewright.tuner import TuneTask, tune_many
from tilewright.tuner.progress import LiveProgress, LogProgress, PlainProgress, progress, watching

SIZES = {"m": 24, "n": 20, "k": 16}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_is_told_where_there_is_no_screen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "tilewright.tuner")
    result = tilewright.tune("matmul", params=SIZES, trials=3, cost_model="random", db=tmp_path / "t.db")
    said = [r.getMessage() for r in caplog.records if r.name == "tilewright.tuner" and r.levelno == logging.INFO]
    assert any(f"run {result.run}: matmul m=24 n=20 k=16" in line for line in said)
    assert capsys.readouterr().out == ""


def test_warnings_have_their_level(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    LogProgress("x: ").warning("core 1 is busy")
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [("WARNING", "x: core 1 is busy")]
    PlainProgress("x: ").warning("core 1 is busy")
    assert capsys.readouterr().err == "tilewright: x: core 1 is busy\n"
    assert len(caplog.records) == 1


def test_a_bar_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(progress(PlainProgress), LiveProgress)
    tilewright.tune("matmul", params=SIZES, trials=3, cost_model="random", db=tmp_path / "t.db")
    shown = screen.getvalue()
    assert "3/3" in shown
    assert "FLOP/s" in shown


def test_the_bar_is_put_away_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Screen())
    closed: list[bool] = []
    monkeypatch.setattr(LiveProgress, "close", lambda self: closed.append(True))
    with pytest.raises(KeyError), watching(None):
        raise KeyError
    assert closed == [True]
    own = LogProgress()
    with watching(own) as watcher:
        assert watcher is own
    assert closed == [True]


def test_several_tasks_say_which_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tilewright.tuner")
    tasks = [TuneTask("matmul", SIZES), TuneTask("softmax", {"shape": "4,32"})]
    tune_many(tasks, trials=4, cost_model="random", db=tmp_path / "t.db")
    assert any(r.getMessage().startswith("task 2: run ") for r in caplog.records)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"trials": -1}, "trials=-1 is not possible"),
        ({"trials": 2.5}, "trials=2.5 is not possible"),
        ({"threads": 0}, "threads=0 is not possible"),
        ({"time_budget": 0}, "time_budget=0 is not possible"),
        ({"time_budget": float("nan")}, "time_budget=nan is not possible"),
    ],
)
def test_limits_that_are_none(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    db = tmp_path / "t.db"
    with pytest.raises(UsageError, match=message):
        tilewright.tune("matmul", params=SIZES, db=db, **settings)  # type: ignore[arg-type]
    if "threads" not in settings:
        with pytest.raises(UsageError, match=message):
            tune_many([TuneTask("matmul", SIZES)], db=db, **settings)  # type: ignore[arg-type]
    assert not db.exists()
