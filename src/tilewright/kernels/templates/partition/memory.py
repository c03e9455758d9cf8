"""Where a partition's intermediate results lie in the workspace."""

from __future__ import annotations

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.partition.segments import Cut

PAGE = 4096


def intermediates(program: Program, cut: Cut) -> tuple[dict[str, int], int]:
    """Byte offset of each segment's result that is none of the program's, and the total.

    Memory is used again once it is free. Of sizes that calls choose there is room for the greatest.
    """
    outputs = {t.name for t in program.outputs}
    last_read = {n: k for k, s in enumerate(cut) for n in s.reads}
    offsets: dict[str, int] = {}
    sizes: dict[str, int] = {}
    total = 0
    for number, segment in enumerate(cut):
        if segment.result in outputs:
            continue
        tensor = program.tensors[segment.result]
        size = -(-int(tensor.size) * ITEMSIZE[tensor.dtype] // PAGE) * PAGE
        busy = sorted((at, at + sizes[n]) for n, at in offsets.items() if last_read[n] >= number)
        start = 0
        for low, high in busy:
            if start + size <= low:
                break
            start = max(start, high)
        offsets[segment.result], sizes[segment.result] = start, size
        total = max(total, start + size)
    return offsets, total
