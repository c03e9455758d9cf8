"""Evaluation of a stage's expressions on boxes of its axes, as arrays that broadcast against each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.kernels.expression.bounds import WHOLE, Bounds
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, Expr, ValueNumbers, holds
from tilewright.kernels.expression.numerics import decode, erf, round_tf32, rounded, truncate_tf32
from tilewright.kernels.expression.program import Stage

Array = np.ndarray[Any, Any]
Box = tuple[tuple[int, int], ...]
"""First and one past the last value of each axis."""

_CHUNK = 1 << 18  # points at a time: operands stay in cache


@dataclass(frozen=True)
class Source:
    """A tensor, or the part of a stage's result that starts at ``origin``.

    ``bits``: dtype of which the elements are bit patterns; empty for plain values.
    """

    array: Array
    origin: tuple[int, ...]
    bits: str = ""

    def convert(self, values: Array) -> Array:
        """Elements in the dtype in which the interpreter computes."""
        if self.bits:
            return decode(values, self.bits).astype(np.float64)
        kind = values.dtype.kind
        if kind == "b":
            return values
        return values.astype(np.int64 if kind in "iu" else np.float64, copy=False)


def _divided(divide: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """An integer division that returns 0 where the divisor is 0."""
    return lambda a, b: np.where(b == 0, 0, divide(a, np.where(b == 0, 1, b)))


_FUNCTIONS: dict[str, Any] = {
    **WHOLE, "div": np.divide, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "tanh": np.tanh, "erf": erf, "sin": np.sin, "cos": np.cos, "log1p": np.log1p, "pow": np.power,
    "idiv": _divided(np.floor_divide), "imod": _divided(np.mod), "fmod": np.fmod, "floor": np.floor,
    "round_tf32": round_tf32, "truncate_tf32": truncate_tf32,
}  # fmt: skip


def convert(value: Array, dtype: str, source: str) -> Array:
    """Casts values from dtype ``source`` to ``dtype``.

    A real type with fewer values rounds to nearest even. Reals become integers by truncation toward zero; integers
    wrap. Integers become reals of less than 32 bits by way of float32, as in NumPy and PyTorch.
    """
    if dtype in FLOATS:
        if holds(dtype, source):
            return value.astype(np.float64, copy=False)
        single = source not in FLOATS and dtype != "float64"
        return rounded((value.astype(np.float32) if single else value).astype(np.float64, copy=False), dtype)
    if dtype == "bool":
        return value.astype(np.bool_, copy=False)
    if source in FLOATS:
        value = np.trunc(value)
    narrow = np.int64 if dtype == INDEX else np.dtype(dtype)
    return value.astype(np.int64, copy=False).astype(narrow, copy=False).astype(np.int64, copy=False)


class Scope:
    """Evaluates expressions for a range of each axis, or an array for each var.

    Axis number ``d`` of ``box`` lies along dimension ``d`` of every array.
    """

    def __init__(
        self,
        axes: Sequence[str],
        box: Box,
        sources: Mapping[str, Source],
        shapes: Mapping[str, tuple[int, ...]],
        variables: Mapping[str, Array] | None = None,
    ) -> None:
        self._dims = {a: d for d, a in enumerate(axes)}
        self._box = box
        self._sources = sources
        self._shapes = shapes
        self._variables = variables or {}
        self._bounds = Bounds({a: (lo, hi - 1) for a, (lo, hi) in zip(axes, box, strict=True)})
        self._numbers = ValueNumbers()
        self._known: dict[tuple[int, tuple[int, ...]], Array] = {}
        self._guarded: dict[int, bool] = {}

    def hold(self, variables: Mapping[str, Array]) -> None:
        """Sets the arrays of vars. A var that no evaluated value reads yet may be added to the mapping later."""
        self._variables = variables
        self._known.clear()

    def value(self, e: Expr) -> Array:
        """The expression's values; dimensions that it does not depend on have size 1."""
        return self._value(e, (), None)

    def _value(self, e: Expr, path: tuple[int, ...], active: Array | None) -> Array:
        # ``active`` marks where the enclosing selects take this branch; ``path`` identifies the branch.
        number = self._numbers.of(e)
        key = (number, path if active is not None and self._reads_unproved(e) else ())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._compute(e, path, active)
        return found

    def _compute(self, e: Expr, path: tuple[int, ...], active: Array | None) -> Array:
        op = e.op
        if op == "const":
            return np.asarray(e.value, np.float64 if e.dtype in FLOATS else None)
        if op == "axis":
            return self._axis(str(e.value), 1, 0)
        if op == "var":
            return self._variables[str(e.value)]
        if op == "load":
            return self._load(e, path, active)
        if op == "select":
            return self._select(e, path, active)
        args = [self._value(a, path, active) for a in e.args]
        if op == "cast":
            return convert(args[0], e.dtype, e.args[0].dtype)
        result: Array = np.asarray(_FUNCTIONS[op](*args))
        return convert(result, e.dtype, e.dtype) if e.dtype in INTEGERS and e.dtype != "int64" else result

    def _axis(self, name: str, scale: int, offset: int) -> Array:
        d = self._dims[name]
        low, high = self._box[d]
        shape = [1] * len(self._box)
        shape[d] = high - low
        return (np.arange(low, high) * scale + offset).reshape(shape)

    def _select(self, e: Expr, path: tuple[int, ...], active: Array | None) -> Array:
        condition = self._value(e.args[0], path, active)
        number = self._numbers.of(e.args[0])
        yes, no = condition, np.logical_not(condition)
        if active is not None:
            yes, no = active & yes, active & no
        a = self._value(e.args[1], (*path, number + 1), yes)
        b = self._value(e.args[2], (*path, -number - 1), no)
        return np.where(condition, a, b)

    def _reads_unproved(self, e: Expr) -> bool:
        """Whether ``e`` contains a read whose index may leave its tensor."""
        number = self._numbers.of(e)
        found = self._guarded.get(number)
        if found is None:
            found = any(self._reads_unproved(a) for a in e.args) or (
                e.op == "load"
                and not all(
                    low >= 0 and high < n
                    for (low, high), n in zip(map(self._bounds.of, e.args), self._shapes[str(e.value)], strict=True)
                )
            )
            self._guarded[number] = found
        return found

    # reads

    def _load(self, e: Expr, path: tuple[int, ...], active: Array | None) -> Array:
        source = self._sources[str(e.value)]
        view = self._slice(e, source)
        if view is not None:
            return source.convert(view)
        index: list[Array] = []
        shape = self._shapes[str(e.value)]
        for dim, (a, n) in enumerate(zip(e.args, shape, strict=True)):
            at = self._value(a, path, active)
            low, high = self._bounds.of(a)
            if low < 0 or high >= n:
                self._check(e, dim, at, n, active)
                at = np.clip(at, 0, n - 1)
            start, held = source.origin[dim], source.array.shape[dim]
            # The computed part of a stage covers every read that is taken; reads that are not taken may point anywhere.
            at = at - start if held == n else np.clip(at - start, 0, held - 1)
            index.append(at)
        return source.convert(source.array[tuple(index)])

    @staticmethod
    def _check(e: Expr, dim: int, at: Array, n: int, active: Array | None) -> None:
        outside = (at < 0) | (at >= n)
        if active is not None:
            outside = outside & active
        if outside.any():
            worst = np.broadcast_to(at, outside.shape)[outside].flat[0]
            raise IndexError(f"{e!r} reads at {worst} along axis {dim}, which has {n} elements")

    def _slice(self, e: Expr, source: Source) -> Array | None:
        """A read as a strided view, if every index is a multiple of one axis plus a constant; else ``None``."""
        slices: list[slice] = []
        dims: list[int | None] = []
        for index, start, held in zip(e.args, source.origin, source.array.shape, strict=True):
            form = self._bounds.linear(index)
            shift = form.const - start
            if not form.coef:
                first, last, step = shift, shift, 1
                dims.append(None)
            else:
                axis, step = next(iter(form.coef.items()))
                if len(form.coef) > 1 or form.atoms or step < 0 or self._dims[axis] in dims:
                    return None
                low, high = self._box[self._dims[axis]]
                first, last = low * step + shift, (high - 1) * step + shift
                dims.append(self._dims[axis])
            if first < 0 or last >= held:
                return None
            slices.append(slice(first, last + 1, step))
        at: tuple[Any, ...] = (*slices, ...)  # the ellipsis makes a scalar an array of rank 0
        view = source.array[at]
        # Orders the tensor's axes as the box's; axes with a constant index come last.
        placed = sorted((place, d) for d, place in enumerate(dims) if place is not None)
        view = view.transpose([d for _, d in placed] + [d for d, place in enumerate(dims) if place is None])
        shape = [1] * len(self._box)
        for position, (place, _) in enumerate(placed):
            shape[place] = view.shape[position]
        result: Array = view.reshape(shape)
        return result


