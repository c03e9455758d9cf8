"""The CPU backend under the contract that every backend meets."""

from __future__ import annotations

from pathlib import Path

import pytest
from handwritten import SAXPY

from tilewright.backends import BACKENDS, get_backend, parse_target
from tilewright.backends.cache import ArtifactCache
from tilewright.core import Target, UsageError
from tilewright.testing.backend import BackendContract


class TestCpuBackend(BackendContract):
    kind = "cpu"

    def saxpy(self, target: Target) -> str:
        return SAXPY

    @pytest.fixture
    def shared_cache(self, cache: ArtifactCache) -> Path:  # type: ignore[override]
        return cache.root

    def broken(self, target: Target) -> str:
        return SAXPY + "\nint twice(int x) { return 2 * y; }\n"


def test_registry_names_cause_and_mend() -> None:
    with pytest.raises(UsageError, match="unknown backend 'abacus'") as e:
        get_backend("abacus")
    assert "cpu" in e.value.hint


def test_every_registered_backend_serves_its_kind() -> None:
    for name in BACKENDS:
        backend = get_backend(name)
        assert backend.name == name
        assert backend.kinds == (("cuda",) if backend.emulated else (name,))


def test_auto_is_the_best_cpu() -> None:
    assert parse_target("auto") == get_backend("cpu").targets()[0]
