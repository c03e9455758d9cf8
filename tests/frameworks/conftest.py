"""A library with a tuned product, for arrays of frameworks that are large to install."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright
from harness.shared import made_once

M, N, K = 8, 16, 12


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "tuned", _tune) / "t.db"


def _tune(folder: Path) -> None:
    how: dict[str, Any] = {"m": M, "n": N, "k": K, "trials": 1, "cost_model": "random", "db": folder / "t.db"}
    for dtype in ("float32", "bfloat16", "float16"):
        tilewright.tune("matmul", dtype=dtype, **how)
    tilewright.tune("matmul", constant="b", **how)


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


@pytest.fixture
def fresh() -> Iterator[None]:
    """TorchDynamo without what other tests compiled, before and after a test."""
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a device that is added to PyTorch come first: at a process's first gradient autograd counts devices."""
    items.sort(key=lambda item: not hasattr(getattr(item, "module", None), "torch_device"))
