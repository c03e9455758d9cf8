"""The static check of compiled kernels: those that cannot run, or cannot be fast, are refused without a GPU, by what
the cubin and the assembler's log say."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.backends.cuda.ptxas import Warning
from tilewright.backends.limits import Refusal
from tilewright.core import Target, Value

_WARP = 32
_GRAIN = 8  # registers a thread are given out in steps of this


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
