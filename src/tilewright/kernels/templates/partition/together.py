"""Launches of a partition that do not depend on each other, as one: its blocks are those of the first, then those of
the second.

A launch costs a microsecond or two beside what it computes, as much as a small copy takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core import Launch
from tilewright.kernels.codegen.holes import fill

_KERNEL = re.compile(r"TW_KERNEL\((\d+), (\d+)\) void (\w+)\(([^()]*)\) \{\n")
_NAME = re.compile(r"\w+$")


@dataclass(frozen=True)
class _Head:
    """Of a kernel's text: threads, blocks that a multiprocessor must hold, its name, its parameters, and all of it."""

    threads: int
    min_blocks: int
    symbol: str
    parameters: tuple[str, ...]
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_NAME.findall(p)[0] for p in self.parameters)


def together(sources: Sequence[str], launches: Sequence[Launch]) -> tuple[str, Launch] | None:
    """The text and the launch of several kernels as one under the first one's name; ``None`` where they are no grids
    of one dimension with blocks of one size, or more than one kernel each."""
    heads = [_head(s, x) for s, x in zip(sources, launches, strict=True)]
    grids = [x.grid for x in launches]
    if len({x.block for x in launches}) > 1 or any(g[1:] != (1, 1) or not isinstance(g[0], int) for g in grids):
        return None
    found = [h for h in heads if h is not None]
    if len(found) < len(heads):
        return None
    symbol = launches[0].symbol
    parts, cases, taken, first = list[str](), list[str](), list[str](), 0
    for number, (head, source, grid) in enumerate(zip(found, sources, grids, strict=True)):
        function = f"{symbol}_{number}"
        device = f"TW_DEVICE void {function}({', '.join(head.parameters)}, int own_block) {{\n"
        parts.append(source.replace(head.text, device).replace("blockIdx.x", "own_block"))
        renamed = [_NAME.sub(lambda x, n=number: f"{x[0]}_{n}", p) for p in head.parameters]  # type: ignore[misc]
        taken += renamed
        given = ", ".join([*(f"{x}_{number}" for x in head.names), f"(int)blockIdx.x - {first}"])
        first += int(str(grid[0]))
        cases.append(f"    if ((int)blockIdx.x < {first}) return {function}({given});\n")
    kernel = fill(MERGED, {
        "threads": found[0].threads, "blocks": min(h.min_blocks for h in found), "symbol": symbol,
        "parameters": ", ".join(taken), "cases": "".join(cases).rstrip("\n"),
    })  # fmt: skip
    shared = launches[0].shared if len(launches) == 1 else ["max", *(x.shared for x in launches)]
    listed = tuple(p for x in launches for p in x.parameters)
    return "".join([*parts, kernel]), Launch(symbol, (), (first, 1, 1), launches[0].block, shared, listed)


MERGED = """\
TW_KERNEL($threads, $blocks) void $symbol($parameters) {
$cases
}
"""


def _head(source: str, launch: Launch) -> _Head | None:
    """A launch's kernel in the source, where that is the only one, with parameters that can be passed on."""
    found = list(_KERNEL.finditer(source))
    if source.count("TW_KERNEL(") != 1 or len(found) != 1 or found[0][3] != launch.symbol or launch.arguments:
        return None
    threads, blocks, symbol, parameters = found[0].groups()
    return _Head(int(threads), int(blocks), symbol, tuple(parameters.split(", ")), found[0][0])
