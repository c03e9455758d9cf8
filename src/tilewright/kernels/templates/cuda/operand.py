"""Reads of a contraction's side from global memory.

A *plain* side is one read, perhaps guarded (padding) and perhaps converted: its tiles can be copied in vectors or
asynchronously. Its position is linear in the axes, plus non-linear index expressions (the phases of a transposed
convolution). A side that is not plain is computed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import INDEX, ITEMSIZE, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.flatten import position
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.reads import one_read
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.text import VALUE, AxisTexts, Names, affine_text, printer

FAR = 1 << 40
WIDENED = 4
"""Bytes to which narrower elements are widened on the way to shared memory."""


@dataclass(frozen=True)
class Plain:
    """One read: ``tensor[where + others]`` where ``guard`` holds (``None``: everywhere), else ``other``.

    ``others``: non-linear index expressions without reads, each with its stride in elements. ``chain``: conversions of
    the element, outermost first: nodes ``cast``, ``round_tf32``, ``truncate_tf32`` (their operands do not matter).
    ``other`` equals its converted value only if it is zero.
    """

    tensor: Tensor
    where: Linear
    chain: tuple[Expr, ...] = ()
    guard: Expr | None = None
    other: float = 0.0
    others: tuple[tuple[Expr, int], ...] = ()


@dataclass(frozen=True)
class Operand:
    """Side ``a`` or ``b`` of a contraction, from :func:`operand`. A direction is ``"k"``, or ``"row"`` for M or N."""

    c: CudaContraction
    side: str

    @property
    def value(self) -> Expr:
        return self.c.side(self.side)

    @property
    def dtype(self) -> str:
        """Dtype of the side's value."""
        return self.value.dtype

    @property
    def ctype(self) -> str:
        """C type of the side's value."""
        return VALUE[self.dtype]

    @property
    def group(self) -> Group:
        """The group M for side A, N for side B."""
        return self.c.free(self.side)

    @cached_property
    def plain(self) -> Plain | None:
        """The side as one linear read, if it is one."""
        return _plain(self.value, self.c)

    @cached_property
    def copied(self) -> bool:
        """Whether the side's value is the stored element or zero, without conversion."""
        p = self.plain
        return p is not None and not p.chain and p.other == 0 and ITEMSIZE[p.tensor.dtype] >= WIDENED

    # ------------------------------------------------------------------ order in memory

    @cached_property
    def contiguous(self) -> str:
        """The contiguous direction in memory, ``"k"`` or ``"row"``.

        For a side that is not plain, or is contiguous in neither direction, the direction with the smaller stride.
        """
        steps = {"k": 1 << 62, "row": 1 << 62}
        for read in _outer_loads(self.value):
            step = _steps(read, self.c.program.tensors[str(read.value)])
            for along, group in (("k", self.c.k), ("row", self.group)):
                inner = [step.get(a, 0) for a, e in zip(group.axes, group.extents, strict=True) if e > 1][-1:]
                if inner and inner[0]:
                    steps[along] = min(steps[along], inner[0])
        return "k" if steps["k"] < steps["row"] else "row"

    def width(self, along: str) -> int:
        """Largest vector width along a direction, in elements: a power of two, at most 16 bytes.

        A vector that starts at a multiple of the width stays in one contiguous run and under one guard. The vector is
        aligned if the tensor is.
        """
        return self._widths[along]

    @cached_property
    def _widths(self) -> dict[str, int]:
        p = self.plain
        if p is None:
            return {"k": 1, "row": 1}
        guarded = p.guard.axes() if p.guard is not None else frozenset()
        groups, item = {"k": self.c.k, "row": self.group}, ITEMSIZE[p.tensor.dtype]
        return {along: self.c.vector_width(p.where, g, item, guarded, p.others) for along, g in groups.items()}

    # ------------------------------------------------------------------ text

    def _fused(self, batch: str, row: str, k: str, used: set[str] | None) -> Names:
        m, n = (row, "0") if self.side == "a" else ("0", row)
        return Names({"batch": batch, "m": m, "n": n, "k": k}, set() if used is None else used)

    def offset(self, batch: str, row: str, k: str, beyond: int = 0, used: set[str] | None = None) -> str:
        """Text of a plain side's position in its tensor, in elements.

        The position is valid within the extents. Up to ``beyond`` outside, it still computes without overflow. Here and
        below, the method adds the text's index variables and tensor names to ``used``.
        """
        p = self.plain
        assert p is not None
        return affine_text(self.c, p.where, self._fused(batch, row, k, used), beyond, p.others)

    def guard(self, batch: str, row: str, k: str, used: set[str] | None = None) -> str | None:
        """Text of a plain side's guard, or ``None`` without a guard. The text does not check extents."""
        assert self.plain is not None
        guard = self.plain.guard
        return None if guard is None else self._printed(guard, self._fused(batch, row, k, used))

    def scalar(self, batch: str, row: str, k: str, used: set[str] | None = None) -> str:
        """Text of one value of a side, plain or not; valid within the extents only."""
        return self._printed(self.value, self._fused(batch, row, k, used))

    def _printed(self, e: Expr, fused: Names) -> str:
        axes = AxisTexts(self.c, fused)
        return printer(self.c.program, self.c.stage.ranges, axes, {}, (e,), used=fused.used).scalar(e)

    def converted(self, text: str) -> str:
        """Text of a plain side's converted value, given the text of the element in its computed type."""
        assert self.plain is not None
        e = Expr("var", self.plain.tensor.dtype, (), "v")
        for link in reversed(self.plain.chain):
            e = Expr(link.op, link.dtype, (e,))
        return printer(self.c.program, {}, {}, {"v": text}, (e,)).scalar(e)


def _outer_loads(e: Expr) -> list[Expr]:
    """The reads of a value, except reads that only compute indices of other reads."""
    return [e] if e.op == "load" else [x for a in e.args for x in _outer_loads(a)]


def _steps(read: Expr, tensor: Tensor) -> dict[str, int]:
    """Stride of a read along each axis, in elements; ``FAR`` if its position is not linear in the axis."""
    where = position(read, tensor)
    steps = {a: where.step(a) for index in read.args for a in index.axes()}
    return {a: FAR if step is None else abs(step) for a, step in steps.items()}


@lru_cache(maxsize=512)
def operand(c: CudaContraction, side: str) -> Operand:
    """Side ``a`` or ``b`` of a contraction; one cached object for each."""
    return Operand(c, side)


def _plain(value: Expr, c: CudaContraction) -> Plain | None:
    found = one_read(value)
    if found is None:
        return None
    guard, other = found.guard, 0.0 if found.other is None else found.other.value
    if not isinstance(other, (int, float)):
        return None
    if guard is not None and (
        guard.loads() or any(x.op in ("axis", "const") and x.dtype != INDEX for x in guard.walk())
    ):
        return None
    tensor = c.program.tensors[str(found.load.value)]
    where = position(found.load, tensor)
    if any(x.loads() for x, _ in where.rest):
        return None
    return Plain(tensor, Linear(where.const, where.axes), found.chain, guard, float(other), where.rest)
