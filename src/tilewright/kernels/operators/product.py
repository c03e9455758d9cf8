"""Matrix products with the epilogue of a dense layer, and other contractions."""

from __future__ import annotations

from functools import partial

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels import nn, te
from tilewright.kernels.nn.activation import Activation, activate
from tilewright.kernels.nn.linear import parse
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import (
    DTYPES,
    NAMES,
    REALS,
    Array,
    Found,
    OutDtype,
    Precision,
    Shape,
    Shapes,
    epilogue_dtype,
    expected,
    numpy_epilogue,
    numpy_product,
    numpy_result,
    result_dtype,
    rounded,
    sum_of_products,
    text,
    wide,
)


def _product(
    op: str, names: tuple[str, str], batch: Shape, m: int, n: int, k: int, out_dtype: OutDtype, precision: Precision,
    dtype: str, *, trans_a: bool = False, trans_b: bool = False, bias: bool = False, activation: Activation = "none",
    residual: bool = False,
) -> te.TensorRef:  # fmt: skip
    """(*batch, m, k) by (*batch, k, n), each optionally with its last two axes exchanged, and the epilogue."""
    out = result_dtype(op, dtype, out_dtype, precision, activation)
    inner = epilogue_dtype(dtype, out)
    plain = not bias and not residual and activation == "none"
    a = te.input(names[0], (*batch, *((k, m) if trans_a else (m, k))), dtype)
    b = te.input(names[1], (*batch, *((n, k) if trans_b else (k, n))), dtype)

    def summed(*index: te.Expr) -> te.Reduction:
        *p, i, j = index
        return sum_of_products(
            k, lambda r: a[(*p, r, i) if trans_a else (*p, i, r)], lambda r: b[(*p, j, r) if trans_b else (*p, r, j)],
            precision,
        )  # fmt: skip

    c = te.compute((*batch, m, n), summed, dtype=out if plain else None)
    if plain:
        return c
    added = te.input("bias", (n,), out) if bias else None
    skipped = te.input("residual", (*batch, m, n), out) if residual else None

    def finish(*index: te.Expr) -> te.Expr:
        x = te.cast(c[index], inner)
        x = activate(x + te.cast(added[index[-1]], inner) if added else x, activation)
        return x + te.cast(skipped[index], inner) if skipped else x

    return te.compute((*batch, m, n), finish, dtype=out)


def _numpy_product(
    a: Array, b: Array, *rest: Array, trans_a: bool, trans_b: bool, bias: bool, activation: Activation, residual: bool,
    out_dtype: OutDtype, precision: Precision,
) -> Array:  # fmt: skip
    left, right = a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b
    out, kind = numpy_product(left, right, precision, out_dtype)
    extra = tuple(wide(v).astype(out.dtype, copy=False) for v in rest)
    return numpy_result(numpy_epilogue(out, extra, bias, activation, residual), kind)


def _check(op: str, operands: Shapes, fits: bool, agree: str) -> None:
    if not fits:
        raise UsageError(f"{op} cannot multiply {operands[0]} by {operands[1]}", agree)


# --------------------------------------------------------------------------- matrices


def _infer_matmul(shapes: Shapes, trans_a: bool, trans_b: bool, bias: bool, residual: bool) -> Found:
    (a, b), rest = shapes[:2], shapes[2:]
    (m, k), (kb, n) = a[::-1] if trans_a else a, b[::-1] if trans_b else b
    _check("matmul", shapes, k == kb, f"The shared axis must agree ({k} and {kb})")
    expected("matmul", rest, [(n,)] * bias + [(m, n)] * residual)
    return {"m": m, "n": n, "k": k}


