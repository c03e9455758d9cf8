"""Launches of a partition that do not depend on each other, as one: its blocks are those of the first, then those of
the second.

A launch costs a microsecond or two beside what it computes, as much as a small copy takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import Launch
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.templates.cuda.launches import main_of


def together(
    kernels: Sequence[Kernel], sources: Sequence[str], launches: Sequence[Launch]
) -> tuple[str, Launch] | None:  # fmt: skip
    """The text and the launch of several kernels as one under the first one's name; ``None`` where they are no grids
    of one dimension with blocks of one size, or are given more than pointers.

    ``sources`` and ``launches``: those of the kernels, one launch each.
    """
    mains, grids = [main_of(k) for k in kernels], [x.grid for x in launches]
    if len({x.block for x in launches}) > 1 or any(g[1:] != (1, 1) or not isinstance(g[0], int) for g in grids):
        return None
    if any(x.arguments for x in launches) or any(k.cluster > 1 or k.has_maps for k in mains):
        return None
    symbol = launches[0].symbol
    parts, cases, taken, first = list[str](), list[str](), list[str](), 0
    for number, (main, source, launch) in enumerate(zip(mains, sources, launches, strict=True)):
        function, declared = f"{symbol}_{number}", main.declared
        device = f"TW_DEVICE void {function}({', '.join(declared)}, int own_block)"
        parts.append(source.replace(main.head(launch.symbol), device).replace("blockIdx.x", "own_block"))
        renamed = [f"{x}_{number}" for x in declared]
        taken += renamed
        given = ", ".join([*(x.split(" ")[-1] for x in renamed), f"(int)blockIdx.x - {first}"])
        first += int(str(launch.grid[0]))
        cases.append(f"    if ((int)blockIdx.x < {first}) return {function}({given});\n")
    threads, blocks = mains[0].threads, min(k.min_blocks for k in mains)
    parts.append(f"TW_KERNEL({threads}, {blocks}) void {symbol}({', '.join(taken)}) {{\n{''.join(cases)}}}\n")
    shared = launches[0].shared if len(launches) == 1 else ["max", *(x.shared for x in launches)]
    listed = tuple(p for x in launches for p in x.parameters)
    return "".join(parts), Launch(symbol, (), (first, 1, 1), launches[0].block, shared, listed)
