"""Builds the driver's binaries, through the cache: a worker compiles the templates' code, translated to OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.compiler_worker import LibraryCompiler
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.code import header
from tilewright.backends.opencl.translate import translate
from tilewright.backends.toolchain import DEADLINE, Compiled, CompileError
from tilewright.core import Target, digest

FLAGS: tuple[str, ...] = ("-cl-std=CL1.2",)
"""No flag relaxes floating point. Version 1.2 suffices, and every driver supports it."""
# Prefixes of variables by which loaders find drivers, and drivers find their caches.
_VARIABLES = ("OCL_", "OPENCL_", "POCL_", "HOME=", "XDG_CACHE_HOME=")
_COMPILER = LibraryCompiler("the OpenCL compiler", "tilewright.backends.opencl.compile", _VARIABLES)


@cache
def prelude() -> str:
    """The text before every unit."""
    lines = (files(__package__) / "prelude.cl").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("//"))


class OpenClToolchain:
    """Compiles for one device's driver. Safe to call from several threads.

    Raises ``TargetUnavailable`` if the device is missing: only its own driver can compile for it.
    """

    emulated = False
    batch = 4  # kernels per unit: with PoCL this takes a fifth less processor time than one by one

    def __init__(self, target: Target, cache: ArtifactCache | None = None) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.device = devices.find(target.variant)
        self.version = self.device.version
        self.flags = FLAGS

    def key(self, unit: str) -> str:
        """Cache key of an artifact: translated text, options, device and driver determine its bytes."""
        return digest(["opencl", self.version, self.device.variant, list(self.flags), self.text(unit)])

    def text(self, unit: str) -> str:
        """The OpenCL C of a template's unit; a unit that is OpenCL C already is returned unchanged."""
        return unit if "__kernel" in unit else translate(unit, prelude())

    def compile(self, unit: str, symbols: Sequence[str] = (), deadline: float = DEADLINE) -> Compiled:
        """Compile a unit within ``deadline`` seconds. Raises ``CompileError``, also if the driver crashes."""
        text = self.text(unit)
        path, cached = self.cache.made(
            self.key(unit), lambda: _COMPILER.compile(text, (self.device.variant, *self.flags), deadline)[0]
        )
        kernels = header(Path(path).read_bytes())["kernels"]
        for symbol in symbols:
            if symbol not in kernels:
                raise CompileError(f"the source has no kernel {symbol}: {', '.join(kernels) or 'none'} in it")
        return Compiled(path, Path(path).stem, cached, {k: tuple(v.items()) for k, v in kernels.items()})
