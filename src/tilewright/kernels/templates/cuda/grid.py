"""Distribution of a kernel's outputs over blocks and threads: the loops that features are of, and the C++ text."""

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
    """Outputs distributed to threads, which are numbered along the fused ``axes``, the last one innermost.

    A thread computes ``own`` neighbours along each axis (where no number is given, one), ``each`` times, a block's
    threads apart; ``lanes`` threads share an output. ``left`` outputs along the last axis are no whole vector: threads
    take them one by one after all others.
    """

    axes: Mapping[str, int]
    threads: int
    each: int = 1
    lanes: int = 1
    own: Mapping[str, int] = field(default_factory=dict)
    left: int = 0

    @cached_property
    def extents(self) -> dict[str, int]:
        """Threads' positions along each axis."""
        return {a: n if self.own.get(a, 1) == 1 else ceildiv(n, self.own[a]) for a, n in self.axes.items()}

    @property
    def items(self) -> int:
        """All positions."""
        return prod(self.extents.values()) + max(0, self.left - 1)

    @cached_property
    def positions(self) -> IntExpr:
        """All positions, as an expression of the size that calls choose."""
        (outer, size), *rest = self.axes.items()
        own = self.own.get(outer, 1)
        if not isinstance(size, Extent):
            return self.items
        if own == 1:
            return sizes.expression(prod(self.extents.values()))
        assert not rest, "what calls choose is the outermost axis, and vectors lie along the innermost"
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
        """Blocks, as an expression of the size that calls choose."""
        return self.blocks if isinstance(self.positions, int) else ["ceildiv", self.positions, self.per_block]

    @property
    def ragged(self) -> bool:
        """Whether the last block may have positions too many."""
        return not isinstance(self.positions, int) or self.positions % self.per_block != 0

    # ------------------------------------------------------------------ as loops

    def loops(self, extents: Mapping[str, int] | None = None) -> tuple[list[Loop], list[Loop]]:
        """Loops over blocks, rounds and warps; loops over a warp's threads (vector lanes) and a thread's neighbours.

        ``extents`` are those that blocks walk, where the grid is that of a block's tile.
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
        """Text of a thread's position where several threads share it."""
        return f"({kind})blockIdx.x * {self.per_block} + (int)threadIdx.x / {self.lanes}"

    def clamped(self, place: str) -> str:
        """Text of a position that exists: threads beyond the last take that one."""
        last = f"{integers.text(self.positions)} - 1" if not isinstance(self.positions, int) else f"{self.items - 1}"
        return f"{place} < {integers.text(self.positions)} ? {place} : {last}"

    def walk(self, body: Callable[[str], str], kind: str = "int", rolled: bool = False) -> str:
        """Statements that do ``body``, given its indentation, for every position ``e`` of a thread.

        ``rolled``: in a loop, even where there is one.
        """
        first = f"({kind})blockIdx.x * {self.per_block} + (int)threadIdx.x"
        if self.each > 1 or rolled:
            return f"    const {kind} first = {first};\n" + rounds(
                self.positions, self.threads, self.each, "first", body("        "), kind
            )
        end = f"    if (e >= {integers.text(self.positions)}) return;\n" if self.ragged else ""
        return f"    const {kind} e = {first};\n{end}{body('    ')}"


def fused(digits: Iterable[tuple[str, int]]) -> str:
    """Text of a number, given the names of its digits and how many values each has, the highest first."""
    text = ""
    for name, count in digits:
        text = f"({text} * {count} + {name})" if text else name
    return text or "0"


def rounds(count: IntExpr, threads: int, each: int, first: str, body: str, kind: str = "int") -> str:
    """A loop of ``each`` rounds: ``body`` for ``e`` from ``first`` on, a block's threads apart, below ``count``."""
    ragged = not isinstance(count, int) or count % (threads * each)
    end = f"        if (e >= {integers.text(count)}) break;\n" if ragged else ""
    return (
        f"    TW_UNROLL\n    for (int u = 0; u < {each}; u++) {{\n"
        f"        const {kind} e = {first} + u * {threads};\n{end}{body}    }}\n"
    )


def spread(extents: Mapping[str, int], count: int) -> dict[str, int]:
    """The box that is most like a run of ``count`` fused positions: full along inner axes, the rest along the first."""
    found = dict(extents)
    for a in reversed(tuple(extents)):
        found[a] = count if a == next(iter(extents)) else min(extents[a], count)
        count = max(1, round(count / extents[a]))
    return found


def narrowed(outside: Mapping[str, int], inside: Mapping[str, int], kind: str, level: str) -> list[Loop]:
    """Loops from boxes of one size to smaller ones, outermost axis first."""
    return [Loop(a, n, inside[a], kind, level) for a, n in outside.items() if inside[a] < n]
