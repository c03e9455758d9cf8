"""Matrix product with int8 weights that are scaled on the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.activation import Activation, activate
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import numpy_epilogue
from tilewright.kernels.operators.numeric import REALS, Array, rounded


@rounded
def _numpy(
    x: Array,
    weight: Array,
    scale: Array,
    *rest: Array,
    group_size: int = 0,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
) -> Array:
    w = (weight.T if trans_b else weight).astype(x.dtype)
    wide = np.repeat(scale, group_size, axis=0) if scale.ndim == 2 else scale
    return numpy_epilogue(x @ (w * wide), rest, bias, activation, False)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    group_size: int = 0,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    **_: object,
) -> dict[str, Value]:
    (m, k), weight, scale, *rest = shapes
    kw, n = weight[::-1] if trans_b else weight
    groups = (k // group_size, n) if group_size and k % group_size == 0 else (n,)
    if k != kw or scale != groups or rest != [(n,)] * bias:
        raise UsageError(
            f"dequant_matmul cannot multiply {shapes[0]} by {weight} with {[scale, *rest]}",
            f"weight is {(n, k) if trans_b else (k, n)}, scale {groups}, and bias (n,) where asked for",
        )
    return {"m": m, "n": n, "k": k}


@operator(numpy=_numpy, infer=_infer, dtypes=REALS, example={"m": 64, "n": 256, "k": 256, "group_size": 64})
def dequant_matmul(
    m: int,
    n: int,
    k: int,
    *,
    group_size: int = 0,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    dtype: str = "float32",
) -> te.TensorRef:
    """``out = activation(input @ (weight * scale) + bias)`` with int8 weights.

    Inputs in call order: ``input`` (m, k); ``weight`` (k, n), or (n, k) with ``trans_b``, int8 (4-bit weights one
    in a byte); ``scale`` (n,), or (k/group_size, n) with ``group_size``: one scale for so many rows of a column;
    ``bias`` (n,) where asked for. Output: (m, n). ``scale`` and ``bias`` have the input's type; sums are
    float32 (float64 for float64), rounded once.
    """
    if group_size < 0 or (group_size and k % group_size):
        raise UsageError(f"dequant_matmul: group_size={group_size} does not divide k={k}", "Use a divisor of k, or 0")
    x = te.input("input", (m, k), dtype)
    weight = te.input("weight", (n, k) if trans_b else (k, n), "int8")
    scale = te.input("scale", (k // group_size, n) if group_size else (n,), dtype)
    out = nn.dequant_matmul(x, weight, scale, trans_b=trans_b)
    if not bias and activation == "none":
        return nn.cast(out, dtype)
    added = te.input("bias", (n,), dtype) if bias else None

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        v = out[i, j]
        return activate(v if added is None else v + te.cast(added[j], out.dtype), activation)

    return te.compute((m, n), finish, dtype=dtype)
