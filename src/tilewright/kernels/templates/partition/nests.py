"""The loops of a partition: its segments' nests, in the names of the whole program, for each strip of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.kernels.expression.expr import axis
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import Built
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.partition.space import Member
from tilewright.kernels.templates.partition.strips import moved, rows

STRIP = "strip"
"""Name of the number of a strip, as an axis."""


def nests(program: Program, kernels: Sequence[tuple[Member, Built]]) -> tuple[LoopNest, ...]:
    """Every segment's nests in order."""
    found = tuple(_renamed(nest, m) for m, kernel in kernels for nest in kernel.nests)
    strips = kernels[0][0].segment.strips
    if strips == 1:
        return found
    with_rows = moved(program)
    return tuple(_each_strip(nest, program, strips, with_rows) for nest in found)


def _each_strip(nest: LoopNest, program: Program, strips: int, with_rows: frozenset[str]) -> LoopNest:
    """Around a strip's nest the loop over all of them, which moves what has rows."""

    def shifted(a: Access) -> Access:
        if a.tensor not in with_rows:
            return a
        tensor, indices = program.tensors[a.tensor], list(a.indices)
        d, size = rows(program) if len(indices) == len(tensor.shape) else (0, tensor.size)
        indices[d] += axis(STRIP) * (size // strips)
        return replace(a, indices=tuple(indices))

    return replace(
        nest, axes={STRIP: strips, **nest.axes}, loops=(Loop(STRIP, strips, 1, "parallel", "l2"), *nest.loops),
        accesses=tuple(shifted(a) for a in nest.accesses),
        staged=tuple(s if s.depth is None else replace(s, depth=s.depth + 1) for s in nest.staged),
    )  # fmt: skip


def _renamed(nest: LoopNest, m: Member) -> LoopNest:
    """With the whole program's tensors; what only the segment knows gets its prefix."""
    s = m.segment
    names = {f"x{n}": name for n, name in enumerate(s.reads)}
    names |= {f"s{n}": name for n, name in enumerate(s.stages)}

    def of(name: str) -> str:
        return names.get(name, m.prefix + name)

    return replace(
        nest,
        name=of(nest.name),
        accesses=tuple(replace(a, tensor=of(a.tensor)) for a in nest.accesses),
        staged=tuple(replace(x, tensor=of(x.tensor)) for x in nest.staged),
    )
