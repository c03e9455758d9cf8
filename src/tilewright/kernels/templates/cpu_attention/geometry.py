"""Sizes that follow from an attention and a schedule: strips of queries, tiles, memory of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core import IntExpr, Target, Value
from tilewright.extent import Extent, ctext, intexpr
from tilewright.kernels.families.attention import Attention, Rows
from tilewright.kernels.kernel import Array, Workspace
from tilewright.kernels.templates.cpu_attention.staging import staged_reads
from tilewright.kernels.templates.tiles import Blocks, ceildiv

ITEM = 4  # bytes of a float32, in which everything is computed
PAGE = 4096


@dataclass(frozen=True)
class AttentionTiling:
    """Everything that the printed source depends on.

    Vectors lie along the queries. ``vectors`` of them make a strip, the rows that a task computes;
    ``key_rows`` keys by one strip are a tile of scores, ``value_rows`` elements of the width by one strip a
    tile of the result. ``unroll_depth`` and ``unroll_keys``: steps of their loops printed out. ``split``: tasks
    may share the keys of a strip, as many as the launch argument ``KP`` says.
    """

    a: Attention
    lanes: int
    vectors: int
    key_rows: int
    value_rows: int
    unroll_depth: int
    unroll_keys: int
    threads: int
    split: bool

    @property
    def strip(self) -> int:
        """Queries of a strip."""
        return self.vectors * self.lanes

    @property
    def strips(self) -> int:
        return ceildiv(int(self.a.queries), self.strip)

    def counted(self, extent: int, size: int) -> str:
        """C text of the number of blocks of an extent."""
        if isinstance(extent, Extent):
            return f"tw::ceildiv({ctext(extent)},{size}L)"
        return f"{ceildiv(extent, size)}L"

    @property
    def ragged(self) -> bool:
        """Whether the last strip has unused lanes."""
        return self.a.queries % self.strip != 0

    @property
    def key_rests(self) -> tuple[int, ...]:
        """Keys of the last tile of scores where that is a smaller one; blocks begin at multiples of a tile."""
        if isinstance(self.a.keys, Extent):
            return tuple(range(1, self.key_rows))
        rest = self.a.keys % self.key_rows
        return (rest,) if rest else ()

    @property
    def value_blocks(self) -> Blocks:
        return Blocks(self.a.width, self.value_rows)

    # ------------------------------------------------------------------ memory

    @property
    def converted(self) -> tuple[Rows, ...]:
        """Keys and values that are converted to float32 before, one for each tensor; gathered ones are on their way."""
        found = {r.tensor.name: r for r in (self.a.k, self.a.v) if r.converted and not r.gathered}
        return tuple(found.values())

    @property
    def part(self) -> int:
        """Floats of a strip's result and its three rows of statistics."""
        return self.strip * (self.a.width + 3)

    def steps(self, rows: Rows) -> tuple[int, int]:
        """Floats between the rows that tiles read, and between neighbours in a row: gathered ones lie side by side."""
        if not rows.gathered:
            return rows.along, rows.inner
        return (self.a.depth if rows is self.a.k else self.a.width), 1

    @property
    def gathered(self) -> int:
        """Floats of a row of the buffer into which a block's keys are gathered, and its values behind them; 0: none."""
        return max((self.steps(r)[0] for r in (self.a.k, self.a.v) if r.gathered), default=0)

    @property
    def fixed(self) -> int:
        """Floats of a worker beside the scores: queries, result, three rows of statistics, result by rows."""
        by_rows = 0 if self.a.plain_finish else self.a.width
        return self.strip * (self.a.depth + by_rows) + self.part

    @property
    def tiles(self) -> int:
        """Buffers of rows of scores: the scores, and each read of theirs that is turned."""
        return 1 + len(staged_reads(self.a))

    @property
    def workspace(self) -> Workspace:
        """What is converted, what each worker needs, and the results of parts of the keys.

        ``KB``: keys of a block. ``score_rows``: rows of the buffer of scores, which also holds the queries while they
        are turned.
        """
        gathered = (["*", "gathered", "score_rows"],) if self.gathered else ()
        floats: IntExpr = ["+", self.fixed, ["*", "tiles", "score_rows", "W"], *gathered]
        arrays = [Array(converted(r), "float", _pages(r) // ITEM) for r in self.converted]
        arrays.append(Array("ws", "char", ["*", floats, "item"], self.threads))
        if self.split:
            strips: IntExpr = ["ceildiv", intexpr(self.a.queries), self.strip]
            each: IntExpr = int(self.a.outer_size) * self.strips * self.part
            if self.a.program.sizes:
                each = ["*", intexpr(self.a.outer_size), strips, self.part]
            arrays.append(Array("parts", "float", ["*", each, "KP", ["min", 1, ["//", "KP", 2]]]))
        return Workspace(
            tuple(arrays), PAGE,
            {
                "rows": self.key_rows, "W": self.strip, "tiles": self.tiles, "gathered": self.gathered, "item": ITEM,
                "KB": ["max", self.key_rows, ["*", ["//", "KB", "rows"], "rows"]],
                "score_rows": ["max", "KB", self.a.depth],
            },
        )  # fmt: skip


def converted(rows: Rows) -> str:
    """The array of a tensor in float32."""
    return f"float_{rows.tensor.name}"


def _pages(rows: Rows) -> int:
    """Bytes of whole pages that a tensor takes in float32."""
    return (rows.tensor.size * ITEM + PAGE - 1) // PAGE * PAGE


def takes_ranges(a: Attention) -> bool:
    """Whether rows have a known length and distance."""
    known = (a.depth, a.width, *(n for r in (a.k, a.v) for n in (r.along, r.inner)))
    return not any(isinstance(n, Extent) for n in known)


def plan(a: Attention, target: Target, values: Mapping[str, Value]) -> AttentionTiling:
    return AttentionTiling(
        a=a,
        lanes=target.vector_bytes // ITEM,
        vectors=int(values["NV"]),
        key_rows=int(values["KR"]),
        value_rows=int(values["ER"]),
        unroll_depth=int(values["unroll_depth"]),
        unroll_keys=int(values["unroll_keys"]),
        threads=target.threads,
        split="KP" in values,
    )
