"""Groups of axes fused into one, as contractions, rows and attention use them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

from tilewright.caching import cached_property
from tilewright.extent import Extent, ctext
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.linear import Linear


@dataclass(frozen=True)
class Group:
    """Axes fused into one, outermost first: names, extents, and the product of the extents."""

    axes: tuple[str, ...]
    extents: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        return prod(self.extents)

    @property
    def varying(self) -> Extent | None:
        """The size if it is symbolic; else ``None``."""
        return self.size if isinstance(self.size, Extent) else None

    @property
    def size_text(self) -> str:
        """C text of the size."""
        return ctext(self.size)

    def stride(self, where: Linear) -> int | None:
        """Stride of the fused axis in a tensor; ``None`` if the axes do not fuse there."""
        steps = [(where.of(a), e) for a, e in zip(self.axes, self.extents, strict=True) if e > 1]
        if not any(step for step, _ in steps):
            return 0
        for (outer, _), (inner, extent) in itertools.pairwise(steps):
            if outer != inner * extent:
                return None
        return steps[-1][0]

    def indices(self, fused: str) -> dict[str, Expr]:
        """Every axis as an expression of the fused axis ``fused``."""
        out: dict[str, Expr] = {}
        step = 1
        for number, (name, extent) in enumerate(zip(reversed(self.axes), reversed(self.extents), strict=True)):
            value = axis(fused)
            if step > 1:
                value = value // step
            if number < len(self.axes) - 1:
                value = value % extent
            out[name] = value
            step *= extent
        return out

    def split(self, fused: str) -> dict[str, str]:
        """C text of every axis's index, given the text of the fused index."""
        out: dict[str, str] = {}
        step = 1
        for n, (name, extent) in enumerate(zip(reversed(self.axes), reversed(self.extents), strict=True)):
            text = fused if step == 1 else f"({fused})/{ctext(step)}"
            out[name] = text if n == len(self.axes) - 1 else f"({text})%{ctext(extent)}"
            step *= extent
        return out

    def joined(self, prefix: str) -> str:
        """C text of the fused index; the text of an axis's index is ``prefix`` and its name."""
        at = "0L"
        for name, extent in zip(self.axes, self.extents, strict=True):
            at = f"({at})*{extent}L+{prefix}{name}"
        return at
