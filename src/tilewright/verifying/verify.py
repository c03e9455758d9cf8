"""Checks a kernel's results before it is timed.

Every input set has guarded buffers with a placement of its own, and the outputs are poisoned before the call.
Afterwards the inputs must be unchanged, the canaries intact, and every checked element inside its
interval. If a reference of the whole output would take too long, blocks are checked: corners,
full lines along every axis, random blocks. For contractions a projection checks the whole output. If a program has
several outputs, each is checked as the output of a program of its own on the same inputs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from tilewright.core import FailureKind
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.expression.expr import FLOATS, INTEGERS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.reference import evaluate_block, evaluated_points, index_bounds
from tilewright.verifying import tolerance
from tilewright.verifying.buffers import LINE, POISON, GuardedArray
from tilewright.verifying.exact import exact_at, whole_reach
from tilewright.verifying.inputs import RECIPES, Array, Recipe, make_inputs
from tilewright.verifying.long import long_reductions
from tilewright.verifying.projection import Projection, project
from tilewright.verifying.references import MEMORY, Block, Interval, Positions, References, widened

Run = Callable[[Sequence[int]], None]
"""Calls a kernel on the addresses of its inputs and outputs."""

ALL_SETS = tuple(range(len(RECIPES)))
FEW_SETS = (0, 2)  # for a binary that has passed all sets with other launch arguments
FULL_REFERENCE = 1.5  # largest duration of a whole reference in seconds
LEAST_TIMED = 0.1  # least seconds of a partial reference from which the whole is extrapolated
ERRORS = 2.0  # cost of a block's tolerances relative to its values
EDGE = 16  # tiles end at multiples of 16
# A result has only lost accuracy if its errors are at most CLOSE times the reference's largest magnitude, and at most
# ALIKE times the median error. A mistake at an edge leaves all other elements exact.
CLOSE = 0.01
ALIKE = 50.0
# Fill bytes of whole-number outputs by input set: one byte may be correct in one set, but hardly three in all sets.
UNWRITTEN = (0xA5, 0x5A, 0xC3)


class Problem(str):
    """A mistake in a result, in one line. ``kind``: its kind of failure."""

    __slots__ = ("kind",)
    kind: FailureKind

    def __new__(cls, text: str, kind: FailureKind = FailureKind.WRONG_RESULT) -> Self:
        made = super().__new__(cls, text)
        made.kind = kind
        return made


@dataclass(frozen=True)
class Expected:
    """Expectations of one output. ``chosen``: accepts positions that rounding may decide, for these inputs."""

    intervals: list[Interval]
    projection: Projection | None
    chosen: Callable[[Array, Block], Array] | None

    def problem(self, out: Array, recipe: Recipe) -> Problem | None:
        """The mistake in an output, in one line, or ``None``."""
        for interval in self.intervals:
            problem = mismatch(out, interval, recipe, self.chosen)
            if problem:
                return problem
        if self.projection is not None:
            wrong = self.projection.wrong(out)
            if wrong:
                return Problem(f"{wrong} of {self.projection.expected.size} projected sums differ ({recipe.name})")
        return None


@dataclass
class InputSet:
    """Guarded buffers of one recipe: inputs, their pristine copies, outputs, and the outputs' expectations."""

    recipe: Recipe
    inputs: list[GuardedArray]
    pristine: list[Array]
    outputs: list[GuardedArray]
    expected: list[Expected]

    @property
    def pointers(self) -> list[int]:
        return [g.address for g in (*self.inputs, *self.outputs)]


