"""Sizes that follow from an attention and a schedule: strips of queries, tiles, memory of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.core import IntExpr, Target, Value, cached_property
from tilewright.extent import Extent, ctext, intexpr
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.attention import Attention, Rows
from tilewright.kernels.kernel import Array, Workspace
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cpu_attention.staging import staged_reads
from tilewright.kernels.templates.tiles import Blocks, ceildiv

ITEM = 4  # bytes of a float32, in which everything is computed
PAGE = 4096


@dataclass(frozen=True, eq=False)
class AttentionTiling:
    """Everything that the printed source depends on.

    Vectors lie along the queries. ``nests``: the loops of the scores and those of the result, in whose steps the text
    computes them. ``split``: tasks may share the keys of a strip, as many as the launch argument ``KP`` says.
    """

    a: Attention
    threads: int
    split: bool
    nests: tuple[LoopNest, ...]

    @cached_property
    def lanes(self) -> int:
        return self.nests[0].spans("i")[-2]

    @cached_property
    def strip(self) -> int:
        """Queries of a strip, the rows that a task computes."""
        return self.nests[0].spans("i")[-3]

    @property
    def vectors(self) -> int:
        """Vectors of a strip."""
        return self.strip // self.lanes

    @cached_property
    def key_rows(self) -> int:
        """Keys of a tile of scores: with one strip its other side."""
        return self.nests[0].spans("j")[-2]

    @cached_property
    def value_rows(self) -> int:
        """Elements of the width of a tile of the result."""
        return self.nests[1].spans("e")[-2]

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
    return AttentionTiling(a, target.threads, "KP" in values, _nests(a, target, values))


def _nests(a: Attention, target: Target, values: Mapping[str, Value]) -> tuple[LoopNest, LoopNest]:
    """The scores, then the result, over strips of queries and blocks of keys; all pairs of both are counted."""
    lanes, key_rows = target.vector_bytes // ITEM, int(values["KR"])
    strip, keys = int(values["NV"]) * lanes, int(a.keys)
    part = ceildiv(keys, int(values.get("KP", 1)))
    block = max(key_rows, min(int(values["KB"]), part) // key_rows * key_rows)
    reads, scores, result = a.accesses
    kind = "parallel" if target.threads > 1 else "serial"
    outer = (
        Loop("o", int(a.outer_size), 1, kind),
        Loop("i", int(a.queries), strip, kind, "l2"),
        *((Loop("j", keys, part, kind),) if part < keys else ()),
        Loop("j", part, block, level="l1", argument="KB"),
    )
    vectors = (Loop("i", strip, lanes, "unroll", "register"), Loop("i", lanes, 1, "vector", "register"))

    def tiled(axis: str, extent: int, step: int) -> tuple[Loop, Loop]:
        return Loop(axis, extent, step, level="register"), Loop(axis, step, 1, "unroll", "register")

    tiles, tile = tiled("j", block, key_rows)
    first = LoopNest(
        "scores",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "r": a.depth},
        (*outer, tiles, *tiled("r", a.depth, int(values["unroll_depth"])), tile, *vectors),
        (*reads, scores),
        flops_per_output=a.score_operations,
    )
    tiles, tile = tiled("e", a.width, int(values["ER"]))
    second = LoopNest(
        "values",
        {"o": a.outer_size, "i": a.queries, "j": a.keys, "e": a.width},
        (*outer, tiles, *tiled("j", block, int(values["unroll_keys"])), tile, *vectors),
        (Access(scores.tensor, scores.indices, scores.dtype), *result),
        flops_per_output=1 + count_ops(a.finish),
    )
    return first, second
