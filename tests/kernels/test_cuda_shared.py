"""Where regions of shared memory begin."""

from __future__ import annotations

from tilewright.kernels.templates.cuda.shared import Shared


def laid_out(*regions: tuple[int, int]) -> tuple[int, ...]:
    """Where regions begin, and where the last one ends."""
    found = Shared({str(n): region for n, region in enumerate(regions)})
    return (*map(found.at, found.regions), found.bytes)


def test_a_region_begins_at_its_alignment_behind_the_one_before() -> None:
    assert laid_out((1024, 1024), (7 * 516, 4), (64, 16), (0, 16), (24, 8)) == (0, 1024, 4640, 4704, 4704, 4728)
    assert laid_out((8, 8), (0, 1024), (4, 4)) == (0, 1024, 1024, 1028)
    assert laid_out() == (0,)


def test_a_larger_region_moves_the_pointers_to_those_behind_it() -> None:
    small, large = (Shared({"a": (size, 4), "b": (16, 16)}) for size in (20, 36))
    assert small.pointer("a", "float") == large.pointer("a", "float") == "(float *)(smem)"
    assert (small.pointer("b", "float"), small.bytes) == ("(float *)(smem + 32)", 48)
    assert (large.pointer("b", "float"), large.bytes) == ("(float *)(smem + 48)", 64)
