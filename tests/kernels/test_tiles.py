"""Blocks of an extent that calls choose: their sizes, and that kernels have code for each of them."""

from __future__ import annotations

import pytest

from tilewright.kernels.templates.tiles import Blocks, SymbolicBlocks, ceildiv


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 13])
def test_chosen_blocks_have_every_size_of_every_extent_and_no_other(size: int) -> None:
    square = size * size
    for least in (1, 2, size, square - 1, square, square + 1, square + size, 5 * square):
        for extent in (least, least + 1, least + size - 1, least + size, least + 3 * square):
            if least < 1 or extent < least:
                continue
            heights = set()
            for n in range(least, extent + 1):
                even = Blocks(n, ceildiv(n, ceildiv(n, size)))
                heights |= {height for _, height in even.spans}
            assert SymbolicBlocks(extent, size, least).sizes == tuple(sorted(heights, reverse=True))
