"""Twenty operators for which libraries have no kernel, each with NumPy beside it.

::

    tilewright tune examples/unusual.py:complex_product n=1000000 --trials 32

``benchmarks/unusual.py`` compares them with NumPy and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import operator, te

Array = np.ndarray[Any, Any]

# ------------------------------------------------------------------ short innermost axes


def _complex_product(x: Array, y: Array) -> Array:
    kind = np.result_type(x.dtype, np.complex64)
    product: Array = x.view(kind) * y.view(kind)
    return product.view(x.dtype)


@operator(numpy=_complex_product, example={"n": 1_000_000})
def complex_product(n: int) -> te.TensorRef:
    """Products of complex numbers, real and imaginary parts beside each other.

    Inputs: ``x``, ``y`` (n, 2). Output: (n, 2).
    """
    x, y = te.input("x", (n, 2)), te.input("y", (n, 2))
    return te.compute(
        (n, 2),
        lambda i, c: te.select(c == 0, x[i, 0] * y[i, 0] - x[i, 1] * y[i, 1], x[i, 0] * y[i, 1] + x[i, 1] * y[i, 0]),
    )


def _butterfly(x: Array, w: Array) -> Array:
    kind = np.result_type(x.dtype, np.complex64)
    even, odd = x.view(kind)[..., 0].T
    turned = odd * w.view(kind)[..., 0]
    return np.stack((even + turned, even - turned), axis=1)[..., None].view(x.dtype)


@operator(numpy=_butterfly, example={"n": 500_000})
def butterfly(n: int) -> te.TensorRef:
    """The radix-2 step of a Fourier transform: ``x0 + w * x1`` and ``x0 - w * x1``, in complex numbers.

    Inputs: ``x`` (n, 2, 2), ``w`` (n, 2). Output: (n, 2, 2).
    """
    x, w = te.input("x", (n, 2, 2)), te.input("w", (n, 2))

    def turned(i: te.Expr, c: te.Expr) -> te.Expr:
        return te.select(
            c == 0, x[i, 1, 0] * w[i, 0] - x[i, 1, 1] * w[i, 1], x[i, 1, 0] * w[i, 1] + x[i, 1, 1] * w[i, 0]
        )

    return te.compute(
        (n, 2, 2), lambda i, s, c: te.select(s == 0, x[i, 0, c] + turned(i, c), x[i, 0, c] - turned(i, c))
    )


_GRAY = (0.299, 0.587, 0.114)  # ITU-R BT.601


def _gray(image: Array) -> Array:
    out: Array = image @ np.array(_GRAY, image.dtype)
    return out


@operator(numpy=_gray, example={"h": 1080, "w": 1920})
def gray(h: int, w: int) -> te.TensorRef:
    """Luma of an image. Input: ``image`` (h, w, 3). Output: (h, w)."""
    image = te.input("image", (h, w, 3))
    r, g, b = _GRAY
    return te.compute((h, w), lambda i, j: r * image[i, j, 0] + g * image[i, j, 1] + b * image[i, j, 2])


_HAMILTON = (((0, 1), (1, -1), (2, -1), (3, -1)), ((1, 1), (0, 1), (3, 1), (2, -1)),
             ((2, 1), (3, -1), (0, 1), (1, 1)), ((3, 1), (2, 1), (1, -1), (0, 1)))  # fmt: skip
"""For each component of the product: with which component of ``y``, and which sign, each of ``x`` is multiplied."""


def _quaternion_product(x: Array, y: Array) -> Array:
    parts = [sum(x[:, p] * (sign * y[:, q]) for p, (q, sign) in enumerate(row)) for row in _HAMILTON]
    return np.stack(parts, axis=1)


@operator(numpy=_quaternion_product, example={"n": 500_000})
def quaternion_product(n: int) -> te.TensorRef:
    """Hamilton's product. Inputs: ``x``, ``y`` (n, 4), real part first. Output: (n, 4)."""
    x, y = te.input("x", (n, 4)), te.input("y", (n, 4))

    def part(i: te.Expr, row: tuple[tuple[int, int], ...]) -> te.Expr:
        total = x[i, 0] * y[i, row[0][0]]
        for p, (q, sign) in enumerate(row[1:], 1):
            total = total + x[i, p] * y[i, q] if sign > 0 else total - x[i, p] * y[i, q]
        return total

    def element(i: te.Expr, c: te.Expr) -> te.Expr:
        a, b, d, e = (part(i, row) for row in _HAMILTON)
        return te.select(c == 0, a, te.select(c == 1, b, te.select(c == 2, d, e)))

    return te.compute((n, 4), element)


