"""Reductions, scans and scatters: values of a ``te.compute`` that combine many elements into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

from tilewright.core import OperatorError
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.expr import INDEX, INTEGERS, Expr, ExprLike, Number, cast, select
from tilewright.kernels.expression.functions import whole_index
from tilewright.kernels.expression.program import Monoid, left, right
from tilewright.kernels.te.tensors import Extents, default_dtype, extents_of, fresh_axes


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduction or scan, which is the whole value of a ``te.compute``: a monoid, extents, and one body a component.

    ``axes`` are the reduced axes. ``along``: of a scan, the axis of the compute along which the scan runs; a scan has
    no axes of its own.
    """

    monoid: Monoid
    extents: tuple[int, ...]
    body: tuple[Expr, ...]
    axes: tuple[Expr, ...]
    along: Expr | None = None

    def _alone(self, *_: Any) -> NoReturn:
        raise OperatorError(
            f"a {'reduction' if self.along is None else 'scan'} is the whole value of its te.compute",
            "Give it a compute of its own, and read that tensor in the next one",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _alone
    __truediv__ = __rtruediv__ = __neg__ = __pow__ = __lt__ = __gt__ = _alone


def monoid(
    name: str,
    identity: Sequence[Number],
    combine: Callable[[tuple[Expr, ...], tuple[Expr, ...]], ExprLike | tuple[ExprLike, ...]],
    finish: Callable[..., ExprLike] | None = None,
    dtype: str | Sequence[str] | None = None,
) -> Monoid:
    """An associative operation for ``te.reduce`` and ``te.scan`` over tuples of accumulators.

    ``combine(l, r)`` merges two partial results (tuples of expressions) into one. It must be associative with
    ``identity`` neutral. ``finish(*l)`` turns the last partial result into the value, the first component unless given.
    ``dtype``: the element type of each component, or of all components (float32 unless given).

    >>> mean_square = monoid("mean_square", (0.0, 0.0),
    ...     lambda l, r: (l[0] + r[0], l[1] + r[1]), lambda total, count: total / count)

    Raises ``OperatorError`` where the numbers of components differ.
    """
    given = dtype or default_dtype()
    dtypes = (given,) * len(identity) if isinstance(given, str) else tuple(given)
    if len(dtypes) != len(identity) or not dtypes:
        raise OperatorError(f"{name} has {len(identity)} components and {len(dtypes)} dtypes")
    ls = tuple(left(c, d) for c, d in enumerate(dtypes))
    rs = tuple(right(c, d) for c, d in enumerate(dtypes))
    merged = combine(ls, rs)
    parts = merged if isinstance(merged, tuple) else (merged,)
    if len(parts) != len(ls):
        raise OperatorError(f"{name} combines {len(ls)} components into {len(parts)}")
    return Monoid(
        name,
        tuple(ex.const(i, d) for i, d in zip(identity, dtypes, strict=True)),
        tuple(ex.wrap(p, like) for p, like in zip(parts, ls, strict=True)),
        ls[0] if finish is None else ex.wrap(finish(*ls), ls[0]),
    )


def reduce(monoid: Monoid, extents: Extents, fn: Callable[..., Any]) -> Reduction:
    """Reduction by ``monoid`` of ``fn(r, s, ...)`` over the axes of ``extents`` elements.

    ``fn`` returns one expression for each component of the monoid. Reductions do not nest: give the inner one a
    ``te.compute`` of its own. Raises ``OperatorError`` for another number or type of components.
    """
    monoids.check(monoid)
    sizes = extents_of(extents)
    axes = fresh_axes("r", len(sizes))
    value = fn(*axes)
    body = value if isinstance(value, tuple) else (value,)
    if len(body) != len(monoid.identity):
        raise OperatorError(f"{monoid.name} reduces {len(monoid.identity)} components, got {len(body)}")
    parts = tuple(_element(v, i) for v, i in zip(body, monoid.identity, strict=True))
    for v, i in zip(parts, monoid.identity, strict=True):
        if v.dtype != i.dtype:
            raise OperatorError(
                f"{monoid.name} accumulates {i.dtype}, the body is {v.dtype}", "Use te.cast(value, dtype)"
            )
    return Reduction(monoid, sizes, parts, axes)


def scan(monoid: Monoid | str, along: Expr, value: Any) -> Reduction:
    """The inclusive prefix reduction of ``value`` along an axis of the compute that contains the scan.

    ``te.compute((m, n), lambda i, j: te.scan("sum", j, x[i, j]))`` is the cumulative sum of each row. ``monoid``:
    ``sum``, ``prod``, ``max``, ``min``, or a ``te.monoid``, whose ``value`` is a tuple with one expression for each
    component. Elements are combined in the order of the axis. Raises ``OperatorError`` for an unknown monoid.
    """
    if isinstance(monoid, str):
        if monoid not in monoids.SIMPLE:
            raise OperatorError(f"te.scan knows no {monoid!r}", f"Use {', '.join(monoids.SIMPLE)} or a te.monoid")
        made = _accumulate(monoid, (), lambda: value)
    else:
        made = reduce(monoid, (), lambda: value)
    return replace(made, along=along)


def scatter(monoid: str, at: Expr | Sequence[Expr], extents: Extents, fn: Callable[..., Any]) -> Reduction:
    """Reduction at each element of the result over the sources whose index chooses it: ``out[index(r)] += value(r)``.

    ``te.compute((bins,), lambda b: te.scatter("sum", b, n, lambda r: (index[r], x[r])))`` adds each ``x[r]`` to the
    element ``index[r]``. ``monoid``: ``sum``, ``prod``, ``max`` or ``min``. ``at``: the axis or axes of the compute
    that the sources choose. ``extents``: the numbers of sources. ``fn`` returns the index, or a tuple of an index for
    each axis, and the value. A source outside the result is dropped; an element without a source has the monoid's
    neutral value. Raises ``OperatorError`` for an unknown monoid, another number of indices, and an ``at`` that is no
    axis.
    """
    if monoid not in monoids.SIMPLE:
        raise OperatorError(f"te.scatter knows no {monoid!r}", f"Use {', '.join(monoids.SIMPLE)}")
    axes = (at,) if isinstance(at, Expr) else tuple(at)
    if any(a.op != "axis" for a in axes):
        raise OperatorError(
            f"te.scatter: {axes!r} in 'at' is not an axis", "Give axes that the compute's function receives"
        )

    def landing(*r: Expr) -> Expr:
        made: object = fn(*r)
        if not isinstance(made, tuple) or len(made) != 2:
            raise OperatorError(
                "te.scatter's function returns an index and a value", "As in lambda r: (index[r], x[r])"
            )
        found, value = made
        indices = found if isinstance(found, tuple) else (found,)
        if len(indices) != len(axes) or not axes:
            raise OperatorError(
                f"te.scatter gives {len(indices)} indices for {len(axes)} axes",
                "Return one index for each axis, and the value: lambda r: ((rows[r], columns[r]), x[r])",
            )
        here = None
        for axis, index in zip(axes, indices, strict=True):
            same = ex.compare("eq", axis, whole_index(index))
            here = same if here is None else here & same
        element = _element(value)
        return select(here, element, monoids.simple(monoid, element.dtype).identity[0])  # type: ignore[arg-type]

    return _accumulate(monoid, extents, landing)


def _element(value: Any, like: Expr | None = None) -> Expr:
    if isinstance(value, Reduction):
        raise OperatorError("reductions do not nest", "Give the inner one a te.compute of its own")
    if not isinstance(value, (Expr, Real)):
        raise OperatorError(
            f"a reduction's element is {value!r:.60} ({type(value).__name__}), not an expression",
            "Its function returns one expression, or with a monoid of several components a tuple of them",
        )
    given: Any = value
    typed = like is not None or isinstance(value, Expr)
    whole = ex.wrap(given, like) if typed else ex.const(given, default_dtype())
    if whole.dtype == INDEX:
        return cast(whole, "int64" if like is None or like.dtype not in INTEGERS else like.dtype)
    return whole


def _accumulate(name: str, extents: Extents, fn: Callable[..., ExprLike]) -> Reduction:
    """The built-in reduction ``name`` of ``fn``'s values."""
    sizes = extents_of(extents)
    axes = fresh_axes("r", len(sizes))
    value = _element(fn(*axes))
    if value.dtype == "bool":
        raise OperatorError(f"{name} of conditions", "Use te.cast(condition, 'int32'), or te.select")
    if name in monoids.SIMPLE:
        return Reduction(monoids.simple(name, value.dtype), sizes, (value,), axes)
    return Reduction(monoids.arg(name, value.dtype), sizes, (value, cast(axes[0], "int64")), axes)


def sum(extents: Extents, fn: Callable[..., ExprLike]) -> Reduction:
    """Sum of ``fn(r, ...)`` over the axes of ``extents`` elements.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("sum", extents, fn)


def prod(extents: Extents, fn: Callable[..., ExprLike]) -> Reduction:
    """Product of ``fn(r, ...)`` over the axes of ``extents`` elements.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("prod", extents, fn)


def max(extents: Extents, fn: Callable[..., ExprLike]) -> Reduction:
    """Largest value of ``fn(r, ...)`` over the axes of ``extents`` elements; NaN wins.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("max", extents, fn)


def min(extents: Extents, fn: Callable[..., ExprLike]) -> Reduction:
    """Smallest value of ``fn(r, ...)`` over the axes of ``extents`` elements; NaN wins.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("min", extents, fn)


def argmax(extent: int, fn: Callable[[Expr], ExprLike]) -> Reduction:
    """Position (int64) of the largest value of ``fn(r)`` along one axis: the first of equal values; NaN wins.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("argmax", extent, fn)


def argmin(extent: int, fn: Callable[[Expr], ExprLike]) -> Reduction:
    """Position (int64) of the smallest value of ``fn(r)`` along one axis: the first of equal values; NaN wins.

    Raises ``OperatorError`` for conditions, and for a reduction inside ``fn``.
    """
    return _accumulate("argmin", extent, fn)
