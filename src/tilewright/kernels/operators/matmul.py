"""Matrix product, with the epilogues of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Activation, Array, activate, numpy_epilogue


def _numpy(
    a: Array,
    b: Array,
    *rest: Array,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
) -> Array:
    out = np.matmul(a.T if trans_a else a, b.T if trans_b else b)
    return numpy_epilogue(out, rest, bias, activation, residual)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
) -> dict[str, Value]:
    (a, b), rest = shapes[:2], list(shapes[2:])
    (m, k), (kb, n) = a[::-1] if trans_a else a, b[::-1] if trans_b else b
    expected = [(n,)] * bias + [(m, n)] * residual
    if k != kb or rest != expected:
        raise UsageError(
            f"matmul cannot multiply {a} by {b}" if k != kb else f"matmul got {rest} after its operands",
            f"The shared axis must agree ({k} and {kb})" if k != kb else f"These attributes take {expected}",
        )
    return {"m": m, "n": n, "k": k}


@operator(numpy=_numpy, infer=_infer, example={"m": 512, "n": 512, "k": 512})
def matmul(
    m: int,
    n: int,
    k: int,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
) -> te.TensorRef:
    """Matrix product: ``out[i, j] = activation(sum_k a[i, k] * b[k, j] + bias[j]) + residual[i, j]``.

    Inputs in call order: ``a`` (m, k), or (k, m) with ``trans_a``; ``b`` (k, n), or (n, k) with
    ``trans_b``; ``bias`` (n,) and ``residual`` (m, n) where asked for. Output: (m, n).
    ``activation``: none, relu, gelu (exact), gelu_tanh (approximation by tanh) or silu.
    """
    a = te.input("a", (k, m) if trans_a else (m, k))
    b = te.input("b", (n, k) if trans_b else (k, n))
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(k, lambda r: (a[r, i] if trans_a else a[i, r]) * (b[j, r] if trans_b else b[r, j])),
    )
    if not bias and not residual and activation == "none":
        return c
    added = te.input("bias", (n,)) if bias else None
    skipped = te.input("residual", (m, n)) if residual else None

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        x = activate(c[i, j] + added[j] if added else c[i, j], activation)
        return x + skipped[i, j] if skipped else x

    return te.compute((m, n), finish)
