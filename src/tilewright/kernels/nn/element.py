"""Element types: in what a function computes, and where its result is rounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.dtypes import VALUES
from tilewright.extent import Extent
from tilewright.kernels import te
from tilewright.kernels.expression.expr import ExprLike, const


def computed(dtype: str) -> str:
    """In which type values of ``dtype`` are computed: narrow reals in float32, narrow whole numbers in int32."""
    return VALUES[dtype].computed


def value(element: te.Expr) -> te.Expr:
    """An element as it is computed with."""
    return te.cast(element, computed(element.dtype))


def pointwise(x: te.TensorRef, fn: Callable[[te.Expr], te.Expr]) -> te.TensorRef:
    """``fn`` of every element of ``x``."""
    return te.compute(x.shape, lambda *i: fn(value(x[i])))


def cast(x: te.TensorRef, dtype: str) -> te.TensorRef:
    """``x`` as ``dtype``. A computed tensor is rounded by the stage that gives it: no stage is added."""
    made = x.definition
    if x.dtype == dtype:
        return x
    if made is None:
        return te.compute(x.shape, lambda *i: x[i], dtype=dtype)
    if made.monoid is None:
        made = replace(made, body=(te.cast(made.body[0], dtype),))
    else:
        made = replace(made, monoid=replace(made.monoid, finish=te.cast(made.monoid.finish, dtype)))
    return te.TensorRef(x.label, x.shape, dtype, made)


def reciprocal(count: int, dtype: str) -> ExprLike:
    """``1 / count``, of a count that each call chooses in ``dtype``."""
    return const(1.0, dtype) / const(count, dtype) if isinstance(count, Extent) else 1.0 / count
