"""Sums of non-negative terms, which represent errors, and their conversion to float64 expressions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from tilewright.kernels.expression.expr import FLOATS, NARROW, Expr, const

F64 = "float64"

Terms = dict[tuple[str, ...], tuple[float, tuple[Expr, ...]]]
"""A sum of products: coefficient and non-negative factors, by the factors' text."""


def number(e: Expr) -> float:
    """Value of a constant."""
    assert isinstance(e.value, (bool, int, float))
    return float(e.value)


def f64(op: str, *args: Expr) -> Expr:
    return Expr(op, F64, args)


def constant(value: float) -> Expr:
    return const(float(value), F64)


def wide(n: Expr) -> Expr | None:
    """A node of a real dtype in float64; ``None`` for other dtypes. A cast to a narrow dtype still rounds."""
    if n.dtype not in FLOATS or n.dtype == F64:
        return None
    if n.op == "cast" and n.dtype in NARROW:
        return Expr("cast", F64, (n,))
    if n.op == "cast" and n.args[0].dtype == F64:
        return n.args[0]
    return const(n.value, F64) if n.op == "const" else Expr(n.op, F64, n.args, n.value)  # type: ignore[arg-type]


def product(factors: Iterable[Expr]) -> Expr:
    fs = list(factors)
    return reduce(lambda a, b: f64("mul", a, b), fs) if fs else constant(1.0)


def added(*parts: Terms) -> Terms:
    out: Terms = {}
    for p in parts:
        for key, (c, factors) in p.items():
            out[key] = (out[key][0] + c if key in out else c, factors)
    return out


def scaled(terms: Terms, c: float, factors: tuple[Expr, ...] = ()) -> Terms:
    out: Terms = {}
    for k, fs in terms.values():
        out = added(out, term(k * c, (*fs, *factors)))
    return out


def term(c: float, factors: Iterable[Expr]) -> Terms:
    ordered = sorted(((repr(f), f) for f in factors), key=lambda p: p[0])
    return {tuple(t for t, _ in ordered): (c, tuple(f for _, f in ordered))} if c else {}


def expression(terms: Terms) -> Expr:
    parts = [f64("mul", constant(c), product(fs)) if fs else constant(c) for c, fs in terms.values()]
    return reduce(lambda a, b: f64("add", a, b), parts) if parts else constant(0.0)