def _rotary(x: Array, angle: Array) -> Array:
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.stack((x[..., 0] * c - x[..., 1] * s, x[..., 0] * s + x[..., 1] * c), axis=-1)


@operator(numpy=_rotary, example={"t": 512, "h": 16, "pairs": 32})
def rotary(t: int, h: int, pairs: int) -> te.TensorRef:
    """Rotary position embedding of interleaved pairs (Su et al., 2021).

    Inputs: ``x`` (t, h, pairs, 2), ``angle`` (t, pairs). Output: as ``x``.
    """
    x, angle = te.input("x", (t, h, pairs, 2)), te.input("angle", (t, pairs))
    c = te.compute(angle.shape, lambda i, k: te.cos(angle[i, k]))
    s = te.compute(angle.shape, lambda i, k: te.sin(angle[i, k]))
    return te.compute(
        x.shape,
        lambda i, j, k, p: te.select(
            p == 0, x[i, j, k, 0] * c[i, k] - x[i, j, k, 1] * s[i, k], x[i, j, k, 0] * s[i, k] + x[i, j, k, 1] * c[i, k]
        ),
    )


# ------------------------------------------------------------------ scatters


def _histogram(index: Array, weight: Array, *, bins: int) -> Array:
    return np.bincount(index, weight, bins).astype(weight.dtype)


@operator(numpy=_histogram, example={"n": 1_000_000, "bins": 256})
def histogram(n: int, bins: int) -> te.TensorRef:
    """Sum of weights for each bin. Inputs: ``index`` (n,) int32, ``weight`` (n,). Output: (bins,)."""
    index, weight = te.input("index", (n,), "int32", low=0, high=bins - 1), te.input("weight", (n,))
    return te.compute((bins,), lambda b: te.scatter("sum", b, n, lambda r: (index[r], weight[r])))


# ------------------------------------------------------------------ recurrences


def _linear() -> te.Monoid:
    """``h[t] = a[t] * h[t - 1] + b[t]`` as a monoid of the pairs (a, b)."""
    return te.monoid("linear", (1.0, 0.0), lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), lambda _, at: at)


def _walk(a: Array, b: Array) -> Array:
    """The same, along the first axis."""
    out, now = np.empty_like(b), np.zeros_like(b[0])
    for t in range(len(b)):
        now = a[t] * now + b[t]
        out[t] = now
    return out


@operator(numpy=_walk, example={"t": 1024, "c": 1024})
def gated_recurrence(t: int, c: int) -> te.TensorRef:
    """A gated linear recurrence: ``h[t] = a[t] * h[t - 1] + b[t]`` for each channel.

    Inputs: ``a`` (t, c) between 0 and 1, ``b`` (t, c). Output: (t, c).
    """
    a, b = te.input("a", (t, c), low=0.0, high=1.0), te.input("b", (t, c))
    return te.compute((t, c), lambda i, j: te.scan(_linear(), i, (a[i, j], b[i, j])))


def _average(x: Array) -> Array:
    return _walk(np.full(len(x), 0.9, x.dtype), x.dtype.type(0.1) * x)


@operator(numpy=_average, example={"t": 4096, "c": 64})
def exponential_average(t: int, c: int) -> te.TensorRef:
    """``h[t] = 0.9 * h[t - 1] + 0.1 * x[t]`` for each channel. Input: ``x`` (t, c). Output: (t, c)."""
    x = te.input("x", (t, c))
    return te.compute((t, c), lambda i, j: te.scan(_linear(), i, (0.9, 0.1 * x[i, j])))


def _running_product(x: Array) -> Array:
    return np.cumprod(x, axis=1)


@operator(numpy=_running_product, example={"m": 1024, "n": 1024})
def running_product(m: int, n: int) -> te.TensorRef:
    """Cumulative products of rows. Input: ``x`` (m, n) between 0.9 and 1.1. Output: (m, n)."""
    x = te.input("x", (m, n), low=0.9, high=1.1)
    return te.compute((m, n), lambda i, j: te.scan("prod", j, x[i, j]))


def _selective_scan(x: Array, dt: Array, a: Array, b: Array, c: Array) -> Array:
    decay, push = np.exp(-dt[..., None] * a), (dt * x)[..., None] * b[:, None, :]
    out: Array = (_walk(decay, push) * c[:, None, :]).sum(-1)
    return out


