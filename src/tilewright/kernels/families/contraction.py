"""Contractions: a reduction of a function of two operands, with elementwise stages after it.

Products, convolutions, distances. Output axes form three groups: M (only the left operand reads them), N (only the
right operand does) and batch axes (both do, or neither). All reduce axes are K. The right operand reads the innermost
axis that not every read has. If M is empty, no operand is reused; then every output must read elements of the right
operand that no other output reads. So windows that slide over one tensor do not match (see :mod:`.reduce_window`), nor
do matrices that an index tensor chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import Monoid, Program, Stage, Tensor, count_ops, flops_per_point, in_step
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.sides import NoMatch, limited, matches, need, needed, split
from tilewright.kernels.loopnest import Access
from tilewright.kernels.rewrite import normal_forms


@dataclass(frozen=True, eq=False)
class Contraction:
    """A matched program: ``stage`` reduces ``body`` over K, ``epilogue`` are maps over its result.

    ``program`` is a rewritten form of the task's program (:mod:`~tilewright.kernels.rewrite`) on the same memory:
    stages before the reduction are inlined, and axes may be split in two or dropped. Use its stages and shapes for
    indices, and the task's for the arrays that callers pass. ``lhs`` and ``rhs`` are the operands' values over the
    stage's axes; ``body`` is a function of the vars ``a`` and ``b`` that stand for them.
    """

    program: Program
    stage: Stage
    epilogue: tuple[Stage, ...]
    batch: Group
    m: Group
    n: Group
    k: Group
    lhs: Expr
    rhs: Expr
    body: Expr

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def monoid(self) -> Monoid:
        return self.stage.reduction

    @property
    def acc(self) -> str:
        """Element type of the accumulators."""
        return self.monoid.identity[0].dtype

    @property
    def wide(self) -> tuple[str, ...]:
        """Output axes of more than one element, outermost first."""
        ranges = self.stage.ranges
        return tuple(x for x in self.stage.axes if ranges[x] > 1)

    def group(self, axes: Sequence[str]) -> Group:
        """Axes of the stage, fused into one."""
        ranges = self.stage.ranges
        return Group(tuple(axes), tuple(ranges[x] for x in axes))

    def together(self, group: Group) -> Group:
        """The innermost axes of a group that are contiguous with each other in the output."""
        kept: list[str] = []
        ranges, strides = self.stage.ranges, self.out_strides
        for x in reversed(group.axes):
            if kept and strides[x] != strides[kept[0]] * ranges[kept[0]]:
                break
            kept.insert(0, x)
        return self.group(kept)

    @cached_property
    def out_strides(self) -> dict[str, int]:
        """Elements between neighbours in the output, by output axis."""
        return dict(zip(self.stage.axes, self.output.strides, strict=True))

    @cached_property
    def is_sum(self) -> bool:
        """Whether the reduction is a plain sum."""
        combine, identity = self.monoid.combine[0], self.monoid.identity[0]
        names = {str(x.value) for x in combine.args if x.op == "var"}
        return combine.op == "add" and names == {"l0", "r0"} and identity.op == "const" and identity.value == 0

    @cached_property
    def is_product(self) -> bool:
        """Whether the reduction sums ``a * b``, so that a step with ``a = 0`` and a finite ``b`` adds nothing."""
        names = [str(x.value) for x in self.body.args if x.op == "var"]
        return self.is_sum and self.body.op == "mul" and sorted(names) == ["a", "b"]

    @cached_property
    def chain(self) -> tuple[tuple[str, str, Expr], ...]:
        """Stages applied to a sum: its finish, then the epilogue, each as name, dtype and value."""
        finish = (self.stage.name, self.stage.dtype, self.monoid.finish)
        return (finish, *((s.name, s.dtype, s.body[0]) for s in self.epilogue))

    @cached_property
    def updated(self) -> Expr:
        """A partial result ``l0`` after one more step of K; ``a`` and ``b`` are the operands' values of that step."""
        return self.monoid.combine[0].substitute({"r0": self.body})

    @cached_property
    def flops(self) -> tuple[int, int]:
        """Operations of a point, and of a finished sum with its epilogue."""
        return flops_per_point(self.stage), sum(count_ops(e) for _, _, e in self.chain)

    @cached_property
    def read_after(self) -> tuple[Expr, ...]:
        """Reads of inputs after the sum, by its finish and epilogue."""
        stages = {s.name for s in self.program.stages}
        return tuple(x for _, _, e in self.chain for x in e.loads() if x.value not in stages)

    def accesses(self, reads: Iterable[Expr], batch: str, outside: bool = False) -> tuple[Access, ...]:
        """Reads at positions on the fused axes ``batch``, ``m``, ``n`` and ``k``; ``outside``: outside the sum's
        loops."""
        names = self._fused(batch)
        return tuple(
            Access(str(x.value), tuple(i.substitute(names) for i in x.args), x.dtype, outside=outside) for x in reads
        )

    def written(self, batch: str) -> Access:
        """The store of the output, in the axes of :meth:`accesses`."""
        names, out = self._fused(batch), self.output
        return Access(out.name, tuple(names[a] for a in self.stage.axes), out.dtype, store=True)

    def _fused(self, batch: str) -> dict[str, Expr]:
        """Every axis as an expression of the fused axes."""
        names: dict[str, Expr] = {a: const(0, "index") for a in (*self.stage.axes, *self.stage.reduce_axes)}
        return names | self.batch.indices(batch) | self.m.indices("m") | self.n.indices("n") | self.k.indices("k")

    def limited(self, batch: Sequence[str]) -> tuple[Expr, Expr | None]:
        """The right operand of a product without its condition on a valid length of K, and that length.

        The operand is zero from the valid length on. The length is read for each point of the axes ``batch``; ``None``
        if the operand has no such condition.
        """
        if len(self.k.axes) != 1 or not self.is_product:
            return self.rhs, None
        value, limit = limited(self.rhs, self.k.axes[0])
        known = limit is not None and limit.loads() and limit.axes() <= set(batch)
        return (value, limit) if known else (self.rhs, None)


