"""Row reductions prepared for vectorisation along the columns: passes, the maps kept between passes, and their reads.

Row axes are called ``i0, i1, ...`` and column axes ``r0, r1, ...``; there is at least one column axis.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, TRANSCENDENTAL, Expr, axis, cast, const
from tilewright.kernels.expression.program import Monoid, Program, Tensor
from tilewright.kernels.families.flatten import Axes, linear, ordered
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, RowReduction, RowStage, row_reduction
from tilewright.kernels.templates.cpu_rows.monoids import commutes, narrowed

SLOW = ("div", "sqrt", "rsqrt", *TRANSCENDENTAL)


@dataclass(frozen=True, eq=False)
class RowProgram(RowReduction):
    """The normal form of a row reduction, with its monoids as the kernel accumulates them.

    ``moments`` maps each reduction that is finished from moments (``moments.py``) to the reduction that accumulates
    the moments.
    """

    moments: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.tensors[t.name] for t in self.program.inputs)

    @property
    def inner(self) -> str:
        """The column axis that is vectorised."""
        return self.columns[-1][0]

    @property
    def run(self) -> int:
        """Extent of the vectorised axis, in elements."""
        return self.columns[-1][1]

    @cached_property
    def moving(self) -> frozenset[str]:
        """Names of all values that vary along a row: column axes, and maps over elements."""
        return frozenset((*self.column_axes, *self.needed))

    def accumulates(self, s: RowStage) -> bool:
        """Whether a stage is a reduction with its own partial results."""
        return s.kind == REDUCTION and self.moments.get(s.name, s.name) == s.name

    def reductions(self, n: int) -> list[RowStage]:
        """The reductions with their own partial results that pass ``n`` computes."""
        return [s for s in self.stages if self.accumulates(s) and self.level[s.name] == n]

    def final(self, n: int) -> RowStage | None:
        """The result, if its elements are computed in pass ``n``."""
        return self.result if self.result.kind == ELEMENT and self.level[self.result.name] == n else None

    def computed(self, n: int, left: Container[str]) -> list[RowStage]:
        """The stages that pass ``n`` needs, in order.

        Stages that only a :meth:`known` map over elements reads are left out. ``left``: the kept maps.
        """
        wanted = {s.name for s in (*self.reductions(n), self.final(n)) if s is not None}
        for s in reversed(self.stages):
            if s.name in wanted and not self.known(s.name, n, left):
                wanted |= {r for r in s.reads if self.stage[r].kind == ELEMENT}
        return [s for s in self.stages if s.name in wanted]

    def known(self, name: str, n: int, left: Container[str]) -> bool:
        """Whether a stage is a kept map over elements (in ``left``) that a pass before pass ``n`` computes."""
        return name in left and self.needed[name][0] < n

    @cached_property
    def needed(self) -> dict[str, tuple[int, ...]]:
        """The passes that need each map over elements, if every pass recomputes the maps it reads."""
        found: dict[str, set[int]] = {s.name: set() for s in self.stages}
        for s in reversed(self.stages):
            if s.kind == REDUCTION or (s is self.result and s.kind == ELEMENT):
                found[s.name].add(self.level[s.name])
            for name in s.reads:
                if self.stage[name].kind == ELEMENT:
                    found[name] |= found[s.name]
        return {n: tuple(sorted(p)) for n, p in found.items() if self.stage[n].kind == ELEMENT}

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Maps over elements that are expensive to recompute and that several passes need."""
        return tuple(
            n for n, p in self.needed.items()
            if len(p) > 1 and self.stage[n].dtype != "bool"
            and any(x.op in SLOW for e in self.stage[n].body for x in e.walk())
        )  # fmt: skip

    @cached_property
    def shared(self) -> int:
        """Bytes of inputs that the last pass reads along each row and that all rows share, such as weights."""
        last = self.passes - 1
        stages = [self.result, *(self.stage[n] for n, passes in self.needed.items() if last in passes)]
        found = {
            (str(n.value), repr(n.args[0])): ITEMSIZE[n.dtype]
            for s in stages
            for e in s.body
            for n in e.loads()
            if linear(n.args[0]).step(self.inner) == 1 and not n.args[0].axes() & set(self.row_axes)
        }
        return sum(found.values()) * self.width

    @cached_property
    def position(self) -> Expr:
        """Flat position of an element within its row."""
        return _flat(self.columns)

    @cached_property
    def place(self) -> Expr:
        """Flat position of a row among all rows."""
        return _flat(self.rows)

    @cached_property
    def element(self) -> Expr:
        """Flat position of an element among the elements of all rows."""
        return _flat((*self.rows, *self.columns))

    @cached_property
    def streams(self) -> tuple[Expr, ...]:
        """Distinct reads of inputs that are contiguous along a row and vary by row; gathers are left out."""
        found: dict[tuple[str, str], Expr] = {}
        for s in self.stages:
            for x in s.body:
                for n in x.loads():
                    moves = linear(n.args[0]).step(self.inner)
                    chosen = any(x.op in ("load", "var") for x in n.args[0].walk())
                    if moves == 1 and not chosen and (not self.rows or n.args[0].axes() & set(self.row_axes)):
                        found.setdefault((str(n.value), repr(n.args[0])), n)
        return tuple(found.values())


