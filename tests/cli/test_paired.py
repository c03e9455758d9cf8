"""Ratios to other libraries are kept with the run that the kernel was found in."""

from __future__ import annotations

from pathlib import Path

import tilewright
from tilewright.baselines.compare import compare
from tilewright.cli.paired import keep
from tilewright.database import Database
from tilewright.insight.result import ratios_of
from tilewright.kernels.operators import get_operator


def test_ratios_stand_beside_those_of_the_final(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    result = tilewright.tune("matmul", m=24, n=20, k=16, trials=4, cost_model="random", db=path)
    found = compare(path, get_operator("matmul").workload(m=24, n=20, k=16), rounds=3)
    assert found.run == result.run
    keep(path, found)
    with Database.open(path, create=False, readonly=True) as db:
        ratios = {r.against: r for r in ratios_of(db.run(result.run).summary)}
    assert ratios["numpy"].ratio == found.ratios[0].ratio
    assert set(ratios) == {"numpy", *result.paired}


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    result = tilewright.tune("matmul", m=24, n=20, k=16, trials=4, cost_model="random", db=path)
    found = compare(path, get_operator("matmul").workload(m=24, n=20, k=16), rounds=3)
    before = path.read_bytes()
    keep(str(tmp_path / "elsewhere.db"), found)
    assert not (tmp_path / "elsewhere.db").exists()
    assert path.read_bytes() == before
    assert result.run == found.run
