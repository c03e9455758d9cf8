"""The interface between the builder and compilers, and the errors that all compilers raise."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.backends.confine import one_line
from tilewright.core import Pairs, TilewrightError

DEADLINE = 60.0
"""Seconds that a compiler may take for a unit; an ordinary kernel takes 0.1 s."""


class CompileError(TilewrightError):
    """The compiler refused the source, crashed or took too long; ``log``: its whole output."""

    kind = "compile"

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class CompileTimeout(CompileError):
    """The compiler ran past its deadline and was killed."""


class Rejected(TilewrightError):
    """A compiled kernel is refused: it exceeds the device or would be too slow. ``reason``: a category for counting."""

    kind = "resources"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Compiled:
    """A translation unit on disk: its path, the hash of its bytes, whether it was cached, and resources by kernel
    (registers, shared memory, ...; empty if the compiler does not report them)."""

    path: str
    sha256: str
    cached: bool
    resources: Mapping[str, Pairs] = field(default_factory=dict)


class Toolchain(Protocol):
    """Compiles translation units for one target, through a cache. Safe to call from several threads.

    ``emulated``: its artifacts run under the emulator, with the emulated prelude.
    ``batch``: suitable number of kernels per unit.
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
        """Cache key of a unit: it covers the text and all other inputs of its bytes."""

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        """Compile a unit within ``deadline`` seconds.

        Raises an error of kind ``compile`` for an error in the text. For correct code that needs more than the device
        has, the error has a ``reason`` (a short category).
        """


def first_error(log: str, returncode: int) -> str:
    """The first error line of a compiler's output, without paths of temporary folders."""
    lines = [one_line(x) for x in log.splitlines() if x.strip()]
    pattern = re.compile(r"\b(?:fatal |internal compiler )?error\b\s*:|undefined reference|undefined symbol", re.I)
    for line in lines:
        if pattern.search(line) and "ld returned" not in line:
            return re.sub(r"(/[^\s:]*)?/tilewright-[^\s/:]*/", "", line)
    if returncode < 0:
        return f"the compiler {ended(returncode)}"
    return lines[0] if lines else f"the compiler failed with status {returncode} and said nothing"


_SUSPECTED = {signal.SIGKILL: " (out of memory?)", signal.SIGSEGV: " (a source nested too deeply?)"}


def ended(returncode: int) -> str:
    """How a compiler's process ended, from its exit status (negative for a signal): ``was killed by SIGSEGV``."""
    if returncode >= 0:
        return f"ended with status {returncode}"
    known = -returncode in set(signal.Signals)
    name = signal.Signals(-returncode).name if known else str(-returncode)
    return f"was killed by {name}" + (_SUSPECTED.get(signal.Signals(-returncode), "") if known else "")