@operator(numpy=_numpy_product, infer=_infer_matmul, dtypes=DTYPES, example={"m": 512, "n": 512, "k": 512})
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
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """Matrix product: ``out[i, j] = activation(sum_k a[i, k] * b[k, j] + bias[j]) + residual[i, j]``.

    Inputs in call order: ``a`` (m, k), or (k, m) with ``trans_a``; ``b`` (k, n), or (n, k) with ``trans_b``; ``bias``
    (n,) and ``residual`` (m, n) where asked for. Output: (m, n). ``activation``: none, relu, gelu (exact), gelu_tanh
    (approximation by tanh) or silu.

    float16 and bfloat16 are multiplied and summed in float32, int8 in int32. ``out_dtype``: type of the output,
    ``bias`` and ``residual``; ``auto`` is ``dtype``, and int32 for int8. ``precision``: ieee; tf32, which rounds
    float32 operands to 10 bits of mantissa, as Tensor Cores take them; tf32_truncated, where Tensor Cores cut the low
    bits off; or tf32x3 (3xTF32), which adds two products of the remainders. Its error is at most 2^-21 of the sum of
    ``abs(a) * abs(b)`` more than that of float32's sums.
    """
    return _product(
        "matmul", ("a", "b"), (), m, n, k, out_dtype, precision, dtype, trans_a=trans_a, trans_b=trans_b, bias=bias,
        activation=activation, residual=residual,
    )  # fmt: skip


def _infer_linear(shapes: Shapes, bias: bool, residual: bool) -> Found:
    (m, k), (n, kw), *rest = shapes
    _check("linear", shapes, k == kw, f"The last axes must agree ({k} and {kw})")
    expected("linear", rest, [(n,)] * bias + [(m, n)] * residual)
    return {"m": m, "n": n, "k": k}


@operator(
    numpy=partial(_numpy_product, trans_a=False, trans_b=True), infer=_infer_linear, dtypes=DTYPES,
    example={"m": 512, "n": 512, "k": 512},
)  # fmt: skip
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
    return _product(
        "linear", ("input", "weight"), (), m, n, k, out_dtype, precision, dtype, trans_b=True, bias=bias,
        activation=activation, residual=residual,
    )  # fmt: skip


# --------------------------------------------------------------------------- batches of matrices


def _infer_batch_matmul(shapes: Shapes, trans_a: bool, trans_b: bool, bias: bool, residual: bool) -> Found:
    (ba, *x), (bb, *y) = shapes[:2]
    (m, k), (ky, n) = x[::-1] if trans_a else x, y[::-1] if trans_b else y
    agree = f"Batches ({ba} and {bb}) and the shared axis ({k} and {ky}) must agree"
    _check("batch_matmul", shapes, (ba, k) == (bb, ky), agree)
    expected("batch_matmul", shapes[2:], [(n,)] * bias + [(ba, m, n)] * residual)
    return {"b": ba, "m": m, "n": n, "k": k}


