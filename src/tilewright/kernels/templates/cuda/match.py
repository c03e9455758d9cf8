"""Which contractions a GPU computes in tiles: what is accumulated, sizes, phases, scales.

A group of axes is walked as one fused index that is split again by division, so any axes fit in any group, whatever
their place in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.linear import Linear, factors
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families import contraction as family
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.sides import matches
from tilewright.kernels.templates.cuda.phases import clipped, ragged
from tilewright.kernels.templates.cuda.runs import Run
from tilewright.kernels.templates.cuda.scales import BlockScales, after, in_blocks
from tilewright.kernels.templates.cuda.sizes import divisor

ACCUMULATED = ("float32", "float64", "int32", "int64")
"""What may be accumulated. Sides may hold any dtype."""

LARGEST = (1 << 31) - (1 << 16)
"""Fused indices are 32-bit, with room for a tile past the end."""


@dataclass(frozen=True, eq=False)
class CudaContraction(family.Contraction):
    """A contraction whose results are stored where all ``clips`` hold (conditions on output axes).

    ``strides``, where given, are the steps along these axes in the real output (:mod:`.phases`). ``chosen``, where
    given, is the batch of each row of M, which has one alone: tiles hold rows of one batch (:mod:`.sorting`).
    ``scales``, where given, multiply the sum of each block of K, and are no part of the sides (:func:`folded`).
    """

    clips: tuple[Expr, ...] = ()
    strides: Mapping[str, int] | None = None
    chosen: Expr | None = None
    scales: BlockScales | None = None

    @cached_property
    def out_strides(self) -> dict[str, int]:
        """Elements between neighbours in the output along each output axis."""
        return dict(self.strides or zip(self.stage.axes, self.output.strides, strict=True))

    @cached_property
    def groups(self) -> tuple[tuple[str, Group], ...]:
        """The groups of axes by the names of their fused indices."""
        return ("batch", self.batch), ("m", self.m), ("n", self.n), ("k", self.k)

    @property
    def is_sorted(self) -> bool:
        """Whether tiles hold rows of one batch, sorted by it, wherever they lie."""
        return self.chosen is not None

    @property
    def batches(self) -> int:
        """Batches that have M rows each: one where rows choose theirs."""
        return 1 if self.is_sorted else self.batch.size

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.batches * self.m.size * self.n.size

    def side(self, name: str) -> Expr:
        """The value of side ``a`` or ``b``."""
        return self.lhs if name == "a" else self.rhs

    def free(self, side: str) -> Group:
        """The output axes of a side that the other one does not read."""
        return self.m if side == "a" else self.n

    def vector_width(
        self, where: Linear, group: Group, itemsize: int, stop: frozenset[str] = frozenset(),
        others: tuple[tuple[Expr, int], ...] = (),
    ) -> int:  # fmt: skip
        """The most elements (a power of two, at most 16 bytes) that one access along a group may hold.

        ``where``, with ``others``, is the access's position in its tensor; a run ends at an axis in ``stop``.
        """
        run, inside = 1, list[tuple[str, int]]()
        stop = stop.union(*(e.axes() for e, _ in others))
        for axis, extent in zip(reversed(group.axes), reversed(group.extents), strict=True):
            if extent == 1:
                continue
            if where.of(axis) != run or axis in stop:
                break
            run *= divisor(extent)
            inside.insert(0, (axis, extent))
        single = frozenset(a for a, e in self.stage.ranges.items() if e == 1)
        return gcd(Run(tuple(inside), single=single).widest(where, itemsize), *(step for _, step in others))

    @cached_property
    def store_width(self) -> int:
        """The most elements of the output along N that one store may hold."""
        return self.vector_width(Linear(0, self.out_strides), self.n, ITEMSIZE[self.output.dtype])

    @property
    def store_bytes(self) -> int:
        """Bytes of the widest store of the output."""
        return self.store_width * ITEMSIZE[self.output.dtype]

    @cached_property
    def zero_is_neutral(self) -> bool:
        """Whether a step of K whose sides are both zero changes nothing, so that tiles may be padded."""
        return self.is_sum and _at_zero(self.body) == 0


def takes_range(c: CudaContraction) -> bool:
    """Whether the size that calls choose is that of tiles alone: the outermost axis of M, N or the batch."""
    chosen = next((g for g in (c.m, c.n, c.batch) if g.varying), None)
    return chosen is not None and chosen.axes[0] == c.stage.axes[0] and c.program.varying is not None and not c.clips


@lru_cache(maxsize=256)
def match(program: Program) -> CudaContraction | None:
    """The contraction that a program is, or ``None``; the same object each time."""
    forms = [c for form in family.contractions(program) if (c := computed(form)) is not None]
    if not forms:
        return None
    found = next((c for c in forms if not _scaled_by_batch(c)), forms[0])
    other = _in_phases(program) if found.batch.size > 1 else None
    return other if other is not None and 2 * other.batch.size <= found.batch.size else found


def _scaled_by_batch(c: CudaContraction) -> bool:
    """Whether a factor of A differs between batches alone: as one of B, blocks of columns are no batches."""
    batch = set(c.batch.axes)
    return c.is_product and any(f.axes() & batch and not f.axes() & set(c.m.axes) for f in factors(c.lhs))


def computed(c: family.Contraction) -> CudaContraction | None:
    """A contraction as it is computed on a GPU, ``None`` for sums or sizes that are not."""
    if c.acc not in ACCUMULATED or max(c.batch.size, c.m.size, c.n.size, c.k.size) > LARGEST:
        return None
    made = CudaContraction(
        c.program, c.stage, c.epilogue, c.batch, c.m, c.n, c.k, c.lhs, c.rhs, c.body
    )  # fmt: skip
    return scaled_after(made)


def _in_phases(program: Program) -> CudaContraction | None:
    """The contraction over phases that do not divide their axis."""
    form = ragged(program)
    if form is None:
        return None
    c = next(matches([form.program], lambda p: computed(family.recognise(p))), None)
    if c is None:
        return None
    lhs, rhs = (clipped(x, form.clips) for x in (c.lhs, c.rhs))
    return replace(c, lhs=lhs, rhs=rhs, clips=form.clips, strides=form.strides)


def scaled_after(c: CudaContraction) -> CudaContraction:
    """A sum of products whose quantised factors are scaled: the scales multiply the finished sum instead."""
    if not c.is_product or c.acc not in ("float32", "float64"):
        return c
    moved = after((c.lhs, c.rhs), frozenset(c.k.axes))
    if moved is None:
        return c
    (lhs, rhs), scale = moved
    monoid = c.monoid
    finish = monoid.finish.substitute({"l0": Expr("mul", c.acc, (Expr("var", c.acc, (), "l0"), scale))})
    stage = replace(c.stage, monoid=replace(monoid, finish=finish))
    return replace(c, stage=stage, lhs=lhs, rhs=rhs)


def folded(c: CudaContraction) -> CudaContraction:
    """A sum of products whose quantised factors are scaled by blocks of K: the sum of each block is scaled instead.

    For templates that sum blocks apart; to others such scales are part of the sides.
    """
    found = in_blocks((c.lhs, c.rhs), c.k) if c.is_product and c.acc == "float32" and not c.is_sorted else None
    if found is None:
        return c
    (lhs, rhs), scales = found
    return replace(c, lhs=lhs, rhs=rhs, scales=scales)


def _at_zero(e: Expr) -> float | None:
    """The value of a body whose sides are zero, where it is easily told."""
    if e.op == "const" and isinstance(e.value, (int, float)):
        return float(e.value)
    if e.op == "var":
        return 0.0
    rule = _RULES.get(e.op)
    values = [_at_zero(x) for x in e.args]
    if rule is None or any(v is None for v in values):
        return None
    return rule(*(v for v in values if v is not None))


_RULES: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "abs": abs,
    "cast": lambda x: x,
    "min": min,
    "max": max,
}
