"""Convolutions that Winograd's minimal filtering computes: a 3x3 window of stride 1, all channels with all features.

They are contractions with two specific operands. The image is a window, ``image[.., y + r - p, x + s - p, .., c]``,
zero beyond its edges. The weight is a plain read at ``r``, ``s``, ``c`` and a feature (an output channel). Axes may
have any order in each tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.caching import cached_property
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.contraction import Contraction, contractions
from tilewright.kernels.families.index_forms import IndexForms, Window
from tilewright.kernels.families.sides import matches, need

TAPS = 3
"""Length of the window along both axes."""


@dataclass(frozen=True)
class Along:
    """A spatial axis: its output axis, its reduce axis, its dimension in the image, and the image position of output
    0."""

    axis: str
    tap: str
    dim: int
    start: int
    size: int  # outputs
    length: int  # image elements along the axis


@dataclass(frozen=True, eq=False)
class Convolution:
    """A matched contraction. ``item``: the batch axis, empty for a single image."""

    form: Contraction
    image: Window
    weight: Window
    item: str
    rows: Along
    columns: Along
    channel: str
    feature: str

    @cached_property
    def items(self) -> int:
        """Number of images in the batch."""
        return self.form.stage.ranges[self.item] if self.item else 1

    @cached_property
    def channels(self) -> int:
        """Number of input channels."""
        return self.form.stage.ranges[self.channel]

    @cached_property
    def features(self) -> int:
        """Number of output channels."""
        return self.form.stage.ranges[self.feature]


def convolution(program: Program) -> Convolution | None:
    """The convolution of a program, or ``None``."""
    return next((f for c in contractions(program) if (f := recognise(c)) is not None), None)


def recognise(c: Contraction) -> Convolution | None:
    """The convolution of a contraction, or ``None``."""
    if not c.is_product or c.stage.scan is not None:
        return None
    forms = IndexForms()
    a, b = (forms.window(value, c.program, widened=True) for value in (c.lhs, c.rhs))
    pairs: tuple[tuple[Window, Window], ...] = () if a is None or b is None else ((a, b), (b, a))
    return next(matches(pairs, lambda windows: _matched(c, *windows)), None)


def _matched(c: Contraction, image: Window, weight: Window) -> Convolution:
    ranges, reduced = c.stage.ranges, set(c.stage.reduce_axes)
    spatial: list[Along] = []
    items: list[str] = []
    channels: list[str] = []
    for number, (d, length) in enumerate(zip(image.dims, image.tensor.shape, strict=True)):
        taps = [a for a in d.coef if a in reduced]
        axes = [a for a in d.coef if a not in reduced]
        need(all(k == 1 for k in d.coef.values()) and len(taps) <= 1 and len(axes) <= 1)
        if taps and axes:
            spatial.append(Along(axes[0], taps[0], number, d.const, ranges[axes[0]], length))
        else:
            need(not d.const and (bool(d.coef) or length == 1))
            channels += taps
            items += axes
    need(len(spatial) == 2 and len(channels) == 1 and len(items) <= 1)
    rows, columns = spatial
    feature = [a for a in c.wide if a not in (rows.axis, columns.axis, *items)]
    need({rows.tap, columns.tap, *channels} == reduced and set(weight.position.coef) == {*feature, *reduced})
    need(len(feature) == 1 and not weight.bounds and all(ranges[s.tap] == TAPS for s in spatial))
    zero = image.fill is not None and image.fill.op == "const" and image.fill.value == 0
    need(not image.bounds or (zero and image.padded))
    return Convolution(c, image, weight, (*items, "")[0], rows, columns, channels[0], feature[0])
