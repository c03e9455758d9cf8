"""Small convolutions of every form that CUDA contractions compute: layouts, groups, phases, matrices for channels."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter

CONVOLUTIONS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
TRANSPOSED = {1: nn.conv_transpose1d, 2: nn.conv_transpose2d}


def _program(out: te.TensorRef, dtype: str) -> Program:
    return te.program(nn.cast(out, dtype) if dtype in ("float16", "bfloat16") else out)[0]


def _image(layout: str, n: int, c: int, sizes: tuple[int, ...], dtype: str) -> te.TensorRef:
    return te.input("x", (n, *sizes, c) if layout.endswith("C") else (n, c, *sizes), dtype)


def convolution(
    layout: str, dtype: str, ci: int, co: int, sizes: tuple[int, ...], kernel: tuple[int, ...], groups: int = 1,
    stride: te.Ints = 1, padding: te.Ints = 0, dilation: te.Ints = 1, bias: bool = False,
) -> Program:  # fmt: skip
    """Of two images."""
    cg = ci // groups
    x = _image(layout, 2, ci, sizes, dtype)
    w = te.input("w", (*kernel, cg, co) if layout.endswith("C") else (co, cg, *kernel), dtype)
    b = te.input("b", (co,), dtype) if bias else None
    out = CONVOLUTIONS[len(sizes)](x, w, b, stride, padding, dilation, groups, layout=layout)
    return _program(out, dtype)


def transposed(
    layout: str, dtype: str, ci: int, co: int, sizes: tuple[int, ...], kernel: tuple[int, ...], groups: int = 1,
    stride: te.Ints = 2, padding: te.Ints = 1, extra: te.Ints = 0, dilation: te.Ints = 1,
) -> Program:  # fmt: skip
    """Of two images, transposed."""
    og = co // groups
    x = _image(layout, 2, ci, sizes, dtype)
    w = te.input("w", (*kernel, ci, og) if layout.endswith("C") else (ci, og, *kernel), dtype)
    out = TRANSPOSED[len(sizes)](x, w, None, stride, padding, extra, groups, dilation, layout=layout)
    return _program(out, dtype)


def tf32() -> Program:
    """Padded, operands rounded to TF32, four channels: one copy of 16 bytes a pixel."""
    x, w = te.input("x", (1, 5, 6, 4)), te.input("w", (3, 3, 4, 12))

    def at(y: te.Expr, z: te.Expr, c: te.Expr) -> te.Expr:
        return te.select((y >= 0) & (y < 5) & (z >= 0) & (z < 6), te.round_tf32(x[0, y, z, c]), 0.0)

    return te.program(te.compute((5, 6, 12), lambda i, j, o: te.sum(
        (3, 3, 4), lambda r, s, c: at(i + r - 1, j + s - 1, c) * te.round_tf32(w[r, s, c, o]))))[0]  # fmt: skip


def capsules(dtype: str) -> Program:
    x, w = te.input("x", (1, 5, 4, 2, 3, 8), dtype), te.input("w", (3, 3, 3, 2, 8, 5), dtype)
    return _program(nn.capsule_conv2d(x, w, 2, 1), dtype)


def heads(dtype: str) -> Program:
    """Scores of attention."""
    q, k = te.input("q", (2, 3, 5, 16), dtype), te.input("k", (2, 3, 7, 16), dtype)
    return _program(nn.einsum("bhqd,bhkd->bhqk", q, k), dtype)


def normalised() -> Program:
    """Bias, batch norm, an activation and a residual after the sum."""
    x, w, b = te.input("x", (1, 6, 5, 8), "bfloat16"), te.input("w", (1, 1, 8, 10), "bfloat16"), te.input("b", (10,))
    scale, more = te.input("scale", (10,)), te.input("more", (1, 6, 5, 10), "bfloat16")
    z = nn.conv2d(x, w, layout="NHWC")

    def finish(n: te.Expr, i: te.Expr, j: te.Expr, o: te.Expr) -> te.Expr:
        y = (z[n, i, j, o] + b[o]) * scale[o] + te.cast(more[n, i, j, o], "float32")
        return te.maximum(y, 0.0)

    return _program(te.compute(z.shape, finish), "bfloat16")


def requantised() -> Program:
    """int8 in and out."""
    x, w = te.input("x", (1, 5, 5, 16), "int8"), te.input("w", (3, 3, 16, 9), "int8")
    scale, step = te.input("scale", (9,)), te.input("step", ())
    z = nn.conv2d(x, w, None, 1, 1, layout="NHWC")
    real = te.compute(z.shape, lambda *i: te.cast(z[i], "float32") * scale[i[-1]])
    return te.program(nn.requantize(real, step))[0]


def half_turned() -> Program:
    """A 16-bit operand that a stage before the product turns."""
    x, y = te.input("x", (16, 9), "float16"), te.input("y", (16, 12), "float16")
    turned = te.compute((9, 16), lambda i, r: x[r, i])
    return te.program(te.compute((9, 12), lambda i, j: te.sum(
        16, lambda r: te.cast(turned[i, r], "float32") * te.cast(y[r, j], "float32"))))[0]  # fmt: skip


def dequantised(weights: str = "int8", turned: bool = False) -> Program:
    """8-bit weights with a scale a column, 16-bit activations with one a row; bias after them."""
    x, w = te.input("x", (17, 40), "bfloat16"), te.input("w", (24, 40) if turned else (40, 24), weights)
    s, t, b = te.input("s", (24,)), te.input("t", (17,), "bfloat16"), te.input("b", (24,))

    def weight(r: te.Expr, j: te.Expr) -> te.Expr:
        return te.cast(w[j, r] if turned else w[r, j], "float32") * s[j]

    z = te.compute((17, 24), lambda i, j: te.sum(40, lambda r: te.cast(x[i, r], "float32") * weight(r, j)))
    return _program(te.compute(z.shape, lambda i, j: z[i, j] * te.cast(t[i], "float32") + b[j]), "bfloat16")


def _both(make: Callable[[str], Program], name: str, dtypes: tuple[str, ...]) -> dict[str, Callable[[], Program]]:
    return {f"{name}_{dtype}": lambda dtype=dtype: make(dtype) for dtype in dtypes}  # type: ignore[misc]


FORMS: dict[str, Callable[[], Program]] = {
    **_both(lambda t: convolution("NCW", t, 3, 5, (11,), (3,), stride=2, padding=1), "conv1d", ("float32",)),
    **_both(
        lambda t: convolution("NWC", t, 8, 6, (11,), (3,), padding=2, dilation=2, bias=True),
        "conv1d_last",
        ("float16",),
    ),
    **_both(
        lambda t: convolution("NCHW", t, 6, 4, (7, 6), (3, 2), 2, (2, 1), 1, (1, 2)), "grouped", ("float32", "bfloat16")
    ),
    **_both(
        lambda t: convolution("NHWC", t, 16, 8, (7, 5), (3, 3), 2, 2, 1), "grouped_last", ("float16", "int8", "float32")
    ),
    **_both(lambda t: convolution("NCDHW", t, 2, 5, (4, 5, 3), (2, 3, 3), padding=1), "conv3d", ("bfloat16",)),
    **_both(
        lambda t: convolution("NDHWC", t, 4, 5, (4, 5, 3), (2, 3, 3), padding=1), "conv3d_last", ("float16", "float32")
    ),
    **_both(lambda t: transposed("NCW", t, 4, 6, (5,), (4,)), "turned1d", ("float32", "float16")),
    **_both(lambda t: transposed("NWC", t, 8, 6, (5,), (3,), extra=1), "turned1d_last", ("float16",)),
    **_both(lambda t: transposed("NCHW", t, 4, 6, (4, 3), (3, 3), 2, extra=1), "turned_grouped", ("float32", "int8")),
    **_both(lambda t: transposed("NHWC", t, 8, 5, (4, 3), (4, 4)), "turned_last", ("float32", "bfloat16")),
    **_both(lambda t: transposed("NHWC", t, 8, 5, (3, 3), (3, 3), stride=3, padding=0), "thirds", ("float16",)),
    **_both(lambda t: transposed("NHWC", t, 8, 5, (3, 4), (3, 3)), "odd_last", ("float32", "float16")),
    **_both(lambda t: transposed("NCHW", t, 4, 6, (4, 3), (3, 4)), "odd", ("float32", "float16")),
    **_both(lambda t: transposed("NCW", t, 6, 4, (4,), (4,), groups=2, stride=3), "odd1d", ("float32", "int8")),
    **_both(lambda t: transposed("NHWC", t, 8, 5, (3, 3), (2, 3), dilation=3), "dilated", ("float32", "float16")),
    **_both(capsules, "capsules", ("float32", "float16")),
    **_both(heads, "heads", ("float32", "bfloat16")),
    **{f.__name__: f for f in (tf32, normalised, requantised, half_turned, dequantised)},
    "dequantised_turned": lambda: dequantised("uint8", turned=True),
}
"""Builders by name."""
enter("convolution", FORMS)
