"""A contraction's accesses, for the loop nests that templates describe their schedules with.

Nests are over the fused axes ``z`` (batch, where there is one), ``m``, ``n`` and ``k``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from tilewright.kernels.expression.expr import Expr, axis, const
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.loopnest import Access, Loop, LoopNest, Staged
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.tiles import ceildiv

WORKSPACE = "ws"
"""Name of the partial results as a tensor."""


def extents(c: CudaContraction) -> dict[str, int]:
    """The fused axes and their extents."""
    found = {"m": c.m.size, "n": c.n.size, "k": c.k.size}
    return {"z": c.batch.size, **found} if c.batch.size > 1 else found


def blocks(c: CudaContraction, bm: int, bn: int, bk: int, group: int, split: int) -> list[Loop]:
    """Loops over pieces of K, the batch, and tiles as blocks walk them: down ``group`` rows of tiles, then along N."""
    found = []
    if split > 1:
        piece = ceildiv(ceildiv(c.k.size, bk), split) * bk
        found.append(Loop("k", c.k.size, piece, "parallel", argument="SPLIT"))
    if c.batch.size > 1:
        found.append(Loop("z", c.batch.size, 1, "parallel"))
    # The last group may have fewer rows: here all are alike, and as many.
    tiles = ceildiv(c.m.size, bm)
    rows = ceildiv(tiles, ceildiv(tiles, group)) * bm
    return [
        *found,
        Loop("m", c.m.size, rows, "parallel", "l2", argument="GROUP"),
        Loop("n", c.n.size, bn, "parallel", "l2"),
        Loop("m", rows, bm, "parallel", "l2"),
    ]


def _names(c: CudaContraction) -> dict[str, Expr]:
    """Every axis as an expression of the fused ones."""
    names: dict[str, Expr] = {a: const(0, "index") for a in (*c.stage.axes, *c.stage.reduce_axes)}
    for group, fused in ((c.batch, "z"), (c.m, "m"), (c.n, "n"), (c.k, "k")):
        names |= group.indices(fused)
    return names


@lru_cache(maxsize=256)
def reads(c: CudaContraction, side: str) -> tuple[Access, ...]:
    """Reads of side ``a`` or ``b``."""
    return _accessed(c, c.side(side).loads())


def _accessed(c: CudaContraction, loads: Iterable[Expr]) -> tuple[Access, ...]:
    """Reads within the sum."""
    names = _names(c)
    return tuple(Access(str(x.value), tuple(i.substitute(names) for i in x.args), x.dtype) for x in loads)


@lru_cache(maxsize=256)
def accesses(
    c: CudaContraction, split: bool, copied: tuple[Access | None, Access | None] = (None, None)
) -> tuple[Access, ...]:
    """What the main kernel reads and writes; with ``split`` it writes partial results.

    ``copied``: what it reads instead of side A and of side B, where a kernel before has copied them.
    """
    names = _names(c)
    found: list[Access] = []
    for side, copy in zip(("a", "b"), copied, strict=True):
        found += [copy] if copy is not None else reads(c, side)
    found += _accessed(c, [x for e in (c.scales.a, c.scales.b) if e is not None for x in e.loads()] if c.scales else [])
    if split:
        at = axis("m") * c.n.size + axis("n")
        if c.batch.size > 1:
            at = axis("z") * (c.m.size * c.n.size) + at
        return (*found, Access(WORKSPACE, (at,), c.acc, store=True))
    for read in read_after(c):
        at_read = tuple(i.substitute(names) for i in read.args)
        found.append(Access(str(read.value), at_read, read.dtype, outside=True))
    out = tuple(names[a] for a in c.stage.axes)
    return (*found, Access(c.output.name, out, c.output.dtype, store=True))


def read_after(c: CudaContraction) -> tuple[Expr, ...]:
    """What is read of inputs once the sum is finished."""
    stages = {s.name for s in c.program.stages}
    reads = (*c.monoid.finish.loads(), *(x for s in c.epilogue for x in s.loads()))
    return tuple(x for x in reads if x.value not in stages)


def staged_names(c: CudaContraction, side: str) -> tuple[str, ...]:
    """Tensors of a side, which its tile in shared memory holds the values of."""
    return tuple(dict.fromkeys(str(x.value) for x in c.side(side).loads()))


@lru_cache(maxsize=256)
def flops(c: CudaContraction) -> tuple[int, int]:
    """Operations a point, and a finished sum with the stages after it."""
    return flops_per_point(c.stage), count_ops(c.monoid.finish) + sum(count_ops(*s.body) for s in c.epilogue)


def summing(
    c: CudaContraction, loops: Iterable[Loop], staged: Iterable[Staged], itemsize: int, split: int,
    copied: tuple[Access | None, Access | None] = (None, None),
) -> LoopNest:  # fmt: skip
    """The main kernel, which sums ``split`` pieces of K apart; ``copied`` as in :func:`accesses`."""
    return LoopNest(
        name=c.stage.name, axes=extents(c), loops=tuple(loops), accesses=accesses(c, split > 1, copied),
        staged=tuple(staged), flops_per_point=flops(c)[0], itemsize=itemsize,
        flops_per_output=0 if split > 1 else flops(c)[1],
    )  # fmt: skip
