"""The seam between the builder and compilers: one small protocol, and what serves each kind of target.

The CPU's compiler is wrapped here; the others are classes of their backends that fit
(``backends/cuda/build.py``, ``backends/emulator/toolchain.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from tilewright.backends.cpu.build import build_library, library_key
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, find_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.core import LaunchProgram, Pairs, Target, UsageError

CPU_BATCH = 8  # kernels a translation unit: parsing the prelude costs as much as compiling one

StaticGate = Callable[[LaunchProgram, Target], "str | None"]
"""Why a kernel cannot run on a target, from its launches alone; ``None`` when it may. What it gives may have
a ``reason``, a word to count by."""


class Compiled(Protocol):
    """A translation unit on disk: where, the hash of its bytes, whether nothing had to be compiled, and
    what each kernel takes (registers, shared memory, ...; empty on a CPU)."""

    @property
    def path(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def cached(self) -> bool: ...
    @property
    def resources(self) -> Mapping[str, Pairs]: ...


class Toolchain(Protocol):
    """Compiles translation units for one target, through a cache. Safe to call from several threads.

    ``emulated``: what it makes runs under the emulator, and is written against the emulated prelude.
    ``batch``: how many kernels a unit should hold.
    """

    @property
    def version(self) -> str: ...
    @property
    def flags(self) -> tuple[str, ...]: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def batch(self) -> int: ...

    def key(self, unit: str) -> str:
        """What a unit is cached under: it covers the text and everything else that its bytes depend on."""
        ...

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        """Compile a unit within ``deadline`` seconds.

        Raises an error of kind ``compile`` where the text is at fault, and one with a ``reason`` (a short
        category) where the code is right but asks for more than the device has.
        """
        ...


@dataclass(frozen=True)
class CompiledLibrary:
    """A CPU library: :class:`Compiled` without resources."""

    path: str
    sha256: str
    cached: bool
    resources: Mapping[str, Pairs] = field(default_factory=dict)


class CpuToolchain:
    """The system's C++ compiler behind the :class:`Toolchain` protocol."""

    emulated = False

    def __init__(self, target: Target, cache: ArtifactCache | None = None, compiler: Compiler | None = None) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.compiler = compiler or find_compiler(target.arch)
        self.flags = flags(target, self.compiler)
        self.version = self.compiler.version
        self.batch = CPU_BATCH

    def key(self, unit: str) -> str:
        return library_key(unit, self.target, self.compiler)

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> CompiledLibrary:
        return CompiledLibrary(*build_library([unit], self.target, self.compiler, self.cache, deadline))


def toolchain_for(target: Target, cache: ArtifactCache, emulated: bool = False) -> Toolchain:
    """What compiles for ``target``; ``emulated`` asks for code that runs under the emulator.

    Raises ``UsageError`` for a kind of target without one, ``TilewrightError`` where the compiler is
    missing.
    """
    if target.kind == "cpu":
        return CpuToolchain(target, cache)
    if target.kind == "cuda":
        if emulated:
            from tilewright.backends.emulator.toolchain import EmulatorToolchain

            return cast(Toolchain, EmulatorToolchain(target, cache))
        from tilewright.backends.cuda.build import NvrtcToolchain

        return cast(Toolchain, NvrtcToolchain(target, cache))
    raise UsageError(f"nothing builds for {target.name}", "Use a target of kind cpu or cuda")


def static_gate(target: Target) -> StaticGate | None:
    """The check that needs no compiler, for kinds of targets that have one."""
    if target.kind != "cuda":
        return None
    from tilewright.backends.cuda.gate import before

    return cast(StaticGate, before)


@dataclass
class GateCounts:
    """What the static gate saw and saved: kernels by the reason for which they were refused.

    ``seen`` kernels reached it; ``before`` were refused by their launches, ``after`` by what the compiler
    said; ``compiled`` were given to the compiler or found in its cache. ``gate_seconds`` and
    ``compile_seconds`` are summed over the workers.
    """

    seen: int = 0
    compiled: int = 0
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    gate_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def refused(self) -> int:
        return sum(self.before.values()) + sum(self.after.values())

    def to_json(self) -> dict[str, object]:
        return {
            "seen": self.seen, "compiled": self.compiled, "before": dict(self.before), "after": dict(self.after),
            "gate_seconds": round(self.gate_seconds, 6), "compile_seconds": round(self.compile_seconds, 6),
        }  # fmt: skip
