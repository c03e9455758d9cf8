"""Divides an axis into blocks: their positions, and the conditions that are known when the kernel is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.extent import Extent, Spans, at_least, bounds, ctext


@dataclass(frozen=True)
class Span:
    """Blocks along an axis that share one printed body: ``count`` blocks of ``size`` elements from ``start`` on.

    ``inside``: all conditions along this axis hold in the span. ``start`` of a single block is a constant, or an
    extent where the block ends at the end of a symbolic axis. ``sizes``: bounds of the symbolic sizes with which the
    span occurs.

    A run along a symbolic axis has ``count`` 2 for any number of blocks. ``end``: C text of the run's end. ``last``: C
    text of the start of the run's last block, which may overlap the block before it. ``unless``: C text of a
    condition on a block's start ``{0}``, under which the block's conditions must be tested at run time.

    ``masked``: the number of active elements is known at run time only; it is at least ``least``. ``when``: C text of
    the condition under which a block at ``{0}`` belongs to this span and to no earlier one.
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
    """The spans of an axis for one block size, for extents of at least ``least`` elements."""

    spans: tuple[Span, ...]
    least: int


def symbolic_levels(
    extent: Extent, low: int, highs: Sequence[int], sizes: Sequence[int], masked: Sequence[int] = ()
) -> tuple[Level, ...]:
    """Divide an axis of symbolic extent into blocks: a level for each block size, for extents of at least that size.

    ``sizes``: block sizes, the largest first. All conditions along the axis hold from ``low`` on to the least of
    ``highs``. The last block ends where the axis ends and may overlap the block before it. So its failing conditions
    are known when the kernel is printed, as for the first block. ``masked``: sizes of the masked block that covers a
    whole extent smaller than all ``sizes``, the largest first.
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
    """Level of a symbolic axis of at least ``lanes`` elements: vectors at the edges are masked, all others are full."""
    reached = at_least(extent, lanes) or ()
    within = f"{{0}} + {lanes}L <= {_least(highs)}"
    run = Span(0, lanes, 2, True, reached, when=f"{{0}} >= {low}L && {within}" if low > 0 else within)
    return Level((run, Span(0, lanes, 2, False, reached, masked=True, least=1)), lanes)


def _least(highs: Sequence[int]) -> str:
    """C text of the minimum of ``highs``, without the ends that are known not to be the least."""
    ends = [h for n, h in enumerate(highs) if not any(_below(x, h) for x in (*highs[:n], *highs[n + 1 :]))] or highs[:1]
    text = ctext(ends[0])
    for h in ends[1:]:
        text = f"tw::imin({text}, {ctext(h)})"
    return text


def _blocks(extent: Extent, low: int, highs: Sequence[int], size: int, reached: Spans, most: int) -> tuple[Span, ...]:
    """The spans of extents from ``size`` to ``most``: the first block, a run, and the last block."""
    after = max(0, *(bounds(extent - h, exactly=True)[1] for h in highs))
    end = _least(highs)
    first, last = size if low > 0 else 0, size if after > 0 else 0
    found = [Span(0, size, 1, False, reached)] if first else []
    least = max(size, first + last + 1)
    if most >= least and (longer := at_least(extent, least)) is not None:
        # All conditions hold in the run, even in its last block, which is shifted back to end before the last span.
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
    """Whether ``one`` is at most ``other`` for every size, and less for some size."""
    low, high = bounds(other - one, exactly=True)
    return low >= 0 and high > 0


def bounds_within(number: int, sizes: Spans) -> tuple[int, int]:
    """Lower and upper bound of a number or an extent, within bounds ``sizes`` of the symbolic sizes."""
    if isinstance(number, Extent):
        number = number.within({n: span for n, span in sizes if n in number.spans})
    return bounds(number, exactly=True)