class Body:
    """A stage's body, for evaluation on boxes."""

    def __init__(self, stage: Stage, sources: Mapping[str, Source], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.stage = stage
        self.axes = (*stage.axes, *stage.reduce_axes)
        self.extents = (*stage.extents, *stage.reduce)
        self._sources, self._shapes = sources, shapes

    def scope(self, box: Box) -> Scope:
        """The scope for a box of the axes, reduce axes last."""
        return Scope(self.axes, box, self._sources, self._shapes)

    def map_into(self, out: Array, box: Box, memory: int) -> None:
        """Fills ``out`` with the box of a map's values."""
        (expr,) = self.stage.body
        for part in chunks(box, points_within(expr, memory)):
            out[place(part, box)] = self.scope(part).value(expr)


def points_within(e: Expr, memory: int) -> int:
    """Number of points at a time whose temporaries fit ``memory`` bytes."""
    return max(1, min(_CHUNK, memory // (8 * (2 + weight(e)))))


def weight(e: Expr) -> int:
    """Largest number of arrays that an evaluation holds; index arrays are not counted, being small or views."""
    numbers = ValueNumbers()
    return len({numbers.of(n) for n in e.walk() if n.dtype != INDEX})


def chunks(box: Box, points: int) -> Iterator[Box]:
    """The box in parts of at most ``points`` points, in order; outer axes are cut first."""
    extents = [hi - lo for lo, hi in box]
    sizes = list(extents)
    for d in range(len(sizes)):
        inner = math.prod(sizes[d + 1 :])
        sizes[d] = max(1, min(sizes[d], points // inner if inner <= points else 1))
        if inner <= points:
            break
    return cut(box, sizes)


def cut(box: Box, sizes: Sequence[int]) -> Iterator[Box]:
    """Parts of the box, in order, with at most ``sizes`` points along each axis."""
    counts = [-(-(hi - lo) // s) for (lo, hi), s in zip(box, sizes, strict=True)]
    for position in np.ndindex(*counts):
        yield tuple(
            (lo + p * s, min(hi, lo + (p + 1) * s)) for p, s, (lo, hi) in zip(position, sizes, box, strict=True)
        )


def place(part: Box, box: Box) -> tuple[slice, ...]:
    """Slices of a part in an array of the box's values."""
    return tuple(slice(lo - b, hi - b) for (lo, hi), (b, _) in zip(part, box, strict=True))
