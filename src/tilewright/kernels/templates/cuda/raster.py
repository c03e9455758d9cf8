"""Which output tile a block computes.

Blocks are numbered along ``blockIdx.x`` alone: pieces of K outermost, then batch, then tiles. Tiles go
down ``GROUP`` rows before they move to the next column, so that blocks which run together share rows
of A and columns of B in the L2 cache.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.core import IntExpr

MAX_BLOCKS = (1 << 31) - 1
"""The most blocks a grid may have along x."""


def raster(
    tiles_m: int, tiles_n: int, batches: int, split: bool, group: str = "GROUP",
    reads: Collection[str] = ("tile_m", "tile_n", "batch"),
) -> str:  # fmt: skip
    """Statements that declare ``tile_m``, ``tile_n``, ``batch`` and, when ``split``, ``piece``.

    ``group`` is the text of how many rows of tiles are walked together (at least 1). Of what is always 0,
    only names in ``reads`` are declared.
    """
    tiles = tiles_m * tiles_n
    lines = ["int tile = (int)blockIdx.x;"]
    if split:
        lines.append(f"const int piece = tile / {tiles * batches};")
        lines.append(f"tile = int(unsigned(tile) % {tiles * batches}u);")
    if batches > 1:
        lines.append(f"const int batch = int(unsigned(tile) / {tiles}u);")
        lines.append(f"tile = int(unsigned(tile) % {tiles}u);")
    elif "batch" in reads:
        lines.append("const int batch = 0;")
    if tiles_m == 1:
        lines.append("const int tile_n = tile;")
        if "tile_m" in reads:
            lines.append("const int tile_m = 0;")
    elif tiles_n == 1:
        lines.append("const int tile_m = tile;")
        if "tile_n" in reads:
            lines.append("const int tile_n = 0;")
    else:
        lines += [
            f"const int first = tile / ({group} * {tiles_n}) * {group};",
            f"const int rows = {tiles_m} - first < {group} ? {tiles_m} - first : {group};",
            f"const int inside = tile - first * {tiles_n};",
            "const int tile_m = first + inside % rows, tile_n = inside / rows;",
        ]
    return "".join(f"    {line}\n" for line in lines)


def blocks(tiles_m: int, tiles_n: int, batches: int, split: bool) -> IntExpr:
    """How many blocks to launch; with ``split``, as an expression over ``SPLIT``."""
    tiles = tiles_m * tiles_n * batches
    return ["*", "SPLIT", tiles] if split else tiles


def groups(tiles_m: int, tiles_n: int) -> list[int]:
    """Values of the GROUP knob."""
    if tiles_m == 1 or tiles_n == 1:
        return [1]
    return sorted({min(tiles_m, g) for g in (1, 4, 8, 16)})
