"""The CPU behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.backends import Built
from tilewright.backends.cpu import targets
from tilewright.backends.cpu.build import build_library
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.loader import LoadedLibrary, load_bytes
from tilewright.core import Target


class CpuBackend:
    """Compiles C++ with the system's compiler; kernels run on this process's threads."""

    name = "cpu"
    kinds: tuple[str, ...] = ("cpu",)

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return targets.available(threads)

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return targets.parse_target(text, threads, allow_foreign)

    def runs_here(self, target: Target) -> bool:
        return targets.runs_here(target)

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        compiler = find_compiler(target.arch)
        path, sha256, cached = build_library(sources, target, compiler, ArtifactCache(cache))
        return Built(path, sha256, compiler.version, targets.flags(target, compiler), cached)

    def load(self, data: bytes, sha256: str | None = None) -> LoadedLibrary:
        return load_bytes(data, sha256)
