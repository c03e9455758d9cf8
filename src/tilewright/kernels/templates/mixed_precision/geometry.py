"""Sizes that follow from a product and a schedule: blocks, panels of packed operands, their bytes.

B is packed in panels of ``NV`` vectors of columns: ``[k / group][NV][lanes][group]``, zero past both
edges; block after block of ``KC``, and within one, panel after panel. Where A is shifted by 128, a row of
starting values of the sums stands before each panel. A is read where it is, or packed as rows of
consecutive k, each padded to whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, SIXTEEN
from tilewright.kernels.templates.mixed_precision.kinds import BF16, F32, U8S8, UNIT, Kind, kind_of, shifted
from tilewright.kernels.templates.mixed_precision.match import Dot
from tilewright.kernels.templates.tiles import Blocks, ChosenBlocks, ceildiv

LINE = 64


def direct_a(c: Dot, kind: Kind) -> bool:
    """Whether A can be read where it is: its k lie side by side, as the units take them."""
    raw = c.a.raw
    if raw is None or raw.bounds or kind not in (BF16, U8S8):
        return False
    return c.k.stride(raw.where) == 1 and c.m.stride(raw.where) is not None


def direct_b(c: Dot) -> bool:
    """Whether B can be read where it is: its columns lie side by side."""
    raw = c.b.raw
    return raw is not None and not raw.bounds and c.n.stride(raw.where) == 1 and c.k.stride(raw.where) is not None


def gathers(c: Dot) -> bool:
    """Whether a single row or column meets a matrix whose sums run along memory: copying it costs more than reading it
    in place."""
    return c.n.size == 1 or (c.m.size == 1 and c.constant_b is None and not direct_b(c))


def can_halve_b(c: Dot, kind: Kind) -> bool:
    """Whether B can stay in 16 bits when it is packed, to be widened as it is read."""
    return kind == F32 and c.b.dtype in SIXTEEN


@dataclass(frozen=True)
class DotTiling:
    """Everything that the printed source depends on."""

    c: Dot
    kind: Kind
    vector_bytes: int
    rows: int  # MR
    vectors: int  # NV
    unroll: int
    pack_a: bool
    pack_b: str  # none, once, whole, blocks
    half_b: bool
    order: str
    prefetch: int
    threads: int = 1
    split: bool = False  # several tasks add up one output, each its part of k

    @property
    def lanes(self) -> int:
        return self.vector_bytes // UNIT

    @property
    def shifted(self) -> bool:
        return shifted(self.c, self.kind)

    @property
    def row_blocks(self) -> Blocks:
        if (extent := self.c.m.varying) is not None:
            return ChosenBlocks(int(extent), self.rows, extent.low * extent.unit)
        return Blocks(self.c.m.size, self.rows)

    @property
    def row_count(self) -> str:
        """C text of the number of register tiles along M."""
        return "x->blocks" if self.c.m.varying else f"{self.row_blocks.count}L"

    @property
    def column_vectors(self) -> int:
        return ceildiv(self.c.n.size, self.lanes)

    @property
    def column_blocks(self) -> Blocks:
        """Blocks of columns, counted in vectors."""
        return Blocks(self.column_vectors, self.vectors)

    @property
    def tail(self) -> int:
        """Columns in the last vector of a row."""
        return self.c.n.size - (self.column_vectors - 1) * self.lanes

    @property
    def sums(self) -> int:
        """Elements of all outputs' sums, rows padded to whole vectors, where parts of k are added up."""
        return self.c.batch.size * self.c.m.size * self.column_vectors * self.lanes

    @property
    def k(self) -> int:
        return self.c.k.size

    @property
    def units(self) -> int:
        """Units along all of k."""
        return ceildiv(self.k, self.kind.group)

    @property
    def rest(self) -> int:
        """Elements in the last unit, where a side is read in place and the unit is not whole; else 0."""
        return 0 if self.pack_a and not self.in_place_b else self.k % self.kind.group

    @property
    def in_place_b(self) -> bool:
        return self.pack_b == "none"

    @property
    def b_item(self) -> int:
        """Bytes of an element of B in memory."""
        return ITEMSIZE[self.c.b.dtype or "float32"]

    @property
    def b_row(self) -> int:
        """Bytes between rows of B, where it is read in place."""
        raw = self.c.b.raw
        assert raw is not None
        return (self.c.k.stride(raw.where) or 0) * ITEMSIZE[raw.tensor.dtype]

    @property
    def b_vector(self) -> int:
        """Bytes of one vector of units of B."""
        return self.vector_bytes // 2 if self.half_b else self.vector_bytes

    @property
    def a_row(self) -> int:
        """Bytes between rows of packed A: an odd number of cache lines, so that rows spread over the cache."""
        lines = ceildiv(self.units * UNIT, LINE)
        return (lines | 1) * LINE

    @property
    def a_step(self) -> int:
        """Bytes between rows of A as they are read."""
        if self.pack_a:
            return self.a_row
        raw = self.c.a.raw
        assert raw is not None
        return (self.c.m.stride(raw.where) or 0) * ITEMSIZE[raw.tensor.dtype]

    @property
    def half_type(self) -> str:
        """C type of a 16-bit element of B."""
        return "tw::bf16" if self.c.b.dtype == "bfloat16" else "tw::f16"

    def panel(self, kc: str) -> str:
        """C text of the bytes of one vector's panel over ``kc`` elements of k."""
        head = f"+{self.vector_bytes}L" if self.shifted else ""
        return f"(({kc}+{self.kind.group - 1}L)/{self.kind.group}L*{self.b_vector}L{head})"


def plan(c: Dot, target: Target, values: Mapping[str, Value]) -> DotTiling:
    return DotTiling(
        c=c,
        kind=kind_of(c, target),
        vector_bytes=target.vector_bytes,
        rows=int(values["MR"]),
        vectors=int(values["NV"]),
        unroll=int(values["unroll"]),
        pack_a=bool(values["pack_a"]),
        pack_b=str(values["pack_b"]),
        half_b=bool(values["half_b"]),
        order=str(values["order"]),
        prefetch=int(values["prefetch"]),
        threads=target.threads,
        split=bool(values.get("split_k", False)),
    )
