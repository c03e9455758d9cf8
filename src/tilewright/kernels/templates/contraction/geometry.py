"""Sizes that follow from a contraction and a schedule: tiles, balanced blocks, paths of operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core import Target, Value
from tilewright.kernels.expr import ITEMSIZE
from tilewright.kernels.templates.contraction.match import Contraction, Operand


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def balanced(extent: int, size: int) -> int:
    """The smallest block size with which ``extent`` falls into no more blocks than with ``size``."""
    return ceildiv(extent, ceildiv(extent, size))


@dataclass(frozen=True)
class Blocks:
    """An extent in blocks of ``size``, the later ones one smaller, so that none is much smaller.

    Block ``b`` starts at ``b * size - max(0, b - full)``.
    """

    extent: int
    size: int

    @property
    def count(self) -> int:
        return ceildiv(self.extent, self.size)

    @property
    def full(self) -> int:
        """How many blocks have the full size."""
        return self.count - (self.count * self.size - self.extent)

    @property
    def even(self) -> bool:
        return self.full == self.count

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that occur, the largest first."""
        return (self.size,) if self.even else (self.size, self.size - 1)

    def start(self, block: str) -> str:
        """C text of a block's first element."""
        if self.even:
            return f"({block})*{self.size}L"
        return f"(({block})*{self.size}L-tw::imax(0,({block})-{self.full}L))"


@dataclass(frozen=True)
class Side:
    """Strides of an operand that is a plain read: along its M or N axis and along K (elements)."""

    tensor: str
    along: int
    k: int


def side(c: Contraction, operand: Operand, group: str) -> Side | None:
    """The operand's strides, where its axes fuse there."""
    if operand.affine is None or operand.tensor is None or operand.value.dtype != c.dtype:
        return None
    along = (c.m if group == "m" else c.n).stride(operand.affine)
    k = c.k.stride(operand.affine)
    return None if along is None or k is None else Side(operand.tensor, along, k)


@dataclass(frozen=True)
class Plan:
    """Everything that the printed source depends on."""

    c: Contraction
    vector_bytes: int
    registers: int
    rows: int  # MR
    vectors: int  # NR in vectors
    unroll: int
    pack_a: bool
    pack_b: bool
    order: str
    prefetch_b: int
    prefetch_c: bool
    split_k: bool
    threads: int = 1

    @property
    def item(self) -> int:
        return ITEMSIZE[self.c.dtype]

    @property
    def lanes(self) -> int:
        return self.vector_bytes // self.item

    @property
    def ctype(self) -> str:
        return "float" if self.c.dtype == "float32" else "double"

    @property
    def vtype(self) -> str:
        return "tw::f32v" if self.c.dtype == "float32" else "tw::f64v"

    @property
    def row_blocks(self) -> Blocks:
        return Blocks(self.c.m.size, self.rows)

    @property
    def column_blocks(self) -> Blocks:
        """Blocks of columns, counted in vectors."""
        return Blocks(ceildiv(self.c.n.size, self.lanes), self.vectors)

    @property
    def tail(self) -> int:
        """Valid lanes in the last vector of a row; 0 when it is whole."""
        return self.c.n.size % self.lanes

    @property
    def width(self) -> int:
        """Columns of a packed panel of B."""
        return self.vectors * self.lanes

    @property
    def a_side(self) -> Side | None:
        return side(self.c, self.c.a, "m")

    @property
    def b_side(self) -> Side | None:
        return side(self.c, self.c.b, "n")

    @property
    def ldc(self) -> int:
        return self.c.ldc if self.c.in_place else self.width


def direct_a(c: Contraction) -> bool:
    """Whether A can be read where it is."""
    return side(c, c.a, "m") is not None


def direct_b(c: Contraction) -> bool:
    """Whether B can be read where it is: vectors along N are contiguous."""
    s = side(c, c.b, "n")
    return s is not None and s.along == 1


def plan(c: Contraction, target: Target, values: Mapping[str, Value]) -> Plan:
    return Plan(
        c=c,
        vector_bytes=target.vector_bytes,
        registers=target.registers,
        rows=int(values["MR"]),
        vectors=int(values["NV"]),
        unroll=int(values["unroll"]),
        pack_a=bool(values["pack_a"]),
        pack_b=bool(values["pack_b"]),
        order=str(values["order"]),
        prefetch_b=int(values["prefetch_b"]),
        prefetch_c=bool(values["prefetch_c"]),
        split_k=bool(values.get("split_k", False)),
        threads=target.threads,
    )
