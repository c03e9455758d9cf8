"""Products as Tensor Cores take them: every layout of every type, and what stands around them."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator


def factor(x: te.Expr) -> te.Expr:
    """An element as Tensor Cores multiply it."""
    if x.dtype == "float64":
        return x
    return te.round_tf32(x) if x.dtype == "float32" else te.cast(x, "int32" if x.dtype == "int8" else "float32")


Factor = Callable[[te.Expr], te.Expr]


def product(
    dtype: str, m: int, n: int, k: int, rows: str = "mk", columns: str = "kn", out: str = "", factor: Factor = factor
) -> Program:
    """A matrix product: ``rows`` and ``columns`` name the operands' axes, the outer one first."""
    size = {"m": m, "n": n, "k": k}
    x, y = (te.input(name, (size[o[0]], size[o[1]]), dtype) for name, o in (("x", rows), ("y", columns)))

    def term(i: te.Expr, j: te.Expr, r: te.Expr) -> te.Expr:
        at = {"m": i, "n": j, "k": r}
        return factor(x[at[rows[0]], at[rows[1]]]) * factor(y[at[columns[0]], at[columns[1]]])

    z = te.compute((m, n), lambda i, j: te.sum(k, lambda r: term(i, j, r)))
    return te.program(te.compute((m, n), lambda i, j: te.cast(z[i, j], out)) if out else z)[0]


def cut(m: int, n: int, k: int, rows: str = "mk", columns: str = "nk") -> Program:
    """A product of float32 operands cut to TF32."""
    return product("float32", m, n, k, rows, columns, factor=te.truncate_tf32)


def batched() -> Program:
    """A batch axis inside of a row, which no vector crosses."""
    x, y = te.input("x", (9, 3, 24), "bfloat16"), te.input("y", (3, 24, 40), "bfloat16")
    return te.program(te.compute((9, 3, 40), lambda i, b, j: te.sum(
        24, lambda r: factor(x[i, b, r]) * factor(y[b, r, j]))))[0]  # fmt: skip


def conv_nhwc(dtype: str = "float16") -> Program:
    """Padded, strided and dilated, channels innermost: vectors of channels under one guard."""
    c, o, h, w = 16, 24, 7, 6
    x, f = te.input("x", (2, h, w, c), dtype), te.input("f", (3, 3, c, o), dtype)

    def at(b: te.Expr, y: te.Expr, z: te.Expr, q: te.Expr) -> te.Expr:
        return factor(te.select((y >= 0) & (y < h) & (z >= 0) & (z < w), x[b, y, z, q], 0))

    z = te.compute((2, 4, 4, o), lambda b, i, j, p: te.sum((3, 3, c), lambda r, s, q: at(
        b, i * 2 + r - 1, j * 2 + s * 2 - 2, q) * factor(f[r, s, q, p])))  # fmt: skip
    return te.program(te.compute((2, 4, 4, o), lambda b, i, j, p: te.cast(z[b, i, j, p], dtype)))[0]


def conv_nchw() -> Program:
    """Channels outermost: a guard that changes from element to element, in both directions."""
    x, f = te.input("x", (2, 3, 6, 7), "bfloat16"), te.input("f", (20, 3, 3, 3), "bfloat16")

    def at(b: te.Expr, c: te.Expr, y: te.Expr, z: te.Expr) -> te.Expr:
        inside = (y >= 0) & (y < 6) & (z >= 0) & (z < 7)
        return te.select(inside, factor(x[b, c, y, z]), 0.0)

    return te.program(te.compute((2, 20, 6, 7), lambda b, o, i, j: te.sum((3, 3, 3), lambda c, r, s: at(
        b, c, i + r - 1, j + s - 1) * factor(f[o, c, r, s]))))[0]  # fmt: skip


def dense() -> Program:
    """Bias, an activation and a residual, all 16-bit."""
    x, y = te.input("x", (20, 64), "bfloat16"), te.input("y", (48, 64), "bfloat16")
    bias, more = te.input("bias", (48,), "bfloat16"), te.input("more", (20, 48), "bfloat16")
    z = te.compute((20, 48), lambda i, j: te.sum(64, lambda r: factor(x[i, r]) * factor(y[j, r])))

    def finish(i: te.Expr, j: te.Expr) -> te.Expr:
        v = z[i, j] + te.cast(bias[j], "float32")
        return te.cast(v / (1.0 + te.exp(-v)) + te.cast(more[i, j], "float32"), "bfloat16")

    return te.program(te.compute((20, 48), finish))[0]