@lru_cache(maxsize=256)
def contractions(program: Program) -> tuple[Contraction, ...]:
    """All contractions as which a program can be read, the most rewritten one first."""
    return tuple(matches(normal_forms(program) if program.plain else (), recognise))


def recognise(program: Program) -> Contraction:
    """Reads a program as a contraction without rewriting it. Raises ``NoMatch``."""
    stage, *after = program.stages
    need(stage.monoid is not None and len(stage.reduction.identity) == 1 and bool(stage.reduce))
    (body,), acc = stage.body, stage.reduction.identity[0].dtype
    need(body.dtype == acc == stage.reduction.combine[0].dtype)
    check_maps(stage, after)
    ranges = stage.ranges
    wide = tuple(x for x in stage.axes if ranges[x] > 1)
    found: Contraction | None = None
    for mark in reversed(wide):
        try:
            lhs, rhs, function = split(body, mark, frozenset(wide))
        except NoMatch:
            continue
        m = [x for x in wide if x in lhs.axes() and x not in rhs.axes()]
        n = [x for x in wide if x in rhs.axes() and x not in lhs.axes()]
        batch, m_group, n_group = (
            Group(tuple(axes), tuple(ranges[x] for x in axes))
            for axes in ([x for x in wide if x not in m and x not in n], m, n)
        )
        k = Group(stage.reduce_axes, stage.reduce)
        one = Contraction(program, stage, tuple(after), batch, m_group, n_group, k, lhs, rhs, function)
        if m and not _apart(one):
            return one
        found = one if found is None or (m and not found.m.axes) else found
    found = needed(found)
    need(bool(found.m.axes) or _read_once(found))
    return found


FEW = 4
"""Largest number of contiguous columns for which another axis should decide the right operand."""


def _apart(c: Contraction) -> bool:
    """Whether few of the columns are contiguous in the output, as the components of complex numbers."""
    together = c.together(c.n).size
    return together < c.n.size and together <= FEW


def _read_once(c: Contraction) -> bool:
    """Whether every output reads its own elements of the right operand: plain reads, outputs and K in separate
    indices."""
    reduced = {a for a, n in zip(c.k.axes, c.k.extents, strict=True) if n > 1}
    indices = [i for x in c.rhs.loads() for i in x.args]
    mixed = any(i.axes() & reduced and i.axes() & set(c.wide) for i in indices)
    return c.rhs.op != "select" and not mixed and not any(linearise(i).atoms for i in indices)


def check_maps(stage: Stage, after: Sequence[Stage]) -> None:
    """Requires that later stages are maps over the stage's axes that read earlier stages in place.

    ``stage`` must read inputs only. Raises ``NoMatch``.
    """
    own = {stage.name, *(s.name for s in after)}
    need(all(s.monoid is None for s in after) and in_step((stage, *after)))
    need(not {str(x.value) for x in stage.loads()} & own)
