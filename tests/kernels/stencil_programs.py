"""Depthwise convolutions, pooling and filters of small odd sizes, in both layouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def extent(size: int, k: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (k - 1) - 1) // stride + 1


def window(
    layout: str,
    n: int,
    c: int,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: int = 1,
    pad: int = 0,
    dilation: int = 1,
    *,
    kind: str = "depthwise",
    multiplier: int = 1,
    dtype: str = "float32",
    epilogue: str = "none",
    out: str | None = None,
) -> Program:
    """One windowed reduction: ``kind`` is depthwise, max or sum."""
    last = layout == "NHWC"
    co = c * multiplier
    outs = [extent(s, k, stride, pad, dilation) for s, k in zip(sizes, kernel, strict=True)]
    x = te.input("x", (n, *sizes, c) if last else (n, c, *sizes), dtype)
    real = "float32" if "16" in dtype else dtype
    w = None
    if kind == "depthwise":
        w = te.input("w", (*kernel, 1, co) if last else (co, 1, *kernel), dtype)

    def body(axes: Sequence[te.Expr], taps: Sequence[te.Expr]) -> te.Expr:
        b, o, at = (axes[0], axes[-1], axes[1:-1]) if last else (axes[0], axes[1], axes[2:])
        where = [p * stride + r * dilation - pad for p, r in zip(at, taps, strict=True)]
        channel = o // multiplier if multiplier > 1 else o
        value = te.cast(x[(b, *where, channel) if last else (b, channel, *where)], real)
        if pad:
            inside = None
            for p, s in zip(where, sizes, strict=True):
                both = (p >= 0) & (p < s)
                inside = both if inside is None else inside & both
            low = -math.inf if real.startswith("float") else -128
            assert inside is not None
            value = te.select(inside, value, low if kind == "max" else 0.0)
        if w is None:
            return value
        zero = te.minimum(o * 0, 0) if not taps else 0
        return value * te.cast(w[(*taps, zero, o) if last else (o, zero, *taps)], real)

    reduce = te.max if kind == "max" else te.sum
    shape = (n, *outs, co) if last else (n, co, *outs)
    y = te.compute(shape, lambda *axes: reduce(tuple(kernel), lambda *taps: body(axes, taps)))
    if epilogue == "norm":
        names = ("mean", "var", "scale", "shift")
        mean, var, scale, shift = (te.input(a, (co,), real) for a in names)
        place = len(shape) - 1 if last else 1

        def normed(*axes: te.Expr) -> te.Expr:
            o = axes[place]
            factor = scale[o] * te.rsqrt(te.abs(var[o]) + 1e-5)
            return te.maximum((y[axes] - mean[o]) * factor + shift[o], 0.0)

        y = te.compute(shape, normed, out)
    elif epilogue == "mean":
        y = te.compute(shape, lambda *axes: y_over(y, axes, math.prod(kernel)), out)
    elif out is not None:
        z = y
        y = te.compute(shape, lambda *axes: z[axes], out)
    return te.program(y)[0]


def y_over(y: te.TensorRef, axes: Sequence[te.Expr], count: int) -> te.Expr:
    return y[tuple(axes)] * (1.0 / count)


def residual(layout: str) -> Program:
    """A 3x3 filter shared by all channels, with a residual and a transposed bias read."""
    h, w, c = 9, 11, 21
    x = te.input("x", (h, w, c) if layout == "NHWC" else (c, h, w))
    f, r, b = te.input("f", (3, 3)), te.input("r", (h - 2, w - 2, c)), te.input("b", (w - 2, c))

    def read(p: te.Expr, q: te.Expr, o: te.Expr) -> te.Expr:
        return x[p, q, o] if layout == "NHWC" else x[o, p, q]

    if layout == "NHWC":
        y = te.compute((h - 2, w - 2, c), lambda i, j, o: te.sum((3, 3), lambda s, t: f[s, t] * read(i + s, j + t, o)))
        return te.program(te.compute(y.shape, lambda i, j, o: y[i, j, o] + r[i, j, o] * b[j, o]))[0]
    y = te.compute((c, h - 2, w - 2), lambda o, i, j: te.sum((3, 3), lambda s, t: f[s, t] * read(i + s, j + t, o)))
    return te.program(te.compute(y.shape, lambda o, i, j: y[o, i, j] + r[i, j, o] * b[j, o]))[0]


def smooth() -> Program:
    """A one-dimensional filter with weights given at run time, padded with another value than the identity."""
    n, k = 45, 5
    x, w = te.input("x", (n,)), te.input("w", (k,))

    def term(i: te.Expr, r: te.Expr) -> te.Expr:
        return te.select((i + r >= 2) & (i + r < n + 2), x[i + r - 2], 0.5) * w[r]

    return te.program(te.compute((n,), lambda i: te.sum(k, lambda r: term(i, r))))[0]


def causal() -> Program:
    """A causal filter of each channel, whose products are chosen by a condition; gated."""
    t, c, k = 21, 37, 4
    x, w, gate = te.input("x", (t, c)), te.input("w", (k, c)), te.input("gate", (t, c))

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        return te.select(i + r >= k - 1, x[i + r - (k - 1), j] * w[r, j], 0.0)

    y = te.compute((t, c), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return te.program(te.compute((t, c), lambda i, j: y[i, j] / (1.0 + te.exp(-gate[i, j]))))[0]


def local_distance() -> Program:
    """Two windows of two tensors: a sum of squared differences."""
    h, w = 12, 37
    x, y = te.input("x", (h, w)), te.input("y", (h, w))
    return te.program(
        te.compute(
            (h - 2, w - 2), lambda i, j: te.sum((3, 3), lambda r, s: (x[i + r, j + s] - y[i + 2 - r, j + s]) ** 2)
        )
    )[0]


def depthwise() -> Program:
    """What the golden sources show."""
    return window("NHWC", 1, 21, (9, 11), (3, 3), 1, 1, epilogue="norm")


PROGRAMS: dict[str, Callable[[], Program]] = {
    "nhwc": partial(window, "NHWC", 2, 21, (9, 11), (3, 3), 1, 1),
    "nhwc_norm": partial(window, "NHWC", 1, 32, (8, 19), (3, 3), 1, 1, epilogue="norm"),
    "nhwc_stride": partial(window, "NHWC", 1, 17, (9, 10), (3, 3), 2, 1),
    "nhwc_dilated": partial(window, "NHWC", 1, 19, (9, 12), (3, 3), 1, 2, 2),
    "nhwc_multiplier": partial(window, "NHWC", 1, 12, (6, 9), (3, 3), 1, 1, multiplier=2),
    "nhwc_multiplier3": partial(window, "NHWC", 1, 7, (6, 9), (2, 2), 1, 1, multiplier=3),
    "nhwc_halves": partial(
        window, "NHWC", 1, 20, (6, 9), (3, 3), 1, 1, dtype="float16", epilogue="norm", out="float16"
    ),
    "nhwc_bfloat16": partial(window, "NHWC", 1, 37, (6, 9), (3, 3), 2, 1, dtype="bfloat16", out="bfloat16"),
    "nhwc_double": partial(window, "NHWC", 1, 11, (6, 9), (5, 3), 1, 1, dtype="float64"),
    "nhwc_max": partial(window, "NHWC", 1, 21, (9, 12), (3, 3), 2, 1, kind="max"),
    "nhwc_mean": partial(window, "NHWC", 1, 21, (9, 12), (2, 2), 2, kind="sum", epilogue="mean"),
    "nhwc_global": partial(window, "NHWC", 2, 21, (7, 7), (7, 7), kind="sum", epilogue="mean"),
    "nchw": partial(window, "NCHW", 2, 5, (9, 37), (3, 3), 1, 1),
    "nchw_norm": partial(window, "NCHW", 1, 5, (9, 40), (3, 3), 1, 1, epilogue="norm"),
    "nchw_stride": partial(window, "NCHW", 1, 5, (9, 75), (3, 3), 2, 1),
    "nchw_stride3": partial(window, "NCHW", 1, 3, (9, 60), (5, 5), 3, 2),
    "nchw_dilated": partial(window, "NCHW", 1, 3, (12, 40), (3, 3), 1, 2, 2),
    "nchw_multiplier": partial(window, "NCHW", 1, 3, (8, 20), (3, 3), 1, 1, multiplier=2),
    "nchw_max": partial(window, "NCHW", 1, 4, (9, 43), (3, 3), 2, 1, kind="max"),
    "nchw_max_bytes": partial(window, "NCHW", 1, 4, (9, 43), (3, 3), 1, 1, kind="max", dtype="int8"),
    "nchw_small": partial(window, "NCHW", 1, 6, (7, 7), (3, 3), 1, 1, dtype="float16", out="float16"),
    "line_last": partial(window, "NHWC", 2, 18, (23,), (5,), 1, 2),
    "line_first": partial(window, "NCHW", 2, 3, (53,), (5,), 2, 2),
    "volume_last": partial(window, "NHWC", 1, 18, (5, 6, 7), (2, 2, 2), 1, 1),
    "volume_first": partial(window, "NCHW", 1, 3, (5, 6, 19), (3, 3, 3), 1, 1, kind="max"),
    "residual_last": partial(residual, "NHWC"),
    "residual_first": partial(residual, "NCHW"),
    "smooth": smooth,
    "causal": causal,
    "local_distance": local_distance,
}
enter("window", PROGRAMS)
