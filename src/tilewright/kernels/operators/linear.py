"""A dense layer, its weight as PyTorch stores it."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Activation
from tilewright.kernels.operators.numeric import Array, expected
from tilewright.kernels.operators.precision import DTYPES, OutDtype, Precision
from tilewright.kernels.operators.product import numpy_matmul, product


def _numpy(
    input: Array,
    weight: Array,
    *rest: Array,
    bias: bool = True,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
) -> Array:
    return numpy_matmul(
        input, weight, *rest, trans_b=True, bias=bias, activation=activation, residual=residual, out_dtype=out_dtype,
        precision=precision,
    )  # fmt: skip


def _infer(
    shapes: Sequence[tuple[int, ...]], bias: bool = True, residual: bool = False, **_: object
) -> dict[str, Value]:
    (m, k), (n, kw), *rest = shapes
    if k != kw:
        agree = f"The last axes must agree ({k} and {kw})"
        raise UsageError(f"linear cannot multiply {shapes[0]} by {shapes[1]}", agree)
    expected("linear", rest, [(n,)] * bias + [(m, n)] * residual)
    return {"m": m, "n": n, "k": k}


@operator(numpy=_numpy, infer=_infer, dtypes=DTYPES, example={"m": 512, "n": 512, "k": 512})
def linear(
    m: int,
    n: int,
    k: int,
    *,
    bias: bool = True,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """Dense layer, ``activation(input @ weight.T + bias) + residual``; kernels are shared with ``matmul trans_b``.

    Inputs in call order: ``input`` (m, k), ``weight`` (n, k), ``bias`` (n,) unless switched off, ``residual`` (m, n)
    where asked for. Output: (m, n). Types, ``activation``, ``out_dtype`` and ``precision`` are as for ``matmul``.
    """
    return product(
        "linear", ("input", "weight"), (), m, n, k, trans_a=False, trans_b=True, bias=bias, activation=activation,
        residual=residual, out_dtype=out_dtype, precision=precision, dtype=dtype,
    )  # fmt: skip
