"""Small convolutions for minimal filtering: edges of every kind, what follows them, weights of both kinds."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def convolution(
    n: int = 1, ci: int = 16, h: int = 8, w: int = 9, co: int = 16, pad: int = 1, layout: str = "NHWC",
    constant: bool = True, dtype: str = "float32", follow: str = "", stride: int = 1, dilation: int = 1, kernel: int = 3,
) -> Program:  # fmt: skip
    """A convolution, and what ``follow`` names: bias, residual, relu, silu, norm (a batch normalisation), row."""
    last = layout == "NHWC"
    x = te.input("x", (n, h, w, ci) if last else (n, ci, h, w), dtype)
    k = te.input("w", (kernel, kernel, ci, co) if last else (co, ci, kernel, kernel), dtype, constant)
    out = nn.conv2d(x, k, None, stride, pad, dilation, layout=layout)
    for name in follow.split():
        out = FOLLOW[name](out)
    return te.program(out)[0]


def _map(out: te.TensorRef, body: Callable[[te.Expr, tuple[te.Expr, ...]], te.Expr]) -> te.TensorRef:
    return te.compute(out.shape, lambda *at: body(out[at], at))


def _bias(out: te.TensorRef) -> te.TensorRef:
    b = te.input("b", (out.shape[-1],))
    return _map(out, lambda v, at: v + b[at[-1]])


def _norm(out: te.TensorRef) -> te.TensorRef:
    mean, var = te.input("mean", (out.shape[-1],)), te.input("var", (out.shape[-1],))
    return _map(out, lambda v, at: (v - mean[at[-1]]) * te.rsqrt(te.abs(var[at[-1]]) + 0.5))


def _residual(out: te.TensorRef) -> te.TensorRef:
    other = te.input("other", out.shape)
    return _map(out, lambda v, at: v + other[at])


def _row(out: te.TensorRef) -> te.TensorRef:
    other = te.input("rows", (out.shape[1],))
    return _map(out, lambda v, at: v + other[at[1]])


FOLLOW: dict[str, Callable[[te.TensorRef], te.TensorRef]] = {
    "bias": _bias,
    "residual": _residual,
    "norm": _norm,
    "row": _row,
    "relu": nn.relu,
    "silu": nn.silu,
}

WINOGRAD: dict[str, Callable[[], Program]] = {
    "tiled": lambda: convolution(follow="bias residual relu"),
    "tiled_odd": lambda: convolution(2, 19, 7, 10, 21, pad=0, follow="silu"),
    "tiled_norm": lambda: convolution(2, 16, 5, 4, 33, follow="norm relu"),
    "tiled_given": lambda: convolution(1, 17, 6, 6, 16, constant=False),
}
"""Programs that the template computes."""
enter("tiled", WINOGRAD)