@operator(
    numpy=_numpy_product, infer=_infer_batch_matmul, dtypes=DTYPES, example={"b": 8, "m": 128, "n": 128, "k": 128}
)
def batch_matmul(
    b: int,
    m: int,
    n: int,
    k: int,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: bool = False,
    activation: Activation = "none",
    residual: bool = False,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """Batched matrix product: ``out[p] = activation(x[p] @ y[p] + bias) + residual[p]``.

    Inputs in call order: ``x`` (b, m, k), or (b, k, m) with ``trans_a``; ``y`` (b, k, n), or
    (b, n, k) with ``trans_b``; ``bias`` (n,) and ``residual`` (b, m, n) where asked for.
    Output: (b, m, n). ``activation``: none, relu, gelu, gelu_tanh or silu.

    Types, ``out_dtype`` and ``precision`` are as for ``matmul``.
    """
    return _product(
        "batch_matmul", ("x", "y"), (b,), m, n, k, out_dtype, precision, dtype, trans_a=trans_a, trans_b=trans_b,
        bias=bias, activation=activation, residual=residual,
    )  # fmt: skip


def _infer_bmm(shapes: Shapes) -> Found:
    (b, m, k), (bb, kb, n) = shapes
    agree = f"Batches ({b} and {bb}) and the shared axis ({k} and {kb}) must agree"
    _check("bmm", shapes, (b, k) == (bb, kb), agree)
    return {"b": b, "m": m, "n": n, "k": k}


@operator(
    numpy=partial(_numpy_product, trans_a=False, trans_b=False, bias=False, activation="none", residual=False),
    infer=_infer_bmm, dtypes=DTYPES, example={"b": 8, "m": 128, "n": 128, "k": 128},
)  # fmt: skip
def bmm(
    b: int,
    m: int,
    n: int,
    k: int,
    *,
    out_dtype: OutDtype = "auto",
    precision: Precision = "ieee",
    dtype: str = "float32",
) -> te.TensorRef:
    """``out[p] = input[p] @ mat2[p]``: ``batch_matmul`` without an epilogue; both share their kernels.

    Inputs in call order: ``input`` (b, m, k), ``mat2`` (b, k, n). Output: (b, m, n). Types, ``out_dtype`` and
    ``precision`` are as for ``matmul``.
    """
    return _product("bmm", ("input", "mat2"), (b,), m, n, k, out_dtype, precision, dtype)


# --------------------------------------------------------------------------- complex numbers


def _numpy_complex(
    a: Array, b: Array, batch: Shape, trans_a: bool, trans_b: bool, conj_a: bool, conj_b: bool
) -> Array:  # fmt: skip
    kind = np.result_type(a.dtype, np.complex64)

    def matrix(x: Array, transposed: bool, conjugate: bool) -> Array:
        z = np.ascontiguousarray(x).view(kind)[..., 0]
        z = z.swapaxes(-1, -2) if transposed else z
        return z.conj() if conjugate else z

    product = matrix(a, trans_a, conj_a) @ matrix(b, trans_b, conj_b)
    parts: Array = np.ascontiguousarray(product)[..., None].view(a.dtype)
    return parts


def _infer_complex(shapes: Shapes, trans_a: bool, trans_b: bool) -> Found:
    a, b = shapes
    pairs = min(len(a), len(b)) >= 3 and a[-1] == b[-1] == 2
    _check("complex_matmul", shapes, pairs, "Give (..., rows, columns, 2): a real and an imaginary part each")
    (m, k), (kb, n) = (s[-3:-1][::-1] if transposed else s[-3:-1] for s, transposed in ((a, trans_a), (b, trans_b)))
    agree = f"Batches and the shared axis ({k} and {kb}) must agree"
    _check("complex_matmul", shapes, (k, a[:-3]) == (kb, b[:-3]), agree)
    return {"m": m, "n": n, "k": k, "batch": text(a[:-3])}


@operator(
    numpy=_numpy_complex, infer=_infer_complex, dtypes=("float32", "float64"), example={"m": 256, "n": 256, "k": 256}
)
def complex_matmul(
    m: int,
    n: int,
    k: int,
    *,
    batch: te.Shape = (),
    trans_a: bool = False,
    trans_b: bool = False,
    conj_a: bool = False,
    conj_b: bool = False,
    dtype: str = "float32",
) -> te.TensorRef:
    """Product of complex matrices, whose numbers are pairs of reals along a last axis: real parts first.

    Inputs in call order: ``a`` (*batch, m, k, 2), or (*batch, k, m, 2) with ``trans_a``; ``b`` (*batch, k, n, 2), or
    (*batch, n, k, 2) with ``trans_b``. Output: (*batch, m, n, 2). ``conj_a`` and ``conj_b`` conjugate an operand.
    ``dtype`` is that of the parts: float32 for complex64, float64 for complex128.
    """
    a = te.input("a", (*batch, *((k, m) if trans_a else (m, k)), 2), dtype)
    b = te.input("b", (*batch, *((n, k) if trans_b else (k, n)), 2), dtype)

    def read(x: te.TensorRef, transposed: bool, conjugate: bool) -> te.TensorRef:
        x = nn.transpose(x, -3, -2) if transposed else x
        return nn.conj(x) if conjugate else x

    return nn.complex_matmul(read(a, trans_a, conj_a), read(b, trans_b, conj_b))


# --------------------------------------------------------------------------- groups


@rounded
def _numpy_grouped(x: Array, weight: Array, group: Array) -> Array:
    out = np.empty((x.shape[0], weight.shape[2]), x.dtype)
    number = np.clip(group, 0, len(weight) - 1)
    for g in range(len(weight)):
        out[number == g] = x[number == g] @ weight[g]
    return out


def _infer_grouped(shapes: Shapes) -> Found:
    (m, k), (groups, kw, n), (mg,) = shapes
    if k != kw or m != mg:
        raise UsageError(
            f"grouped_matmul cannot multiply {shapes[0]} by {shapes[1]} with groups {shapes[2]}",
            "They are (m, k), (groups, k, n) and (m,)",
        )
    return {"m": m, "n": n, "k": k, "groups": groups}


@operator(numpy=_numpy_grouped, infer=_infer_grouped, dtypes=REALS, example={"m": 256, "n": 128, "k": 128, "groups": 8})
def grouped_matmul(m: int, n: int, k: int, groups: int, *, dtype: str = "float32") -> te.TensorRef:
    """``out[i, j] = sum_k input[i, k] * weight[group[i], k, j]``: each row by the matrix of its group.

    Inputs in call order: ``input`` (m, k), ``weight`` (groups, k, n), ``group`` (m,) int32. Output: (m, n). Rows may
    come in any order. A group below 0 counts as the first one, a group beyond the last as the last one. 16-bit reals
    are summed in float32 and rounded once. Groups of equal size are ``batch_matmul``.
    """
    x, weight = te.input("input", (m, k), dtype), te.input("weight", (groups, k, n), dtype)
    return nn.cast(nn.grouped_matmul(x, weight, te.input("group", (m,), "int32")), dtype)


# --------------------------------------------------------------------------- einsum


@rounded
def _numpy_reals(*inputs: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *inputs, optimize=len(inputs) > 2))


