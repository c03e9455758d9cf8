"""An axis in blocks: where they stand, and what is known there when the kernel is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.extent import Extent, Spans, at_least, bounds, ctext


@dataclass(frozen=True)
class Span:
    """Blocks along an axis that share one printed body: ``count`` of ``size`` elements from ``start``.

    ``inside``: no condition along this axis fails in them. A span of one block starts at a known place, which is an
    extent where it is known from the end of an axis whose extent calls choose. ``sizes``: those with which it occurs.
    Of a run along such an axis (``count`` 2) ``end`` is the C text of where it ends. ``last``: C text of where its last
    block starts, which may lie over the one before. ``unless``: C text of a condition under which conditions are to be
    asked after all. ``masked``: the axis may be shorter than the block.
    """

    start: int
    size: int
    count: int
    inside: bool
    sizes: Spans = ()
    end: str = ""
    last: str = ""
    unless: str = ""
    masked: bool = False


@dataclass(frozen=True)
class Level:
    """Blocks of one size, for extents from ``least`` on."""

    spans: tuple[Span, ...]
    least: int


def open_levels(
    extent: Extent, low: int, highs: Sequence[int], sizes: Sequence[int], masked: bool = False
) -> tuple[Level, ...]:
    """An axis whose extent calls choose in blocks of the first of some sizes that the extent reaches.

    All conditions along it hold from ``low`` on to the least of ``highs``. The last block ends where the axis does,
    over the one before where need be, so that what lies beyond the edge is known of it as of the first one.
    ``masked``: lesser extents than all sizes are one block.
    """
    found: list[Level] = []
    most = int(extent)
    for size in sizes:
        if (reached := at_least(extent, size)) is not None and size <= most:
            found.append(Level(_blocks(extent, low, highs, size, reached, most), size))
        most = size - 1
    if masked and extent.least <= most:
        every = tuple(extent.spans.items())
        found.append(Level((Span(0, sizes[-1], 1, False, every, masked=True),), 1))
    return tuple(found)


def _blocks(extent: Extent, low: int, highs: Sequence[int], size: int, reached: Spans, most: int) -> tuple[Span, ...]:
    """The first block, a run and the last block of extents from ``size`` to ``most``."""
    after = max(0, *(bounds(extent - h, exactly=True)[1] for h in highs))
    ends = [h for n, h in enumerate(highs) if not any(_below(x, h) for x in (*highs[:n], *highs[n + 1 :]))] or highs[:1]
    end = ctext(ends[0])
    for h in ends[1:]:
        end = f"tw::imin({end}, {ctext(h)})"
    first, last = size if low > 0 else 0, size if after > 0 else 0
    found = [Span(0, size, 1, False, reached)] if first else []
    least = max(size, first + last + 1)
    if most >= least and (longer := at_least(extent, least)) is not None:
        # Pushed back behind what the last block covers, it is inside still.
        sure = low <= first and after <= last and least - after - size >= low
        start = f"({end if sure else ctext(extent)}) - {size}L"
        found.append(
            Span(
                first, size, 2, True, longer, f"{ctext(extent)} - {last}L" if last else ctext(extent), start,
                "" if sure else f"{{0}} < {low}L || {{0}} + {size}L > {end}",
            )
        )  # fmt: skip
    if last and (beyond := at_least(extent, size + 1 if first else size)) is not None:
        found.append(Span(extent - size, size, 1, False, beyond))
    return tuple(found)


def _below(one: int, other: int) -> bool:
    """Whether an end is before another one, or at it, for every size; of equal ones the first is."""
    low, high = bounds(other - one, exactly=True)
    return low >= 0 and high > 0


def bounds_within(number: int, sizes: Spans) -> tuple[int, int]:
    """Between which a number or an extent lies with these sizes."""
    if isinstance(number, Extent):
        number = number.within({n: span for n, span in sizes if n in number.spans})
    return bounds(number, exactly=True)
