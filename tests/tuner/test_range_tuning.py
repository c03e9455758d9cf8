"""Tuning for a range of sizes, end to end: searched, compared, stored, served, verified, tuned again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.cli.app import run
from tilewright.core import Failure, FailureKind, Schedule, Task, UsageError
from tilewright.database import Database
from tilewright.extent import greatest
from tilewright.measure.runner import Item, LocalRunner
from tilewright.tuner import Observer, RangeResult, tune_range

SIZES = {"m": "1..20", "n": 20, "k": 24}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RangeResult]:
    db = tmp_path_factory.mktemp("ranges") / "ranges.db"
    return db, tune_range("matmul", params=SIZES, trials=1, kernels=2, cost_model="random", db=db)


def arrays(m: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(m)
    return rng.standard_normal((m, 24), np.float32), rng.standard_normal((24, 20), np.float32)


def test_intervals_cover_the_range(tuned: tuple[Path, RangeResult]) -> None:
    db, result = tuned
    assert 1 <= len(result.kernels) <= 2
    assert (result.kernels[0].low, result.kernels[-1].high) == (1, 20)
    assert result.worst == max(k.worst for k in result.kernels)
    with Database.open(db) as database:
        stored = {k.task.workload.label for k in database.kernels("matmul") if k.task.workload.ranges}
    assert stored == {f"matmul m={k.low}..{k.high} n=20 k=24" for k in result.kernels if k.low < k.high}
    assert json.loads(json.dumps(result.to_json()))["kernels"][-1]["high"] == 20


def test_a_range_of_what_only_moves_elements_is_tuned(tmp_path: Path) -> None:
    result = tilewright.tune_range("transpose", params={"shape": "1..4,8"}, trials=1, db=tmp_path / "t.db")
    assert result.kernels


def test_several_ranges_are_served_by_one_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    db = str(tmp_path / "t.db")
    sizes = ["shape=1..4,2..5"]
    assert run(["tune", "softmax", *sizes, "--trials", "2", "--cost-model", "random", "--db", db]) == 0
    assert "shape=1..4 shape_1=2..5" in " ".join(capsys.readouterr().out.split())
    library = tilewright.Library(db)
    for shape in ((1, 2), (3, 4), (2, 3), (4, 5), (4, 2)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(library.softmax(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert {library.explain("softmax", shape=s).tier for s in ("3,4", "4,5")} == {"range"}
    assert library.explain("softmax", shape="2,3").tier == "exact"
    assert library.explain("softmax", shape="5,5").tier != "range"


def test_a_range_result_is_shown_in_a_line_and_as_a_table(tuned: tuple[Path, RangeResult]) -> None:
    _, result = tuned
    assert len(repr(result)) < 200
    for shown in (repr(result), result._repr_html_()):
        assert "matmul m=1..20 n=20 k=24 on cpu" in shown
        assert f"at most {result.worst:.1%} slower" in shown
    assert result._repr_html_().count("<tr>") == 1 + len(result.kernels)


def test_every_size_is_served(tuned: tuple[Path, RangeResult]) -> None:
    db, result = tuned
    library = tilewright.Library(db)
    for m in range(1, 21):
        a, b = arrays(m)
        np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
        assert library.explain("matmul", m=m, n=20, k=24).tier == ("exact" if m in result.tuned else "range")
    tiers = {n: c for n, c in library.stats().tiers.items() if c}
    assert tiers == {"exact": len(result.tuned), "range": 20 - len(result.tuned)}


def test_a_range_result_is_found_by_name_by_operator_and_by_workload(tuned: tuple[Path, RangeResult]) -> None:
    db, _ = tuned
    library = tilewright.Library(db)
    op = tilewright.kernels.operators.get_operator("matmul")
    a, b = arrays(17)
    for asked, params in (
        ("matmul", {"m": 17, "n": 20, "k": 24}),
        (op, {"m": 17, "n": 20, "k": 24}),
        (op.workload(m=17, n=20, k=24), {}),
    ):
        explained = library.explain(asked, **params)
        assert (explained.tier, explained.params["m"]) == ("range", 17)
        assert "has it" in explained.reason
        np.testing.assert_allclose(library.plan(asked, **params)(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert library.explain("matmul", m=21, n=20, k=24).tier == "fallback"
    assert library.explain("matmul", m=17, n=21, k=24).tier == "fallback"
    assert library.explain("matmul", m=17, n=20, k=24, activation="relu").tier == "fallback"


def test_a_plan_needs_one_size(tuned: tuple[Path, RangeResult]) -> None:
    library = tilewright.Library(tuned[0])
    with pytest.raises(UsageError, match=r"a plan has fixed sizes, not m=1..20\. Name one size"):
        library.plan("matmul", **SIZES)
    with pytest.raises(
        UsageError, match=r"m=1..20 is a range, but a run needs fixed sizes\. Use tilewright.tune_range"
    ):
        tilewright.tune("matmul", params=SIZES)


def test_verify_looks_at_several_sizes(tuned: tuple[Path, RangeResult], capsys: pytest.CaptureFixture[str]) -> None:
    db, result = tuned
    assert run(["verify", "--db", str(db), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    right = [k for k in listed["kernels"] if k["problem"] is None]
    assert len(right) == len(result.tuned) + sum(k.low < k.high for k in result.kernels)


def test_best_names_the_range_that_has_a_size(
    tuned: tuple[Path, RangeResult], capsys: pytest.CaptureFixture[str]
) -> None:
    db, result = tuned
    last = result.kernels[-1]
    size = next(n for n in range(last.high, last.low, -1) if n not in result.tuned)
    assert run(["best", "matmul", f"m={size}", "n=20", "k=24", "--db", str(db)]) == 0
    assert f"matmul m={last.low}..{last.high} n=20 k=24 on" in capsys.readouterr().out
    assert run(["best", "matmul", "m=21", "n=20", "k=24", "--db", str(db)]) == 1


def test_ranges_are_exported_imported_and_rebuilt(tuned: tuple[Path, RangeResult], tmp_path: Path) -> None:
    db, result = tuned
    lines, again, served = (str(tmp_path / name) for name in ("all.jsonl", "again.db", "served.db"))
    assert run(["db", "export", lines, "--db", str(db)]) == 0
    assert run(["db", "import", lines, "--rebuild", "--db", again]) == 0
    assert run(["db", "export", "--best", served, "--db", again]) == 0
    size = next(n for n in range(1, 21) if n not in result.tuned)
    bundle = str(tmp_path / "served.bundle")
    assert run(["bundle", "build", "--db", served, "-o", bundle, "--unsigned"]) == 0
    a, b = arrays(size)
    np.testing.assert_allclose(tilewright.Library(bundle, trust="unsigned").matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert tilewright.Library(bundle, trust="unsigned").explain("matmul", m=size, n=20, k=24).tier == "range"
    for path in (again, served):
        assert tilewright.Library(path).explain("matmul", m=size, n=20, k=24).tier == "range"


def test_tuning_again_replaces_what_served_the_range(tuned: tuple[Path, RangeResult], tmp_path: Path) -> None:
    db, first = shutil.copy(tuned[0], tmp_path), tuned[1]
    stages: list[str] = []

    class Watcher(Observer):
        def stage(self, text: str) -> None:
            stages.append(text)

    again = tune_range(
        "matmul", params=SIZES, trials=1, kernels=1, cost_model="random", db=db, observer=lambda place: Watcher()
    )
    assert [(k.low, k.high) for k in again.kernels] == [(1, 20)]
    with Database.open(db) as database:
        ranged = [k for k in database.kernels("matmul") if k.task.workload.ranges]
    assert [k.task.workload.label for k in ranged] == ["matmul m=1..20 n=20 k=24"]
    assert again.compared >= len(first.kernels)
    assert any("comparing" in s for s in stages)
    assert stages[-1] == "checking the kernel of matmul m=1..20 n=20 k=24"


def test_a_kernel_that_a_last_check_finds_wrong_is_left_out_and_nothing_is_lost(
    tuned: tuple[Path, RangeResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = shutil.copy(tuned[0], tmp_path)
    verify = LocalRunner.verify
    refused: list[Schedule] = []
    warnings: list[str] = []

    def first_wrong(self: LocalRunner, task: Task, item: Item) -> Failure | None:
        ranges = task.workload.ranges
        if not ranges or refused:
            return verify(self, task, item)
        refused.append(item[0].schedule.at(greatest(ranges)))
        return Failure(FailureKind.WRONG_RESULT, "m=7: element (6, 0) is nan")

    class Watcher(Observer):
        def warning(self, message: str) -> None:
            warnings.append(message)

    monkeypatch.setattr(LocalRunner, "verify", first_wrong)
    result = tune_range(
        "matmul", params=SIZES, trials=2, kernels=1, cost_model="random", db=db, observer=lambda place: Watcher()
    )
    assert (
        "the kernel of matmul m=1..20 n=20 k=24 is wrong: m=7: element (6, 0) is nan. The other kernels serve the range"
    ) in warnings
    assert [(k.low, k.high) for k in result.kernels] == [(1, 20)]
    assert [result.kernels[0].schedule.at(greatest(result.places.extents))] != refused


def test_the_command_line_tunes_a_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = str(tmp_path / "cli.db")
    asked = ["tune", "softmax", "shape=1..4,40", "--trials", "2", "--portfolio", "1"]
    asked += ["--cost-model", "random", "--db", db]
    assert run([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(k["low"], k["high"], k["template"]) for k in data["kernels"]] == [(1, 4, "cpu_rows")]
    monkeypatch.setenv("COLUMNS", "250")
    assert run([*asked, "--resume", "last"]) == 0
    shown = capsys.readouterr()
    assert "1..4" in shown.out
    assert "average loss" in shown.out
    assert "of their own: shape=1, shape=4" in " ".join(shown.err.split())
    x = np.random.default_rng(0).standard_normal((3, 40), np.float32)
    library = tilewright.Library(db)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(library.softmax(x), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    assert library.stats().tiers["range"] == 1


def test_ranges_of_other_shapes_stay(tuned: tuple[Path, RangeResult], tmp_path: Path) -> None:
    db, result = shutil.copy(tuned[0], tmp_path), tuned[1]
    tune_range("matmul", params={**SIZES, "n": 8}, trials=1, kernels=1, cost_model="random", db=db)
    library = tilewright.Library(db)
    for m in (m for m in range(1, 21) if m not in result.tuned):
        for n in (8, 20):
            assert library.explain("matmul", m=m, n=n, k=24).tier == "range"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["matmul", "m=8", "n=9", "k=9", "--portfolio", "2"], "matmul m=8 n=9 k=9 has no range. Write a size as 1..4096"),
        (["matmul", "m=1..8", "n=9", "k=9", "--take-over"], "--take-over does not go with a range of sizes. Remove it"),
        (["matmul", "m=1..8", "n=9", "k=9", "--resume", "r1"], "--resume r1 names one run, but a range has several. Write"),
        (["group_norm", "shape=2,4..8,5", "num_groups=2"], "The second axis is a multiple of num_groups"),
        (["matmul", "m=8..1", "n=9", "k=9"], "m=8..1 is not a range"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_range(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
