"""Freivalds' check: compares a whole contraction's result with a random projection of it.

For ``out[i, j] = sum_k a[i, k] b[k, j] (+ rest)`` and random whole weights ``w[j]``, the vector
``out w - rest w`` must equal ``a (b w)``, which costs far less than the product. On the whole-number
inputs every term is exact in float64, so a single wrong element, by any amount, shows with
probability above 0.999.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import FLOATS, INDEX, TF32, Expr, const, unwidened
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program, Stage, Tensor, left, right, simple_monoid
from tilewright.kernels.reference import evaluate
from tilewright.verifying.inputs import Array
from tilewright.verifying.terms import F64, wide

WEIGHT = 1000
SLAB = 1 << 17  # number of result elements that are projected at once


@dataclass(frozen=True)
class Projection:
    """The result summed along ``axis`` with ``weights`` must equal ``expected`` exactly.

    ``rest``: the epilogue's addend, which is subtracted first; ``None`` without one.
    ``bits``: the output holds whole numbers up to ``2**bits`` exactly; larger ones are rounded.
    """

    axis: int
    weights: Array
    expected: Array
    rest: Array | None = None
    bits: int = 53

    def wrong(self, out: Array) -> int:
        """Number of projected elements that differ."""
        if out.ndim < 2:
            return self._wrong_in(out, self.expected, self.rest)
        # In slabs that fit a cache: temporaries of a large output would cost a page fault per page.
        along = 1 if self.axis == 0 else 0
        rows = max(1, SLAB * out.shape[along] // max(out.size, 1))
        wrong = 0
        for start in range(0, out.shape[along], rows):
            part = slice(start, start + rows)
            here = (slice(None),) * along + (part,)
            kept = self.expected[part]  # without the projected axis, the divided axis comes first
            wrong += self._wrong_in(out[here], kept, None if self.rest is None else self.rest[here])
        return wrong

    def _wrong_in(self, out: Array, expected: Array, rest: Array | None) -> int:
        wide = out.astype(np.float64)
        large = np.abs(wide) > 2.0**self.bits
        allowed: Array | float = 0.0
        if large.any():  # half the distance to the output dtype's next value
            off = np.where(large, np.exp2(np.floor(np.log2(np.where(large, np.abs(wide), 1.0))) - self.bits), 0.0)
            allowed = np.tensordot(off, np.abs(self.weights), (self.axis, 0))
        if rest is not None:
            wide -= rest
        apart = np.abs(np.tensordot(wide, self.weights, (self.axis, 0)) - expected)
        # An infinite deviation has an infinite allowance, so it is tested separately.
        return int((~(apart <= allowed) | np.isinf(apart)).sum())


def project(program: Program, values: Sequence[Array], seed: int) -> Projection | None:
    """A projection of the program's result, or ``None`` if it is not a plain contraction.

    Handles one sum of a product, optionally followed by the addition of a term without the sum.
    The caller guarantees that every value is exact.
    """
    parts = _parts(program)
    if parts is None:
        return None
    stage, rest = parts
    factors = _factors(stage.body[0])
    for axis in reversed(range(len(stage.extents))):
        name = f"i{axis}"
        holding = [f for f in factors if name in f.axes()]
        if len(holding) != 1 or stage.extents[axis] < 2 or holding[0].op not in ("load", "select"):
            continue
        others = [f for f in factors if f is not holding[0]]
        weights = np.random.default_rng(seed).integers(-WEIGHT, WEIGHT + 1, stage.extents[axis])
        small = _projected(program, stage, axis, holding[0], others)
        given = [decode(v, t.dtype).astype(np.float64) if t.dtype in FLOATS else v for t, v in _pairs(program, values)]
        expected = evaluate(small, [*given, weights.astype(np.float64)])
        extra = None if rest is None else np.asarray(evaluate(rest, given))
        bits = DTYPES[program.output.dtype].digits or 53
        return Projection(axis, weights.astype(np.float64), np.asarray(expected), extra, bits)
    return None


def _pairs(program: Program, values: Sequence[Array]) -> list[tuple[Tensor, Array]]:
    return list(zip(program.inputs, values, strict=True))


def _parts(program: Program) -> tuple[Stage, Program | None] | None:
    """The contraction, and the program of its addend."""
    first, *later = program.stages
    m = first.monoid
    if m is None or first.scan is not None or len(first.body) != 1:
        return None
    if _bare(m.finish).op != "var" or m.combine[0].op != "add":
        return None
    if later and m.finish.op != "var":
        return None
    if not later:
        return first, None
    if len(later) > 1 or later[0].monoid is not None or later[0].extents != first.extents:
        return None
    body = _bare(later[0].body[0])
    while body.op == "add" and body.args[1].loads() and not _reads(body.args[1], first.name):
        inner = unwidened(body.args[0])
        if inner.op == "load" and inner.value == first.name:
            break
        return None
    if body.op != "add":
        return None
    core, other = body.args if _reads(body.args[0], first.name) else body.args[::-1]
    core = unwidened(core)
    plain = core.op == "load" and [str(a.value) for a in core.args] == list(later[0].axes)
    if not plain or _reads(other, first.name):
        return None
    rest = Stage("s0", first.extents, (), (other.map(wide),), F64)
    return first, Program(_wide_inputs(program), (rest,))


def _projected(program: Program, stage: Stage, axis: int, held: Expr, others: Sequence[Expr]) -> Program:
    """Two stages: ``held`` summed over ``axis`` with the weights, then the rest of the sum."""
    inputs = _wide_inputs(program)
    weights = Tensor(f"x{len(inputs)}", (stage.extents[axis],), F64)
    ranges = stage.ranges
    kept = sorted(held.axes() - {f"i{axis}"})
    renamed = {a: Expr("axis", INDEX, (), f"i{n}") for n, a in enumerate(kept)}
    along = Expr("axis", INDEX, (), "r0")
    total = simple_monoid("sum", F64, 0.0, Expr("add", F64, (left(0, F64), right(0, F64))))
    term = Expr(
        "mul", F64,
        (held.map(wide).substitute({**renamed, f"i{axis}": along}), Expr("load", F64, (along,), weights.name)),
    )  # fmt: skip
    extents = tuple(ranges[a] for a in kept) or (1,)
    inner = Stage("s0", extents, (stage.extents[axis],), (term,), F64, total)
    own = tuple(Expr("axis", INDEX, (), a) for a in kept) or (const(0, INDEX),)
    body = Expr("load", F64, own, "s0")
    for f in others:
        body = Expr("mul", F64, (f.map(wide), body))
    left_axes = [d for d in range(len(stage.extents)) if d != axis]
    shift = {f"i{d}": Expr("axis", INDEX, (), f"i{n}") for n, d in enumerate(left_axes)}
    outer_extents = tuple(stage.extents[d] for d in left_axes) or (1,)
    outer = Stage("s1", outer_extents, stage.reduce, (body.substitute(shift),), F64, total)
    return Program((*inputs, weights), (inner, outer))


def _factors(e: Expr) -> list[Expr]:
    if e.op == "mul":
        return [*_factors(e.args[0]), *_factors(e.args[1])]
    if e.op in TF32 or unwidened(e) is not e:
        return _factors(e.args[0])
    return [e]


def _bare(e: Expr) -> Expr:
    """A result without its final conversions: :attr:`Projection.bits` allows for their rounding."""
    return _bare(e.args[0]) if e.op == "cast" and e.dtype in FLOATS else e


def _wide_inputs(program: Program) -> tuple[Tensor, ...]:
    return tuple(Tensor(t.name, t.shape, F64 if t.dtype in FLOATS else t.dtype) for t in program.inputs)


def _reads(e: Expr, tensor: str) -> bool:
    return any(x.value == tensor for x in e.loads())