class _Output:
    """One output: its own program, its references, and the stages that are exact on whole numbers."""

    def __init__(self, program: Program, references: References, exact: frozenset[str], full: float) -> None:
        self.program = program
        self.references = references
        self.exact = exact
        self.full = full
        self._blocks: list[Block] | None = None

    def everything(self, rounding: float) -> bool:
        """Whether every stage is exact on whole numbers."""
        return rounding == 1 and self.exact >= {s.name for s in self.program.stages}

    def intervals(self, recipe: Recipe, values: tuple[Array, ...], rounding: float) -> list[Interval]:
        """Intervals of the chosen blocks for inputs of a recipe."""
        exact = self.exact if recipe.kind == "whole" and rounding == 1 else frozenset[str]()
        return self.references.intervals(recipe, values, self._chosen_blocks(values), exact, rounding)

    def expected(
        self, recipe: Recipe, values: tuple[Array, ...], intervals: list[Interval], rounding: float
    ) -> Expected:
        """The output's expectations, given its intervals."""
        whole = recipe.kind == "whole" and self.everything(rounding)
        projection = project(self.program, values, recipe.seed) if whole and len(intervals) > 1 else None
        derived = tolerance.error_program(self.program) if self.program.output.dtype in INTEGERS else None
        chosen = Positions(self.program, derived) if derived is not None and derived.chosen and not whole else None
        return Expected(intervals, projection, None if chosen is None else partial(chosen.right, values))

    def _chosen_blocks(self, values: tuple[Array, ...]) -> list[Block]:
        if self._blocks is None:
            shape = self.program.output.shape
            whole: Block = tuple(slice(0, n) for n in shape)
            self._blocks = [whole]
            # Any block of a recurrence needs the whole recurrence.
            if sum(s.points for s in self.program.stages) > 1e8 and not self.program.recurrent:
                cost = self._cost(values)
                if cost(whole) > self.full:
                    self._blocks = sample_blocks(shape, cost, self.full)
        return self._blocks

    def _cost(self, values: tuple[Array, ...]) -> Callable[[Block], float]:
        """Estimated seconds of the reference of a block, from its number of points. The time per point is measured on
        a block at the output's end that is large enough to time."""
        shape, wide = self.program.output.shape, widened(self.program, values)
        parts, seconds, block = 1 << 18, 0.0, list[slice]()
        while seconds < LEAST_TIMED and parts > 1:
            parts //= 4
            share = parts
            block.clear()
            for n in shape:
                cut = min(n, share)
                share = max(1, share // cut)
                block.append(slice(n - max(1, n // cut), n))
            times = []
            for _ in range(2):  # the first run may load code, or be interrupted
                began = time.perf_counter()
                evaluate_block(self.program, wide, tuple(block), MEMORY)
                times.append(time.perf_counter() - began)
            seconds = min(times)
        rate = (1 + ERRORS) * seconds / evaluated_points(self.program, tuple(block))
        return lambda b: rate * evaluated_points(self.program, b)


class Verifier:
    """Checks kernels of one program. Input sets and references are made on first use.

    ``folder``: folder of stored references. ``full``: largest number of seconds for one whole reference.
    """

    def __init__(self, program: Program, folder: Path | None = None, full: float = FULL_REFERENCE) -> None:
        self.program = program
        self.bounds = index_bounds(program)
        each = program.of_each()
        reach = min(whole_reach(p)[0] for p in each)
        exact = [exact_at(p, reach) for p in each]
        long = long_reductions(each, frozenset[str]().union(*exact))
        if not all(x.few for x in long):  # factors near 1 are not whole numbers
            exact = [frozenset() for _ in each]
        self._outputs = [_Output(p, References(p, folder), e, full) for p, e in zip(each, exact, strict=True)]
        self.recipes = tuple(replace(r, reach=reach, long=long) for r in RECIPES)
        if not any(x.few for x in long):
            self.recipes = tuple(replace(r, kind="normal") if r.kind == "peaked" else r for r in self.recipes)
        self._sets: dict[tuple[int, int, float], InputSet] = {}
        self._timing: tuple[str, tuple[Array, ...]] | None = None
        self.positive = False

    def check(self, run: Run, sets: Sequence[int] = ALL_SETS, align: int = 1, rounding: float = 1.0) -> Problem | None:
        """Check a kernel; its mistake in one line, or ``None``."""
        for n in sets:
            problem = self.check_set(run, self.input_set(n, align, rounding))
            if problem:
                return problem
        return None

    def check_set(self, run: Run, data: InputSet) -> Problem | None:
        """Run the kernel on one input set and compare."""
        for guarded, byte in zip(data.outputs, self.unwritten(data.recipe), strict=True):
            guarded.data.fill(byte)
        run(data.pointers)
        return self.problem(data)

    def unwritten(self, recipe: Recipe) -> list[int]:
        """The byte that fills each output before a call."""
        return [POISON if t.dtype in FLOATS else UNWRITTEN[recipe.seed] for t in self.program.outputs]

    def problem(self, data: InputSet) -> Problem | None:
        """The mistake after a call on one input set, in one line, or ``None``."""
        problem = self._side_effects(data)
        if problem:
            return problem
        for n, (guarded, expected) in enumerate(zip(data.outputs, data.expected, strict=True)):
            dtype = self.program.outputs[n].dtype
            out = guarded.array.view(np.uint8) if dtype == "bool" else decode(guarded.array, dtype)
            problem = expected.problem(out, data.recipe)
            if problem:
                return problem if len(data.outputs) == 1 else Problem(f"{guarded.name}: {problem}", problem.kind)
        return None

    def _side_effects(self, data: InputSet) -> Problem | None:
        for n, (guarded, pristine) in enumerate(zip(data.inputs, data.pristine, strict=True)):
            if not np.array_equal(guarded.data, pristine):
                guarded.data[:] = pristine
                return Problem(f"changes its input number {n} ({data.recipe.name})")
        for guarded in (*data.inputs, *data.outputs):
            if guarded.trespassed():
                guarded.restore()
                return Problem(f"writes outside {guarded.name} ({data.recipe.name})")
        return None

    def timing_values(self) -> tuple[Array, ...]:
        """Input values for timing, generated once: a final copies them to many places."""
        kind = "positive" if self.positive else "normal"
        if self._timing is None or self._timing[0] != kind:
            recipe = replace(self.recipes[0], kind=kind, place="heap")
            self._timing = kind, make_inputs(self.program, recipe, self.bounds)
        return self._timing[1]

    # ------------------------------------------------------------------ input sets

    def has(self, n: int, align: int = 1, rounding: float = 1.0) -> bool:
        """Whether an input set and its references exist already."""
        return (n, align, rounding) in self._sets

    def input_set(self, n: int, align: int = 1, rounding: float = 1.0) -> InputSet:
        """Set number ``n`` of :data:`RECIPES`, with buffers aligned to at least ``align`` bytes.

        ``rounding``: of a kernel's launch program. Sums with a ``rounding`` above 1 never count as exact.
        """
        key = (n, align, rounding)
        if key not in self._sets:
            self._sets[key] = self._make(self.recipes[n], align, rounding)
        return self._sets[key]

    def _make(self, recipe: Recipe, align: int, rounding: float) -> InputSet:
        whole = recipe.kind == "whole"
        if recipe.kind != "whole" and self.positive:
            recipe = replace(recipe, kind="positive")
        values = make_inputs(self.program, recipe, self.bounds)
        intervals = [o.intervals(recipe, values, rounding) for o in self._outputs]
        odd = [any(i.free is not None for i in found) for found in intervals]
        if any(odd) and recipe.kind == "peaked":  # large values may be outside a function's domain
            return self._make(replace(recipe, kind="normal"), align, rounding)
        if not whole and not self.positive and any(odd):
            # A log or root of negative values: most of the result would be NaN and show no mistake.
            self.positive = True
            return self._make(recipe, align, rounding)
        if whole and any(o and not out.everything(rounding) for o, out in zip(odd, self._outputs, strict=True)):
            values = tuple(natural(v, t) for v, t in zip(values, self.program.inputs, strict=True))
            recipe = replace(recipe, kind="natural")
            intervals = [o.intervals(recipe, values, rounding) for o in self._outputs]
        expected = [o.expected(recipe, values, x, rounding) for o, x in zip(self._outputs, intervals, strict=True)]
        guarded = []
        for n, v in enumerate(values):
            g = GuardedArray(v.shape, v.dtype, recipe.place, align, name=input_name(n))
            g.array[...] = v
            guarded.append(g)
        outputs = [
            GuardedArray(t.shape, numpy_dtype(t.dtype), recipe.place, align, name=output_name(self.program, n))
            for n, t in enumerate(self.program.outputs)
        ]
        return InputSet(recipe, guarded, [g.data.copy() for g in guarded], outputs, expected)


def natural(values: Array, tensor: Tensor) -> Array:
    """Reals as positive whole numbers; whole-number inputs, and those with a range of values, unchanged."""
    if tensor.dtype not in FLOATS or tensor.low is not None or tensor.high is not None:
        return values
    return encode(np.abs(decode(values, tensor.dtype)) + 1, tensor.dtype)


def sample_blocks(
    shape: Sequence[int], cost: Callable[[Block], float], budget: float, seed: int = 7
) -> list[Block]:  # fmt: skip
    """Sample blocks of an output: corners, lines along each axis, short segments around possible tile edges, random
    blocks. All corners, and as many of the other blocks as fit ``budget`` seconds."""
    rng = np.random.default_rng(seed)
    side = [min(n, 8 if d >= len(shape) - 2 else 2) for d, n in enumerate(shape)]
    corners: list[Block] = [
        tuple(slice(0, w) if low else slice(n - w, n) for low, n, w in zip(ends, shape, side, strict=True))
        for ends in itertools.product((True, False), repeat=len(shape))
    ][:16]

    def along(d: int, part: slice, at: Sequence[int]) -> Block:
        return tuple(part if e == d else slice(x, x + 1) for e, x in enumerate(at))

    def anywhere() -> list[int]:
        return [int(rng.integers(m)) for m in shape]

    # A full line crosses every tile edge of its axis: at both ends and at random positions of the other axes.
    lines: list[Block] = []
    for d, n in enumerate(shape):
        for at in ([0] * len(shape), [m - 1 for m in shape], anywhere(), anywhere()):
            lines.append(along(d, slice(0, n), at))
    edges: list[Block] = []
    for d, n in enumerate(shape):
        for at in (anywhere() for _ in range(16 if n > 2 * EDGE else 0)):
            middle = EDGE * int(rng.integers(1, n // EDGE))
            edges.append(along(d, slice(middle - 2, middle + 2), at))
    inside: list[Block] = []
    for _ in range(16):
        start = [int(rng.integers(n - w + 1)) for n, w in zip(shape, side, strict=True)]
        inside.append(tuple(slice(x, x + w) for x, w in zip(start, side, strict=True)))
    chosen: list[Block] = []
    spent = 0.0
    for b in (*corners, *edges, *lines, *inside):
        if b not in chosen and (spent + (more := cost(b)) <= budget or b in corners):
            chosen.append(b)
            spent += more
    return chosen


def mismatch(
    out: Array, interval: Interval, recipe: Recipe, chosen: Callable[[Array, Block], Array] | None = None
) -> Problem | None:
    """A wrong element of a block, in words, or ``None``: the first one, or the first that overflows.

    ``chosen``: as in :class:`Expected`.
    """
    got: Any = out[interval.block]
    # NaN fails both comparisons, as do unwritten elements.
    right = (got >= interval.low) & (got <= interval.high)
    if right.all():
        return None
    if interval.free is not None and interval.value is not None:
        right = np.where(interval.free, _right_where_free(got, interval.value), right)
    if chosen is not None:
        right = right | chosen(got, interval.block)
    if right.all():
        return None
    wrong = int((~right).sum())
    kind, shown = _failed(got, interval, ~right)
    at = tuple(int(x) for x in np.unravel_index(int(np.argmax(shown)), right.shape))
    place = tuple(s.start + x for s, x in zip(interval.block, at, strict=True))
    low, high = interval.low[at], interval.high[at]
    wanted = f"{low}" if low == high else f"{low} to {high}"
    said = f"element {place} is {got[at]}, expected {wanted}; {wrong} of {right.size} wrong ({recipe.name})"
    return Problem(said, kind)


def _failed(got: Array, interval: Interval, wrong: Array) -> tuple[FailureKind, Array]:
    """Kind of failure of a block's wrong elements, and the elements that show it."""
    low, high = interval.low, interval.high
    if got.dtype.kind != "f":
        return FailureKind.WRONG_RESULT, wrong
    infinite = wrong & np.isinf(got) & np.isfinite(low) & np.isfinite(high)
    if infinite.any():
        return FailureKind.OVERFLOW, infinite
    rounded = np.isfinite(low) & np.isfinite(high) & (low < high)
    # If only one value is correct, rounding explains no error.
    if not rounded[wrong].all() or np.isnan(got[wrong]).any():
        return FailureKind.WRONG_RESULT, wrong
    with np.errstate(all="ignore"):
        off = np.abs(got - (low / 2 + high / 2))
        size = np.maximum(np.abs(low), np.abs(high))[rounded].max()
        alike = off[wrong] / (high / 2 - low / 2)[wrong]
        usual = np.median(off[rounded] / (high / 2 - low / 2)[rounded])
        near = bool((off[wrong] <= CLOSE * size).all() and (alike <= ALIKE * usual).all())
    return (FailureKind.LOST_ACCURACY if near else FailureKind.WRONG_RESULT), wrong


def _right_where_free(got: Array, value: Array) -> Array:
    """Whether NaN is NaN and an infinity at least huge; a finite value of unknown error only must not be NaN."""
    huge = np.finfo(value.dtype).max / 2
    with np.errstate(invalid="ignore"):  # an infinity where zero is expected
        infinite = np.sign(value) * got >= huge
    return np.where(np.isnan(value), np.isnan(got), np.where(np.isinf(value), infinite, ~np.isnan(got)))


def input_name(n: int) -> str:
    """Name of an input in messages."""
    return f"input number {n}"


def output_name(program: Program, n: int) -> str:
    """Name of an output in messages."""
    return "the output" if len(program.outputs) == 1 else f"output number {n}"


def timing_inputs(program: Program, verifier: Verifier, align: int, shift: int = 0) -> list[GuardedArray]:
    """Buffers for timing: random inputs placed as NumPy places arrays, then outputs placed as the runtime places them.

    A kernel timed only on cache-line aligned inputs would look faster than users will see it. ``shift`` moves all
    buffers. An odd shift also places outputs as NumPy does, as for callers that pass ``out``. All arrays then begin at
    one offset in their pages, as NumPy's large arrays do. Either may change a comparison by 10%.
    """
    large = shift % 2 == 1

    def stagger(n: int) -> int:
        return 0 if large else n * (2 * shift + 1) + shift

    buffers = []
    for n, v in enumerate(verifier.timing_values()):
        g = GuardedArray(v.shape, v.dtype, "heap", align, stagger(n), input_name(n))
        g.array[...] = v
        buffers.append(g)
    own = align if large else max(align, LINE)
    for n, out in enumerate(program.outputs):
        kind, name = numpy_dtype(out.dtype), output_name(program, n)
        buffers.append(GuardedArray(out.shape, kind, "heap", own, stagger(len(buffers)), name))
    return buffers