def _flat(axes: Axes) -> Expr:
    total, step = const(0, INDEX), 1
    for a, n in reversed(axes):
        total = axis(a) * step + total
        step *= n
    return total


@lru_cache(maxsize=256)
def match(program: Program) -> RowProgram | None:
    """Recognise a program as a row reduction, or return ``None``. Cached: equal programs give the same object."""
    found = row_reduction(program)
    if found is None:
        return None
    rows = tuple((f"i{k}", n) for k, (_, n) in enumerate(found.rows))
    columns = tuple((f"r{k}", n) for k, (_, n) in enumerate(found.columns)) or (("r0", 1),)
    renamed = {a: axis(b) for a, (b, _) in zip((*found.row_axes, *found.column_axes), (*rows, *columns), strict=False)}
    stages = tuple(_accumulated(s, renamed, found.width) for s in found.stages)
    where = linear(found.where.expr().substitute(renamed))
    return RowProgram(found.program, found.tensors, rows, columns, stages, where)


def _accumulated(s: RowStage, renamed: Mapping[str, Expr], width: int) -> RowStage:
    body = tuple(ordered(e.substitute(renamed)) for e in s.body)
    if s.monoid is None:
        return replace(s, body=body)
    m, body = narrowed(s.monoid, body, width)
    return replace(s, body=body, monoid=Monoid(m.name, m.identity, m.combine, cast(m.finish, s.dtype)))


# --------------------------------------------------------------------------- programs that the template refuses


@lru_cache(maxsize=256)
def refusal(p: RowProgram) -> str:
    """Why this template cannot compute a row reduction; empty if it can."""
    if not p.program.plain:
        return "has 8-bit reals"
    if not all(commutes(s.monoid) for s in p.stages if s.monoid is not None):
        return "has a reduction whose order matters"
    single = [a for a, n in p.columns if n == 1]
    if linear(p.element if p.result.kind == ELEMENT else p.place).without(*single) != p.where:
        return "writes its rows in another order"
    for n in (n for s in p.stages for e in s.body for n in e.loads()):
        form = linear(n.args[0])
        steps, walked = ([form.step(a) for a in axes] for axes in (p.row_axes, p.column_axes))
        if walked[-1] not in (0, 1) or None in walked or not _apart(p, steps, walked):
            return "reads rows whose elements do not lie one after the other"
    return ""


def _apart(p: RowProgram, steps: Sequence[int | None], walked: Sequence[int | None]) -> bool:
    """Whether rows do not overlap: every step between rows exceeds a row's span in memory."""
    span = sum(abs(c or 0) * (n - 1) for c, (_, n) in zip(walked, p.columns, strict=True))
    return all(c is None or c == 0 or abs(c) > span or span == 0 for c in steps)