def scaled(m: int, n: int, k: int, **more: object) -> Program:
    """8-bit reals with a scale for each block of them."""
    return Program.loads(get_operator("scaled_mm").workload(m=m, n=n, k=k, **{"trans_b": True, **more}).program)


def quantised() -> Program:
    """8-bit operands, a scale, and a saturated 8-bit result."""
    x, y = te.input("x", (24, 64), "int8"), te.input("y", (32, 64), "int8")
    z = te.compute((24, 32), lambda i, j: te.sum(64, lambda r: factor(x[i, r]) * factor(y[j, r])))
    q = te.compute((24, 32), lambda i, j: te.floor(te.cast(z[i, j], "float32") * 0.5))
    return te.program(te.compute((24, 32), lambda i, j: te.cast(
        te.minimum(te.maximum(q[i, j], -128.0), 127.0), "int8")))[0]  # fmt: skip


def dequantised() -> Program:
    """A padded convolution with whole 8-bit weights, which have a scale for each 32 channels of a tap."""
    c, o, h, w = 64, 24, 5, 4
    x, f, s = te.input("x", (2, h, w, c), "bfloat16"), te.input("f", (o, 3, c), "int8"), te.input("s", (o, 3, c // 32))

    def at(b: te.Expr, y: te.Expr, z: te.Expr, q: te.Expr) -> te.Expr:
        return te.cast(te.select((y >= 0) & (y < h), x[b, y, z, q], 0), "float32")

    return te.program(te.compute((2, h, w, o), lambda b, i, j, p: te.sum((3, c), lambda r, q: at(
        b, i + r - 1, j, q) * (te.cast(f[p, r, q], "float32") * s[p, r, q // 32]))))[0]  # fmt: skip


LAYOUTS = tuple((a, b) for a in ("mk", "km") for b in ("kn", "nk"))
OUT = {"bfloat16": "bfloat16", "float16": "float16", "float32": "", "int8": "", "float64": ""}

PRODUCTS: dict[str, Callable[[], Program]] = {
    f"{dtype}_{a}_{b}_{label}": lambda dtype=dtype, size=size, a=a, b=b: product(dtype, *size, a, b, OUT[dtype])
    for dtype in OUT
    for a, b in LAYOUTS
    for label, size in (("odd", (33, 39, 71)), ("even", (48, 40, 80)))
    # Two 16-bit types differ in one instruction: every layout of one is enough.
    if dtype != "float16" or (a, b) == ("mk", "kn")
}
PRODUCTS |= {
    "row": lambda: product("bfloat16", 1, 40, 136, out="bfloat16"),
    "column": lambda: product("float16", 70, 1, 33, "km", "nk"),
    "shallow": lambda: product("int8", 5, 7, 1),
    "pairs": lambda: product("bfloat16", 18, 22, 70, "km", "nk"),
    "doubles": lambda: conv_nhwc("float64"),
    "narrowed": lambda: product("float64", 40, 39, 70, "km", "nk", "bfloat16"),
    **{f.__name__: f for f in (batched, conv_nhwc, conv_nchw, dense, quantised, dequantised)},
}


QUICK = {
    name: build
    for name, build in PRODUCTS.items()
    if not name.endswith("_even") or name.startswith(("bfloat16_km_nk", "float32_km_kn", "int8_mk_kn"))
}

EIGHT_BITS: dict[str, Callable[[], Program]] = {
    "e4m3_mk_kn": lambda: product("float8_e4m3fn", 33, 39, 71, out="bfloat16"),
    "e4m3_mk_nk": lambda: product("float8_e4m3fn", 48, 40, 80, "mk", "nk"),
    "e5m2_km_nk": lambda: product("float8_e5m2", 40, 24, 96, "km", "nk", "float16"),
    "scaled": lambda: scaled(33, 128, 200, block=64),
    "scaled_columns": lambda: scaled(
        40, 39, 300, by_column=True, trans_b=False, bias=True, dtype="float8_e5m2", out_dtype="float32"
    ),
}
"""Products of 8-bit reals."""