@operator(numpy=_selective_scan, example={"t": 512, "d": 512, "s": 16})
def selective_scan(t: int, d: int, s: int) -> te.TensorRef:
    """The scan of selective state space models (Gu and Dao, 2023).

    ``h[t, d, s] = exp(-dt[t, d] * a[d, s]) * h[t - 1, d, s] + dt[t, d] * b[t, s] * x[t, d]``, and the output is
    ``sum_s h[t, d, s] * c[t, s]``. Inputs: ``x``, ``dt`` (t, d), ``a`` (d, s), ``b``, ``c`` (t, s). Output: (t, d).
    """
    x, dt = te.input("x", (t, d)), te.input("dt", (t, d), low=0.0, high=1.0)
    a = te.input("a", (d, s), low=0.0, high=4.0)
    b, c = te.input("b", (t, s)), te.input("c", (t, s))
    h = te.compute(
        (t, d, s),
        lambda i, j, k: te.scan(_linear(), i, (te.exp(-dt[i, j] * a[j, k]), dt[i, j] * b[i, k] * x[i, j])),
    )
    return te.compute((t, d), lambda i, j: te.sum(s, lambda k: h[i, j, k] * c[i, k]))


# ------------------------------------------------------------------ neighbours


def _step_numpy(x: Array) -> Array:
    p = np.pad(x, 1, mode="edge")
    out: Array = x.dtype.type(0.2) * (p[1:-1, 1:-1] + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
    return out


def _diffusion(x: Array, *, steps: int) -> Array:
    for _ in range(steps):
        x = _step_numpy(x)
    return x


@operator(numpy=_diffusion, example={"h": 1024, "w": 1024, "steps": 4})
def diffusion(h: int, w: int, steps: int) -> te.TensorRef:
    """Steps of a five-point stencil: each element becomes the mean of itself and its four neighbours.

    Elements at the border are their own neighbours. Input: ``x`` (h, w). Output: (h, w).
    """
    x = te.input("x", (h, w))
    for _ in range(steps):
        x = te.compute(
            (h, w),
            lambda i, j, x=x: (
                0.2
                * (
                    x[i, j]
                    + x[te.maximum(i - 1, 0), j]
                    + x[te.minimum(i + 1, h - 1), j]
                    + x[i, te.maximum(j - 1, 0)]
                    + x[i, te.minimum(j + 1, w - 1)]
                )
            ),
        )
    return x


_BLUR = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def _blur(image: Array) -> Array:
    h, w = (s - 4 for s in image.shape)
    rows = sum(image.dtype.type(v) * image[:, r : r + w] for r, v in enumerate(_BLUR))
    return np.asarray(sum(image.dtype.type(v) * rows[r : r + h] for r, v in enumerate(_BLUR)))


@operator(numpy=_blur, example={"h": 1080, "w": 1920})
def blur(h: int, w: int) -> te.TensorRef:
    """A separable filter of five taps, along rows and then columns. Input: ``image`` (h+4, w+4). Output: (h, w)."""
    image = te.input("image", (h + 4, w + 4))

    def taps(at: Callable[[int], te.Expr]) -> te.Expr:
        total = _BLUR[0] * at(0)
        for r, v in enumerate(_BLUR[1:], 1):
            total = total + v * at(r)
        return total

    rows = te.compute((h + 4, w), lambda i, j: taps(lambda r: image[i, j + r]))
    return te.compute((h, w), lambda i, j: taps(lambda r: rows[i + r, j]))


def _gated_convolution(x: Array, w: Array, gate: Array) -> Array:
    t, taps = len(x), len(w)
    padded = np.concatenate((np.zeros((taps - 1, x.shape[1]), x.dtype), x))
    total = sum(padded[r : r + t] * w[r] for r in range(taps))
    return np.asarray(total / (1 + np.exp(-gate)))


@operator(numpy=_gated_convolution, example={"t": 2048, "c": 512, "taps": 4})
def gated_convolution(t: int, c: int, taps: int) -> te.TensorRef:
    """A causal convolution of each channel, times the sigmoid of a gate.

    Inputs: ``x`` (t, c), ``w`` (taps, c), ``gate`` (t, c). Output: (t, c).
    """
    x, w, gate = te.input("x", (t, c)), te.input("w", (taps, c)), te.input("gate", (t, c))
    y = te.compute(
        (t, c),
        lambda i, j: te.sum(taps, lambda r: te.select(i + r >= taps - 1, x[i + r - (taps - 1), j] * w[r, j], 0.0)),
    )
    return te.compute((t, c), lambda i, j: y[i, j] / (1.0 + te.exp(-gate[i, j])))


# ------------------------------------------------------------------ products


def _swiglu(x: Array, w: Array, v: Array) -> Array:
    gate = x @ w
    out: Array = gate / (1 + np.exp(-gate)) * (x @ v)
    return out


@operator(numpy=_swiglu, example={"m": 128, "n": 1024, "k": 512})
def swiglu(m: int, n: int, k: int) -> te.TensorRef:
    """A gated layer (Shazeer, 2020): ``silu(x @ w) * (x @ v)``. Inputs: ``x`` (m, k), ``w``, ``v`` (k, n)."""
    x, w, v = te.input("x", (m, k)), te.input("w", (k, n)), te.input("v", (k, n))
    gate = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * w[r, j]))
    value = te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * v[r, j]))
    return te.compute((m, n), lambda i, j: gate[i, j] / (1.0 + te.exp(-gate[i, j])) * value[i, j])


