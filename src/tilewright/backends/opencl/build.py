"""OpenCL C into the driver's binaries, through the cache: what templates print, translated, compiled in a child."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import tilewright
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.confine import confined, one_line, scratch
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.code import header
from tilewright.backends.opencl.translate import translate
from tilewright.backends.toolchain import DEADLINE, Compiled, CompileError, CompileTimeout
from tilewright.core import Target, TilewrightError, digest

FLAGS = ("-cl-std=CL1.2",)
"""None relaxes floating point. 1.2 suffices, and every driver knows it."""
_ENVIRONMENT = ("OCL_", "OPENCL_", "POCL_", "LD_LIBRARY_PATH=", "HOME=", "XDG_CACHE_HOME=")
"""Beginnings of the variables by which loaders find drivers, and drivers their caches."""


@cache
def prelude() -> str:
    """The text in front of every unit."""
    lines = (files(__package__) / "prelude.cl").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("//"))


class OpenClToolchain:
    """Compiles for one device's driver. Safe to call from several threads.

    Raises ``TargetUnavailable`` where the device is not there: only its own driver can compile for it.
    """

    emulated = False
    batch = 4  # kernels a unit: a child takes as long to start as a kernel to compile

    def __init__(self, target: Target, cache: ArtifactCache | None = None) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.device = devices.find(target.variant)
        self.version = self.device.version
        self.flags = FLAGS

    def key(self, unit: str) -> str:
        """What an artifact's bytes depend on: the translated text, options, device and driver."""
        return digest(["opencl", self.version, self.device.variant, list(self.flags), self.text(unit)])

    def text(self, unit: str) -> str:
        """The OpenCL C of a unit that templates printed; what is OpenCL C already stays."""
        return unit if "__kernel" in unit else translate(unit, prelude())

    def compile(self, unit: str, symbols: Sequence[str] = (), deadline: float = DEADLINE) -> Compiled:
        """Compile a unit within ``deadline`` seconds. Raises ``CompileError``, also where the driver dies of it."""
        path, cached = self.cache.made(self.key(unit), lambda: self._compile(self.text(unit), deadline))
        kernels = header(Path(path).read_bytes())["kernels"]
        for symbol in symbols:
            if symbol not in kernels:
                raise CompileError(f"the source has no kernel {symbol}: {', '.join(kernels) or 'none'} in it")
        return Compiled(path, Path(path).stem, cached, {k: tuple(v.items()) for k, v in kernels.items()})

    def _compile(self, text: str, deadline: float) -> bytes:
        own = [f"{k}={v}" for k, v in os.environ.items() if f"{k}=".startswith(_ENVIRONMENT)]
        own.append(f"PYTHONPATH={os.pathsep.join([str(Path(tilewright.__file__).parents[1]), *sys.path[1:]])}")
        with scratch() as folder:
            output = Path(folder) / "kernel"
            arguments = [self.device.variant, str(output), *self.flags]
            child = [sys.executable, "-m", "tilewright.backends.opencl.compile", *arguments]
            ran = confined(["/usr/bin/env", *own, *child], text, deadline)
            if ran.timed_out:
                raise CompileTimeout(f"the OpenCL compiler took more than {deadline:.3g} s")
            if ran.status == 3:
                lines = [x for x in ran.said.splitlines() if "error" in x.lower()]
                raise CompileError(one_line((lines or ["the OpenCL compiler failed"])[0]), ran.said)
            if ran.status > 0:
                raise TilewrightError(f"the OpenCL compiler does not start: {one_line(ran.said[-300:])}", "See doctor")
            if ran.status < 0 or not output.is_file():
                raise CompileError(f"the OpenCL driver crashed while it compiled (signal {-ran.status})", ran.said)
            return output.read_bytes()
