"""``tilewright tune --tasks``: what it prints, and what goes with one task only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.app import run
from tilewright.tuner import many

FILE = """
[[task]]
operator = "matmul"
params = { m = 32, n = 48, k = 40 }
weight = 3

[[task]]
operator = "matmul"
params = { m = 48, n = 32, k = 40, activation = "relu" }
"""


@pytest.fixture
def tasks(tmp_path: Path) -> list[str]:
    (tmp_path / "tasks.toml").write_text(FILE)
    return ["--tasks", str(tmp_path / "tasks.toml"), "--db", str(tmp_path / "t.db")]


def test_tasks_under_one_budget(
    tasks: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(many, "FIRST", 4)
    assert run(["tune", *tasks, "--trials", "8", "--json"]) == 0
    out, said = capsys.readouterr()
    found = json.loads(out)["tasks"]
    assert [t["weight"] for t in found] == [3.0, 1.0]
    assert found[1]["params"] == {"m": 48, "n": 32, "k": 40, "activation": "relu"}
    assert sum(t["trials"] for t in found) == 8
    assert all(t["operator"] == "matmul" and t["run"] and t["best"]["seconds"] > 0 for t in found)
    assert "matmul m=32 n=48 k=40: run " in said
    assert run(["tune", *tasks, "--time-budget", "0.01s"]) == 0
    out, said = capsys.readouterr()
    assert "the time was over before 1 of 2 tasks had a trial. Continue with --resume last" in said
    assert "no trial succeeded" not in said
    assert "matmul m=48 n=32 k=40 activation=relu" in " ".join(out.split())


@pytest.mark.parametrize(("more", "said"), [
    (["matmul", "m=3"], "OP is for one task"), (["--dtype", "float64"], "--dtype is for one task"),
    (["--take-over"], "--take-over is for one task"), (["--with-templates"], "--with-templates is for one task"),
    (["--resume", "261123-1"], "--resume 261123-1 names one run"), (["--time-budget", "soon"], "not a time above 0"),
    (["--time-budget", "0"], "not a time above 0"), (["--device", "all", "--target", "nonsense"], "nonsense"),
])  # fmt: skip
def test_what_does_not_go_with_tasks(
    tasks: list[str], more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", *tasks, *more]) == 2
    assert said in capsys.readouterr().err


def test_a_tune_needs_an_operator_or_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune"]) == 2
    assert "OP" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0)])
def test_times_have_units(text: str, seconds: float) -> None:
    from tilewright.cli.options import Duration

    given: Any = Duration().convert(text, None, None)
    assert given == seconds
