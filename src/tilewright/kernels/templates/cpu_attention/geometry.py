"""Sizes that follow from an attention and its schedule: strips of queries, register tiles, memory of a thread."""

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

ITEM = 4  # bytes of a float32, the type of all computations
PAGE = 4096


@dataclass(frozen=True, eq=False)
class AttentionTiling:
    """The plan of a schedule: everything that the printed source depends on.

    Vectors lie along the queries. ``nests``: the loop nests of the scores and of the result; the printed code uses
    their steps. ``split``: the keys of a strip may be divided among tasks; the launch argument ``KP`` is their number.
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
        """Number of queries of a strip: the block of queries that one task computes."""
        return self.nests[0].spans("i")[-3]

    @property
    def vectors(self) -> int:
        """Number of vectors of a strip."""
        return self.strip // self.lanes

    @cached_property
    def key_rows(self) -> int:
        """Number of keys of a register tile of scores."""
        return self.nests[0].spans("j")[-2]

    @cached_property
    def value_rows(self) -> int:
        """Number of elements along the value width of a register tile of the result."""
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
        """Possible numbers of keys of a smaller last tile of scores; blocks of keys begin at multiples of a tile."""
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
        """Keys and values that a pass before converts to float32, each tensor once; gathers convert their own rows."""
        found = {r.tensor.name: r for r in (self.a.k, self.a.v) if r.converted and not r.gathered}
        return tuple(found.values())

    @property
    def part(self) -> int:
        """Size of a strip's result and its three rows of softmax statistics, in floats."""
        return self.strip * (self.a.width + 3)

    def steps(self, rows: Rows) -> tuple[int, int]:
        """Strides of the rows that tiles read, in floats: between rows and within a row. Gathered rows are packed."""
        if not rows.gathered:
            return rows.along, rows.inner
        return (self.a.depth if rows is self.a.k else self.a.width), 1

    @property
    def gathered(self) -> int:
        """Length of a row of the buffer for gathered keys and values, in floats; 0: no buffer.

        A block's values are gathered into the buffer of its keys.
        """
        return max((self.steps(r)[0] for r in (self.a.k, self.a.v) if r.gathered), default=0)

    @property
    def fixed(self) -> int:
        """Memory of a thread without scores, in floats: queries, result, softmax statistics, transposed result."""
        by_rows = 0 if self.a.plain_finish else self.a.width
        return self.strip * (self.a.depth + by_rows) + self.part

    @property
    def tiles(self) -> int:
        """Number of buffers [key][query]: one for the scores, and one for each transposed read of a mask or bias."""
        return 1 + len(staged_reads(self.a))

    @property
    def workspace(self) -> Workspace:
        """The workspace: converted tensors, the memory of each thread, and partial results of splits of the keys.

        ``KB``: number of keys of a block. ``score_rows``: number of rows of the scores' buffer, which also holds the
        queries before their transposition.
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
    """Name of the workspace array of a tensor that is converted to float32."""
    return f"float_{rows.tensor.name}"


def _pages(rows: Rows) -> int:
    """Size of a tensor in float32, in bytes, rounded up to pages."""
    return (rows.tensor.size * ITEM + PAGE - 1) // PAGE * PAGE


def takes_ranges(a: Attention) -> bool:
    """Whether the attention may have symbolic sizes: lengths and strides of rows must be constants."""
    known = (a.depth, a.width, *(n for r in (a.k, a.v) for n in (r.along, r.inner)))
    return not any(isinstance(n, Extent) for n in known)


def plan(a: Attention, target: Target, values: Mapping[str, Value]) -> AttentionTiling:
    return AttentionTiling(a, target.threads, "KP" in values, _nests(a, target, values))


def _nests(a: Attention, target: Target, values: Mapping[str, Value]) -> tuple[LoopNest, LoopNest]:
    """The loop nests of the scores and of the result, over strips of queries and blocks of keys.

    They count all pairs of queries and keys, as if the mask left none out.
    """
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
