"""Ratios to other libraries are kept with the run that the kernel was found in."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

import pytest

import tilewright
from tilewright.baselines.compare import Comparison, compare
from tilewright.cli.app import run
from tilewright.cli.paired import keep
from tilewright.database import Database, schema
from tilewright.insight.result import ratios_of
from tilewright.kernels.operators import get_operator

SCHEMAS = Path(__file__).parents[1] / "database" / "schemas"


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
    assert not ratios["numpy"].quartiles
    assert set(ratios) == {"numpy", *result.paired}


@pytest.mark.parametrize("revision", schema.REVISIONS)
def test_show_gives_no_interval_where_version_0_1_stored_quartiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    path = Path(shutil.copy(SCHEMAS / f"{revision}.db", tmp_path / "old.db"))
    numpy = {"ratio": 1.15, "low": 1.1, "high": 1.2}
    final = {"ratio": 1.5, "low": 1.4, "high": 1.6}
    connection = sqlite3.connect(path)
    stored = json.dumps({"seconds": 1.5, "paired": {"default": final, "numpy": numpy}})
    connection.execute("UPDATE run SET summary = ? WHERE state = 'done'", (stored,))
    ((name,),) = connection.execute("SELECT id FROM run WHERE state = 'done'").fetchall()
    connection.commit()
    connection.close()
    assert run(["show", name, "--json", "--db", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)["summary"]["paired"]
    assert shown == {"default": final, "numpy": {"ratio": 1.15, "low": None, "high": None}}


def test_nothing_is_kept_where_nothing_can_be_written(compared: Compared, tmp_path: Path) -> None:
    before = compared.path.read_bytes()
    keep(str(tmp_path / "elsewhere.db"), compared.found)
    assert not (tmp_path / "elsewhere.db").exists()
    assert compared.path.read_bytes() == before
    assert compared.result.run == compared.found.run
