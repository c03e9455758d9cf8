"""Matching convolutions that the CPU computes by minimal filtering: float32, channels last, with enough channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import Target
from tilewright.extent import Extent
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.winograd import Convolution, convolution, recognise
from tilewright.kernels.templates.cpu_contraction.geometry import batch_items
from tilewright.kernels.templates.cpu_contraction.geometry import takes_ranges as takes_direct
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.match import match as match_contraction
from tilewright.kernels.templates.cpu_contraction.space import proto
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.kernels.templates.cpu_winograd.rounding import MOST, rounding
from tilewright.kernels.templates.cpu_winograd.transforms import POINTS, transforms

FEWEST = 16
"""Fewest channels and features for which the products of tiles outweigh their transforms."""
WORTH = 0.75
"""Greatest share of the direct sum's multiplications for a variant. Padding in tiles at the edges adds to the share."""


@dataclass(frozen=True, eq=False)
class Winograd:
    """A matched convolution, and its form in the direct template; ``None`` if that template does not match it."""

    convolution: Convolution
    contraction: Contraction | None

    def tiles(self, outputs: int) -> tuple[int, int, int]:
        """Numbers of items, and of tiles along rows and columns, for tiles of ``outputs`` x ``outputs``."""
        c = self.convolution
        return c.items, (c.rows.size + outputs - 1) // outputs, (c.columns.size + outputs - 1) // outputs

    def count(self, outputs: int) -> int:
        """Total number of tiles."""
        items, rows, columns = self.tiles(outputs)
        return items * rows * columns

    def share(self, outputs: int) -> float:
        """Number of multiplications, as a share of the direct sum's."""
        c = self.convolution
        direct = c.items * c.rows.size * c.columns.size * len(transforms(outputs).filter[0]) ** 2
        return self.count(outputs) * transforms(outputs).points ** 2 / direct

    @property
    def variants(self) -> tuple[int, ...]:
        """Legal numbers of outputs of a tile along an axis: few enough multiplications, small rounding errors."""
        channels = self.convolution.channels
        return tuple(m for m in POINTS if self.share(m) <= WORTH and rounding(m, channels) <= MOST)


@lru_cache(maxsize=256)
def match(program: Program) -> Winograd | None:
    """The convolution form of a program; ``None`` if the program is not in the family."""
    c = match_contraction(program)
    found = None if c is None else recognise(c)
    if found is not None:
        return Winograd(found, c)
    found = convolution(program)
    return None if found is None else Winograd(found, None)


@lru_cache(maxsize=256)
def refuses(w: Winograd) -> str:
    """Why this template cannot compute a convolution; empty if it can."""
    found, c = w.convolution, w.contraction
    program = found.form.program
    types = {found.form.acc, found.image.tensor.dtype, found.weight.tensor.dtype, program.output.dtype}
    if types != {"float32"}:
        return f"computes with {', '.join(sorted(types - {'float32'}))}: rounding is bounded for float32 alone"
    if c is None:
        return "is not a contraction that the direct template computes"
    if found.image.position.of(found.channel) != 1 or c.out_strides[found.feature] != 1:
        return "has its channels apart, and tiles are transformed by vectors of them: state it with channels last"
    if min(found.channels, found.features) < FEWEST:
        return f"has fewer than {FEWEST} channels on a side"
    if not w.variants:
        return f"rounds more than {MOST:g} times as far as the direct sum when it is computed by tiles"
    return "" if _epilogue(c) else "has later stages that do not lie along its channels"


def takes_ranges(w: Winograd) -> bool:
    """Whether the template supports the symbolic sizes: sizes of images and batch that the direct template supports."""
    c, found = w.contraction, w.convolution
    plain = not any(isinstance(n, Extent) for n in (found.channels, found.features))
    return c is not None and plain and takes_direct(c)


def _epilogue(c: Contraction) -> bool:
    """Whether the stages after the sum are vectors along the output's channels."""
    e = epilogue(c, 1)
    return e.vector and not e.narrowed


def epilogue(c: Contraction, lanes: int) -> Epilogue:
    """The stages after the sum, as the direct template prints them."""
    return Epilogue(proto(c, Target("cpu", "portable", "x86_64", (), 4 * lanes, 16), "pack", "pack", batch_items(c)))
