"""Operators of one's own: a function from sizes to a tensor expression.

From the command line::

    tilewright tune examples/custom_ops.py:sqdist m=512 n=512 k=64 --trials 64

From Python, see tune_and_use.py beside this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import nn, operator, te


def _sqdist_numpy(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    out: np.ndarray[Any, Any] = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    return out


@operator(numpy=_sqdist_numpy, example={"m": 256, "n": 256, "k": 64})
def sqdist(m: int, n: int, k: int) -> te.TensorRef:
    """Squared distance of each row of x to each row of y: ``out[i, j] = sum_k (x[i, k] - y[j, k])**2``.

    Inputs: ``x`` (m, k), ``y`` (n, k). Output: (m, n).
    """
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))


@operator(example={"m": 256, "n": 256, "k": 64})
def chebyshev(m: int, n: int, k: int) -> te.TensorRef:
    """Chebyshev distance of each row of x to each row of y: ``out[i, j] = max_k |x[i, k] - y[j, k]|``.

    Inputs: ``x`` (m, k), ``y`` (n, k). Output: (m, n).
    """
    x, y = te.input("x", (m, k)), te.input("y", (n, k))
    return te.compute((m, n), lambda i, j: te.max(k, lambda r: te.abs(x[i, r] - y[j, r])))


@operator(example={"m": 256, "n": 1024})
def layernorm(m: int, n: int) -> te.TensorRef:
    """Normalise each row: ``out[i, j] = (x[i, j] - mean_i) / sqrt(var_i + eps) * gamma[j] + beta[j]``.

    Inputs: ``x`` (m, n), ``gamma`` (n,), ``beta`` (n,), ``eps`` a number. Output: (m, n). The
    variance is Welford's: partial results (count, mean, sum of squared deviations) combine.
    """
    x, gamma, beta = te.input("x", (m, n)), te.input("gamma", (n,)), te.input("beta", (n,))
    eps = te.scalar("eps")

    def combine(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        count, delta = a[0] + b[0], b[1] - a[1]
        share = te.select(count > 0.0, b[0] / count, 0.0)
        return count, a[1] + delta * share, a[2] + b[2] + delta * delta * a[0] * share

    welford = te.monoid("welford", (0.0, 0.0, 0.0), combine, lambda count, mean, m2: m2 / count)
    mean = te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] / n))
    variance = te.compute((m,), lambda i: te.reduce(welford, n, lambda r: (1.0, x[i, r], 0.0)))
    return te.compute(
        (m, n),
        lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(variance[i] + eps[()]) * gamma[j] + beta[j],
    )


@operator(example={"n": 1, "c": 64, "h": 14, "w": 14, "m": 16})
def bottleneck(n: int, c: int, h: int, w: int, m: int) -> te.TensorRef:
    """Three convolutions of an image with channels last, 1x1 down, depthwise 3x3, 1x1 up, plus the image itself.

    Inputs: ``input`` (n, h, w, c), ``down`` (1, 1, c, m), ``deep`` (3, 3, 1, m), ``up`` (1, 1, m, c). Output: as
    ``input``.
    """
    x = te.input("input", (n, h, w, c))
    down, deep, up = te.input("down", (1, 1, c, m)), te.input("deep", (3, 3, 1, m)), te.input("up", (1, 1, m, c))
    y = nn.relu(nn.conv2d(x, down, layout="NHWC"))
    y = nn.relu(nn.conv2d(y, deep, padding=1, groups=m, layout="NHWC"))
    y = nn.conv2d(y, up, layout="NHWC")
    return te.compute(x.shape, lambda *i: y[i] + x[i])
