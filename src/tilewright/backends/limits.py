"""Checks launches against a device's limits: a kernel that cannot run is refused before compilation."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.core import IntExpr, LaunchProgram, Target, evaluate

GRID_X = (1 << 31) - 1
GRID_YZ = 65535
_BLOCK_Z = 64


class Refusal(str):
    """Why a kernel is refused, in one line: ``reason`` (a short category for counting), a colon, and a text."""

    reason: str

    def __new__(cls, reason: str, text: str) -> Refusal:
        self = super().__new__(cls, f"{reason}: {text}")
        self.reason = reason
        return self


def refusal(program: LaunchProgram, target: Target, launch: Mapping[str, int] | None = None) -> Refusal | None:
    """Why a kernel cannot run, from its launches alone; ``None`` if they are within the limits.

    Sizes that depend on launch arguments are checked if ``launch`` has their values.
    """
    limit = target.limit
    values = launch or {}
    for x in program.every_launch:
        threads = math.prod(x.block)
        if not x.block or not 1 <= len(x.block) <= 3 or min(x.block) < 1:
            return Refusal("threads", f"{x.symbol}: no block shape of 1 to 3 positive sizes: {list(x.block)}")
        most = int(limit["threads_per_block"])
        if threads > most or (len(x.block) == 3 and x.block[2] > _BLOCK_Z):
            return Refusal("threads", f"{threads} threads a block, {target.name} has {most}")
        shared = _value(x.shared, values)
        room = int(limit["shared_per_block"])
        if shared is not None and not 0 <= shared <= room:
            return Refusal("shared memory", f"{shared} bytes of shared memory a block, {target.name} has {room}")
        for n, expr in enumerate(x.grid):
            size_or_none = _value(expr, values)
            bound = GRID_X if n == 0 else GRID_YZ
            if size_or_none is not None and not 1 <= size_or_none <= bound:
                return Refusal("grid", f"{size_or_none} blocks in {'xyz'[n]}, where 1 to {bound} are possible")
    return None


def _value(expr: IntExpr, values: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expr, values)
    except KeyError:
        return None
