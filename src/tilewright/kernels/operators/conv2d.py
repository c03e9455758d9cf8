"""Two-dimensional convolution (cross-correlation, as in deep learning), NCHW."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Activation, Array, activate, numpy_epilogue


def _out(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _numpy(
    x: Array,
    weight: Array,
    *rest: Array,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    bias: bool = False,
    activation: Activation = "none",
) -> Array:
    n, ci, h, w = x.shape
    co, _, kh, kw = weight.shape
    ho, wo = _out(h, kh, stride, padding, dilation), _out(w, kw, stride, padding, dilation)
    padded = np.zeros((n, ci, h + 2 * padding, w + 2 * padding), x.dtype)
    padded[:, :, padding : padding + h, padding : padding + w] = x
    out = np.zeros((n, co, ho, wo), np.result_type(x, weight))
    for r in range(kh):
        for s in range(kw):
            top, left = r * dilation, s * dilation
            window = padded[:, :, top : top + stride * ho : stride, left : left + stride * wo : stride]
            window = window[:, :, :ho, :wo].reshape(n, ci, ho * wo)
            out += np.matmul(np.ascontiguousarray(weight[:, :, r, s]), window).reshape(n, co, ho, wo)
    return numpy_epilogue(out, rest, bias, activation, False, bias_axis=1)


def _infer(
    shapes: Sequence[tuple[int, ...]],
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    bias: bool = False,
    activation: Activation = "none",
) -> dict[str, Value]:
    (n, ci, h, w), (co, cw, kh, kw) = shapes[:2]
    rest, expected = list(shapes[2:]), [(co,)] * bias
    if ci != cw:
        raise UsageError(f"conv2d: x has {ci} channels and weight takes {cw}", "They must agree")
    if rest != expected:
        raise UsageError(f"conv2d got {rest} after its operands", f"These attributes take {expected}")
    return {"n": n, "ci": ci, "h": h, "w": w, "co": co, "kh": kh, "kw": kw}


@operator(
    numpy=_numpy,
    infer=_infer,
    example={"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1},
)
def conv2d(
    n: int,
    ci: int,
    h: int,
    w: int,
    co: int,
    kh: int,
    kw: int,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    bias: bool = False,
    activation: Activation = "none",
) -> te.TensorRef:
    """Convolution: ``out[n, o, i, j] = activation(bias[o] + sum over c, r, s of
    x[n, c, i*stride + r*dilation - padding, j*stride + s*dilation - padding] * weight[o, c, r, s])``,
    ``x`` being zero outside of its bounds.

    Inputs in call order: ``x`` (n, ci, h, w), ``weight`` (co, ci, kh, kw), ``bias`` (co,) where asked
    for. Output: (n, co, ho, wo) with ``ho = (h + 2*padding - dilation*(kh - 1) - 1) // stride + 1``.
    ``stride``, ``padding`` and ``dilation`` count elements and hold for both axes.
    """
    if stride < 1 or dilation < 1 or padding < 0:
        raise UsageError(
            f"conv2d: stride={stride} dilation={dilation} padding={padding}",
            "stride and dilation are at least 1, padding at least 0",
        )
    ho, wo = _out(h, kh, stride, padding, dilation), _out(w, kw, stride, padding, dilation)
    if ho < 1 or wo < 1:
        raise UsageError(
            f"conv2d: a {kh}x{kw} window, dilation={dilation}, does not fit {h}x{w} with padding={padding}",
            "Use a larger image or padding, or a smaller window or dilation",
        )
    x, weight = te.input("x", (n, ci, h, w)), te.input("weight", (co, ci, kh, kw))
    added = te.input("bias", (co,)) if bias else None

    def read(b: te.Expr, c: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
        if padding == 0:
            return x[b, c, y, z]
        return te.select((y >= 0) & (y < h) & (z >= 0) & (z < w), x[b, c, y, z], 0.0)

    out = te.compute(
        (n, co, ho, wo),
        lambda b, o, i, j: te.sum(
            (ci, kh, kw),
            lambda c, r, s: (
                read(b, c, i * stride + r * dilation - padding, j * stride + s * dilation - padding)
                * weight[o, c, r, s]
            ),
        ),
    )
    if not bias and activation == "none":
        return out
    return te.compute(
        (n, co, ho, wo),
        lambda b, o, i, j: activate(out[b, o, i, j] + added[o] if added else out[b, o, i, j], activation),
    )
