"""A user's own CPU kernel as a program of its own: under sanitizers, on tensors that nothing else lies next to.

The counterpart of :mod:`tilewright.backends.emulator` for the kernels of a processor, with the same reports.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import compiled, find_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.backends.emulator.build import DEADLINE, EmulatedKernel, missing_sanitizer, sanitizer_flags
from tilewright.backends.emulator.report import Bug, Report, parse_sanitizers
from tilewright.backends.emulator.run import (
    bytes_of,
    execute,
    job_folder,
    last_words,
    poison,
    sanitizer_failed,
    unwritten,
)
from tilewright.core import Target, digest

Array = NDArray[Any]

THREADS = 4
"""Threads of ``tw::parallel_for``, whatever the machine has: races show on one core too."""

_HOST = re.compile(r"^host: (.*)$", re.MULTILINE)


def build(
    source: str, symbol: str, target: Target, sanitize: Sequence[str] = (), cache: Path | None = None
) -> EmulatedKernel:
    """Compile a kernel's text, prelude included. Raises ``CompileError`` with the first diagnostic."""
    compiler, store = find_compiler(target.arch), ArtifactCache(cache)
    chosen = tuple(sanitize)
    host = (files(__package__) / "native.cpp").read_text(encoding="utf-8").replace("TW_CHECKED", symbol)
    unit = f"{source}\n{host}"
    options = [*flags(target, compiler.family), "-O1", "-g1", "-w", "-fno-omit-frame-pointer", *sanitizer_flags(chosen)]
    key = digest(["native", compiler.key, options, unit])
    path = store.get(key)
    if path is None:
        if missing := missing_sanitizer(compiler, chosen):
            return EmulatedKernel("", (symbol,), chosen, False, missing, compiler=compiler.version)
        command = [*compiler.command, *options, "-pie", "-x", "c++", "-", "-x", "none", "-lm", "-pthread"]
        path = store.put(key, compiled(command, unit, DEADLINE))
    if not os.access(path, os.X_OK):
        os.chmod(path, stat.S_IRWXU)
    return EmulatedKernel(path, (symbol,), chosen, compiler=compiler.version)


def run(kernel: EmulatedKernel, inputs: Sequence[Array], *outputs: Array, timeout: float = 60.0) -> Report:
    """Run a kernel once on copies of ``inputs``, and fill ``outputs``; what it does wrong is in the report."""
    if kernel.unchecked:
        return Report(False, unchecked=kernel.unchecked)
    lines = [f"threads {THREADS}", *(f"input {x.nbytes} 0" for x in inputs)]
    lines += [f"output {x.nbytes} {poison(x.dtype)}" for x in outputs]
    began = time.perf_counter()
    with job_folder() as folder:
        (folder / "job").write_text("\n".join(lines) + "\n")
        for i, x in enumerate(inputs):
            np.ascontiguousarray(x).reshape(-1).view(np.uint8).tofile(folder / str(i))
        code, said = execute(kernel, folder, timeout)
        if unable := sanitizer_failed(said):
            return Report(False, unchecked=unable)
        results = [bytes_of(folder / f"output{n}") for n in range(len(outputs))]
    bugs = [*parse_sanitizers(said), *(Bug(_kind(text), text) for text in _HOST.findall(said))]
    if code is None:
        bugs.append(Bug("timeout", f"the kernel was still running after {timeout:g} s"))
    elif code != 0 and not bugs:
        bugs.append(Bug("crash", last_words(code, said, "the kernel's process")))
    for result, output in zip(results, outputs, strict=True):
        if result is not None and len(result) == output.nbytes:
            output.reshape(-1).view(np.uint8)[:] = np.frombuffer(result, np.uint8)
            bugs += unwritten(output)
    return Report(not bugs, tuple(bugs), seconds=time.perf_counter() - began)


def _kind(text: str) -> str:
    return "out_of_bounds_global" if text.startswith("wrote") else "crash"
