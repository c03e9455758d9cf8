"""Speed of a call, in operations a second if it is compute-bound, in bytes a second if it is memory-bound."""

from __future__ import annotations

import math
from typing import TypeGuard

from tilewright.core import Workload
from tilewright.extent import Extent
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.units import with_unit

COMPUTE_BOUND = 2.5
"""Arithmetic intensity, in operations a byte, from which a workload counts as compute-bound.

Processors and GPUs compute more than this per byte of memory traffic. Softmax, norms and elementwise chains lie below;
products of more than a few rows lie far above.
"""


LARGEST_SHARE = 1.05
"""Largest plausible fraction of a peak. A larger one means that the peak or the count is wrong.

The kernel does fewer operations or moves fewer bytes than were counted, or the device was slower when the peak was
measured.
"""


def is_share(share: float | None) -> TypeGuard[float]:
    """Whether a fraction of a peak is known and plausible."""
    return share is not None and share <= LARGEST_SHARE


def compulsory_bytes(workload: Workload) -> int:
    """Bytes of every input and output, each moved once; 0 if an element type is not known."""
    tensors = (*workload.inputs, *workload.outputs)
    if any(t.dtype not in ITEMSIZE for t in tensors):
        return 0
    sizes = ((n.high if isinstance(n, Extent) else n for n in t.shape) for t in tensors)
    return sum(math.prod(shape) * ITEMSIZE[t.dtype] for shape, t in zip(sizes, tensors, strict=True))


def is_compute_bound(workload: Workload) -> bool:
    """Whether the workload is compute-bound: its speed is given in operations, not in bytes."""
    return workload.flops >= COMPUTE_BOUND * compulsory_bytes(workload)


def speed(workload: Workload, seconds: float | None) -> str:
    """``81.2 GFLOP/s``; for a memory-bound workload, ``12.3 GB/s`` of inputs and outputs."""
    if not seconds:
        return "-"
    if is_compute_bound(workload):
        return with_unit(workload.flops / seconds, "flop/s", 4)
    return with_unit(compulsory_bytes(workload) / seconds, "byte/s", 4)
