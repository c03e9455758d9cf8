"""Checks of the value ranges of a call's inputs, for ``Library(check=True)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.core import Workload
from tilewright.forking import steady
from tilewright.runtime.checked import Run

Array = np.ndarray[Any, Any]
RangeCheck = Callable[[Sequence[Array]], None]
"""A check of all inputs of a call, which raises ``ValueError`` for a value outside of its input's range."""


def with_check(check: RangeCheck | None, run: Run) -> Run:
    """``run`` with its inputs checked first."""
    if check is None:
        return run

    def checked(arrays: Sequence[Array], outs: Sequence[Array]) -> None:
        check(arrays)
        run(arrays, outs)

    return checked


def range_check(workload: Workload) -> RangeCheck | None:
    """The check of a workload's inputs; ``None`` if no input has a range of values (``te.input(..., low=, high=)``)."""
    with steady:
        from tilewright.kernels.expression.numerics import decode
        from tilewright.kernels.expression.program import Program

    tensors = Program.loads(workload.program).inputs
    limited = [n for n, t in enumerate(tensors) if t.low is not None or t.high is not None]

    def check(arrays: Sequence[Array]) -> None:
        for n in limited:
            low, high = tensors[n].low, tensors[n].high
            values = decode(arrays[n], tensors[n].dtype)
            within = (values >= (-math.inf if low is None else low)) & (values <= (math.inf if high is None else high))
            if not within.all():
                at = [int(i) for i in np.unravel_index(int(np.argmin(within)), values.shape)]
                said = f"at least {low:g}" if high is None else f"at most {high:g}" if low is None else ""
                raise ValueError(
                    f"{workload.op}: {workload.inputs[n].name}{at or ''} is {values[tuple(at)]}, and its values are "
                    + (said or f"between {low:g} and {high:g}")
                )

    return check if limited else None
