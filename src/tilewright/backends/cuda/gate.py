"""The static gate: kernels that cannot run, or cannot be fast, are refused without a GPU.

Before compiling it takes arithmetic on the launches; afterwards, what the cubin and the assembler's log say.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.backends.cuda.ptxas import Warning
from tilewright.core import IntExpr, LaunchProgram, Target, TilewrightError, Value, evaluate

GRID_X = (1 << 31) - 1
GRID_YZ = 65535
_BLOCK_Z = 64
_WARP = 32
_GRAIN = 8  # registers a thread are given out in steps of this


class Refusal(str):
    """Why a kernel is refused, as one line that begins with ``reason``, a short word to count by, and a colon."""

    reason: str

    def __new__(cls, reason: str, text: str) -> Refusal:
        self = super().__new__(cls, f"{reason}: {text}")
        self.reason = reason
        return self


class Rejected(TilewrightError):
    """Compiled, but refused: the device lacks what it takes, or it would crawl. ``reason`` is a word to count by."""

    kind = "resources"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def before(program: LaunchProgram, target: Target, launch: Mapping[str, int] | None = None) -> Refusal | None:
    """Why a kernel cannot run, from its launches alone; ``None`` when nothing speaks against it.

    Sizes that depend on launch arguments are checked where ``launch`` gives their values.
    """
    limit = target.limit
    values = launch or {}
    for x in program.launches:
        threads = 1
        for size in x.block:
            threads *= size
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


def after(
    resources: Mapping[str, Value], warnings: tuple[Warning, ...], target: Target, symbol: str, shared: int = 0
) -> Refusal | None:
    """Why a compiled kernel is refused, by its resources (``build.resources_of``) and the log's warnings.

    ``shared``: bytes of dynamic shared memory a block, added to the static ones.
    """
    limit = target.limit
    registers, threads = int(resources["registers"]), int(resources["max_threads"])
    spills = int(resources["spill_bytes"])
    if spills:
        return Refusal("spills", f"registers run out: {spills} bytes a thread are spilled to memory")
    most = int(limit["registers_per_sm"])
    taken = -(-threads // _WARP) * _WARP * (-(-registers // _GRAIN) * _GRAIN)
    if taken > most:
        return Refusal(
            "registers", f"{threads} threads of {registers} registers take {taken}, {target.name} has {most}"
        )
    total = int(resources["shared_bytes"]) + shared
    room = int(limit["shared_per_block"])
    if total > room:
        return Refusal("shared memory", f"{total} bytes of shared memory a block, {target.name} has {room}")
    for w in warnings:
        if w.serial and w.function in ("", symbol):
            return Refusal("assembler warning", f"the assembler warns ({w.code}): {w.text}")
    return None


def _value(expr: IntExpr, values: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expr, values)
    except KeyError:
        return None
