"""The system's C++ compiler behind the :class:`~tilewright.backends.toolchain.Toolchain` protocol."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library, library_key
from tilewright.backends.cpu.compiler import Compiler, find_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.backends.toolchain import Compiled
from tilewright.core import Target


class CpuToolchain:
    """Compiles for one CPU target. Safe to call from several threads."""

    emulated = False
    batch = 8  # kernels a unit: parsing the prelude costs as much as compiling one

    def __init__(self, target: Target, cache: ArtifactCache | None = None, compiler: Compiler | None = None) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.compiler = compiler or find_compiler(target.arch)
        self.flags = flags(target, self.compiler)
        self.version = self.compiler.version

    def key(self, unit: str) -> str:
        return library_key(unit, self.target, self.compiler)

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        return Compiled(*build_library([unit], self.target, self.compiler, self.cache, deadline))