def _projections(x: Array, w_q: Array, w_k: Array, w_v: Array) -> tuple[Array, Array, Array]:
    return x @ w_q, x @ w_k, x @ w_v


@operator(numpy=_projections, example={"m": 128, "n": 512, "k": 512})
def projections(m: int, n: int, k: int) -> tuple[te.TensorRef, ...]:
    """Queries, keys and values of one input. Inputs: ``x`` (m, k), three weights (k, n). Outputs: three of (m, n)."""
    x = te.input("x", (m, k))
    weights = [te.input(f"w_{name}", (k, n)) for name in "qkv"]
    return tuple(te.compute((m, n), lambda i, j, w=w: te.sum(k, lambda r: x[i, r] * w[r, j])) for w in weights)


def _triangular(a: Array, b: Array) -> Array:
    out: Array = np.tril(a) @ b
    return out


@operator(numpy=_triangular, example={"n": 512, "m": 512})
def triangular_product(n: int, m: int) -> te.TensorRef:
    """The lower triangle of ``a`` times ``b``. Inputs: ``a`` (n, n), ``b`` (n, m). Output: (n, m)."""
    a, b = te.input("a", (n, n)), te.input("b", (n, m))
    return te.compute((n, m), lambda i, j: te.sum(n, lambda r: te.select(r <= i, a[i, r], 0.0) * b[r, j]))


def _experts(x: Array, w: Array, expert: Array) -> Array:
    out = np.empty((len(x), w.shape[2]), x.dtype)
    for e in range(len(w)):
        chosen = expert == e
        out[chosen] = x[chosen] @ w[e]
    return out


@operator(numpy=_experts, example={"m": 256, "n": 512, "k": 512, "e": 8})
def experts(m: int, n: int, k: int, e: int) -> te.TensorRef:
    """Each row times the weights of its expert. Inputs: ``x`` (m, k), ``w`` (e, k, n), ``expert`` (m,) int32."""
    x, w = te.input("x", (m, k)), te.input("w", (e, k, n))
    expert = te.input("expert", (m,), "int32", low=0, high=e - 1)
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[i, r] * w[expert[i], r, j]))


def _gathered_product(x: Array, rows: Array, w: Array) -> Array:
    out: Array = x[rows] @ w
    return out


@operator(numpy=_gathered_product, example={"m": 512, "n": 512, "k": 512, "total": 4096})
def gathered_product(m: int, n: int, k: int, total: int) -> te.TensorRef:
    """Chosen rows times a matrix. Inputs: ``x`` (total, k), ``rows`` (m,) int32, ``w`` (k, n). Output: (m, n)."""
    x, rows = te.input("x", (total, k)), te.input("rows", (m,), "int32", low=0, high=total - 1)
    w = te.input("w", (k, n))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: x[rows[i], r] * w[r, j]))


def _tropical(a: Array, b: Array) -> Array:
    out: Array = np.max(a[:, :, None] + b[None], axis=1)
    return out


@operator(numpy=_tropical, example={"m": 256, "n": 256, "k": 256})
def tropical_product(m: int, n: int, k: int) -> te.TensorRef:
    """The product of the max-plus semiring. Inputs: ``a`` (m, k), ``b`` (k, n). Output: (m, n)."""
    a, b = te.input("a", (m, k)), te.input("b", (k, n))
    return te.compute((m, n), lambda i, j: te.max(k, lambda r: a[i, r] + b[r, j]))


def _density(x: Array, y: Array) -> Array:
    square = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    out: Array = np.exp(-square).sum(-1)
    return out


@operator(numpy=_density, example={"m": 512, "n": 512, "k": 16})
def density(m: int, n: int, k: int) -> te.TensorRef:
    """Kernel density: ``sum_j exp(-|x[i] - y[j]|**2)``. Inputs: ``x`` (m, k), ``y`` (n, k). Output: (m,)."""
    x, y = te.input("x", (m, k), low=-0.5, high=0.5), te.input("y", (n, k), low=-0.5, high=0.5)
    near = te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
    return te.compute((m,), lambda i: te.sum(n, lambda j: te.exp(-near[i, j])))
