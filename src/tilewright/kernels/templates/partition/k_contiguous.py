"""Layout transforms for warp groups, which need 8-bit and 32-bit operands contiguous along k."""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import Target
from tilewright.kernels.expression.program import Program
from tilewright.kernels.rewrite.inline import inlined
from tilewright.kernels.rewrite.layout_transform import innermost
from tilewright.kernels.templates.cuda.warpgroups import available

LEAST_USES = 2048
"""Smallest number of multiplications per copied element for which a copy pays.

On an H200, kernels without warp groups leave 40% of the Tensor Cores idle. From about 1,200 multiplications per
element on, that lost time exceeds the time of the copy.
"""
LEAST_FLOPS = 1 << 34
"""Smallest number of operations for which the gain exceeds the overhead of another launch."""


@lru_cache(maxsize=256)
def k_contiguous(program: Program, target: Target) -> tuple[Program, int] | None:
    """The program with leading copies that make its product's operands contiguous along k, and the number of copies.

    ``None`` if warp groups can read all operands directly, or if copies cost more than they save. A constant operand is
    copied once, at no cost for calls.
    """
    if not available(target):
        return None
    # Imported here: these modules load all CUDA primitives.
    from tilewright.kernels.templates.cuda_mma.match import match
    from tilewright.kernels.templates.cuda_wgmma.match import FUNCTIONS

    p = match(program)
    if p is None or p.instruction.dtype not in FUNCTIONS:
        return None
    program = inlined(program)
    inputs, copies = {t.name for t in program.inputs}, 0
    large = 2 * p.batch * p.m * p.n * p.k >= LEAST_FLOPS
    for s, uses in ((p.b, p.m), (p.a, p.n)):
        tensor = program.tensors[s.tensor]
        pays = tensor.constant or (large and uses >= LEAST_USES)
        if s.contiguous == "k" or s.item == 2 or s.strides is None or not pays:
            continue
        places = [d for d, step in enumerate(tensor.strides) if step == s.strides[2] and tensor.shape[d] > 1]
        if s.tensor not in inputs or len(places) != 1:
            return None
        program, copies = innermost(program, s.tensor, places[0]), copies + 1
    return (program, copies) if copies else None
