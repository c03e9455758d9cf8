"""Two-dimensional convolution of capsules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.epilogue import Array
from tilewright.kernels.operators.precision import wide
from tilewright.kernels.operators.windowed import DTYPES, check_ranks, rounded_like, shifted, tuples


def _numpy(x: Array, weight: Array, *, stride: te.Ints = 1, padding: te.Ints = 0) -> Array:
    (top, left), w = tuples(padding, 2), wide(weight)
    image = np.pad(wide(x), ((0, 0), (top, top), (left, left), (0, 0), (0, 0), (0, 0)))
    n, h, width, cap_h, cap_k, ci = image.shape
    kh, kw, _, cap_w, _, co = w.shape
    rows = np.moveaxis(image.reshape(n, h, width, cap_h * cap_k * ci), -1, 1)
    out: Array | None = None
    for (r, s), window in shifted(rows, (kh, kw), tuples(stride, 2), (1, 1)):
        ho, wo = window.shape[2:]
        left_side = np.moveaxis(window, 1, -1).reshape(n * ho * wo * cap_h, cap_k * ci)
        right_side = w[r, s].transpose(0, 2, 1, 3).reshape(cap_k * ci, cap_w * co)
        product = (left_side @ right_side).reshape(n, ho, wo, cap_h, cap_w, co)
        out = product if out is None else out + product
    assert out is not None  # a window has elements
    return rounded_like(out, x)


def _infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
    check_ranks("capsule_conv2d", shapes, (6, 6))
    x, weight = shapes
    n, h, w, cap_h, cap_k, ci = x
    kh, kw, cap_kw, cap_w, cw, co = weight
    if (cap_k, ci) != (cap_kw, cw):
        raise UsageError(
            f"capsule_conv2d cannot multiply input {x} by weight {weight}",
            "cap_k and ci must agree: input (n, h, w, cap_h, cap_k, ci), weight (kh, kw, cap_k, cap_w, ci, co)",
        )
    return {
        "n": n, "h": h, "w": w, "ci": ci, "co": co, "kh": kh, "kw": kw, "cap_h": cap_h, "cap_k": cap_k, "cap_w": cap_w,
    }  # fmt: skip


@operator(
    numpy=_numpy,
    infer=_infer,
    dtypes=DTYPES,
    example={
        "n": 1, "h": 8, "w": 8, "ci": 16, "co": 16, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4, "cap_w": 4, "padding": 1,
    },
)  # fmt: skip
def capsule_conv2d(
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    kh: int,
    kw: int,
    cap_h: int,
    cap_k: int,
    cap_w: int,
    *,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    dtype: str = "float32",
) -> te.TensorRef:
    """Two-dimensional convolution of capsules: channels hold matrices, which are multiplied.

    ``out[n, i, j, p, q, o] = sum over r, s, k, c of
    input[n, i*stride + r - padding, j*stride + s - padding, p, k, c] * weight[r, s, k, q, c, o]``, ``input`` being
    zero outside of its bounds.

    Inputs in call order: ``input`` (n, h, w, cap_h, cap_k, ci), ``weight`` (kh, kw, cap_k, cap_w, ci, co). Output:
    (n, ho, wo, cap_h, cap_w, co) with ``ho = (h + 2*padding - kh) // stride + 1``. ``stride`` and ``padding`` hold for
    both axes, or one for each. 16-bit reals are computed in float32 and rounded once.
    """
    x = te.input("input", (n, h, w, cap_h, cap_k, ci), dtype)
    weight = te.input("weight", (kh, kw, cap_k, cap_w, ci, co), dtype)
    return nn.cast(nn.capsule_conv2d(x, weight, stride, padding), dtype)
