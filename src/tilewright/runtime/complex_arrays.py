"""Complex arrays as operators on pairs of reals take them: views with an additional last axis of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError, Workload
from tilewright.kernels.operators import get_operator

Array = np.ndarray[Any, Any]

OPERATORS = {"matmul": "complex_matmul", "batch_matmul": "complex_matmul", "bmm": "complex_matmul"}
"""For operators without attributes, the operator that computes them on pairs of reals."""
PARTS = {"complex64": "float32", "complex128": "float64"}


def complex_workload(name: str, args: Sequence[Array], attributes: Mapping[str, Any]) -> Workload | None:
    """The workload of a call with complex arrays; ``None`` without an operator on pairs of reals for it."""
    kinds = {a.dtype.name if a.dtype.isnative else "" for a in args}
    if attributes or name not in OPERATORS or len(kinds) != 1 or not kinds <= PARTS.keys():
        return None
    op = get_operator(OPERATORS[name])
    assert op.infer is not None
    try:
        return op.workload(**op.infer([(*a.shape, 2) for a in args], dtype=PARTS[kinds.pop()]))
    except UsageError:  # numpy handles these shapes, or names the error
        return None


def as_pairs(a: Array) -> Array:
    """A complex array's memory as reals: an additional last axis of two holds the real and the imaginary part."""
    if a.flags.c_contiguous:
        return a.view(a.real.dtype).reshape(*a.shape, 2)
    parts: Array = np.lib.stride_tricks.as_strided(a.real, (*a.shape, 2), (*a.strides, a.itemsize // 2))
    return parts
