"""A contraction's accesses, for the loop nests with which templates describe their schedules.

Loop nests iterate over the fused axes ``z`` (the batch, if its size exceeds 1), ``m``, ``n`` and ``k``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tilewright.kernels.expression.expr import axis
from tilewright.kernels.loopnest import Access, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.tiles import ceildiv

WORKSPACE = "ws"
"""Name of the tensor of partial results."""


def extents(c: CudaContraction) -> dict[str, int]:
    """The fused axes and their extents."""
    found = {"m": c.m.size, "n": c.n.size, "k": c.k.size}
    return {"z": c.batch.size, **found} if c.batch.size > 1 else found


def blocks(c: CudaContraction, bm: int, bn: int, bk: int, group: int, split: int) -> list[Loop]:
    """Loops over splits of K, the batch, and tiles in raster order: down ``group`` rows of tiles, then along N."""
    found = []
    if split > 1:
        piece = ceildiv(ceildiv(c.k.size, bk), split) * bk
        found.append(Loop("k", c.k.size, piece, "parallel", argument="SPLIT"))
    if c.batch.size > 1:
        found.append(Loop("z", c.batch.size, 1, "parallel"))
    # The last group may have fewer rows of tiles. The nest keeps the number of groups and makes them equal.
    tiles = ceildiv(c.m.size, bm)
    rows = ceildiv(tiles, ceildiv(tiles, group)) * bm
    return [
        *found,
        Loop("m", c.m.size, rows, "parallel", "l2", argument="GROUP"),
        Loop("n", c.n.size, bn, "parallel", "l2"),
        Loop("m", rows, bm, "parallel", "l2"),
    ]


@lru_cache(maxsize=256)
def reads(c: CudaContraction, side: str) -> tuple[Access, ...]:
    """Reads of side ``a`` or ``b``."""
    return c.accesses(c.side(side).loads(), "z")


@lru_cache(maxsize=256)
def accesses(
    c: CudaContraction, split: bool, copied: tuple[Access | None, Access | None] = (None, None)
) -> tuple[Access, ...]:
    """Accesses of the main kernel; with ``split`` it stores partial results.

    ``copied``: accesses that replace the reads of side A and of side B, if an earlier kernel has copied the side.
    """
    found: list[Access] = []
    for side, copy in zip(("a", "b"), copied, strict=True):
        found += [copy] if copy is not None else reads(c, side)
    scales = c.scales.of.values() if c.scales else ()
    found += c.accesses([x for e in scales for x in e.loads()], "z")
    if split:
        at = axis("m") * c.n.size + axis("n")
        if c.batch.size > 1:
            at = axis("z") * (c.m.size * c.n.size) + at
        return (*found, Access(WORKSPACE, (at,), c.acc, store=True))
    return (*found, *c.accesses(c.read_after, "z", outside=True), c.written("z"))


def staged_names(c: CudaContraction, side: str) -> tuple[str, ...]:
    """Names of a side's tensors: its tile in shared memory holds their values."""
    return tuple(dict.fromkeys(str(x.value) for x in c.side(side).loads()))


def summing(
    c: CudaContraction, loops: Iterable[Loop], staged: Iterable[Staged], itemsize: int, split: int,
    copied: tuple[Access | None, Access | None] = (None, None),
) -> LoopNest:  # fmt: skip
    """Loop nest of the main kernel, which sums ``split`` splits of K separately; ``copied`` as in :func:`accesses`."""
    return LoopNest(
        name=c.stage.name, axes=extents(c), loops=tuple(loops), accesses=accesses(c, split > 1, copied),
        staged=tuple(staged), flops_per_point=c.flops[0], itemsize=itemsize,
        flops_per_output=0 if split > 1 else c.flops[1],
    )  # fmt: skip
