"""Sizes that follow from an attention and a schedule: tiles, rows in shared memory, the work of blocks and threads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.caching import cached_property
from tilewright.core import Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.families.attention import Attention
from tilewright.kernels.primitives.wgmma import ROWS as GROUP_ROWS
from tilewright.kernels.primitives.wgmma import THREADS
from tilewright.kernels.templates.cuda.shared import Shared
from tilewright.kernels.templates.cuda.static import limit
from tilewright.kernels.templates.cuda.warpgroups import BARRIER, EIGHT, LINE, Tile, most_registers
from tilewright.kernels.templates.cuda_attention.boxes import matrices
from tilewright.kernels.templates.cuda_attention.match import Form
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""Extents of one ``mma.sync`` instruction along m, n and k."""
GAP = 16
"""Bytes of padding between rows in shared memory: eight rows of 16 bytes then fall into different banks."""
OVERHEAD = 36
"""Registers for addresses, counters and predicates with ``mma.sync``: observed."""
COPIED_OVERHEAD = 60
"""Registers for addresses, counters and predicates on CUDA cores."""
GROUP_OVERHEAD = 22
"""Registers for addresses, counters and predicates with warp groups. Rows of more than 128 bytes add descriptors."""
ITEM = 4
"""Bytes of a float32."""


def roundup(n: int, to: int) -> int:
    return ceildiv(n, to) * to


