"""Where states lie in the workspace between pieces of the sequence, and where the totals of its blocks do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilewright.dtypes import C_BYTES
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.families.recurrence import Scan
from tilewright.kernels.templates.recurrence.space import ScanTiling

ALIGN = 64


def kept_type(dtype: str) -> str:
    """C type of a component of a state: that of a lane in which it is computed."""
    return "int" if dtype == "bool" else computed(dtype)


@dataclass(frozen=True)
class Memory:
    """``pointers``: C type, name and byte offset of each array; ``bytes`` of all; ``size``: states of a block."""

    pointers: tuple[tuple[str, str, int], ...]
    bytes: int
    size: int

    @staticmethod
    @lru_cache(maxsize=256)
    def of(p: ScanTiling) -> Memory:
        size = prod(n for _, n in p.others) * p.states * p.width
        pointers: list[tuple[str, str, int]] = []
        total = 0
        for kind, wanted in (("kept", bool(p.chunk)), ("total", p.blocks > 1)):
            for s in p.r.scans if wanted else ():
                for c, e in enumerate(s.state):
                    ctype = kept_type(e.dtype)
                    pointers.append((ctype, name(kind, s, c), total))
                    total += -(-p.blocks * size * C_BYTES[ctype] // ALIGN) * ALIGN
        return Memory(tuple(pointers), total, size)


def name(kind: str, s: Scan, component: int) -> str:
    """The array of a component of a scan's states, ``kept`` or ``total``."""
    return f"{kind}_{s.name}_{component}"
