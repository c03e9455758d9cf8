"""Programs whose innermost output axis is another than usual: a batch, a row, or an axis that an input has elsewhere.

Extents are one past whole vectors of every target, so that each has a tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program

SIZES = {"b": 3, "m": 5, "n": 33, "k": 19, "t": 4, "h": 4, "w": 17, "c": 3}
SUM_TYPES = {"bfloat16": "float32", "float16": "float32", "int8": "int32"}


def _extents(axes: Sequence[str]) -> tuple[int, ...]:
    return tuple(SIZES[a] for a in axes)


def _read(x: te.TensorRef, axes: Sequence[str], at: dict[str, te.Expr]) -> te.Expr:
    return x[tuple(at[a] for a in axes)]


def product(equation: str, dtype: str) -> Program:
    """Einstein's sum of two tensors; of 16-bit reals rounded to them."""
    (left, right), out = equation.split("->", maxsplit=1)[0].split(","), equation.split("->")[1]
    total = SUM_TYPES.get(dtype, dtype)
    x, y = te.input("x", _extents(left), dtype), te.input("y", _extents(right), dtype)

    def value(*axes: te.Expr) -> te.Expr:
        at = dict(zip(out, axes, strict=True))

        def term(k: te.Expr) -> te.Expr:
            one, other = _read(x, left, {**at, "k": k}), _read(y, right, {**at, "k": k})
            return te.cast(one, total) * te.cast(other, total)

        return te.sum(SIZES["k"], term)

    return te.program(te.compute(_extents(out), value, dtype=total if dtype == "int8" else dtype))[0]


def scan(source: str, out: str, along: str) -> Program:
    """Sums along one axis of an input that has its axes in another order, or lacks some."""
    x = te.input("x", _extents(source))

    def value(*axes: te.Expr) -> te.Expr:
        at = dict(zip(out, axes, strict=True))
        return te.scan("sum", at[along], _read(x, source, at))

    return te.program(te.compute(_extents(out), value))[0]


def normalised(source: str, out: str, over: str) -> Program:
    """Exponentials divided by their sums along an axis."""
    x, kept = te.input("x", _extents(source)), [a for a in out if a != over]

    def total(*axes: te.Expr) -> te.Expr:
        at = dict(zip(kept, axes, strict=True))
        return te.sum(SIZES[over], lambda r: te.exp(_read(x, source, {**at, over: r})))

    sums = te.compute(_extents(kept), total)

    def value(*axes: te.Expr) -> te.Expr:
        at = dict(zip(out, axes, strict=True))
        return te.exp(_read(x, source, at)) / _read(sums, kept, at)

    return te.program(te.compute(_extents(out), value))[0]


def added(first: str, second: str, out: str) -> Program:
    """A sum of two inputs of other orders."""
    x, y = te.input("x", _extents(first)), te.input("y", _extents(second))

    def value(*axes: te.Expr) -> te.Expr:
        at = dict(zip(out, axes, strict=True))
        return _read(x, first, at) + _read(y, second, at)

    return te.program(te.compute(_extents(out), value))[0]


def pooled(source: str, out: str) -> Program:
    """The greatest of 2 by 2 neighbours."""
    x = te.input("x", tuple(SIZES[a] + (a in "hw") for a in source))

    def value(*axes: te.Expr) -> te.Expr:
        at = dict(zip(out, axes, strict=True))
        return te.max((2, 2), lambda p, q: _read(x, source, {**at, "h": at["h"] + p, "w": at["w"] + q}))

    return te.program(te.compute(_extents(out), value))[0]


_PRODUCTS = (
    "mbk,bk->mb", "mbk,bnk->mnb", "bmk,bkn->nbm", "mkb,bkn->mbn", "nk,nk->n",
)  # fmt: skip
_OTHERS: tuple[Callable[[], Program], ...] = (
    partial(scan, "tn", "nt", "t"), partial(scan, "n", "ntm", "t"), partial(scan, "mtn", "nmt", "t"),
    partial(normalised, "bmn", "nmb", "m"), partial(normalised, "nmb", "bmn", "n"),
    partial(added, "bmn", "nb", "mnb"), partial(pooled, "hcw", "whc"), partial(pooled, "chw", "wch"),
)  # fmt: skip

PROGRAMS: dict[str, Callable[[], Program]] = {
    **{f"{dtype} {e}": partial(product, e, dtype) for dtype in ("float32", "bfloat16", "int8") for e in _PRODUCTS},
    **{f"{dtype} {e}": partial(product, e, dtype) for dtype in ("float64", "float16") for e in _PRODUCTS[1:2]},
    **{" ".join((f.func.__name__, *f.args)): f for f in _OTHERS if isinstance(f, partial)},
}
