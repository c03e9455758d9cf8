"""Backends: each builds and loads kernels for one kind of target. This registry finds them by kind.

A new backend is one package that implements :class:`Backend` and one line in ``BACKENDS``. Nothing
here is imported until it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from tilewright.core import LaunchProgram, Target, UsageError

__all__ = ["BACKENDS", "Backend", "Built", "Kernel", "Library", "backend_for", "get_backend", "parse_target"]


@dataclass(frozen=True)
class Built:
    """A library on disk: its path, the SHA-256 of its bytes, and what made it.

    ``compiler`` is the compiler's version string; ``cached`` says that nothing was compiled.
    """

    path: str
    sha256: str
    compiler: str
    flags: tuple[str, ...]
    cached: bool


class Kernel(Protocol):
    """A loaded kernel with its launch arguments bound."""

    def run(self, pointers: Sequence[int]) -> None:
        """Call it once with the addresses of its inputs and output. Raises ``LaunchError``."""
        ...

    def time(self, pointers: Sequence[int], repeats: int = 1, clock: str = "monotonic") -> float:
        """Seconds a call, over ``repeats`` calls."""
        ...


class Library(Protocol):
    """Code in this process."""

    sha256: str

    def kernel(self, program: LaunchProgram, launch: Mapping[str, int], threads: int = 1) -> Kernel:
        """A callable for one launch program. Raises ``LoadError`` for a symbol that is not there."""
        ...

    def close(self) -> None:
        """Unload it, once nobody else uses it."""
        ...


class Backend(Protocol):
    """What building and running for one kind of target takes."""

    name: str
    kinds: tuple[str, ...]  # target kinds that it serves: ("cpu",)

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        """The targets that run on this machine, best first."""
        ...

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        """The target of a name. Raises ``UsageError`` or ``TargetUnavailable``."""
        ...

    def runs_here(self, target: Target) -> bool:
        """Whether code for ``target`` runs on this machine."""
        ...

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        """Compile one translation unit, through a cache. Raises ``CompileError``."""
        ...

    def load(self, data: bytes, sha256: str | None = None) -> Library:
        """Load a library from its bytes, checking their hash. Raises ``LoadError``."""
        ...


BACKENDS = {
    "cpu": "tilewright.backends.cpu.backend:CpuBackend",
    "cuda": "tilewright.backends.cuda.backend:CudaBackend",
}
"""Target kind -> where its backend is, as ``module:class``."""


def get_backend(kind: str) -> Backend:
    """The backend for a kind of target. Raises ``UsageError`` for an unknown kind."""
    where = BACKENDS.get(kind)
    if where is None:
        raise UsageError(f"no backend for {kind!r}", f"Use one of {', '.join(BACKENDS)}")
    module, _, name = where.partition(":")
    return cast(Backend, getattr(import_module(module), name)())


def backend_for(target: Target) -> Backend:
    """The backend that builds and loads for ``target``."""
    return get_backend(target.kind)


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target that ``auto``, ``KIND`` or ``KIND:VARIANT`` names, whatever its backend."""
    kind = text.partition(":")[0]
    return get_backend("cpu" if kind == "auto" else kind).parse_target(text, threads, allow_foreign)
