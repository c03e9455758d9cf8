"""Large products for warp groups, whose operands of 8 and 32 bits must have neighbours along k: copies that do."""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import Target
from tilewright.kernels.expression.program import Program
from tilewright.kernels.rewrite.inline import inlined
from tilewright.kernels.rewrite.relaid import innermost
from tilewright.kernels.templates.cuda.warpgroups import available

LEAST_READERS = 2048
"""Products that each element of a copy must take part in: on an H200, warps alone leave 40% of the matrix units idle,
for longer than it takes to copy an element where it has some 1,200."""
LEAST_FLOPS = 1 << 34
"""Operations from which a further launch is short beside what is won."""


@lru_cache(maxsize=256)
def turned(program: Program, target: Target) -> tuple[Program, int] | None:
    """The program with copies of the operands of its product that lie along other axes than k, and how many there are.

    ``None`` where there is no such operand, or warp groups take it as it is, or a copy would cost more than it saves:
    that of a constant operand, which is made once, costs nothing.
    """
    if not available(target):
        return None
    # They bring every primitive of CUDA's.
    from tilewright.kernels.templates.cuda_mma.match import match
    from tilewright.kernels.templates.cuda_wgmma.match import FUNCTIONS

    p = match(program)
    if p is None or p.instruction.dtype not in FUNCTIONS:
        return None
    program = inlined(program)
    inputs, copies = {t.name for t in program.inputs}, 0
    large = 2 * p.batch * p.m * p.n * p.k >= LEAST_FLOPS
    for s, readers in ((p.b, p.m), (p.a, p.n)):
        tensor = program.tensors[s.tensor]
        pays = tensor.constant or (large and readers >= LEAST_READERS)
        if s.contiguous == "k" or s.item == 2 or s.strides is None or not pays:
            continue
        places = [d for d, step in enumerate(tensor.strides) if step == s.strides[2] and tensor.shape[d] > 1]
        if s.tensor not in inputs or len(places) != 1:
            return None
        program, copies = innermost(program, s.tensor, places[0]), copies + 1
    return (program, copies) if copies else None
