"""Recognition of contractions that a GPU computes in tiles: accumulated types, sizes, phases, scales.

Kernels iterate over a group of axes by one fused index and recover the axes by division. So any axis may be in any
group, wherever it is in the output.
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
"""Dtypes of accumulators. Sides may have any dtype."""

LARGEST = (1 << 31) - (1 << 16)
"""Largest size of a group: fused indices are 32-bit, with room for a tile past the end."""


@dataclass(frozen=True, eq=False)
class CudaContraction(family.Contraction):
    """A contraction whose results are stored where all ``clips`` hold (conditions on output axes).

    ``strides``, if given: elements between neighbours in the real output along each output axis (:mod:`.phases`).
    ``chosen``, if given: the batch that each row of M chooses; tiles hold rows of one batch (:mod:`.sorting`).
    ``scales``, if given: factors of the sum of each block of K, taken out of the sides (:func:`folded`).
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
        """The groups of axes, with the names of their fused indices."""
        return ("batch", self.batch), ("m", self.m), ("n", self.n), ("k", self.k)

    @property
    def is_sorted(self) -> bool:
        """Whether rows choose their batch, so that each tile gathers rows of one batch in sorted order."""
        return self.chosen is not None

    @property
    def batches(self) -> int:
        """Number of batches of M rows each: 1 if rows choose their batch."""
        return 1 if self.is_sorted else self.batch.size

    @property
    def outputs(self) -> int:
        """Number of elements of the output."""
        return self.batches * self.m.size * self.n.size

    def side(self, name: str) -> Expr:
        """The value of side ``a`` or ``b``."""
        return self.lhs if name == "a" else self.rhs

    def free(self, side: str) -> Group:
        """The group of output axes that only this side reads: M for side A, N for side B."""
        return self.m if side == "a" else self.n

    def vector_width(
        self, where: Linear, group: Group, itemsize: int, stop: frozenset[str] = frozenset(),
        others: tuple[tuple[Expr, int], ...] = (),
    ) -> int:  # fmt: skip
        """Largest vector width of an access along a group, in elements: a power of two, at most 16 bytes.

        ``where`` plus ``others``: the access's position in its tensor. A contiguous run ends at an axis in ``stop``.
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
        """Largest vector width of a store along N, in elements of the output."""
        return self.vector_width(Linear(0, self.out_strides), self.n, ITEMSIZE[self.output.dtype])

    @property
    def store_bytes(self) -> int:
        """Bytes of the widest store to the output."""
        return self.store_width * ITEMSIZE[self.output.dtype]

    @cached_property
    def zero_is_neutral(self) -> bool:
        """Whether a step of K with zeros on both sides leaves the sum unchanged, so that zeros may pad tiles."""
        return self.is_sum and _at_zero(self.body) == 0


def takes_range(c: CudaContraction) -> bool:
    """Whether the symbolic size changes the number of tiles only: it is the outermost axis of M, N or the batch."""
    chosen = next((g for g in (c.m, c.n, c.batch) if g.varying), None)
    return chosen is not None and chosen.axes[0] == c.stage.axes[0] and c.program.varying is not None and not c.clips


@lru_cache(maxsize=256)
def match(program: Program) -> CudaContraction | None:
    """Recognises a program as a contraction, or returns ``None``; equal programs give one object."""
    forms = [c for form in family.contractions(program) if (c := computed(form)) is not None]
    if not forms:
        return None
    found = next((c for c in forms if not _scaled_by_batch(c)), forms[0])
    other = _in_phases(program) if found.batch.size > 1 else None
    return other if other is not None and 2 * other.batch.size <= found.batch.size else found


def _scaled_by_batch(c: CudaContraction) -> bool:
    """Whether a factor of A depends on the batch but not on M.

    Recognised as a factor of B instead, blocks of columns need no batch axis.
    """
    batch = set(c.batch.axes)
    return c.is_product and any(f.axes() & batch and not f.axes() & set(c.m.axes) for f in factors(c.lhs))


def computed(c: family.Contraction) -> CudaContraction | None:
    """A contraction in the form that GPUs compute; ``None`` for unsupported accumulator dtypes or sizes."""
    if c.acc not in ACCUMULATED or max(c.batch.size, c.m.size, c.n.size, c.k.size) > LARGEST:
        return None
    made = CudaContraction(
        c.program, c.stage, c.epilogue, c.batch, c.m, c.n, c.k, c.lhs, c.rhs, c.body
    )  # fmt: skip
    return scaled_after(made)


def _in_phases(program: Program) -> CudaContraction | None:
    """The contraction over phases that do not divide their axis (:mod:`.phases`), or ``None``."""
    form = ragged(program)
    if form is None:
        return None
    c = next(matches([form.program], lambda p: computed(family.recognise(p))), None)
    if c is None:
        return None
    lhs, rhs = (clipped(x, form.clips) for x in (c.lhs, c.rhs))
    return replace(c, lhs=lhs, rhs=rhs, clips=form.clips, strides=form.strides)


def scaled_after(c: CudaContraction) -> CudaContraction:
    """Moves scales of quantised factors that are free of K out of a sum of products, to the finished sum."""
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
    """Moves scales of quantised factors that are constant in blocks of K out of the sum of each block.

    For templates that sum each block of K separately. Other templates keep the scales in the sides.
    """
    found = in_blocks((c.lhs, c.rhs), c.k) if c.is_product and c.acc == "float32" and not c.is_sorted else None
    if found is None:
        return c
    (lhs, rhs), scales = found
    return replace(c, lhs=lhs, rhs=rhs, scales=scales)


def _at_zero(e: Expr) -> float | None:
    """The value of a body whose sides are zero; ``None`` if an operation has no rule here."""
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
