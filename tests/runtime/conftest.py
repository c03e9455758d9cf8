"""Hand-written kernels, compiled once, and databases that hold them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from runtime_kernels import SOURCE, Built, Maker, scale, sqdist

from harness.emulated_gpu import OneContext, fill
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.targets import detect
from tilewright.database import Database
from tilewright.runtime import Library, pycall, resolve


@pytest.fixture(params=["native", "checked"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to call: builtins, and where the interpreter's objects cannot be read."""
    if request.param == "checked":
        monkeypatch.setattr(pycall, "builtins_in", lambda handle: None)
        monkeypatch.setattr(resolve, "current", lambda: None)
    return str(request.param)


@pytest.fixture(scope="session")
def cache_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, cache_root: Path, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(cache_root))
    monkeypatch.setenv("TILEWRIGHT_DB", str(tmp_path / "default.db"))


@pytest.fixture(scope="session")
def built(cache_root: Path) -> Built:
    compiler = find_compiler()
    path, sha256, _ = build_library([SOURCE], detect(), compiler, ArtifactCache(cache_root))
    return Built(Path(path).read_bytes(), sha256, compiler.version)


@pytest.fixture
def maker(tmp_path: Path, built: Built, empty_database: Path) -> Maker:
    shutil.copy(empty_database, tmp_path / "t.db")
    return Maker(tmp_path / "t.db", built)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "empty.db"
    Database.open(path).close()
    return path


@pytest.fixture(scope="session")
def filled_database(tmp_path_factory: pytest.TempPathFactory, built: Built) -> Path:
    """matmul 4x4x4 (also with trans_b) and 3x5x7, sqdist and scale."""
    path = tmp_path_factory.mktemp("database") / "filled.db"
    maker = Maker(path, built)
    maker.matmul(4, 4, 4)
    maker.matmul(3, 5, 7)
    maker.matmul(4, 4, 4, "tw_t_mm_trans", params={"trans_b": True})
    maker.add(sqdist.workload(m=4, n=3, k=5), "tw_t_sqdist")
    maker.add(scale.workload(n=64), "tw_t_scale", workspace=["*", "n", 4], zero_fill=["*", "n", 4], seconds=1e-3)
    return path


@pytest.fixture
def library(tmp_path: Path, filled_database: Path) -> Library:
    return Library(shutil.copy(filled_database, tmp_path / "filled.db"))


@pytest.fixture(scope="session")
def emulators_cache(own_folders: Path) -> ArtifactCache:
    """That of all tests, for what is compiled for the emulator: a library looks for kernels of processors alone."""
    return ArtifactCache()


@pytest.fixture(scope="session")
def gpu_kernels(tmp_path_factory: pytest.TempPathFactory, emulators_cache: ArtifactCache) -> Path:
    """A database with kernels for the emulated device."""
    return fill(tmp_path_factory.mktemp("gpu"), emulators_cache)


@pytest.fixture
def driver() -> OneContext:
    return OneContext()
