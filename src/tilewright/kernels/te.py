"""The language in which operators are written.

>>> from tilewright import te
>>> x, y = te.input("x", (64, 32)), te.input("y", (48, 32))
>>> d = te.compute((64, 48), lambda i, j: te.sum(32, lambda k: (x[i, k] - y[j, k]) ** 2))
>>> d.shape
(64, 48)

``compute`` takes a shape and a function from axes to an expression, or to one reduction
(``sum``, ``prod``, ``max``, ``min``, ``argmax``, ``argmin`` or ``reduce`` with a monoid of your
own) or one ``scan`` along an axis. Maps over a computed tensor are further ``compute`` calls; templates fuse them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NoReturn, Union

from tilewright.core import OperatorError, UsageError
from tilewright.dtypes import DTYPES
from tilewright.errors import NoFunction
from tilewright.extent import Extent, greatest, open_sizes, shape_at
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.bounds import check_reads
from tilewright.kernels.expression.expr import (
    INDEX,
    INTEGERS,
    PACKED,
    Expr,
    ExprLike,
    Number,
    Symbol,
    cast,
    select,
)
from tilewright.kernels.expression.functions import (
    abs,
    check_size,
    cos,
    erf,
    exp,
    floor,
    fmod,
    kept_index,
    log,
    log1p,
    maximum,
    minimum,
    pow,
    round_tf32,
    rsqrt,
    sin,
    sqrt,
    tanh,
    truncate_tf32,
    whole_index,
)
from tilewright.kernels.expression.packed import element
from tilewright.kernels.expression.program import Monoid, Program, Stage, Step, Tensor, left, right
from tilewright.kernels.expression.value_range import checked_range
from tilewright.kernels.parameters import Ints, Shape

__all__ = [
    "Expr", "Ints", "Monoid", "Reduction", "Shape", "TensorRef", "abs", "argmax", "argmin", "cast", "compute", "cos",
    "default_dtype", "erf", "exp", "floor", "fmod", "input", "left", "log", "log1p", "max", "maximum", "min", "minimum",
    "monoid", "pow", "prod", "program", "reduce", "right", "round_tf32", "rsqrt", "scalar", "scan", "scatter", "select",
    "sin", "sqrt", "sum", "tanh", "truncate_tf32",
]  # fmt: skip

Extents = Union[int, Sequence[int]]
MAX_OUTPUTS = 8
"""Tensors that an operator returns at most."""
_MAX_ELEMENTS = (1 << 31) - 1  # of an input or the output; stages between them may never exist as a whole


@dataclass(frozen=True)
class _Tracing:
    """An operator's function that is being run: its dtype, names of constant inputs, and the inputs declared so far."""

    dtype: str = "float32"
    constants: frozenset[str] = frozenset()
    declared: list[TensorRef] | None = None


_UNTRACED = _Tracing()
_tracing: ContextVar[_Tracing] = ContextVar("tracing", default=_UNTRACED)


