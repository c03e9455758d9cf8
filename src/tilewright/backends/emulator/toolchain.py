"""The emulator's toolchain for the builder: it compiles translation units into shared libraries for its driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, find_compiler
from tilewright.backends.emulator.build import DEADLINE, compile_unit, kernel_flags, kernel_key, translation_unit
from tilewright.backends.toolchain import Compiled, CompileError
from tilewright.core import Target, UsageError, digest


class EmulatorToolchain:
    """Compiles CUDA kernels for the emulator. Safe to call from several threads.

    Raises ``TilewrightError`` without a C++ compiler.
    """

    emulated = True
    batch = 4  # kernels per unit: linking costs as much as compiling a kernel

    def __init__(self, target: Target, cache: ArtifactCache | None = None, compiler: Compiler | None = None) -> None:
        if target.kind != "cuda":
            raise UsageError(f"the emulator does not run kernels for {target.name}", "Use a target of kind cuda")
        self.target = target
        self.cache = cache or ArtifactCache()
        self.compiler = compiler or find_compiler()
        self.version = f"emulated by {self.compiler.version}"
        self.flags = kernel_flags(())

    def key(self, unit: str) -> str:
        """Cache key of a library, without the names of its kernels."""
        return kernel_key(unit, self.compiler, (), True)

    def compile(self, unit: str, symbols: Sequence[str], deadline: float = DEADLINE) -> Compiled:
        """Compile a unit within ``deadline`` seconds. Raises ``CompileError``."""
        if not symbols:
            raise CompileError("no kernel is named")
        path, cached = self.cache.made(
            digest([self.key(unit), list(symbols)]),
            lambda: compile_unit(translation_unit(unit, symbols), self.compiler, (), True, self.cache, deadline),
        )
        return Compiled(path, Path(path).stem, cached)
