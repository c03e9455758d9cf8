"""Where regions of a block's shared memory begin."""

from __future__ import annotations

from tilewright.kernels.templates.tiles import ceildiv


def laid_out(*regions: tuple[int, int]) -> tuple[int, ...]:
    """Byte offsets of regions of ``(bytes, alignment)``, each behind the one before it, and of the end of the last.

    The alignment is that of the widest access of a region; the first one begins at a multiple of all of them.
    """
    starts, end = list[int](), 0
    for size, align in regions:
        starts.append(ceildiv(end, align) * align)
        end = starts[-1] + size
    return (*starts, end)
