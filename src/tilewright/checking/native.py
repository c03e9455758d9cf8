"""Runs a user's own CPU kernel as a separate program: under sanitizers, with each tensor in memory of its own.

The counterpart of :mod:`tilewright.backends.emulator` for kernels of a processor, with the same report type.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilewright.backends.cpu.compiler import compiled, find_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.backends.emulator.build import DEADLINE, EmulatedKernel, made, sanitizer_flags
from tilewright.backends.emulator.report import Report
from tilewright.backends.emulator.run import poison, run_job
from tilewright.core import Target, digest

Array = NDArray[Any]

THREADS = 4
"""Number of threads of ``tw::parallel_for`` on every machine: races show on one core too."""


def build(
    source: str, symbol: str, target: Target, sanitize: Sequence[str] = (), cache: Path | None = None
) -> EmulatedKernel:
    """Compile a kernel's text, prelude included. Raises ``CompileError`` with the first diagnostic."""
    compiler = find_compiler(target.arch)
    chosen = tuple(sanitize)
    host = (files(__package__) / "native.cpp").read_text(encoding="utf-8").replace("TW_CHECKED", symbol)
    unit = f"{source}\n{host}"
    options = [*flags(target, compiler.family), "-O1", "-g1", "-w", "-fno-omit-frame-pointer", *sanitizer_flags(chosen)]
    command = [*compiler.command, *options, "-pie", "-x", "c++", "-", "-x", "none", "-lm", "-pthread"]
    kernel = EmulatedKernel("", (symbol,), chosen, compiler=compiler.version, cache=cache)
    key = digest(["native", compiler.key, options, unit])
    return made(kernel, compiler, key, lambda _: compiled(command, unit, DEADLINE))


def run(kernel: EmulatedKernel, inputs: Sequence[Array], *outputs: Array, timeout: float = 60.0) -> Report:
    """Run a kernel once on copies of ``inputs``, and fill ``outputs``; the report lists its errors."""
    if kernel.unchecked:
        return Report(False, unchecked=kernel.unchecked)
    lines = [f"threads {THREADS}", *(f"input {x.nbytes} 0" for x in inputs)]
    lines += [f"output {x.nbytes} {poison(x.dtype)}" for x in outputs]
    return run_job(kernel, "\n".join(lines) + "\n", inputs, outputs, timeout, "the kernel's process")
