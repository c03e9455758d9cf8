"""Complex arrays as operators of pairs of reals take them: a view with one more axis, of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError, Workload
from tilewright.kernels.operators import get_operator

Array = np.ndarray[Any, Any]

OPERATORS = {"matmul": "complex_matmul", "batch_matmul": "complex_matmul", "bmm": "complex_matmul"}
"""By operator, the one that computes the same of complex numbers, without attributes."""
PARTS = {"complex64": "float32", "complex128": "float64"}


def complex_workload(name: str, args: Sequence[Array], attributes: Mapping[str, Any]) -> Workload | None:
    """The workload of a call with complex arrays; ``None`` where no operator of pairs computes it."""
    kinds = {a.dtype.name if a.dtype.isnative else "" for a in args}
    if attributes or name not in OPERATORS or len(kinds) != 1 or not kinds <= PARTS.keys():
        return None
    op = get_operator(OPERATORS[name])
    assert op.infer is not None
    try:
        return op.workload(**op.infer([(*a.shape, 2) for a in args], dtype=PARTS[kinds.pop()]))
    except UsageError:  # numpy names what is wrong with the shapes, or takes them
        return None


def as_pairs(a: Array) -> Array:
    """A complex array's memory as reals: its shape and an axis of two, the real part first."""
    if a.flags.c_contiguous:
        return a.view(a.real.dtype).reshape(*a.shape, 2)
    parts: Array = np.lib.stride_tricks.as_strided(a.real, (*a.shape, 2), (*a.strides, a.itemsize // 2))
    return parts
