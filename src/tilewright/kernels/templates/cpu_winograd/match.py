"""Which of the convolutions that minimal filtering computes the CPU does: float32, channels last, enough of them."""

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
"""Channels and features from which a product of tiles outweighs their transforms."""
WORTH = 0.75
"""Share of the direct sum's multiplications above which a variant has nothing to win: edges of tiles are padding."""


@dataclass(frozen=True, eq=False)
class Winograd:
    """A matched program, and the same as the direct template's contraction; ``None`` where it is none of those."""

    convolution: Convolution
    contraction: Contraction | None

    def tiles(self, outputs: int) -> tuple[int, int, int]:
        """Items, and tiles along rows and columns, of ``outputs`` each way."""
        c = self.convolution
        return c.items, (c.rows.size + outputs - 1) // outputs, (c.columns.size + outputs - 1) // outputs

    def count(self, outputs: int) -> int:
        """Tiles in all."""
        items, rows, columns = self.tiles(outputs)
        return items * rows * columns

    def share(self, outputs: int) -> float:
        """Multiplications, as a share of the direct sum's."""
        c = self.convolution
        direct = c.items * c.rows.size * c.columns.size * len(transforms(outputs).filter[0]) ** 2
        return self.count(outputs) * transforms(outputs).points ** 2 / direct

    @property
    def variants(self) -> tuple[int, ...]:
        """Outputs of a tile along an axis that are worth it, and whose rounding is within bounds."""
        channels = self.convolution.channels
        return tuple(m for m in POINTS if self.share(m) <= WORTH and rounding(m, channels) <= MOST)


@lru_cache(maxsize=256)
def match(program: Program) -> Winograd | None:
    """The convolution that a program is, or ``None`` where it is none of the family."""
    c = match_contraction(program)
    found = None if c is None else recognise(c)
    if found is not None:
        return Winograd(found, c)
    found = convolution(program)
    return None if found is None else Winograd(found, None)


@lru_cache(maxsize=256)
def refuses(w: Winograd) -> str:
    """What keeps it from being computed by this template; empty where nothing does."""
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
    """Whether calls may choose the sizes, those of images and of their number, as the direct template takes them."""
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
