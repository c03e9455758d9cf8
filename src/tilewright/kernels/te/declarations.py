"""Declarations in an operator's function: inputs, and computed tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real

from tilewright.core import OperatorError
from tilewright.dtypes import DTYPES
from tilewright.extent import Extent, greatest, shape_at, symbolic_sizes
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.bounds import check_reads
from tilewright.kernels.expression.expr import INDEX, PACKED, Expr, ExprLike, cast
from tilewright.kernels.expression.functions import check_size
from tilewright.kernels.expression.value_range import checked_range
from tilewright.kernels.te.reductions import Reduction
from tilewright.kernels.te.tensors import (
    Definition,
    TensorRef,
    check_elements,
    default_dtype,
    fresh_axes,
    positive,
    tracing,
)


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
    traced = tracing.get()
    dtype = dtype or traced.dtype
    if dtype not in DTYPES:
        raise OperatorError(f"input {name} has the unknown dtype {dtype!r}", f"Use one of {', '.join(DTYPES)}")
    constant = constant or name in traced.constants
    extents = check_elements(positive(shape, f"input {name}"), f"tensor {name}")
    memory = _bytes(name, extents, dtype, constant, low, high) if dtype in PACKED else None
    low, high = checked_range(name, dtype, low, high)
    ref = TensorRef(name, extents, dtype, constant=constant, low=low, high=high, memory=memory)
    if traced.declared is not None:
        traced.declared.append(ref.memory or ref)
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


def scalar(name: str, dtype: str | None = None, low: float | None = None, high: float | None = None) -> TensorRef:
    """An argument that is one number, passed at each call; ``eps[()]`` reads the number of ``eps = te.scalar("eps")``.

    ``dtype``, ``low`` and ``high`` are those of ``te.input``, and so are the errors.
    """
    return input(name, (), dtype, low=low, high=high)


def compute(
    shape: Sequence[int], fn: Callable[..., ExprLike | Reduction], dtype: str | None = None, name: str = "out"
) -> TensorRef:
    """A tensor of ``shape`` whose element at ``(i, j, ...)`` is ``fn(i, j, ...)``: an expression, reduction or scan.

    ``dtype``: the element type, to which values are cast; the expression's type unless given. Raises ``OperatorError``
    for a size below 1, a value that is no expression, a read outside a tensor, and an axis of another compute.
    """
    extents = positive(shape, name)
    axes = fresh_axes("i", len(extents))
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
    """The tensor of a definition; its reads are checked here, so that an error names the line of the definition."""
    stage = made.stage(name, extents, dtype)
    reads: dict[object, tuple[int, ...]] = {
        n.value: n.value.shape for n in stage.loads() if isinstance(n.value, TensorRef)
    }
    terms = (ex.whole(n) for e in made.body for n in e.walk() if n.op == "size")
    sizes = symbolic_sizes((*extents, *made.reduce, *(n for shape in reads.values() for n in shape), *terms))
    if sizes:  # other sizes are checked when a program is made for them
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
    """The body in named axes. Raises ``OperatorError`` for an axis that is not among ``axes``."""
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
