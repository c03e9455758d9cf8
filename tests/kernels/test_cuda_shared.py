"""Where regions of shared memory begin."""

from __future__ import annotations

from tilewright.kernels.templates.cuda.shared import laid_out


def test_a_region_begins_at_its_alignment_behind_the_one_before() -> None:
    assert laid_out((1024, 1024), (7 * 516, 4), (64, 16), (0, 16), (24, 8)) == (0, 1024, 4640, 4704, 4704, 4728)
    assert laid_out((8, 8), (0, 1024), (4, 4)) == (0, 1024, 1024, 1028)
    assert laid_out() == (0,)
