"""How a run is told of: a log, plain lines, a bar."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tilewright
from tilewright.core import UsageError
from tilewright.tuner import TuneTask, tune_many
from tilewright.tuner.progress import (
    LiveProgress,
    LogProgress,
    NotebookProgress,
    PlainProgress,
    bar,
    progress,
    watching,
)

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
    monkeypatch.setenv("COLUMNS", "160")  # the note of a narrower terminal may lose its end
    assert isinstance(progress(PlainProgress), LiveProgress)
    tilewright.tune("matmul", params=SIZES, trials=3, cost_model="random", db=tmp_path / "t.db")
    shown = screen.getvalue()
    assert "3/3" in shown
    assert "FLOP/s" in shown


@pytest.mark.parametrize("columns", [60, 104])
def test_a_bar_cuts_its_note_alone_on_a_narrow_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    with bar() as shown:
        shown.add_task("final between 9 kernels", total=192, completed=191, note="least search time 19.2 us, " * 5)
    assert "191/192" in screen.getvalue()
    assert "final between 9 kernels" in screen.getvalue()


class Shell:
    """A notebook's shell, as ``IPython.get_ipython`` gives it, and what its pages show."""

    kernel = object()

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data)

    def display(self, data: dict[str, str], raw: bool, display_id: bool) -> Shell:
        assert display_id
        self.update(data, raw)
        return self


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell()
    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython, display.display = lambda: shell, shell.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shell


def test_a_bar_in_a_notebook(shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tilewright.tune("matmul", params=SIZES, trials=3, cost_model="random", db=tmp_path / "t.db")
    first, last = shell.shown[0], shell.shown[-1]
    assert "0/3 trials" in first["text/plain"] or "noisy" in first["text/plain"]
    assert "ended: 3/3 trials" in last["text/plain"]
    assert 'value="3" max="3"' in last["text/html"]
    assert result.task.workload.label in last["text/html"]
    assert "FLOP/s" in last["text/plain"]
    assert capsys.readouterr() == ("", "")


def test_a_notebook_shows_texts_as_texts_and_once(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    watcher = progress()
    assert isinstance(watcher, NotebookProgress)
    watcher.warning("<b>core 1 is busy")
    watcher.waiting("cpu:1", "x")
    assert len(shell.shown) == 2
    assert "waiting for cpu:1" in shell.shown[-1]["text/html"]
    assert "&lt;b&gt;core 1 is busy" in shell.shown[-1]["text/html"]
    assert "<b>core 1 is busy" in shell.shown[-1]["text/plain"]
    assert not caplog.records, "a warning that nobody listens to is printed beside the bar"


def test_a_terminal_of_ipython_is_no_notebook(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shell, "kernel", None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(progress()) is LogProgress


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
