"""Builds several kernels into one library, through the cache."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, compile_library, find_compiler, link_flags, support_hash
from tilewright.backends.cpu.targets import flags
from tilewright.backends.toolchain import DEADLINE, Compiled
from tilewright.core import Target, digest


def build_library(
    sources: Sequence[str],
    target: Target,
    compiler: Compiler,
    cache: ArtifactCache,
    deadline: float = DEADLINE,
) -> tuple[str, str, bool]:
    """Build one library from the texts of one translation unit: the prelude, then the kernels.

    Returns the library's path, the SHA-256 of its bytes, and whether it was in the cache. Raises
    ``CompileError``.
    """
    unit = "\n".join(sources)
    key = library_key(unit, target, compiler)
    path, cached = cache.made(key, lambda: compile_library(unit, target, compiler, cache, deadline))
    return path, Path(path).stem, cached


def library_key(unit: str, target: Target, compiler: Compiler) -> str:
    """Cache key of a library: source, flags, compiler and support object determine its bytes."""
    options = [*flags(target, compiler.family), *link_flags(compiler)]
    return digest(["library", compiler.key, options, support_hash(), sha256(unit.encode()).hexdigest()])


class CpuToolchain:
    """The system's compiler as a :class:`~tilewright.backends.toolchain.Toolchain` of one target. Thread-safe."""

    emulated = False
    batch = 8  # kernels per unit: parsing the prelude costs as much as compiling a kernel

    def __init__(self, target: Target, cache: ArtifactCache | None = None, compiler: Compiler | None = None) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.compiler = compiler or find_compiler(target.arch)
        self.flags = flags(target, self.compiler.family)
        self.version = self.compiler.version

    def key(self, unit: str) -> str:
        return library_key(unit, self.target, self.compiler)

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        return Compiled(*build_library([unit], self.target, self.compiler, self.cache, deadline))
