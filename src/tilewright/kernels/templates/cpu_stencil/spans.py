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
    asked after all. ``masked``: calls know how many elements there are, ``least`` or more. ``when``: C text of a
    condition under which a block at any place, ``{0}``, is one of the span; that of the span before does not hold then.
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
    when: str = ""
    least: int = 0


@dataclass(frozen=True)
class Level:
    """Blocks of one size, for extents from ``least`` on."""

    spans: tuple[Span, ...]
    least: int


def open_levels(
    extent: Extent, low: int, highs: Sequence[int], sizes: Sequence[int], masked: Sequence[int] = ()
) -> tuple[Level, ...]:
    """An axis whose extent calls choose in blocks of the first of some sizes that the extent reaches.

    All conditions along it hold from ``low`` on to the least of ``highs``. The last block ends where the axis does,
    over the one before where need be, so that what lies beyond the edge is known of it as of the first one.
    ``masked``: lesser extents than all sizes are one block, of the last of these sizes that has them.
    """
    found: list[Level] = []
    most = int(extent)
    for size in sizes:
        if (reached := at_least(extent, size)) is not None and size <= most:
            found.append(Level(_blocks(extent, low, highs, size, reached, most), size))
        most = size - 1
    for size, less in zip(masked, (*masked[1:], 0), strict=False):
        if less < most and extent.least <= most and (reached := at_least(extent, less + 1)) is not None:
            found.append(Level((Span(0, size, 1, False, reached, masked=True, least=less + 1),), less + 1))
        most = min(most, less)
    return tuple(found)


def masked_ends(extent: Extent, low: int, highs: Sequence[int], lanes: int) -> Level:
    """The walk along an axis of at least ``lanes`` elements in vectors: whole ones within the edges, others masked."""
    reached = at_least(extent, lanes) or ()
    within = f"{{0}} + {lanes}L <= {_least(highs)}"
    run = Span(0, lanes, 2, True, reached, when=f"{{0}} >= {low}L && {within}" if low > 0 else within)
    return Level((run, Span(0, lanes, 2, False, reached, masked=True, least=1)), lanes)


def _least(highs: Sequence[int]) -> str:
    """C text of the least of some ends, as far as they are not known to be in order."""
    ends = [h for n, h in enumerate(highs) if not any(_below(x, h) for x in (*highs[:n], *highs[n + 1 :]))] or highs[:1]
    text = ctext(ends[0])
    for h in ends[1:]:
        text = f"tw::imin({text}, {ctext(h)})"
    return text


def _blocks(extent: Extent, low: int, highs: Sequence[int], size: int, reached: Spans, most: int) -> tuple[Span, ...]:
    """The first block, a run and the last block of extents from ``size`` to ``most``."""
    after = max(0, *(bounds(extent - h, exactly=True)[1] for h in highs))
    end = _least(highs)
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
