"""``benchmarks/kernelbench.py``: sizes, coverage, and what a crash or a time-out leaves; nothing is tuned or timed."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import hang

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import children
import kernelbench
import reduced
import turns
from rows import Rows

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.layer = torch.nn.Linear(features, features)

    def forward(self, x, y):
        return {expression}

batch_size = 4096
features, rest = 8192, 8192
kernel_size = 7

def get_inputs():
    return [torch.rand(batch_size, features), torch.rand(batch_size, rest)]

def get_init_inputs():
    return [features]
"""


def problem(folder: Path, expression: str) -> reduced.Problem:
    file = folder / "1_problem.py"
    file.write_text(PROBLEM.format(expression=expression))
    return reduced.load(file, 2e-3)


def test_sizes_that_belong_together_are_halved_together_until_a_run_is_short(tmp_path: Path) -> None:
    found = problem(tmp_path, "torch.relu(self.layer(x)) + y")
    assert {n: a for n, (a, _) in found.sizes.items()} == {"batch_size": 4096, "features": 8192, "rest": 8192}
    assert found.sizes["features"] == found.sizes["rest"]
    assert found.arguments[0].shape[1] == found.sizes["features"][1] < 4096
    assert found.seconds < reduced.MOST


def test_what_is_taken_and_left_is_told_by_operator_with_the_reason(tmp_path: Path) -> None:
    found = problem(tmp_path, "torch.relu(self.layer(x)) + y")
    row = kernelbench.covered(found.module, found.arguments)
    assert (row["whole"], row["left"], row["graphs"]) == (True, {}, 1)
    assert row["taken"] == {"addmm.default": 1, "relu.default": 1, "add.Tensor": 1}
    assert row["views"] == {"t.default": 1}

    found = problem(tmp_path, "torch.matrix_exp(torch.relu(self.layer(x))[:16, :16])")
    row = kernelbench.covered(found.module, found.arguments)
    assert not row["whole"]
    assert row["left"] == {"linalg_matrix_exp.default": 1}
    (why,) = row["why"]
    assert why.startswith("linalg_matrix_exp.default: ")
    assert why.endswith(" float32 2d")
    assert row["taken"] == {"addmm.default": 1, "relu.default": 1}
    row |= {"level": 1, "name": "1_problem", "eager_ms": 2.0}
    assert ("linalg_matrix_exp.default", 1, 1, why.partition(": ")[2]) in kernelbench.ranking([row])
    assert "| 1/1_problem | 2.0 ms | 2 | linalg_matrix_exp.default | - |" in kernelbench.table([row])


def test_results_are_judged_beside_float64_and_the_modules_own_error(tmp_path: Path) -> None:
    found = problem(tmp_path, "torch.relu(self.layer(x)) + y")
    row = kernelbench.judged(found.module, found.arguments, found.module)
    assert (row["right"], row["truth"], row["error"]) == (True, "float64", row["eager_error"])
    assert 0 < row["error"] < row["allowed"]
    row = kernelbench.judged(found.module, found.arguments, lambda x, y: found.module(x, y) * 1.001)
    assert not row["right"]
    own = problem(tmp_path, "self.layer(x) + self.layer(torch.ones(x.shape[0], y.shape[1]))")
    assert kernelbench.judged(own.module, own.arguments, own.module)["truth"] == "float32"


def test_problems_count_by_their_better_rival_and_short_ones_by_microseconds() -> None:
    def row(level: int, eager: float, compiled: float, seconds: float) -> Any:
        ratios = {"eager": [eager, eager, eager], "torch.compile": [compiled, 0.9, 1.1]}
        return {
            "level": level,
            "ratios": ratios,
            "seconds": {"tilewright": seconds, "torch.compile": seconds * compiled},
        }

    assert kernelbench.better([row(1, 2.0, 4.0, 0.1), row(1, 4.0, 0.5, 2e-4), row(2, 0.9, 3.0, 0.1)]) == (
        "Beside the better of both, geometric means: all levels **0.97** of 3, 2 below 0.97 (1 of them clearly); "
        "level 1 **1.00** of 2, 1 below 0.97 (0 of them clearly); level 2 **0.90** of 1, 1 below 0.97 (1 of them clearly). "
        "Of 1 below 1 ms ours takes at most 100.0 us more than `torch.compile`."
    )


def test_rounds_become_fewer_where_a_round_takes_long() -> None:
    now = [0.0]

    def call() -> None:
        now[0] += 0.25

    assert len(turns.in_turns({"a": call}, 31, lambda: now[0])["a"]) == 31
    assert len(turns.in_turns({"a": call, "b": call}, 31, lambda: now[0], 10.0)["b"]) == 10
    assert len(turns.in_turns({"a": call, "b": call}, 31, lambda: now[0], 1.0)["b"]) == turns.FEWEST


def test_a_crash_and_a_time_out_are_rows_and_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    asked: list[Any] = [({"name": "good"}, dict, ({"x": 1},)), ({"name": "abort"}, os.abort, ()),
                        ({"name": "raise"}, int, ("two lines",)), ({"name": "sleep"}, hang, ())]  # fmt: skip
    rows = Rows(file, {"tune": 0.0}, {}, ("name",))
    assert [r["name"] for r in children.missing(rows, asked[:1], 30.0)] == ["good"]
    rows = Rows(file, {"tune": 0.0}, {}, ("name",))
    made = {r["name"]: r for r in [*children.missing(rows, asked[:3], 30.0), *children.missing(rows, asked[3:], 0.2)]}
    assert {n: r.get("failed") for n, r in made.items()} == {
        "abort": "crashed: SIGABRT", "raise": "ValueError: invalid literal for int() with base 10: 'two lines'", "sleep": "no result after 0 s"
    }  # fmt: skip
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [r.get("name") for r in lines] == [None, "good", "abort", "raise", "sleep"]
    with pytest.raises(SystemExit, match=r"made with \{'tune': 0.0\}"):
        Rows(file, {"tune": 5.0}, {}, ("name",))


def test_an_interrupted_benchmark_leaves_no_child(tmp_path: Path) -> None:
    rows = Rows(tmp_path / "rows.jsonl", {}, {}, ("name",))
    asked: list[Any] = [({"name": "good"}, dict, ()), ({"name": "sleep"}, hang, ())]
    making = children.missing(rows, asked, 600.0, jobs=2)
    assert next(making) == {"name": "good"}
    making.close()
    assert list(rows.rows) == [("good",)]
    assert not multiprocessing.active_children()
