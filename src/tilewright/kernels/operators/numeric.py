"""What independent implementations in NumPy share: 16-bit reals, axes, inputs that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels.operators.precision import numpy_result, wide
from tilewright.kernels.parameters import numbers

Array = np.ndarray[Any, Any]
REALS = ("float32", "float64", "float16", "bfloat16")


def rounded(fn: Callable[..., Array]) -> Callable[..., Array]:
    """``fn`` on 16-bit reals as float32, a real result rounded once to the type of the first real input."""

    @wraps(fn)
    def run(*inputs: Array, **attributes: Any) -> Array:
        names = ["bfloat16" if v.dtype == np.uint16 else v.dtype.name for v in inputs]
        kind = next((n for n in names if n in REALS), "float32")
        with np.errstate(all="ignore"):  # NaN and infinity pass through
            out = np.asarray(fn(*(wide(v) for v in inputs), **attributes))
        return numpy_result(out, kind) if out.dtype.kind == "f" else out

    return run


def below_top(x: Array, axes: int | tuple[int, ...] | None) -> Array:
    """``x`` less its largest value along the axes: nothing overflows in an exponential of it. Rows may be empty."""
    less: Array = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    return less


def axes_of(dim: int | tuple[int, ...]) -> tuple[int, ...] | None:
    """``dim`` as NumPy's ``axis``: ``None`` for all."""
    return numbers(dim) or None


def expected(op: str, rest: Sequence[tuple[int, ...]], wanted: Sequence[tuple[int, ...]]) -> None:
    """Raise ``UsageError`` where the shapes after the first operands are not the wanted ones."""
    if list(rest) != list(wanted):
        raise UsageError(f"{op} got {list(rest)} after its operands", f"These attributes take {list(wanted)}")
