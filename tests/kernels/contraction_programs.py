"""Convolutions as programs, channels innermost or first: what the contraction template's tests compute."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program


def where(conditions: Sequence[te.Expr], value: te.Expr) -> te.Expr:
    """``value`` where all conditions hold, else 0."""
    if not conditions:
        return value
    every = conditions[0]
    for c in conditions[1:]:
        every = every & c
    return te.select(every, value, 0.0)


def conv(
    n: int, size: tuple[int, ...], ci: int, co: int, k: int, stride: int = 1, pad: int = 0, dilation: int = 1,
    groups: int = 1, layout: str = "last", constant: bool = True, epilogue: str = "",
) -> Program:  # fmt: skip
    """A convolution; ``layout`` says where channels are (``first``: NCHW, ``last``: NHWC).

    ``epilogue``: letters of what follows: ``b`` bias, ``n`` batch normalisation, ``r`` residual, ``m`` maximum with
    0, ``g`` a gate by the sigmoid, ``h`` conversion to float16.
    """
    rank = len(size)
    out = tuple((x + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for x in size)
    last = layout == "last"
    x = te.input("x", (n, *size, ci) if last else (n, ci, *size))
    w = te.input("w", (*[k] * rank, ci // groups, co) if last else (co, ci // groups, *[k] * rank), constant=constant)

    def term(b: te.Expr, o: te.Expr, at: Sequence[te.Expr], c: te.Expr, taps: Sequence[te.Expr]) -> te.Expr:
        rows = [q * stride + t * dilation - pad for q, t in zip(at, taps, strict=True)]
        inside = [y for r, s in zip(rows, size, strict=True) for y in (r >= 0, r < s)] if pad else []
        channel = c if groups == 1 else (o // (co // groups)) * (ci // groups) + c
        value = x[(b, *rows, channel)] if last else x[(b, channel, *rows)]
        return where(inside, value) * (w[(*taps, c, o)] if last else w[(o, c, *taps)])

    if last:
        shape = (n, *out, co)
        y = te.compute(shape, lambda b, *r: te.sum(
            (*[k] * rank, ci // groups), lambda *t: term(b, r[-1], r[:-1], t[-1], t[:-1])))  # fmt: skip
    else:
        shape = (n, co, *out)
        y = te.compute(shape, lambda b, o, *r: te.sum(
            (ci // groups, *[k] * rank), lambda c, *t: term(b, o, r, c, t)))  # fmt: skip
    channel = len(shape) - 1 if last else 1
    for letter in epilogue:
        y = _after(y, shape, channel, letter)
    return te.program(y)[0]


def _after(y: te.TensorRef, shape: tuple[int, ...], channel: int, letter: str) -> te.TensorRef:
    def column(name: str) -> te.TensorRef:
        return te.input(name, (shape[channel],), constant=True)

    if letter == "b":
        bias = column("bias")
        return te.compute(shape, lambda *i: y[i] + bias[i[channel]])
    if letter == "n":
        mean, var, scale, shift = (column(x) for x in ("mean", "var", "scale", "shift"))
        return te.compute(
            shape,
            lambda *i: (
                (y[i] - mean[i[channel]]) * te.rsqrt(te.abs(var[i[channel]]) + 0.1) * scale[i[channel]]
                + shift[i[channel]]
            ),
        )
    if letter == "r":
        more = te.input("more", shape)
        return te.compute(shape, lambda *i: y[i] + more[i])
    if letter == "g":
        return te.compute(shape, lambda *i: y[i] / (1.0 + te.exp(-y[i])))
    if letter == "h":
        return te.compute(shape, lambda *i: te.cast(y[i], "float16"))
    return te.compute(shape, lambda *i: te.maximum(y[i], 0.0))


def transposed(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int, extra: int = 0, layout: str = "last",
    constant: bool = True,
) -> Program:  # fmt: skip
    """A transposed convolution by phase: taps ``r*stride + (o + pad) % stride`` of row ``(o + pad)//stride - r``."""
    ho, wo = (h - 1) * stride - 2 * pad + k + extra, (w - 1) * stride - 2 * pad + k + extra
    taps = -(-k // stride)
    last = layout == "last"
    x = te.input("x", (n, h, w, ci) if last else (n, ci, h, w))
    f = te.input("f", (k, k, ci, co) if last else (ci, co, k, k), constant=constant)

    def term(b: te.Expr, o: te.Expr, i: te.Expr, j: te.Expr, r: te.Expr, s: te.Expr, c: te.Expr) -> te.Expr:
        p, q = r * stride + (i + pad) % stride, s * stride + (j + pad) % stride
        y, z = (i + pad) // stride - r, (j + pad) // stride - s
        fits = [p < k, q < k] if k % stride else []
        value = x[b, y, z, c] if last else x[b, c, y, z]
        weight = f[p, q, c, o] if last else f[c, o, p, q]
        return where([*fits, y >= 0, y < h, z >= 0, z < w], value) * where(fits, weight)

    if last:
        return te.program(te.compute((n, ho, wo, co), lambda b, i, j, o: te.sum(
            (taps, taps, ci), lambda r, s, c: term(b, o, i, j, r, s, c))))[0]  # fmt: skip
    return te.program(te.compute((n, co, ho, wo), lambda b, o, i, j: te.sum(
        (ci, taps, taps), lambda c, r, s: term(b, o, i, j, r, s, c))))[0]  # fmt: skip


def capsule(
    n: int, h: int, w: int, ci: int, co: int, k: int, stride: int, pad: int, caps: int, constant: bool = True
) -> Program:
    """A capsule convolution: a ``caps`` x ``caps`` matrix product in place of every multiplication."""
    ho, wo = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    x, f = te.input("x", (n, h, w, caps, caps, ci)), te.input("f", (k, k, caps, caps, ci, co), constant=constant)

    def value(b: te.Expr, i: te.Expr, j: te.Expr, p: te.Expr, q: te.Expr, o: te.Expr) -> te.Reduction:
        def term(r: te.Expr, s: te.Expr, m: te.Expr, c: te.Expr) -> te.Expr:
            y, z = i * stride + r - pad, j * stride + s - pad
            inside = [y >= 0, y < h, z >= 0, z < w] if pad else []
            return where(inside, x[b, y, z, p, m, c]) * f[r, s, m, q, c, o]

        return te.sum((k, k, caps, ci), term)

    return te.program(te.compute((n, ho, wo, caps, caps, co), value))[0]