def _numpy_einsum(*inputs: Array, equation: str, **_: object) -> Array:
    if inputs[0].dtype == np.int8:
        return np.asarray(np.einsum(equation, *(v.astype(np.int32) for v in inputs)))
    return _numpy_reals(*inputs, equation=equation)


def _infer_einsum(shapes: Shapes, equation: str) -> Found:
    parse(equation, shapes)
    return {name: text(shape) for name, shape in zip(NAMES, shapes, strict=False)}


@operator(
    numpy=_numpy_einsum, infer=_infer_einsum, dtypes=(*REALS, "int8"), example={"a": "64,96", "b": "96,80"}
)  # fmt: skip
def einsum(
    a: te.Shape,
    *,
    b: te.Shape = (),
    c: te.Shape = (),
    d: te.Shape = (),
    equation: str = "mk,kn->mn",
    dtype: str = "float32",
) -> te.TensorRef:
    """The contraction ``equation`` of one to four operands, as ``torch.einsum``: ``bhqd,bhkd->bhqk``.

    Inputs in call order: ``a``, ``b``, ``c``, ``d``, of the shapes that are given. Output: the sizes of the letters
    after ``->``. Letters that are missing there are summed. A letter that an operand has twice reads its diagonal.
    There is no ellipsis. 16-bit reals are summed in float32 and rounded once, int8 in int32.
    """
    shapes = [s for s in (a, b, c, d) if s]
    parse(equation, shapes)
    out = nn.einsum(equation, *(te.input(n, s, dtype) for n, s in zip(NAMES, shapes, strict=False)))
    return nn.cast(out, "int32" if dtype == "int8" else dtype)
