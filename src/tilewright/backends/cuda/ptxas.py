"""Parses the messages of NVIDIA's assembler in a compiler log (``--ptxas-options=-v``): spills and warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_OWNER = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")
_SHARED = re.compile(r"(\d+) bytes smem")
# "ptxas info    : (C7510) Potential Performance Loss: ... in the function 'f'"
_CODED = re.compile(r"ptxas (info|warning)\s*:\s*(?:\((C\d+)\))?\s*(.*)")
_FUNCTION = re.compile(r"function '([^']+)'")

_SERIAL = ("C7508", "C7510", "C7511")
_SERIAL_WORDS = "instructions are serialized"


@dataclass(frozen=True)
class Usage:
    """One kernel: registers, stack frame and spills in bytes per thread; static shared memory in bytes per block."""

    registers: int = 0
    frame_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_bytes: int = 0


@dataclass(frozen=True)
class Warning:
    """A performance warning: its code (``C7510``), text, and the kernel it names (empty: none)."""

    code: str
    text: str
    function: str = ""

    @property
    def serial(self) -> bool:
        """Whether Tensor Core instructions wait for each other, which makes a kernel far too slow."""
        return self.code in _SERIAL or _SERIAL_WORDS in self.text


@dataclass(frozen=True)
class Report:
    """The contents of a log: every kernel by name, and the warnings."""

    kernels: Mapping[str, Usage]
    warnings: tuple[Warning, ...] = ()


def parse_log(log: str) -> Report:
    """Parse a log. Lines of other tools are skipped."""
    kernels: dict[str, Usage] = {}
    warnings: list[Warning] = []
    current = owner = ""
    for line in log.splitlines():
        if "ptxas" not in line:
            continue
        if m := _ENTRY.search(line):
            current = owner = m[1]
            kernels[current] = Usage()
        elif m := _OWNER.search(line):
            owner = m[1]  # a device function that was not inlined has its own lines
        elif m := _FRAME.search(line):
            if current:
                frame, stores, loads = (int(x) for x in m.groups())
                u = kernels[current]
                # Spills of a called function count for its callers.
                kernels[current] = replace(
                    u,
                    frame_bytes=max(u.frame_bytes, frame) if owner == current else u.frame_bytes,
                    spill_stores=u.spill_stores + stores,
                    spill_loads=u.spill_loads + loads,
                )
        elif m := _USED.search(line):
            if current:
                shared = _SHARED.search(m[2])
                kernels[current] = replace(
                    kernels[current], registers=int(m[1]), shared_bytes=int(shared[1]) if shared else 0
                )
        elif (m := _CODED.search(line)) and m[2]:
            named = _FUNCTION.search(m[3])
            warnings.append(Warning(m[2], m[3].strip(), named[1] if named else ""))
    return Report(kernels, tuple(warnings))
