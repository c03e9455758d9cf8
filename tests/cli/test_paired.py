"""Ratios to other libraries are kept with the run that the kernel was found in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

import tilewright
from tilewright.baselines.compare import Comparison, compare
from tilewright.cli.paired import keep
from tilewright.database import Database
from tilewright.insight.result import ratios_of
from tilewright.kernels.operators import get_operator


class Compared(NamedTuple):
    path: Path
    result: tilewright.TuneResult
    found: Comparison


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    path = tmp_path_factory.mktemp("paired") / "t.db"
    result = tilewright.tune("matmul", m=24, n=20, k=16, trials=4, cost_model="random", db=path)
    return Compared(path, result, compare(path, get_operator("matmul").workload(m=24, n=20, k=16), rounds=3))


def test_ratios_stand_beside_those_of_the_final(compared: Compared, tmp_path: Path) -> None:
    path = str(shutil.copy(compared.path, tmp_path))
    result, found = compared.result, compared.found
    assert found.run == result.run
    keep(path, found)
    with Database.open(path, create=False, readonly=True) as db:
        ratios = {r.against: r for r in ratios_of(db.run(result.run).summary)}
    assert ratios["numpy"].gain.ratio == found.ratios[0].ratio
    assert set(ratios) == {"numpy", *result.paired}


def test_nothing_is_kept_where_nothing_can_be_written(compared: Compared, tmp_path: Path) -> None:
    before = compared.path.read_bytes()
    keep(str(tmp_path / "elsewhere.db"), compared.found)
    assert not (tmp_path / "elsewhere.db").exists()
    assert compared.path.read_bytes() == before
    assert compared.result.run == compared.found.run
