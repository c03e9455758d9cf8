"""Runs a launch program on the emulator, in a separate process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.confine import kill_group, scratch
from tilewright.backends.driver import LaunchError, Prepared, prepare
from tilewright.backends.emulator.build import EmulatedKernel, with_lines
from tilewright.backends.emulator.report import Bug, Report, line_of_code, parse_runtime, parse_sanitizers
from tilewright.backends.emulator.tensor_map import tensor_map_bytes
from tilewright.core import LaunchProgram, TilewrightError, UsageError, evaluate

Array = NDArray[Any]

GRACE = 2.0  # seconds after the time limit in which a program may end itself with a report that names the line

_FLOAT_KINDS = "fV"  # V: NumPy has no bfloat16


def run(
    kernel: EmulatedKernel,
    program: LaunchProgram,
    launch: Mapping[str, int],
    inputs: Sequence[Array],
    *outputs: Array,
    order: str = "fifo",
    copies: str = "lazy",
    timeout: float = 60.0,
) -> Report:
    """Run ``program`` once, on copies of ``inputs``, and fill ``outputs``.

    ``launch``: values of the program's launch arguments. ``order``: scheduling order of blocks and threads,
    ``fifo``, ``lifo`` or ``random:SEED``; ``copies``: whether asynchronous copies move data at once
    (``eager``) or at the wait that requires it (``lazy``). The memory of the outputs, of the workspace and
    of each block is poisoned first. The run is stopped after ``timeout`` seconds. The report lists the kernel's
    errors; ``UsageError`` is raised for invalid arguments.
    """
    if kernel.unchecked:
        return Report(False, unchecked=kernel.unchecked)
    inputs = [np.ascontiguousarray(x) for x in inputs]
    if not all(a.flags.c_contiguous for a in outputs):
        raise UsageError("the output must be contiguous")
    job = _job(kernel, program, launch, inputs, outputs, parse_order(order), _lazy(copies), timeout)
    return run_job(kernel, job, inputs, outputs, timeout)


def parse_order(order: str) -> tuple[int, int]:
    """``(0, 1)`` for fifo, ``(1, 1)`` for lifo, ``(2, SEED)`` for ``random:SEED``. Raises ``UsageError``."""
    name, _, seed = order.partition(":")
    if name == "random" and seed.isdecimal():
        return 2, int(seed)
    if order in {"fifo", "lifo"}:
        return ("fifo", "lifo").index(order), 1
    raise UsageError(f"unknown order {order!r}", "Use fifo, lifo or random:SEED")


def _lazy(copies: str) -> bool:
    if copies not in {"lazy", "eager"}:
        raise UsageError(f"unknown way to copy {copies!r}", "Use lazy or eager")
    return copies == "lazy"


# --------------------------------------------------------------------------- the job


def _job(
    kernel: EmulatedKernel,
    program: LaunchProgram,
    launch: Mapping[str, int],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    order: tuple[int, int],
    lazy: bool,
    timeout: float,
) -> str:
    tensors = len(inputs) + len(outputs)
    program = program.in_every_call(tensors)
    lines = [f"order {order[0]} {order[1]} {int(lazy)} {int(kernel.profile)}", f"seconds {timeout}"]
    for i, x in enumerate([*inputs, *outputs]):
        # Callers must grant the element's own alignment, or the alignment that the program requires.
        # Profiles assume the alignment of device allocators.
        align = max(program.align, x.dtype.itemsize, 256 if kernel.profile else 1)
        if align & (align - 1):
            raise UsageError(f"the alignment {align} is not a power of two")
        name = "input" if i < len(inputs) else "output" if len(outputs) == 1 else "outputs"
        lines.append(f"{name} {x.nbytes} {align} {0 if name == 'input' else poison(x.dtype)}")
    try:
        size, zero = (int(evaluate(e, launch)) for e in (program.workspace, program.zero_fill))
        if not 0 <= zero <= size:
            raise UsageError(f"{zero} bytes to clear in a workspace of {size}")
        if size:
            lines.append(f"workspace {size} {zero}")
        prepared = [prepare(x, tensors, launch) for x in program.launches]
    except KeyError as e:
        raise UsageError(f"the launch argument {e.args[0]!r} has no value") from None
    except LaunchError as e:
        raise UsageError(e.message, e.hint) from None
    lines += [_launch_line(x.symbol, made) for x, made in zip(program.launches, prepared, strict=True)]
    return "\n".join(lines) + "\n"


def _launch_line(symbol: str, made: Prepared) -> str:
    shape = [*made.grid, *made.block, made.shared]
    if min(shape) < 0 or max(shape) >= 1 << 32:
        raise UsageError(f"{symbol}: impossible grid, block or shared memory {shape}")
    parameters = made.arguments.parameters
    words = [symbol, *map(str, shape), str(int(made.early)), str(len(parameters))]
    where = {i: f"tensor {n}" for i, n in made.tensors} | {i: f"workspace {n}" for i, n in made.scratch}
    for i, (kind, value) in enumerate(parameters):
        if kind == "tensor_map":
            words.append(f"{kind} {where[i]} {tensor_map_bytes(made.maps[i], 0).hex()}")
        else:
            words.append(where.get(i, f"{kind} {value!r}"))
    return "launch " + " ".join(words)


def poison(dtype: np.dtype[Any]) -> int:
    """The 16-bit pattern that fills an output before the run: NaN, or an unlikely integer."""
    return 0xFFFD if dtype.kind in _FLOAT_KINDS or dtype == np.uint16 else 0xA5C3


# --------------------------------------------------------------------------- the process


def run_job(
    kernel: EmulatedKernel,
    job: str,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    timeout: float,
    who: str = "the emulator",
) -> Report:
    """Run a program on a job's text and its inputs, in a temporary folder, and fill ``outputs``.

    ``who``: the program's name in messages. Raises ``TilewrightError`` if the folder cannot be written.
    """
    with scratch("the job") as name:
        folder = Path(name)
        (folder / "job").write_text(job)
        for i, x in enumerate(inputs):
            np.ascontiguousarray(x).reshape(-1).view(np.uint8).tofile(folder / str(i))
        code, said = _execute(kernel, folder, timeout)
        if unable := _sanitizer_failed(said):
            return Report(False, unchecked=unable)
        text = (_bytes_of(folder / "report") or b"").decode(errors="replace")
        results = [_bytes_of(folder / f"output{n}") for n in range(len(outputs))]
    found = parse_runtime(text, lambda code: _line(kernel, code))
    bugs = [*parse_sanitizers(said), *([found.bug] if found.bug else [])]
    if code is None:
        bugs.append(Bug("timeout", f"the kernel was still running after {timeout:g} s"))
    elif not bugs and (code != 0 or not found.done):
        bugs.append(Bug("crash", _last_words(code, said, who)))
    filled = []
    for result, output in zip(results, outputs, strict=True):
        if result is not None and len(result) == output.nbytes and found.done:
            output.reshape(-1).view(np.uint8)[:] = np.frombuffer(result, np.uint8)
            filled.append(output)
            bugs += _unwritten(output)
    return Report(not bugs, tuple(bugs), "", found.profile, found.seconds, filled[0] if filled else None)


def _execute(kernel: EmulatedKernel, folder: Path, timeout: float) -> tuple[int | None, str]:
    """Run a program in a folder. Returns its exit code (``None`` after a timeout) and its standard error."""
    code, said = None, ""
    for prefix in _prefixes() if "thread" in kernel.sanitize else ((),):
        code, said = _process([*prefix, kernel.path], folder, timeout + GRACE)
        if code is None or (not _sanitizer_failed(said) and "setarch" not in said):
            break
    return code, said


@lru_cache(maxsize=1)
def _prefixes() -> tuple[tuple[str, ...], ...]:
    # The thread sanitizer's fixed address ranges conflict with strong address randomisation.
    tool = shutil.which("setarch")
    return ((tool, "-R"), ()) if tool else ((),)


def _process(command: Sequence[str], folder: Path, timeout: float) -> tuple[int | None, str]:
    with _start(command, folder) as process:
        try:
            _, err = process.communicate(timeout=timeout)
            return process.returncode, err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:
                kill_group(process)


def _start(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    for attempt in range(20):
        try:
            return subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True, env={**os.environ, **_ENVIRONMENT},
            )  # fmt: skip
        except OSError as e:
            # A process that another thread is starting still holds the written file open.
            if e.errno != errno.ETXTBSY or attempt == 19:
                raise TilewrightError(f"the emulator does not start: {e}", "Build the kernel again") from e
            time.sleep(0.01)
    raise AssertionError


_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=65:color=never:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:color=never:exitcode=64:abort_on_error=0",
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:color=never:report_thread_leaks=0:report_signal_unsafe=0:"
    "history_size=2:atexit_sleep_ms=0",
    "LC_ALL": "C",
}


def _sanitizer_failed(said: str) -> str:
    """Why a sanitizer could not run; empty if it ran."""
    found = re.search(r"FATAL: (\w+Sanitizer): (.*)", said) or re.search(
        r"==\d+==(?:ERROR: )?(\w+Sanitizer):? ((?:failed to|CHECK failed).*)", said
    )
    if found:
        return f"{found.group(1)} could not run here: {found.group(2).strip() or 'it failed to start'}"
    if found := re.search(r"error while loading shared libraries: (.*)", said):
        return f"the sanitizer's library cannot be loaded: {found.group(1)}"
    return ""


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


# --------------------------------------------------------------------------- the outcome


def _line(kernel: EmulatedKernel, code: Sequence[str]) -> int | None:
    try:
        return line_of_code(with_lines(kernel), code)
    except TilewrightError:  # without a compiler, report the bug without its line
        return None


def _last_words(code: int, said: str, who: str) -> str:
    """How a program ended, and the last line of its output."""
    lines = [x for x in said.splitlines() if x.strip()]
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    return f"{who} {how}" + (f": {lines[-1].strip()}" if lines else "")


def _unwritten(output: Array) -> list[Bug]:
    """Bugs for elements that still hold the poison, or the fill pattern of other unwritten memory.

    Best effort: elements of one byte are indistinguishable from results, and arithmetic may change a NaN.
    """
    size = output.dtype.itemsize
    if size == 1 or not output.size:
        return []
    words = output.reshape(-1).view({2: np.uint16, 4: np.uint32, 8: np.uint64}[size])
    causes = [(poison(output.dtype), f"of {output.size} elements of the output are never written")]
    if output.dtype.kind == "f" and size > 2:
        causes += [
            (value, f"elements of the output come from {name} memory that was never written")
            for value, name in ((0x7FFD, "shared"), (0x7F7F, "shared"), (0xFF7F, "shared"), (0x7FFB, "workspace"))
        ]
    for pattern, what in causes:
        whole = int.from_bytes(pattern.to_bytes(2, "little") * (size // 2), "little")
        if len(at := np.flatnonzero(words == whole)):
            return [Bug("uninitialized", f"{len(at)} {what}, the first {_position(int(at[0]), output)}")]
    return []


def _position(flat: int, output: Array) -> str:
    return "at " + str(tuple(int(i) for i in np.unravel_index(flat, output.shape))) if output.ndim else "at ()"
