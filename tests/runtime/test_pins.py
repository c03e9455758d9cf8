"""Lock files: every process makes the same choice, whatever is tuned meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from runtime_kernels import Maker, random, scale

from tilewright.cli.app import run
from tilewright.core import DatabaseError
from tilewright.database import Database
from tilewright.runtime import Library

A, B = random(4, 4), random(4, 4, seed=1)
WANT = A.astype(np.float64) @ B


@pytest.fixture
def lock(maker: Maker, tmp_path: Path) -> Path:
    maker.matmul(4, 4, 4)
    maker.add(scale.workload(n=64), "tw_t_scale", workspace=["*", "n", 4], zero_fill=["*", "n", 4])
    path = tmp_path / "kernels.lock"
    assert run(["lock", "--db", str(maker.path), "-o", str(path)]) == 0
    return path


def test_only_what_is_pinned_is_served(maker: Maker, lock: Path) -> None:
    maker.matmul(3, 5, 7)
    library = Library(maker.path, pinned=lock)
    np.testing.assert_allclose(library.matmul(A, B), WANT, rtol=1e-4, atol=1e-5)
    assert library.explain("matmul", m=4, n=4, k=4).tier == "exact"
    assert library.explain("matmul", m=3, n=5, k=7).tier == "fallback"
    np.testing.assert_allclose(library.scale(random(64), np.float32(2)), 2 * random(64), rtol=1e-6)


def test_a_pinned_kernel_outlives_a_faster_one(maker: Maker, lock: Path) -> None:
    """As tuning leaves it: the new winner first, the old one after it."""
    with Database.open(maker.path) as database:
        (old,) = [k for k in database.kernels() if k.task.workload.op == "matmul"]
        maker.matmul(4, 4, 4, "tw_t_mm_twice")
        (new,) = [k for k in database.kernels() if k.task.workload.op == "matmul"]
        from dataclasses import replace

        artifact = maker.built.stored(old.task.target)
        database.set_kernels(old.task, old.device_model, None, [new, replace(old, rank=2)], [artifact])
    np.testing.assert_allclose(Library(maker.path).matmul(A, B), 2 * WANT, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(Library(maker.path, pinned=lock).matmul(A, B), WANT, rtol=1e-4, atol=1e-5)


def test_what_is_gone_is_named(maker: Maker, lock: Path) -> None:
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    with pytest.raises(
        DatabaseError, match=r"kernels.lock pins 1 kernel that .*t.db lacks: matmul m=4 n=4 k=4"
    ) as error:
        Library(maker.path, pinned=lock)
    assert "tilewright lock" in error.value.hint
    with pytest.raises(DatabaseError, match="pins 2 kernels that"):
        Library(maker.path.parent / "none.db", missing_ok=True, pinned=lock)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged, or no lock file"),
        ("[]", "is damaged, or no lock file"),
        ('{"tilewright_lock": 1}', "is damaged, or no lock file"),
        ('{"tilewright_lock": 2, "kernels": []}', "a lock file of format 2, and this version reads 1"),
        ('{"tilewright_lock": 1, "kernels": [{"operator": "matmul"}]}', "is damaged, or no lock file"),
    ],
)
def test_a_file_that_is_none(maker: Maker, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.lock").write_text(text)
    with pytest.raises(DatabaseError, match=message):
        Library(maker.path, pinned=tmp_path / "x.lock")
    with pytest.raises(DatabaseError, match=r"cannot read .*y.lock"):
        Library(maker.path, pinned=tmp_path / "y.lock")


def test_the_lock_command_writes_pins(
    maker: Maker, lock: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = lock.read_bytes()
    assert run(["lock", "--db", str(maker.path), "-o", str(lock), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 2
    assert lock.read_bytes() == before
    names = [k["operator"] for k in json.loads(before)["kernels"]]
    assert names == ["matmul", "scale"]
    assert run(["lock", "--db", str(maker.path), "-o", str(tmp_path / "no" / "x.lock")]) == 1
    assert "cannot write" in capsys.readouterr().err
