"""The plan of a convolution by minimal filtering: sizes that follow from the convolution and a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import Target, Value, cached_property
from tilewright.kernels import te
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.match import match as match_contraction
from tilewright.kernels.templates.cpu_winograd.match import Winograd
from tilewright.kernels.templates.cpu_winograd.transforms import Transforms, transforms
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import ceildiv

APART = 16
"""Padding in elements, one cache line, between adjacent points and tiles. Strides of powers of two would map all points
and tiles to one set of the cache."""


@dataclass(frozen=True, eq=False)
class WinogradPlan:
    """The plan of a schedule: everything that the printed source depends on.

    Layouts: transformed inputs are [point][tile][channel], transformed weights [panel][point][channel][width], and
    products [panel][point][tile][width]. A panel is ``width`` output channels.
    """

    found: Winograd
    outputs: int
    mr: int  # MR: tiles of a register tile
    nv: int  # NV: vectors of output channels of a register tile
    unroll: int
    prefetch: int
    target: Target

    @property
    def c(self) -> Contraction:
        assert self.found.contraction is not None
        return self.found.contraction

    @cached_property
    def transforms(self) -> Transforms:
        return transforms(self.outputs)

    @cached_property
    def points(self) -> int:
        """Number of points of a tile, in two dimensions."""
        return self.transforms.points**2

    @property
    def lanes(self) -> int:
        return self.target.vector_bytes // 4

    @property
    def width(self) -> int:
        """Output channels of a panel."""
        return self.nv * self.lanes

    @property
    def channels(self) -> int:
        return self.found.convolution.channels

    @property
    def features(self) -> int:
        return self.found.convolution.features

    @cached_property
    def panels(self) -> int:
        return ceildiv(self.features, self.width)

    @cached_property
    def tiles(self) -> int:
        return self.found.count(self.outputs)

    @property
    def pitch(self) -> int:
        """Elements from one tile's channels to the next one's."""
        return channel_pitch(self.channels)

    @property
    def weights(self) -> int:
        """Elements of the transformed weights."""
        return self.panels * self.points * self.channels * self.width

    @cached_property
    def constant(self) -> bool:
        """Whether the weights are transformed once, before the first call."""
        name = self.found.convolution.weight.tensor.name
        others = {str(x.value) for s in self.c.epilogue for x in s.loads()} | {self.found.convolution.image.tensor.name}
        return self.found.convolution.weight.tensor.constant and name not in others

    @cached_property
    def product(self) -> ContractionTiling:
        """The plan of the product of one point's tiles and one panel, for the register tile."""
        c = _product(max(2, self.mr), self.pitch, self.channels, self.width)
        return ContractionTiling(
            c, self.target, self.mr, 1, 1, self.nv, self.unroll, "direct", "prepack", "ji", self.prefetch, False, False,
        )  # fmt: skip

    def number(self, tensor: str) -> int:
        """Index of an input among the arguments."""
        return [t.name for t in self.c.program.inputs].index(tensor)


@lru_cache(maxsize=256)
def _product(rows: int, pitch: int, channels: int, width: int) -> Contraction:
    x = te.input("x", (rows, pitch), "float32")
    y = te.input("y", (channels, width), "float32", constant=True)
    program = te.program(te.compute((rows, width), lambda i, j: te.sum(channels, lambda k: x[i, k] * y[k, j])))[0]
    found = match_contraction(program)
    assert found is not None
    return found


def plan(w: Winograd, target: Target, values: Mapping[str, Value]) -> WinogradPlan:
    """The plan of a schedule."""
    return decided(WinogradPlan, values, found=w, target=target)


def channel_pitch(channels: int) -> int:
    """Elements from one tile's channels to the next one's."""
    return ceildiv(channels, APART) * APART + APART


def item_bytes(tiles: int, panels: int, points: int, pitch: int, width: int) -> int:
    """Bytes of one worker's transformed tiles and products."""
    return 4 * points * ((tiles * pitch + APART) + panels * (tiles * width + APART))
