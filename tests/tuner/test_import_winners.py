"""Winners from another database: what is built, what waits for trust, and what takes a place."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import tilewright
from tilewright.core import TensorSpec, UsageError
from tilewright.database import Database
from tilewright.database.transfer import merge, winners
from tilewright.kernels import templates
from tilewright.kernels.operators import get_operator
from tilewright.tuner.import_winners import ImportedWinner, Untrusted, checked_workload, import_winners

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_kernel"
SIZES = {"m": 29, "n": 50, "k": 17}


def bring(source: Path, here: Path) -> None:
    with Database.open(here) as db, Database.open(source, readonly=True) as other:
        merge(db, other)


def built(here: Path, trust: bool = False, device: str = "auto") -> list[ImportedWinner]:
    with Database.open(here) as db:
        return list(import_winners(db, trust=trust, device=device))


def test_a_kernel_of_someones_own_waits_for_trust(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "dense.cpp", tmp_path)
    kernel = tilewright.own_kernel(
        tmp_path / "dense.cpp", entry="dense", knobs={"BM": [2, 4], "BN": [16, 32]}, reference="matmul"
    )
    there, here = tmp_path / "there.db", tmp_path / "here.db"
    tilewright.tune(kernel, trials=2, cost_model="random", db=there, bias=True, activation="relu", **SIZES)
    (tmp_path / "dense.cpp").unlink()
    templates._REGISTERED.clear()
    bring(there, here)
    waiting = built(here)
    assert {r.state for r in waiting} == {"waiting"}
    assert "dense.cpp is a kernel of someone's own" in waiting[0].problem
    assert not templates._REGISTERED
    states = [r.state for r in built(here, trust=True)]
    assert states
    assert set(states) <= {"served", "ranked", "beaten"}
    with Database.open(here) as db:
        assert db.kernels()
        assert all(k.schedule.template == kernel.name for k in db.kernels())
        assert winners(db) == []


def test_a_winner_competes_with_what_is_stored(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        tilewright.tune("matmul", trials=2, seed=seed, cost_model="random", db=tmp_path / f"{name}.db", **SIZES)
    with Database.open(tmp_path / "b.db") as db:
        (before,) = [k for k in db.kernels() if k.rank == 1]
    bring(tmp_path / "a.db", tmp_path / "b.db")
    assert built(tmp_path / "b.db", device="cuda:0") == []
    found = built(tmp_path / "b.db")
    assert found
    assert {r.state for r in found} <= {"served", "ranked", "beaten"}
    with Database.open(tmp_path / "b.db") as db:
        after = db.task_kernels(before.task, before.device_model)
        assert [k.rank for k in after] == list(range(1, len(after) + 1))
        assert all(k.state == "verified" and db.artifact(k.artifact_sha256) for k in after)
        # The champion lost its place to a winner only if one of them says that it took it.
        kept = after[0].schedule == before.schedule
        assert kept != any(r.state == "served" and r.winner.schedule != before.schedule for r in found)
        assert winners(db) == []


def test_only_a_built_in_operators_own_program_is_taken_without_trust() -> None:
    made = get_operator("matmul").workload(**SIZES)
    odd = replace(made, inputs=(TensorSpec("a", (1 << 20, 17), "float32"), made.inputs[1]), flops=1)
    assert checked_workload(odd) == made  # what is stored beside the program is not believed
    foreign = replace(made, op="mine")
    with pytest.raises(Untrusted):
        checked_workload(foreign)
    assert checked_workload(foreign, trust=True) == foreign
    with pytest.raises(Untrusted):
        checked_workload(replace(made, op=f"{EXAMPLES}/reference.py:dense"))
    with pytest.raises(UsageError, match="not its program's"):
        checked_workload(replace(odd, op="mine"), trust=True)
    with pytest.raises(UsageError, match="is invalid"):
        checked_workload(replace(foreign, program="[1]"), trust=True)
