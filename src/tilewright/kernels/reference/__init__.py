"""The reference semantics of programs: a float64 interpreter on NumPy arrays.

It shares no code with the code generator. Real arithmetic is done in float64 for all dtypes: low-precision inputs are
read exactly, and only casts round, once each. Integer arithmetic is done in int64. Any block of the output can be
computed within a memory budget: earlier stages are computed only where that block reads them, and every stage in chunks
of its axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.core import UsageError
from tilewright.kernels.expression.bounds import Bounds
from tilewright.kernels.expression.expr import BITS, INDEX, INTEGERS, Expr
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.reference.expressions import Array, Body, Box, Source, place
from tilewright.kernels.reference.recurrences import recurrent_stage
from tilewright.kernels.reference.reductions import contract, factorise, reduce_stage
from tilewright.kernels.reference.scans import scan_stage

__all__ = ["evaluate", "evaluate_block", "evaluated_points", "index_bounds"]

DEFAULT_MEMORY = 256 << 20
_LEAST_MEMORY = 1 << 14


def evaluate(program: Program, inputs: Sequence[Array], memory: int = DEFAULT_MEMORY) -> Array:
    """The program's result: float64, or int64 or bool for integer and logical results.

    ``inputs``: arrays in call order, of the program's shapes; dtypes of ``expr.BITS`` as bit patterns. ``memory``:
    approximate budget in bytes beyond inputs and result. Raises ``UsageError`` for inputs of other shapes and
    ``IndexError`` for a read outside a tensor.
    """
    return evaluate_block(program, inputs, tuple(slice(None) for _ in program.output.shape), memory)


def evaluate_block(
    program: Program, inputs: Sequence[Array], block: tuple[slice, ...], memory: int = DEFAULT_MEMORY
) -> Array:
    """The block ``block`` of the result, one slice (of step 1) an axis."""
    box = _box(program, block)
    points = math.prod(hi - lo for lo, hi in box)
    # Small inputs of large blocks are converted once; other inputs as they are read.
    eager = 8 * sum(t.size for t in program.inputs) <= memory // 4 and 8 * points >= program.output.size
    sources = _sources(program.inputs, inputs, eager)
    memory = max(memory, _LEAST_MEMORY)
    with np.errstate(all="ignore"):
        return _block(program, sources, box, memory)


def evaluated_points(program: Program, block: tuple[slice, ...]) -> int:
    """Estimated cost of :func:`evaluate_block`: elements of all stages that the block needs, each term of reductions
    counted."""
    needs = _needs(program, _box(program, block))
    reduced = {s.name: math.prod(s.reduce) for s in program.stages}
    return sum(reduced[name] * math.prod(hi - lo for lo, hi in box) for name, box in needs.items())


def _box(program: Program, block: tuple[slice, ...]) -> Box:
    if len(block) != len(program.output.shape):
        raise UsageError(f"the block has {len(block)} axes, the output {len(program.output.shape)}")
    box: list[tuple[int, int]] = []
    for s, n in zip(block, program.output.shape, strict=True):
        low, high, step = s.indices(n)
        if step != 1:
            raise UsageError("a block's slices have step 1")
        box.append((low, max(low, high)))
    return tuple(box)


def index_bounds(program: Program) -> dict[str, int]:
    """By whole-number input that serves as a gather index: the bound below which its values need no clamping.

    Values are to be drawn from ``[0, bound)``. Inputs that are no index are left out.
    """
    inputs = {t.name for t in program.inputs}
    out: dict[str, int] = {}
    for stage in program.stages:
        bounds = Bounds({a: (0, n - 1) for a, n in stage.ranges.items()})
        for read in stage.loads():
            for index, extent in zip(read.args, program.tensors[str(read.value)].shape, strict=True):
                for e in index.loads():
                    name = str(e.value)
                    if name in inputs and e.dtype in INTEGERS:
                        limit = _gather_limit(index, e, extent, bounds)
                        out[name] = min(out.get(name, limit), limit)
    return out


def _gather_limit(index: Expr, read: Expr, extent: int, bounds: Bounds) -> int:
    """The largest v for which an index that reads values in [0, v) stays within [0, extent)."""

    def reach(value: int) -> tuple[int, int]:
        fixed = Expr("const", INDEX, (), value)

        def pin(e: Expr) -> Expr | None:
            if e.op == "load" and e.value == read.value:
                return fixed
            return e.args[0] if e.op == "cast" and e.dtype == INDEX and e.args[0] is fixed else None

        return bounds.of(_unclamped(index, extent).map(pin))

    low, high = 1, max(1, 2 * extent)
    while low < high:  # the interval's ends are monotone in the value for quasi-affine indices
        middle = (low + high + 1) // 2
        a, b = reach(middle - 1)
        low, high = (middle, high) if a >= 0 and b < extent else (low, middle - 1)
    return low


def _unclamped(index: Expr, extent: int) -> Expr:
    """An index without the clamp that ``te`` puts around gathers."""
    if index.op == "min" and index.args[0].op == "max":
        inner, zero = index.args[0].args
        if index.args[1].value == extent - 1 and zero.op == "const" and zero.value == 0:
            return inner
    return index


# --------------------------------------------------------------------------- inputs


def _sources(tensors: Sequence[Tensor], inputs: Sequence[Array], eager: bool) -> dict[str, Source]:
    if len(inputs) != len(tensors):
        raise UsageError(f"the program takes {len(tensors)} inputs, got {len(inputs)}")
    out: dict[str, Source] = {}
    for tensor, given in zip(tensors, inputs, strict=True):
        array = np.asarray(given)
        if array.shape != tensor.shape:
            raise UsageError(f"input {tensor.name} has shape {array.shape}, the program takes {tensor.shape}")
        bits = tensor.dtype if BITS.get(tensor.dtype) == array.dtype.name else ""
        source = Source(array, (0,) * array.ndim, bits)
        out[tensor.name] = Source(source.convert(array), source.origin) if eager else source
    return out


# --------------------------------------------------------------------------- blocks


def _block(program: Program, inputs: Mapping[str, Source], box: Box, memory: int) -> Array:
    last = program.stages[-1]
    out = np.empty([hi - lo for lo, hi in box], result_dtype(last.dtype))
    if out.size == 0:
        return out
    for part in _affordable(program, box, memory // 2):
        out[place(part, box)] = _part(program, inputs, part, memory)
    return out


def _affordable(program: Program, box: Box, budget: int) -> list[Box]:
    """The box cut into parts whose earlier stages fit the budget."""
    if len(program.stages) == 1:
        return [box]
    todo, done = [box], list[Box]()
    while todo:
        part = todo.pop()
        if _bytes(program, part) <= budget:
            done.append(part)
            continue
        halves = [_halves(part, d) for d, (low, high) in enumerate(part) if high - low > 1]
        if not halves:
            done.append(part)  # one element: it cannot be cut further
            continue
        costs = [_bytes(program, second) for _, second in halves]  # the second half of a scan needs the first half
        todo.extend(halves[costs.index(min(costs))])
    return done


def _halves(box: Box, dim: int) -> tuple[Box, Box]:
    low, high = box[dim]
    middle = (low + high) // 2
    return (
        (*box[:dim], (low, middle), *box[dim + 1 :]),
        (*box[:dim], (middle, high), *box[dim + 1 :]),
    )


def _bytes(program: Program, box: Box) -> int:
    needs = _needs(program, box)
    del needs[program.stages[-1].name]
    return 8 * sum(math.prod(hi - lo for lo, hi in b) for b in needs.values())


def _needs(program: Program, box: Box) -> dict[str, Box]:
    """By stage on which the block depends: the box of its elements that are read."""
    needs = {program.stages[-1].name: box}
    for stage in reversed(program.stages):
        here = needs.get(stage.name)
        if here is None:
            continue
        ranges = {a: (lo, hi - 1) for a, (lo, hi) in zip(stage.axes, here, strict=True)}
        if stage.step is not None:  # needs every feature at every position, but only of the box's rows
            ranges |= {a: (0, stage.ranges[a] - 1) for a in ("i0", "i1", "i3")}
        elif stage.scan is not None:  # needs all positions before the box's end
            ranges[stage.axes[stage.scan]] = (0, here[stage.scan][1] - 1)
        ranges |= {a: (0, n - 1) for a, n in zip(stage.reduce_axes, stage.reduce, strict=True)}
        bounds = Bounds(ranges)
        for read in stage.loads():
            name = str(read.value)
            tensor = program.tensors[name]
            if name.startswith("x"):
                continue
            box_read: list[tuple[int, int]] = []
            for index, n in zip(read.args, tensor.shape, strict=True):
                low, high = bounds.of(index)
                low = min(max(low, 0), n - 1)
                box_read.append((low, max(low, min(high, n - 1)) + 1))
            known = needs.get(name, box_read)
            needs[name] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(box_read, known, strict=True))
    return needs


def _part(program: Program, inputs: Mapping[str, Source], box: Box, memory: int) -> Array:
    needs = _needs(program, box)
    sources = dict(inputs)
    shapes = {name: t.shape for name, t in program.tensors.items()}
    result: Array = np.empty(0)
    for stage in program.stages:
        here = needs.get(stage.name)
        if here is None:
            continue
        result = _stage(stage, here, sources, shapes, memory // 4)
        sources[stage.name] = Source(result, tuple(lo for lo, _ in here))
    return result


def _stage(
    stage: Stage, box: Box, sources: Mapping[str, Source], shapes: Mapping[str, tuple[int, ...]], memory: int
) -> Array:
    out = np.empty([hi - lo for lo, hi in box], result_dtype(stage.dtype))
    body = Body(stage, sources, shapes)
    if stage.step is not None:
        recurrent_stage(body, out, box)
        return out
    if stage.monoid is None:
        body.map_into(out, box, memory)
        return out
    if stage.scan is not None:
        scan_stage(body, out, box, memory)
        return out
    factors = factorise(stage)
    if factors is None or not contract(body, factors, out, box, memory):
        reduce_stage(body, out, box, memory)
    return out


def result_dtype(dtype: str) -> type[np.generic]:
    """NumPy type in which the interpreter computes a dtype."""
    return np.bool_ if dtype == "bool" else np.int64 if dtype in (*INTEGERS, INDEX) else np.float64
