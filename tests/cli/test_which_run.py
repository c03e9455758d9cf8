"""Runs named by what they tuned: ``show``, ``explain``, ``plot`` and ``runs``, given an operator and parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.examples import DEVICE, SETTINGS, example_record, example_task
from tilewright.database import Database


@pytest.fixture
def db(tmp_path: Path) -> tuple[str, dict[int, str]]:
    """A database of runs of three shapes, one after the other, and each run's identifier by its ``m``."""
    path = tmp_path / "runs.db"
    ids = {}
    with Database.open(path) as database:
        for m in (8, 9, 10):
            ids[m] = database.add_run(example_task(m=m), DEVICE, "random", 0, 2, SETTINGS)
            database.add_trials(ids[m], [example_record(0), example_record(1)])
            database.finish_run(ids[m], "done")
    return str(path), ids


@pytest.mark.parametrize("command", ["show", "explain"])
def test_the_newest_run_of_an_operator_with_these_parameters(
    cli: Any, db: tuple[str, dict[int, str]], command: str
) -> None:
    path, ids = db
    for asked, m in (
        (("matmul",), 10),
        (("matmul", "m=9"), 9),
        (("matmul", "n=16", "m=8"), 8),
        (("matmul", "bias=False"), 10),
        (("last",), 10),
        (("last", "m=9"), 9),
        ((ids[8],), 8),
    ):
        reply = cli(command, *asked, "--db", path, "--json")
        assert reply.code == 0, reply.err
        assert reply.json["run"] == ids[m], asked


def test_a_plot_of_it(cli: Any, db: tuple[str, dict[int, str]]) -> None:
    path, ids = db
    assert cli("plot", "matmul", "m=9", "--db", path, "--json").json["run"] == ids[9]


def test_what_no_run_is_of_is_refused(cli: Any, db: tuple[str, dict[int, str]]) -> None:
    path, ids = db
    for asked, code, said in (
        (("matmul", "m=77"), 1, "holds no run 'matmul m=77'. List the runs: tilewright runs"),
        (("softmax",), 1, "holds no run 'softmax'. List the runs: tilewright runs"),
        (("matmull",), 1, "holds no run 'matmull'. Did you mean matmul? List the runs: tilewright runs"),
        ((ids[8], "m=8"), 1, f"holds no run '{ids[8]} m=8'"),
        (("matmul", "m"), 2, "'m' is not KEY=VALUE"),
    ):
        reply = cli("show", *asked, "--db", path)
        assert reply.code == code
        assert said in reply.err


def test_runs_of_an_operator_are_listed(cli: Any, db: tuple[str, dict[int, str]]) -> None:
    path, ids = db

    def listed(*asked: str) -> list[str]:
        return [r["run"] for r in cli("runs", *asked, "--db", path, "--json").json["runs"]]

    assert listed() == listed("matmul") == listed("matmul", "k=32") == [ids[10], ids[9], ids[8]]
    assert listed("matmul", "m=9") == [ids[9]]
    assert listed("matmul", "--limit", "2") == listed("matmul", "n=16", "--limit", "2") == [ids[10], ids[9]]
    assert listed("softmax") == []
    said = cli("runs", "matmul", "m=3", "--db", path).err
    assert "no run of matmul m=3 is stored here. Start one: tilewright tune matmul m=3" in said