@dataclass(frozen=True)
class AttentionTiling:
    """Everything that the printed source depends on.

    A block computes ``block_q`` queries over blocks of ``block_k`` keys, ``stages`` of which are in shared memory. On
    Tensor Cores ``warps`` warps have ``tiles`` tiles of 16 queries each. On CUDA cores ``lanes`` threads share ``rows``
    queries. ``q_registers``: fragments of the queries stay in registers. ``parts``: splits of the keys, a block each.
    ``groups``: warp groups that multiply, with ``tiles`` tiles of 64 queries each (a further group copies); 0: warps
    multiply. ``ping_pong``: groups take turns to start their products. ``persistent``: one block for each of ``sms``
    multiprocessors loops over tiles of queries. ``tail``: splits of the keys for tiles in the last, incomplete wave; 1:
    no split. ``overlap``: a group computes a block's softmax before it waits for the previous block's PV product.
    """

    f: Form
    block_k: int
    warps: int
    parts: int
    sms: int
    stages: int = 1
    tiles: int = 1
    q_registers: bool = False
    lanes: int = 1
    rows: int = 1
    min_blocks: int = 1
    groups: int = 0
    ping_pong: bool = False
    persistent: bool = False
    tail: int = 1
    overlap: bool = False

    @property
    def a(self) -> Attention:
        return self.f.a

    @property
    def cores(self) -> bool:
        return self.f.tensor_cores

    @property
    def one_rounding(self) -> bool:
        """Whether a weight is one 16-bit operand of the matrix units: the program rounds weights to the values'
        type."""
        return self.cores and self.a.rounded == self.f.v.dtype

    @property
    def words(self) -> int:
        """Number of 16-bit operands that a weight becomes."""
        return 1 if self.one_rounding else 2

    @property
    def score(self) -> Expr:
        """The score of a product, without the factor :attr:`scale`."""
        return self._scaled[0]

    @property
    def scale(self) -> float:
        """The constant factor of scores that is folded into the exponent of 2."""
        return self._scaled[1]

    @cached_property
    def _scaled(self) -> tuple[Expr, float]:
        return _unscaled(self.a.score) or (self.a.score, 1.0) if self.one_rounding else (self.a.score, 1.0)

    @property
    def threads(self) -> int:
        return 32 * self.warps + (THREADS if self.groups else 0)

    @property
    def warp_copies(self) -> bool:
        """Whether a whole warp issues the groups' copies: rows lie in pages, or zeros are written behind a sequence's
        end."""
        sides = [matrices(s) for s in self.f.sides]
        return self.f.v.limit is not None or any(m is not None and m.paged for m in sides)

    @property
    def block_q(self) -> int:
        return self.warps * ROWS * self.tiles if self.cores else self.threads // self.lanes * self.rows

    @property
    def across(self) -> int:
        """Rows in shared memory are padded to a multiple of this number of elements."""
        return LINE // self.item if self.groups else DEPTH

    @property
    def unit_rows(self) -> int:
        """Number of queries of a tile on Tensor Cores."""
        return GROUP_ROWS if self.groups else ROWS

    @property
    def query_blocks(self) -> int:
        return ceildiv(self.a.queries, self.block_q)

    @property
    def key_blocks(self) -> int:
        return ceildiv(self.a.keys, self.block_k)

    @property
    def query_tiles(self) -> int:
        """Number of tiles of queries of all heads."""
        return self.a.outer_size * self.query_blocks

    @property
    def left(self) -> int:
        """Number of tiles of queries in the last, incomplete wave whose keys ``tail`` splits."""
        return self.query_tiles % self.sms if self.tail > 1 else 0

    @property
    def blocks(self) -> int:
        """Number of work items: tiles of queries, and splits of tiles. Without persistent blocks each is a block."""
        return self.query_tiles * self.parts + self.left * (self.tail - 1)

    @property
    def part_blocks(self) -> int:
        """Largest number of blocks of keys of a part."""
        return ceildiv(self.key_blocks, self.parts)

    @property
    def launched(self) -> int:
        """Grid size of the first launch along x; along y it is the number of parts."""
        if self.parts > 1:
            return self.query_tiles
        return min(self.sms, self.blocks) if self.persistent else self.blocks

    @property
    def divided(self) -> bool:
        """Whether a block's keys may be a part of all keys."""
        return self.parts > 1 or self.tail > 1

    @property
    def start(self) -> str:
        """Text of the number of a block's first block of keys."""
        return "start" if self.divided else "0"

    @property
    def end(self) -> str:
        """Text of the number behind a block's last block of keys."""
        return "end" if self.divided else f"{self.key_blocks}"

    @property
    def each(self) -> int:
        """Number of parts of a merged row."""
        return max(self.parts, self.tail)

    @property
    def merged_rows(self) -> int:
        """Number of rows of the result that are merged of parts, filled up to whole tiles for ``tail``."""
        if self.tail > 1:
            return self.left * self.block_q
        return self.a.outer_size * self.a.queries if self.parts > 1 else 0

    # ------------------------------------------------------------------ rows in shared memory

    @cached_property
    def item(self) -> int:
        """Bytes of an element in shared memory."""
        return 2 if self.cores else 4

    @cached_property
    def depth(self) -> int:
        """Elements of a query's row, padded with zeros."""
        return roundup(self.a.depth, self.across if self.cores else 4)

    @property
    def steps(self) -> int:
        """Number of Tensor Core instructions along a query's row."""
        return ceildiv(self.a.depth, DEPTH)

    @cached_property
    def value_vector(self) -> int:
        """Number of adjacent elements of a result's row that a thread computes together on CUDA cores."""
        return next(v for v in (4, 2, 1) if v == 1 or self.a.width >= v * self.lanes)

    @cached_property
    def value_groups(self) -> int:
        """Number of groups of :attr:`value_vector` elements of a thread."""
        return ceildiv(self.a.width, self.value_vector * self.lanes)

    @cached_property
    def width(self) -> int:
        """Elements of a value's row, padded."""
        return roundup(self.a.width, self.across if self.cores else self.value_vector * self.lanes)

    def pitch(self, side: str) -> int:
        """Row pitch of ``q``, ``k`` or ``v`` in shared memory, in elements."""
        row = self.width if side == "v" else self.depth
        return row if self.groups else roundup(row, GAP // self.item) + GAP // self.item

    def tile(self, side: str) -> Tile:
        """The tile of ``q`` (64 rows of it), ``k`` or ``v`` that warp groups multiply."""
        if side == "v":
            return Tile(self.width, self.block_k, self.item, True)
        return Tile(GROUP_ROWS if side == "q" else self.block_k, self.depth, self.item, False)

    @property
    def weight_pitch(self) -> int:
        """Row pitch, in elements, of the weights that threads exchange in shared memory on CUDA cores."""
        return roundup(self.block_k, 4) + 4

    @property
    def async_copies(self) -> bool:
        """Whether ``cp.async`` or TMA copies all tiles without conversion."""
        return self.cores or all(s.vector and s.dtype == "float32" for s in self.f.sides)

    @property
    def read_bytes(self) -> tuple[int, int]:
        """Bytes of one read of keys and of one read of values from global memory."""
        if self.groups:
            return CHUNK, CHUNK
        _, k, v = (ITEMSIZE[s.dtype] * (s.vector if self.async_copies else 1) for s in self.f.sides)
        return k, v

    @property
    def keys_each(self) -> int:
        """Number of keys of a block that a thread scores on CUDA cores."""
        return self.block_k // self.lanes

    def bytes(self, side: str) -> int:
        """Bytes of the tile of ``q``, ``k`` or ``v``."""
        return (self.block_q if side == "q" else self.block_k) * self.pitch(side) * self.item

    @property
    def stage_bytes(self) -> int:
        return self.bytes("k") + self.bytes("v")

    @cached_property
    def memory(self) -> Shared:
        """Shared memory: queries, the ring of keys and values, then weights or, with warp groups, barriers.

        The barriers are: for each group's queries (full; free again), for each slot, for values that need zeros, and
        for each group's ping-pong turn.
        """
        tiles = {"q": (self.bytes("q"), GAP), "ring": (self.stages * self.stage_bytes, GAP)}
        if not self.groups:
            return Shared({**tiles, "weights": (0 if self.cores else self.block_q * self.weight_pitch * 4, GAP)})
        barriers = {
            "queries": self.groups * (1 + self.persistent), "slots": 4 * self.stages,
            "cut": int(self.f.v.limit is not None), "turns": self.groups * self.ping_pong,
        }  # fmt: skip
        return Shared({**tiles, **{name: (BARRIER * n, BARRIER) for name, n in barriers.items()}})

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, with the padding that aligns tiles of warp groups."""
        return self.memory.bytes + (EIGHT if self.groups else 0)

    @cached_property
    def registers(self) -> int:
        """Estimated registers of a thread."""
        if not self.cores:
            result = self.rows * self.value_groups * self.value_vector
            held = max(4 * (self.rows + self.keys_each), 4 * self.rows + self.value_groups * self.value_vector)
            return COPIED_OVERHEAD + result + self.rows * (self.keys_each + 2) + held
        result, scores = self.width // COLUMNS * 4, self.block_k // COLUMNS * 4
        # Over long rows the compiler reads fragments, or computes addresses, far ahead.
        ahead = max(0, self.depth + self.width - 256) // 6
        if self.groups:  # PV products of one block overlap QK products of the next
            each = result + scores * (2 + self.words) // 2 + 8
            overhead = GROUP_OVERHEAD + min(14, 2 * max(0, self.steps - 4))
            return overhead + (ahead if self.groups == 1 or self.ping_pong else 0) + self.tiles * each
        words = 4 if self.one_rounding else 5
        queries = self.depth // DEPTH * 4 if self.q_registers else 4
        # The second 16-bit operand of a weight is live beside its score for a while.
        counters = 4 * (self.stages - 2)  # that track the blocks in the ring
        return OVERHEAD + counters + ahead + self.tiles * (result + scores * words // 4 + queries + 8)

    @property
    def output_vector(self) -> int:
        """Number of adjacent results of a store."""
        return 2 if self.cores and self.a.width % 2 == 0 else 1

    @property
    def align(self) -> int:
        """Alignment of the tensors in bytes."""
        copies = [s.vector * ITEMSIZE[s.dtype] for s in self.f.sides] if self.async_copies else []
        own = [ITEMSIZE[t.dtype] for t in self.a.program.inputs]
        boxes = CHUNK if self.groups else 1
        return max(boxes, self.output_vector * ITEMSIZE[self.a.output.dtype], *copies, *own)


def _unscaled(score: Expr) -> tuple[Expr, float] | None:
    """A score without its positive constant factor, and that factor; ``None`` without one.

    Masked scores of minus infinity need not have the factor.
    """
    if score.op == "select":
        condition, a, b = score.args
        if any(x.op == "var" for x in condition.walk()):
            return None
        found = [None if x.op == "const" and x.value == -math.inf else _unscaled(x) for x in (a, b)]
        known = [f for f in found if f is not None]
        factors = {f[1] for f in known}
        if len(factors) != 1 or len(known) + sum(x.op == "const" and x.value == -math.inf for x in (a, b)) != 2:
            return None
        values = [x if f is None else f[0] for x, f in zip((a, b), found, strict=True)]
        return Expr("select", score.dtype, (condition, *values)), factors.pop()
    if score.op == "mul":
        for x, c in (score.args, score.args[::-1]):
            if x.op == "var" and c.op == "const" and isinstance(c.value, (int, float)) and c.value > 0:
                return x, float(c.value)
    return None


def fits(p: AttentionTiling, target: Target) -> bool:
    """Whether ``min_blocks`` blocks fit a multiprocessor, by estimated registers and by shared memory."""
    if p.groups:
        held = p.registers <= most_registers(p.groups, p.min_blocks)
    else:
        registers = roundup(p.registers, 8) * p.threads * p.min_blocks
        held = p.registers <= limit(target, "registers_per_thread") and registers <= limit(target, "registers_per_sm")
    return (
        held
        and p.shared <= limit(target, "shared_per_block")
        and p.min_blocks * (p.shared + limit(target, "shared_reserved")) <= limit(target, "shared_per_sm")
    )


def plan(f: Form, target: Target, values: Mapping[str, Value]) -> AttentionTiling:
    """The tiling for a schedule's values; knobs that the space lacks take their only possible value."""
    if values.get("pack"):
        assert f.packed is not None
        f = f.packed
    warps = int(values.get("warps", 0)) * max(1, int(values.get("groups", 0)))
    return decided(
        AttentionTiling, values, f=f, block_k=values.get("BK", 0), warps=warps, parts=values.get("KP", 1),
        sms=limit(target, "sms"),
    )  # fmt: skip
