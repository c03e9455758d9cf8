"""CUDA behind the :class:`~tilewright.backends.Backend` protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.backends import Built
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cuda import cubin, targets
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.launches import DeviceLibrary, checked_hash
from tilewright.core import Target


class CudaBackend:
    """Compiles CUDA C++ with NVRTC; kernels run on a GPU through CuPy or PyCUDA.

    ``driver`` names one of them (``driver.DRIVERS``); by default the first that is installed.
    """

    name = "cuda"
    kinds: tuple[str, ...] = ("cuda",)

    def __init__(self, driver: str | None = None) -> None:
        self._driver = driver

    def targets(self, threads: int = 1) -> tuple[Target, ...]:
        return targets.available()

    def parse_target(self, text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
        return targets.parse_target(text, threads, allow_foreign)

    def runs_here(self, target: Target) -> bool:
        return targets.runs_here(target)

    def build(self, sources: Sequence[str], target: Target, cache: Path | None = None) -> Built:
        """A cubin. Raises ``CompileError``, and ``Rejected`` where the static gate refuses a kernel."""
        toolchain = NvrtcToolchain(target, ArtifactCache(cache))
        done = toolchain.compile("\n".join(sources))
        return Built(done.path, done.sha256, toolchain.version, toolchain.flags, done.cached)

    def load(self, data: bytes, sha256: str | None = None) -> DeviceLibrary:
        """A cubin's kernels."""
        checked_hash(data, sha256)
        kernels = cubin.parse(data).kernels
        return DeviceLibrary(data, sha256, tuple(kernels), lambda: get_driver(self._driver).open(0))
