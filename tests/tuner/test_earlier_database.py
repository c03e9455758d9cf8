"""A database that an earlier version tuned: it opens, its kernels are served and verified, its interrupted run resumes.

``tests/database/tuned/0.1.db.xz`` holds a matmul and a softmax tuned for ``cpu:portable`` on x86-64, and a matmul for
``cuda:sm_80`` on the emulator, interrupted after four trials; whoever changes a stored form adds a file of the
version before.
"""

from __future__ import annotations

import lzma
import platform
from pathlib import Path

import numpy as np
import pytest

from tilewright import Library, tune
from tilewright.core import Measurement
from tilewright.database import Database
from tilewright.tuner.verify import verify

FILES = sorted((Path(__file__).parents[1] / "database" / "tuned").glob("*.db.xz"))
SIZES = {"m": 16, "n": 16, "k": 16}


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "earlier.db"
    path.touch(mode=0o600)
    path.write_bytes(lzma.decompress(request.param.read_bytes()))
    return path


def test_a_database_of_an_earlier_version_opens(earlier: Path) -> None:
    with Database.open(earlier) as database:
        assert sorted((r.task.workload.op, r.state, len(database.trials(r.id))) for r in database.runs()) == [
            ("matmul", "done", 4), ("matmul", "interrupted", 4), ("softmax", "done", 2),
        ]  # fmt: skip
        assert all(isinstance(t.outcome, Measurement) for r in database.runs() for t in database.trials(r.id))
        assert {k.schedule.template for k in database.kernels()} == {"cpu_contraction", "cpu_rows", "cuda_simt"}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="its kernels are x86-64 code")
def test_kernels_of_an_earlier_database_are_served(earlier: Path) -> None:
    library = Library(earlier)
    a, b = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((24, 16), (16, 20)))
    assert library.explain("matmul", m=24, n=20, k=16).tier == "exact"
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    x = np.random.default_rng(1).standard_normal((8, 32)).astype(np.float32)
    np.testing.assert_allclose(library.softmax(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    assert library.stats().tiers["exact"] == 2


def test_a_run_of_an_earlier_database_resumes_and_its_winner_is_verified(earlier: Path) -> None:
    with Database.open(earlier) as database:
        (run,) = (r for r in database.runs() if r.state == "interrupted")
    result = tune("matmul", db=earlier, target="cuda:sm_80", device="emulator", resume=run.id, trials=6, params=SIZES)
    assert (result.run, result.trials) == (run.id, 6)
    assert result.best is not None
    with Database.open(earlier) as database:
        assert [t.number for t in database.trials(run.id)] == list(range(6))
        (verified,) = verify(database, device="emulator")
    assert verified.problem is None, verified
