"""A library with a tuned product, for arrays of frameworks that are large to install."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright

M, N, K = 8, 16, 12


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "t.db"
    for dtype in ("float32", "bfloat16", "float16"):
        tilewright.tune("matmul", m=M, n=N, k=K, dtype=dtype, trials=2, cost_model="random", db=path)
    tilewright.tune("matmul", m=M, n=N, k=K, constant="b", trials=2, cost_model="random", db=path)
    return path


@pytest.fixture
def library(tuned: Path) -> tilewright.Library:
    return tilewright.Library(tuned)


@pytest.fixture(scope="session")
def backend_by_name() -> None:
    """The entry point's backend, also where the package was installed before it had one."""
    import torch

    from tilewright.torch.backend import tilewright as backend

    if "tilewright" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend, "tilewright")
