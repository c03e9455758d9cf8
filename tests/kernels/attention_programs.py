"""Attention programs for tests: the chain of stages, with what may vary in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.core import Value
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.testing.catalogue import enter

Modify = Callable[..., te.Expr]
MINUS_INFINITY = -math.inf


def attention(
    b: int = 1,
    h: int = 2,
    lq: int = 21,
    lk: int = 37,
    d: int = 12,
    dv: int = 11,
    hk: int | None = None,
    dtype: str = "float32",
    modify: Modify | None = None,
    inputs: Callable[[], tuple[te.TensorRef, ...]] = lambda: (),
    divide_first: bool = False,
    rounded: bool = False,
    finish: Modify | None = None,
    packed: bool = False,
) -> Program:
    """softmax(modify(Q K^T / sqrt(d))) V; ``modify(score, b, h, i, j, *extra)``, ``finish(value, b, h, i, e, *extra)``.

    ``rounded``: weights are rounded to ``dtype`` before they are multiplied by values. ``packed``: queries, keys and
    values are one input, as a projection leaves them, row by row with all heads.
    """
    hk = hk or h
    if packed:
        every = te.input("qkv", (b, lq, h + 2 * hk, d), dtype)
        q, k, v = (lambda p, g, i, r, n=n: every[p, i, n + g, r] for n in (0, h, h + hk))
    else:
        shapes = {"q": (b, h, lq, d), "k": (b, hk, lk, d), "v": (b, hk, lk, dv)}
        inner = [te.input(n, s, dtype) for n, s in shapes.items()]
        q, k, v = (lambda *at, x=x: x[at] for x in inner)
    extra = inputs()
    share = h // hk

    def real(x: te.Expr) -> te.Expr:
        return te.cast(x, "float32")

    s = te.compute(
        (b, h, lq, lk), lambda p, g, i, j: te.sum(d, lambda r: real(q(p, g, i, r)) * real(k(p, g // share, j, r)))
    )

    def score(p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        scaled = s[p, g, i, j] * (1.0 / math.sqrt(d))
        return scaled if modify is None else modify(scaled, p, g, i, j, *extra)

    t = te.compute((b, h, lq, lk), score)
    top = te.compute((b, h, lq), lambda p, g, i: te.max(lk, lambda j: t[p, g, i, j]))
    e = te.compute((b, h, lq, lk), lambda p, g, i, j: te.exp(t[p, g, i, j] - top[p, g, i]))
    total = te.compute((b, h, lq), lambda p, g, i: te.sum(lk, lambda j: e[p, g, i, j]))
    if divide_first:
        e = _divided(e, total)

    def weight(p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return real(te.cast(e[p, g, i, j], dtype)) if rounded else e[p, g, i, j]

    o = te.compute(
        (b, h, lq, dv), lambda p, g, i, c: te.sum(lk, lambda j: weight(p, g, i, j) * real(v(p, g // share, j, c)))
    )

    def result(p: te.Expr, g: te.Expr, i: te.Expr, c: te.Expr) -> te.Expr:
        value = o[p, g, i, c] if divide_first else o[p, g, i, c] / total[p, g, i]
        return value if finish is None else finish(value, p, g, i, c, *extra)

    if divide_first and finish is None:
        return te.program(o)[0]
    return te.program(te.compute((b, h, lq, dv), result, dtype=dtype))[0]


def _divided(e: te.TensorRef, total: te.TensorRef) -> te.TensorRef:
    return te.compute(e.shape, lambda p, g, i, j: e[p, g, i, j] / total[p, g, i])


def of_operator(**sizes: Value) -> Program:
    return Program.loads(get_operator("attention").workload(**sizes).program)


def causal(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *_: Any) -> te.Expr:
    return te.select(j <= i, score, MINUS_INFINITY)


def window(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *_: Any) -> te.Expr:
    """Neighbours within 9 positions, and a penalty that grows with the distance."""
    penalty = te.cast(te.minimum(i - j, j - i), "float32") * 0.125
    return te.select((i - j < 9) & (j - i < 9), score + penalty, MINUS_INFINITY)


def documents(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *_: Any) -> te.Expr:
    """Blocks of 8 positions see themselves and every even block before them."""
    return te.select((i // 8 == j // 8) | (((j // 8) % 2 == 0) & (j <= i)), score, MINUS_INFINITY)


def soft_cap(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *_: Any) -> te.Expr:
    return te.tanh(score * 0.5) * 2.0 + te.cast(g, "float32") * 0.1


def bias(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: Any) -> te.Expr:
    return score + extra[0][g, i, j]


def keep(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: Any) -> te.Expr:
    return te.select(extra[0][p, j], score, MINUS_INFINITY)


def mask(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: Any) -> te.Expr:
    return te.select(extra[0][i, j] | (j == 0), score, MINUS_INFINITY)


def short(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: Any) -> te.Expr:
    return te.select(j < extra[0][p], score, MINUS_INFINITY)


def cached(score: te.Expr, p: te.Expr, g: te.Expr, i: te.Expr, j: te.Expr, *extra: Any) -> te.Expr:
    """Nine queries are the last positions of each sequence."""
    return te.select(j <= extra[0][p] + (i - 9), score, MINUS_INFINITY)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "plain": attention,
    "causal": lambda: attention(lq=37, lk=37, d=16, dv=16, modify=causal),
    "window": lambda: attention(b=2, h=1, lq=40, lk=40, modify=window),
    "documents": lambda: attention(h=1, lq=41, lk=41, d=8, dv=8, modify=documents),
    "grouped": lambda: attention(b=2, h=6, hk=2, lq=5, lk=19, d=7, dv=3),
    "soft_cap": lambda: attention(lq=17, modify=soft_cap),
    "bias": lambda: attention(lq=35, lk=18, modify=bias, inputs=lambda: (te.input("bias", (2, 35, 18)),)),
    "keep": lambda: attention(b=2, modify=keep, inputs=lambda: (te.input("keep", (2, 37), "bool"),)),
    "mask": lambda: attention(lq=37, lk=40, modify=mask, inputs=lambda: (te.input("mask", (37, 40), "bool"),)),
    "lengths": lambda: attention(b=3, modify=short, inputs=lambda: (te.input("n", (3,), "int32", low=1, high=37),)),
    "cached": lambda: attention(
        b=2, h=1, lq=9, lk=140, modify=cached, inputs=lambda: (te.input("n", (2,), "int64", low=9, high=140),)
    ),
    "paged": lambda: of_operator(b=2, h=4, hk=2, lq=17, lk=60, d=12, dv=9, page=10, pages=17, lengths=True),
    "divided": lambda: attention(divide_first=True),
    "half": lambda: attention(dtype="bfloat16", d=18, modify=causal, lq=37),
    "rounded": lambda: attention(dtype="bfloat16", d=18, lq=37, rounded=True),
    "deep": lambda: attention(b=1, h=1, lq=18, lk=16, d=256, dv=8),
    "long": lambda: attention(h=1, lq=9, lk=150),
    "long_causal": lambda: attention(h=1, lq=9, lk=140, modify=causal),
    "long_residual": lambda: attention(
        h=1, lq=9, lk=200, finish=lambda y, p, g, i, c, x: y + x[i, c], inputs=lambda: (te.input("x", (9, 11)),)
    ),
    "residual": lambda: attention(
        finish=lambda y, p, g, i, c, x: y * 0.5 + x[p, i, g, c], inputs=lambda: (te.input("x", (1, 21, 2, 11)),)
    ),
    "wide_residual": lambda: attention(
        dv=19, finish=lambda y, p, g, i, c, x: y + x[p, g, i, c], inputs=lambda: (te.input("x", (1, 2, 21, 19)),)
    ),
}  # fmt: skip
enter("attention", PROGRAMS)
