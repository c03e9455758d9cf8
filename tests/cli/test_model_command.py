"""``tilewright model``: trained, judged, moved between databases, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright.cost_model.transferable import VERSION
from tilewright.database import Database
from tilewright.tuner import tune

SIZES = {"m": 32, "n": 48, "k": 40}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("model") / "t.db")
    tune("matmul", trials=12, seed=1, db=path, params=SIZES)
    return path


def test_train_evaluate_export_and_import(cli: Any, db: str, tmp_path: Path) -> None:
    before = cli("model", "evaluate", "--db", db, "--json").json
    trained = cli("model", "train", "--db", db, "--json").json
    assert trained["trials"] == 12
    after = cli("model", "evaluate", "--db", db, "--json").json
    assert after["runs"][0]["run"] == before["runs"][0]["run"]
    assert after["runs"][0]["clear"] > max(0.7, before["runs"][0]["clear"] - 1e-9)
    assert "in order" in cli("model", "evaluate", "--db", db).out

    file, other = tmp_path / "a.model", str(tmp_path / "other.db")
    assert cli("model", "export", str(file), "--db", db).code == 0
    assert cli("model", "import", str(file), "--db", other).code == 0
    again = tmp_path / "b.model"
    assert cli("model", "export", str(again), "--db", other).code == 0
    assert again.read_bytes() == file.read_bytes()


def test_what_cannot_be_used_is_refused_by_name_and_tuning_goes_on(cli: Any, tmp_path: Path) -> None:
    empty, bad = str(tmp_path / "empty.db"), tmp_path / "bad.model"
    bad.write_bytes(b"not a model")
    reply = cli("model", "import", str(bad), "--db", empty)
    assert reply.code == 1
    assert f"{bad} is damaged" in reply.err
    with Database.open(empty):
        pass
    reply = cli("model", "train", "--db", empty)
    assert reply.code == 1
    assert "holds no run" in reply.err
    assert cli("model", "export", str(tmp_path / "none" / "x.model"), "--db", empty).code == 1

    from tilewright.backends import parse_target

    with Database.open(empty) as database:
        database.save_model(parse_target("auto", 1), str(VERSION), b"damaged", 1)
    reply = cli("tune", "matmul", "m=32", "n=48", "k=40", "--trials", "4", "--db", empty)
    assert reply.code == 0
    assert "the saved cost model is damaged" in reply.err
