"""A database of a few tuned kernels, and a bundle of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import tilewright
from harness.shared import made_once
from tilewright.bundles.build import build
from tilewright.database import Database


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_DB", str(tmp_path / "default.db"))
    monkeypatch.setenv("TILEWRIGHT_TRUSTED_KEYS", str(tmp_path / "trusted_keys"))


@pytest.fixture(scope="session")
def tuned_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """matmul, also with a constant input, for bfloat16 and for two threads, and softmax; of one trial each."""

    def tune(folder: Path) -> None:
        path = folder / "t.db"
        sizes = {"m": 24, "n": 48, "k": 32}
        for op, params in (
            ("matmul", sizes),
            ("matmul", {**sizes, "constant": "b"}),
            ("matmul", {**sizes, "trans_b": True}),
            ("matmul", {**sizes, "dtype": "bfloat16"}),
            ("softmax", {"shape": (8, 100)}),
        ):
            tilewright.tune(op, trials=1, db=path, **params)
        tilewright.tune("matmul", trials=1, db=path, threads=2, m=96, n=96, k=96)

    return made_once(tmp_path_factory, "bundled", tune) / "t.db"


@pytest.fixture(scope="session")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def bundle(tuned_database: Path, tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    path = tmp_path / "kernels.twb"
    with Database.open(tuned_database, create=False, readonly=True) as database:
        assert build(database, path, key) == 6
    return path
