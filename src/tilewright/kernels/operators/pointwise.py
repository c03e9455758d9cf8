"""What operators share that are one formula of ``elementwise`` under a name of their own, and have its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels.nn.formula import numpy_value
from tilewright.kernels.operators.numeric import Array, rounded


def numpy_formula(fn: str) -> Callable[..., Array]:
    """The formula on arrays ``x`` and ``y``."""

    @rounded
    def run(*inputs: Array, **_: object) -> Array:
        return np.asarray(numpy_value("formula", fn, dict(zip("xy", inputs, strict=False))), inputs[0].dtype)

    return run


def infer_pair(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    """``shape`` is the first input's, to which the second stretches."""
    shape, other = shapes
    if len(other) > len(shape) or any(a not in (1, b) for a, b in zip(other[::-1], shape[::-1], strict=False)):
        raise UsageError(f"an input of shape {other} does not stretch to {shape}", "Give the larger one first")
    return {"shape": ",".join(map(str, shape)), "other_shape": "" if other == shape else ",".join(map(str, other))}
