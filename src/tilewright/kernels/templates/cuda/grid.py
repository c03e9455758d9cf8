"""Mapping of a kernel's outputs to blocks and threads: as a loop nest for features, and as C++ text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from tilewright.caching import cached_property
from tilewright.core import Extent, IntExpr
from tilewright.kernels.codegen import integers
from tilewright.kernels.loopnest import Loop
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.tiles import ceildiv

WARP = 32


@dataclass(frozen=True)
class Grid:
    """Outputs mapped to threads, which are numbered along the fused ``axes``, the last axis innermost.

    A position is a vector of ``own`` neighbouring outputs along each axis (1 along an axis without a number). A thread
    computes ``each`` positions, ``threads`` positions apart. ``lanes`` threads share an output. ``left`` outputs along
    the last axis make no whole vector: threads compute them one by one, after all whole vectors.
    """

    axes: Mapping[str, int]
    threads: int
    each: int = 1
    lanes: int = 1
    own: Mapping[str, int] = field(default_factory=dict)
    left: int = 0

    @cached_property
    def extents(self) -> dict[str, int]:
        """Number of positions along each axis."""
        return {a: n if self.own.get(a, 1) == 1 else ceildiv(n, self.own[a]) for a, n in self.axes.items()}

    @property
    def items(self) -> int:
        """Number of positions in total."""
        return prod(self.extents.values()) + max(0, self.left - 1)

    @cached_property
    def positions(self) -> IntExpr:
        """Number of positions in total, as an expression of the symbolic size."""
        (outer, size), *rest = self.axes.items()
        own = self.own.get(outer, 1)
        if not isinstance(size, Extent):
            return self.items
        if own == 1:
            return sizes.expression(prod(self.extents.values()))
        assert not rest, "the symbolic axis is the outermost, and vectors lie along the innermost"
        whole = ["//", sizes.expression(size), own]
        return whole if size.unit % own == 0 else ["+", whole, ["%", sizes.expression(size), own]]

    @property
    def per_block(self) -> int:
        return self.threads // self.lanes * self.each

    @property
    def blocks(self) -> int:
        return ceildiv(self.items, self.per_block)

    @property
    def count(self) -> IntExpr:
        """Number of blocks, as an expression of the symbolic size."""
        return self.blocks if isinstance(self.positions, int) else ["ceildiv", self.positions, self.per_block]

    @property
    def ragged(self) -> bool:
        """Whether the last block may reach beyond the last position."""
        return not isinstance(self.positions, int) or self.positions % self.per_block != 0

    # ------------------------------------------------------------------ as loops

    def loops(self, extents: Mapping[str, int] | None = None) -> tuple[list[Loop], list[Loop]]:
        """Outer loops over blocks, rounds and warps; inner loops over a warp's threads and a thread's vector.

        ``extents``: extents of the whole output, if this grid covers a single block's tile.
        """
        own = {a: self.own.get(a, 1) for a in self.axes}
        counts = (self.per_block, self.threads // self.lanes, min(self.threads, WARP) // self.lanes)
        block, group, warp = (
            {a: n * own[a] for a, n in spread(self.extents, max(1, count)).items()} for count in counts
        )
        outer = [Loop(a, n, block[a], "parallel", "l2") for a, n in (extents or self.axes).items()]
        outer += narrowed(block, group, "unroll", "l1") + narrowed(group, warp, "serial", "l1")
        inner = narrowed(warp, own, "vector", "register")
        return outer, inner + narrowed(own, dict.fromkeys(own, 1), "unroll", "register")

    # ------------------------------------------------------------------ as text

    def shared_place(self, kind: str = "int") -> str:
        """Text of a thread's position if several threads share one."""
        return f"({kind})blockIdx.x * {self.per_block} + (int)threadIdx.x / {self.lanes}"

    def clamped(self, place: str) -> str:
        """Text of a position clamped to the last existing one."""
        last = f"{integers.text(self.positions)} - 1" if not isinstance(self.positions, int) else f"{self.items - 1}"
        return f"{place} < {integers.text(self.positions)} ? {place} : {last}"

    def walk(self, body: Callable[[str], str], kind: str = "int", rolled: bool = False) -> str:
        """Statements that run ``body`` for every position ``e`` of a thread; ``body`` takes its indentation.

        ``rolled``: prints a loop even for a single position.
        """
        first = f"({kind})blockIdx.x * {self.per_block} + (int)threadIdx.x"
        if self.each > 1 or rolled:
            return f"    const {kind} first = {first};\n" + rounds(
                self.positions, self.threads, self.each, "first", body("        "), kind
            )
        end = f"    if (e >= {integers.text(self.positions)}) return;\n" if self.ragged else ""
        return f"    const {kind} e = {first};\n{end}{body('    ')}"


def fused(digits: Iterable[tuple[str, int]]) -> str:
    """Text of a mixed-radix number, given its digits as (name, number of values), the most significant first."""
    text = ""
    for name, count in digits:
        text = f"({text} * {count} + {name})" if text else name
    return text or "0"


def rounds(count: IntExpr, threads: int, each: int, first: str, body: str, kind: str = "int") -> str:
    """A loop of ``each`` rounds: runs ``body`` for ``e`` = ``first``, ``first + threads``, ... below ``count``."""
    ragged = not isinstance(count, int) or count % (threads * each)
    end = f"        if (e >= {integers.text(count)}) break;\n" if ragged else ""
    return (
        f"    TW_UNROLL\n    for (int u = 0; u < {each}; u++) {{\n"
        f"        const {kind} e = {first} + u * {threads};\n{end}{body}    }}\n"
    )


def spread(extents: Mapping[str, int], count: int) -> dict[str, int]:
    """The box closest to ``count`` consecutive fused positions: inner axes in full, the rest along the first axis."""
    found = dict(extents)
    for a in reversed(tuple(extents)):
        found[a] = count if a == next(iter(extents)) else min(extents[a], count)
        count = max(1, round(count / extents[a]))
    return found


def narrowed(outside: Mapping[str, int], inside: Mapping[str, int], kind: str, level: str) -> list[Loop]:
    """Loops that tile boxes of extents ``outside`` into boxes of extents ``inside``, outermost axis first."""
    return [Loop(a, n, inside[a], kind, level) for a, n in outside.items() if inside[a] < n]
