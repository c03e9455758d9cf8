"""A cache that a test session shares, and programs that misbehave on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from handwritten import Load

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library
from tilewright.backends.cpu.compiler import Compiler, find_compiler
from tilewright.backends.cpu.loader import LoadedLibrary, load_path
from tilewright.backends.cpu.targets import detect
from tilewright.core import Target


@pytest.fixture(scope="session")
def cache() -> ArtifactCache:
    return ArtifactCache()


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    return find_compiler()


@pytest.fixture(scope="session")
def load(cache: ArtifactCache, compiler: Compiler) -> Load:
    """Build and load a source for a target (default: this machine's best)."""

    def build(source: str, target: Target | None = None) -> LoadedLibrary:
        path, sha256, _ = build_library([source], target or detect(), compiler, cache)
        return load_path(path, sha256)

    return build


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes an executable shell script of a name."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + body)
        path.chmod(0o755)
        return path

    return write
