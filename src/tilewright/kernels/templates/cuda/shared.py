"""Layout of a block's shared memory: named regions, their offsets and the total size in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.caching import cached_property
from tilewright.kernels.templates.tiles import ceildiv


@dataclass(frozen=True)
class Shared:
    """Consecutive regions of shared memory: ``(bytes, alignment)`` by name.

    A region's alignment is that of its widest access. The first region begins at a multiple of all alignments.
    """

    regions: Mapping[str, tuple[int, int]]

    @cached_property
    def _starts(self) -> dict[str, int]:
        starts, end = dict[str, int](), 0
        for name, (size, align) in self.regions.items():
            starts[name] = ceildiv(end, align) * align
            end = starts[name] + size
        return {**starts, "": end}

    def at(self, name: str) -> int:
        """Byte offset of a region."""
        return self._starts[name]

    def size(self, name: str) -> int:
        """Bytes of a region."""
        return self.regions[name][0]

    @property
    def bytes(self) -> int:
        """Bytes up to the end of the last region."""
        return self._starts[""]

    def pointer(self, name: str, ctype: str) -> str:
        """C text of a pointer to a region."""
        at = self.at(name)
        return f"({ctype} *)(smem{f' + {at}' if at else ''})"