@dataclass(frozen=True, eq=False)
class TensorRef(Symbol):
    """A tensor of a program that is being written: ``x[i, j]`` is the element at the axes' positions ``i`` and ``j``.

    ``te.input`` and ``te.compute`` return it. ``shape`` is its number of elements along each axis, ``dtype`` their
    type.
    """

    shape: tuple[int, ...]
    dtype: str
    definition: Definition | None = None  # None for inputs
    constant: bool = False
    low: float | None = None
    high: float | None = None
    serial: int = field(default_factory=itertools.count().__next__)
    memory: TensorRef | None = None  # of a packed dtype: the bytes that hold the elements

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """The element at ``indices``, one for each axis; an index read from a tensor (a gather) is clamped to its axis.

        Raises ``OperatorError`` for another number of indices, and for an index that is not one whole number.
        """
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise OperatorError(
                f"{self.label} has {len(self.shape)} axes but is read with {len(items)} indices",
                f"Give one index for each axis; its shape is {self.shape}",
            )
        kept = tuple(kept_index(i, n) for i, n in zip(items, self.shape, strict=True))
        if self.memory is None:
            return ex.load(self, self.dtype, kept)
        *outer, last = kept
        record = DTYPES[self.dtype]
        byte = ex.load(self.memory, record.storage, (*outer, last // record.per_byte))
        return element(byte, last % record.per_byte, record)

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self.label} cannot be iterated over; reduce with te.sum(extent, lambda k: ...)")

    def _whole(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{self.label} is a tensor: compute with its elements, as in {self.label}[i, j]")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _whole
    __truediv__ = __rtruediv__ = __neg__ = __pow__ = __rpow__ = __lt__ = __le__ = __gt__ = __ge__ = _whole
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __array_ufunc__ = __float__ = _whole


@dataclass(frozen=True, eq=False)
class Definition:
    """The computation of a tensor, in named axes ``i0, ...`` and ``r0, ...``, with the canonical name of its monoid."""

    reduce: tuple[int, ...]
    body: tuple[Expr, ...]
    monoid: Monoid | None
    scan: int | None = None
    step: Step | None = None

    def __post_init__(self) -> None:
        if self.monoid is not None and self.step is None:
            object.__setattr__(self, "monoid", monoids.canonical(self.monoid))

    def stage(self, name: str, extents: tuple[int, ...], dtype: str) -> Stage:
        """The stage that computes the tensor, its reads still by symbol."""
        return Stage(name, extents, self.reduce, self.body, dtype, self.monoid, self.scan, self.step)


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


def input(
    name: str, shape: Sequence[int], dtype: str | None = None, constant: bool = False,
    low: float | None = None, high: float | None = None,
) -> TensorRef:  # fmt: skip
    """An argument of the operator: a dense, row-major array of ``shape`` elements.

    - ``dtype``: the element type; the ``dtype`` parameter of the operator being defined (float32) unless given. Calls
      pass a packed dtype as bytes, in arrays of the dtype's ``storage`` whose last axis counts bytes.
    - ``constant``: the array is given once, before the first call, so that kernels may rearrange it. The operator's
      attribute ``constant`` says the same from outside.
    - ``low`` and ``high``: bounds of the values, both included. Kernels are checked and timed with values between the
      bounds (a decay is at most 1, a variance is not negative); calls are not checked.

    Raises ``OperatorError`` for an unknown dtype, a size below 1 or bounds that no value fits, ``UsageError`` from 2^31
    elements.
    """
    tracing = _tracing.get()
    dtype = dtype or tracing.dtype
    if dtype not in DTYPES:
        raise OperatorError(f"input {name} has the unknown dtype {dtype!r}", f"Use one of {', '.join(DTYPES)}")
    constant = constant or name in tracing.constants
    extents = _check_elements(_positive(shape, f"input {name}"), f"tensor {name}")
    memory = _bytes(name, extents, dtype, constant, low, high) if dtype in PACKED else None
    low, high = checked_range(name, dtype, low, high)
    ref = TensorRef(name, extents, dtype, constant=constant, low=low, high=high, memory=memory)
    if tracing.declared is not None:
        tracing.declared.append(ref.memory or ref)
    return ref


def _bytes(
    name: str, shape: tuple[int, ...], dtype: str, constant: bool, low: float | None, high: float | None
) -> TensorRef:
    """The tensor of bytes that holds an input of a packed dtype; any byte may occur."""
    count, kind = DTYPES[dtype].per_byte, DTYPES[dtype].storage
    if not shape or isinstance(shape[-1], Extent) or shape[-1] % count:
        hint = f"{dtype} has {count} elements in a byte: make the last axis a fixed multiple of {count}"
        raise OperatorError(f"input {name} has the shape {shape}", hint)
    if low is not None or high is not None:
        raise OperatorError(f"input {name} is {dtype} and has a range of values", "Leave low and high out")
    least, most = map(float, DTYPES[kind].limits)
    return TensorRef(name, (*shape[:-1], shape[-1] // count), kind, constant=constant, low=least, high=most)


def default_dtype() -> str:
    """The dtype of inputs that name none: the ``dtype`` parameter of the operator being defined, else ``float32``."""
    return _tracing.get().dtype


def scalar(name: str, dtype: str | None = None, low: float | None = None, high: float | None = None) -> TensorRef:
    """An argument that is one number, passed at each call; ``eps[()]`` reads the number of ``eps = te.scalar("eps")``.

    ``dtype``, ``low`` and ``high`` are those of ``te.input``, and so are the errors.
    """
    return input(name, (), dtype, low=low, high=high)


def _positive(shape: Sequence[int], what: str) -> tuple[int, ...]:
    if isinstance(shape, int):
        raise OperatorError(f"{what} has the shape {shape}", f"Write ({shape},) for one axis")
    out = tuple(shape)
    for s in out:
        if isinstance(s, bool) or not isinstance(s, int) or s < 1:
            raise OperatorError(f"{what} has size {s!r}", "Sizes are whole numbers of at least 1")
    if math.prod(out) >= 2**46:
        raise UsageError(f"{what} has {math.prod(out):.3g} elements", "That is more than a machine can hold")
    return out


def _check_elements(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    if math.prod(shape) > _MAX_ELEMENTS:
        raise UsageError(
            f"{what} has {'x'.join(map(str, shape))} = {math.prod(shape):.4g} elements",
            f"An input, a result and the range of a reduction have at most {_MAX_ELEMENTS}: "
            "split it, for example along its first axis",
        )
    return shape


def _extents(extents: Extents) -> tuple[int, ...]:
    sizes = _positive((extents,) if isinstance(extents, int) else extents, "a reduction")
    return _check_elements(sizes, "a reduction")


def _axes(prefix: str, count: int) -> tuple[Expr, ...]:
    # Symbols, not names: an axis of an enclosing compute must not pass for one of this compute.
    return tuple(ex.axis(Symbol(f"{prefix}{d}")) for d in range(count))


def compute(
    shape: Sequence[int], fn: Callable[..., ExprLike | Reduction], dtype: str | None = None, name: str = "out"
) -> TensorRef:
    """A tensor of ``shape`` whose element at ``(i, j, ...)`` is ``fn(i, j, ...)``: an expression, reduction or scan.

    ``dtype``: the element type, to which values are cast; the expression's type unless given. Raises ``OperatorError``
    for a size below 1, a value that is no expression, a read outside a tensor, and an axis of another compute.
    """
    extents = _positive(shape, name)
    axes = _axes("i", len(extents))
    value = fn(*axes)
    if isinstance(value, Reduction):
        m = value.monoid
        out = dtype or ("int64" if m.finish.dtype == INDEX else m.finish.dtype)
        m = replace(m, finish=cast(m.finish, out))
        body = _own(value.body, (*axes, *value.axes), name)
        return defined(name, extents, out, Definition(value.extents, body, m, _scanned(value, axes, name)))
    if not isinstance(value, (Expr, Real)):
        raise OperatorError(
            f"the body of {name} is {value!r:.60} ({type(value).__name__}), not an expression",
            "Its function returns one expression of the axes, a number, or one reduction: a stage has one output",
        )
    whole = ex.wrap(value) if isinstance(value, Expr) else ex.const(value, dtype or default_dtype())
    whole = cast(whole, dtype or ("int64" if whole.dtype == INDEX else whole.dtype))
    return defined(name, extents, whole.dtype, Definition((), _own((whole,), axes, name), None))


def defined(name: str, extents: tuple[int, ...], dtype: str, made: Definition) -> TensorRef:
    """The tensor of a definition, its reads checked while the line that defines it is being run."""
    stage = made.stage(name, extents, dtype)
    reads: dict[object, tuple[int, ...]] = {
        n.value: n.value.shape for n in stage.loads() if isinstance(n.value, TensorRef)
    }
    terms = (ex.whole(n) for e in made.body for n in e.walk() if n.op == "size")
    sizes = open_sizes((*extents, *made.reduce, *(n for shape in reads.values() for n in shape), *terms))
    if sizes:  # what holds for other sizes is seen where a program of theirs is made
        highest = greatest(sizes)
        body = tuple(ex.resized(e, lambda n: n.at(highest)) for e in made.body)
        stage = replace(stage, extents=shape_at(extents, highest), reduce=shape_at(made.reduce, highest), body=body)
        reads = {k: shape_at(shape, highest) for k, shape in reads.items()}
    check_reads(stage, reads)
    return TensorRef(name, extents, dtype, made)


def _scanned(value: Reduction, axes: tuple[Expr, ...], name: str) -> int | None:
    place = next((d for d, a in enumerate(axes) if a is value.along), None)
    if place is None and value.along is not None:
        raise OperatorError(
            f"{name} scans along {value.along!r}, which is none of its axes",
            "Give te.scan an axis that the compute's function receives, as in lambda i, j: te.scan('sum', j, x[i, j])",
        )
    return place


def _own(body: tuple[Expr, ...], axes: tuple[Expr, ...], name: str) -> tuple[Expr, ...]:
    """The body in named axes. Raises for an axis that is not among ``axes``."""
    check_size(body, name)
    named = {id(a.value): ex.axis(str(a.value)) for a in axes}

    def rename(node: Expr) -> Expr | None:
        if node.op == "var":
            raise OperatorError(f"the body of {name} uses accumulator {node.value} outside of a monoid")
        if node.op != "axis":
            return None
        found = named.get(id(node.value))
        if found is None:
            raise OperatorError(
                f"the body of {name} uses axis {node.value} of another compute or reduction",
                "Use only the axes that this compute's own functions receive",
            )
        return found

    return tuple(e.map(rename) for e in body)


# --------------------------------------------------------------------------- reductions


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
    sizes = _extents(extents)
    axes = _axes("r", len(sizes))
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
    """The reduction that the language has under ``name``."""
    sizes = _extents(extents)
    axes = _axes("r", len(sizes))
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


# --------------------------------------------------------------------------- programs


def program(
    output: TensorRef | Sequence[TensorRef], inputs: Sequence[TensorRef] | None = None
) -> tuple[Program, tuple[str, ...]]:
    """The normalised program of a definition, and the names of its inputs in call order.

    ``output``: the tensor that the operator returns, or the tensors, in the order in which calls return them.
    ``inputs`` fixes the call order; without ``inputs``, the order is that of their declaration. Raises
    ``OperatorError`` for an input returned unchanged, a tensor returned twice, two inputs of one name, and an input
    that ``inputs`` lacks.
    """
    outputs = [output] if isinstance(output, TensorRef) else list(output)
    for n, ref in enumerate(outputs):
        if ref.definition is None:
            raise OperatorError("the operator returns an input unchanged", "Return a te.compute(...)")
        if any(ref is o for o in outputs[:n]):
            raise OperatorError("the operator returns one tensor twice", "Return each tensor once")
        _check_elements(ref.shape, f"the result {ref.label}")
    order, found = list[TensorRef](), list[TensorRef]()

    def visit(ref: TensorRef) -> None:
        if any(ref is r for r in (*order, *found)):
            return
        if ref.definition is None:
            found.append(ref)
            return
        for node in ref.definition.stage("", ref.shape, ref.dtype).loads():
            if isinstance(node.value, TensorRef):
                visit(node.value)
        order.append(ref)

    for ref in outputs:
        visit(ref)
    args = [a.memory or a for a in inputs] if inputs is not None else sorted(found, key=lambda r: r.serial)
    for ref in found:
        if not any(ref is a for a in args):
            raise OperatorError(f"input {ref.label} is read but not among the operator's inputs")
    labels = [a.label for a in args]
    if len(set(labels)) != len(labels):
        raise OperatorError(f"two inputs have the same name: {', '.join(labels)}")
    names = {id(a): f"x{n}" for n, a in enumerate(args)}
    names |= {id(r): f"s{n}" for n, r in enumerate(order)}

    def rename(e: Expr) -> Expr:
        return e.map(lambda n: ex.load(names[id(n.value)], n.dtype, n.args) if n.op == "load" else None)

    stages = tuple(
        d.stage("", r.shape, r.dtype).renamed(names[id(r)], rename) for r in order if (d := r.definition) is not None
    )
    reach = {k: v for s in stages if s.step is not None for k, v in s.step.weights(s.reduce[0]).items()}
    tensors = tuple(_tensor(names[id(a)], a, reach.get(names[id(a)])) for a in args)
    results = tuple(names[id(r)] for r in outputs) if len(outputs) > 1 else ()
    return Program(tensors, stages, results), tuple(labels)


def _tensor(name: str, a: TensorRef, reach: float | None) -> Tensor:
    """An input of a program; ``reach``: the largest value to try it with where it has no range of its own."""
    low, high = (-reach, reach) if reach is not None and a.low is None and a.high is None else (a.low, a.high)
    return Tensor(name, a.shape, a.dtype, a.constant, low, high)


def trace(
    define: Callable[[], TensorRef | Sequence[TensorRef]], dtype: str = "float32", constants: Sequence[str] = ()
) -> tuple[Program, tuple[str, ...]]:
    """The normalised program of what an operator's function returns, and the names of its inputs, in declaration order.

    ``dtype`` is the type of inputs and monoids that name none; ``constants`` names inputs that are constant. Raises
    ``OperatorError`` for a return value that is no tensor, and for an input that is never read.
    """
    declared: list[TensorRef] = []
    token = _tracing.set(_Tracing(dtype, frozenset(constants), declared))
    try:
        output: object = define()
    finally:
        _tracing.reset(token)
    outputs: list[Any] = list(output) if isinstance(output, tuple | list) else [output]
    if not 1 <= len(outputs) <= MAX_OUTPUTS:
        raise OperatorError(
            f"the operator returns {len(outputs)} tensors", f"Return one te.compute(...), or up to {MAX_OUTPUTS}"
        )
    strange = next((o for o in outputs if not isinstance(o, TensorRef)), None)
    if strange is not None or output is None:
        raise OperatorError(f"the operator returns {type(strange).__name__}, not a tensor", "Return a te.compute(...)")
    result, labels = program(outputs, declared)
    read = {str(e.value) for s in result.stages for e in s.loads()}
    for tensor, label in zip(result.inputs, labels, strict=True):
        if tensor.name not in read:
            raise OperatorError(f"input {label} is never read", "Remove its te.input, or read it")
    for name in constants:
        if name not in labels:
            raise UsageError(f"constant={name} names no input", f"The inputs are {', '.join(labels)}")
    return result, labels


def __getattr__(name: str) -> NoReturn:
    raise NoFunction("te", name, [n for n in __all__ if n.islower()])
