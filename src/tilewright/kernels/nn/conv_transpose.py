"""Transposed convolutions: the gradient of a convolution, or a convolution with a fractional stride.

The result at ``o`` sums ``input[i] * weight[r]`` over ``i*stride + r*dilation - padding == o``. The reduction visits
only the taps that meet this equation, so it multiplies no inserted zeros. Without dilation, the taps of one output are
``r = r'*stride + (o + padding) % stride``. With a stride of 1 all taps meet it; visited from the last to the first,
they form a convolution. If stride and dilation have a common divisor ``g``, taps meet one of ``g`` elements: only these
elements are computed, and zeros are put between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilewright.core import UsageError
from tilewright.extent import least
from tilewright.kernels import te
from tilewright.kernels.nn.conv import biased, channel_of, check_operands, reduce_extents, reduced_parts
from tilewright.kernels.nn.dims import value
from tilewright.kernels.nn.sizes import Layout, check_groups, check_vector, every, over_axes, per_axis


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: sizes, and the mapping between taps of the kernel and rows of the input."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    extra: int

    @property
    def out(self) -> int:
        return (self.size - 1) * self.stride - 2 * self.padding + self.dilation * (self.kernel - 1) + self.extra + 1

    @property
    def common(self) -> int:
        """The greatest common divisor of stride and dilation: taps meet one of ``common`` elements of the result."""
        return gcd(self.stride, self.dilation)

    def met(self) -> _Axis:
        """The axis of only the elements that taps may meet."""
        g = self.common
        if g == 1:
            return self
        first, steps = -(-self.padding // g), self.dilation // g * (self.kernel - 1)
        last = (self.dilation * (self.kernel - 1) + self.extra - self.padding) // g
        made = replace(
            self, stride=self.stride // g, dilation=self.dilation // g, padding=first, extra=last + first - steps
        )
        return replace(made, extra=made.extra + max(0, 1 - least(made.out)))

    def place(self, o: te.Expr) -> te.Expr:
        """Position of an element that taps meet along the axis :meth:`met`."""
        return (o + self.padding) // self.common - self.met().padding

    def is_met(self, o: te.Expr) -> te.Expr | None:
        """Whether taps may meet an element; ``None`` if they may meet every element."""
        return (o + self.padding) % self.common == 0 if self.common > 1 else None

    @property
    def taps(self) -> int:
        """Extent of the reduce axis. Stride and dilation must have no common divisor here and below."""
        return -(-self.kernel // self.stride)

    def first(self, o: te.Expr) -> te.Expr:
        """The first tap that meets an element."""
        return ((o + self.padding) * pow(self.dilation, -1, self.stride)) % self.stride

    def tap(self, o: te.Expr, r: te.Expr) -> te.Expr:
        """The tap that step ``r`` of the reduction visits."""
        return self.kernel - 1 - r if self.stride == 1 else r * self.stride + self.first(o)

    def row(self, o: te.Expr, r: te.Expr) -> te.Expr:
        """The input element that the tap of step ``r`` multiplies."""
        if self.stride == 1:
            return o + self.padding - (self.kernel - 1) * self.dilation + r * self.dilation
        if self.dilation == 1:
            return (o + self.padding) // self.stride - r
        return (o + self.padding - self.first(o) * self.dilation) // self.stride - r * self.dilation

    def has_tap(self, o: te.Expr, r: te.Expr) -> te.Expr | None:
        """Whether step ``r`` has a tap; ``None`` if every step has one."""
        return self.tap(o, r) < self.kernel if self.kernel % self.stride else None


def conv_transpose(
    axes: int,
    input: te.TensorRef,
    weight: te.TensorRef,
    bias: te.TensorRef | None = None,
    stride: te.Ints = 1,
    padding: te.Ints = 0,
    output_padding: te.Ints = 0,
    groups: int = 1,
    dilation: te.Ints = 1,
    *,
    layout: str = "",
) -> te.TensorRef:
    """Transposed convolution: ``input`` (n, ci, {space}) by ``weight`` (ci, co/groups, {kernel}) gives (n, co, {out}).

    It is the gradient of a convolution with regard to the convolution's input. ``bias`` (co,) is added. ``stride``,
    ``padding``, ``output_padding`` and ``dilation`` count elements of the result: one number for all axes, or one for
    each. An axis of the result has ``(size - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1``
    elements. ``layout="{last}"``: ``input`` is (n, {space}, ci), ``weight`` ({kernel}, ci, co/groups), the result (n,
    {out}, co). Raises ``UsageError`` for shapes, element types or numbers that do not fit.
    """
    op = f"conv_transpose{axes}d"
    lay = Layout.parse(op, layout, axes)
    check_operands(op, input, weight, axes + 2)
    n, ci, sizes = lay.split(input.shape)
    if lay.last:
        *kernel, cw, og = weight.shape
    else:
        cw, og, *kernel = weight.shape
    if cw != ci:
        raise UsageError(f"{op}: input has {ci} channels and weight takes {cw}", "They must agree")
    co = og * groups
    check_groups(op, groups, ci, co)
    whole = _axes(op, sizes, kernel, stride, padding, output_padding, dilation)
    met = [a.met() for a in whole]
    check_vector(op, "bias", bias, co)

    def point(*index: te.Expr) -> te.Reduction:
        b, o, place = lay.split(index)

        def tap(*reduced: te.Expr) -> te.Expr:
            c, steps = reduced_parts(lay, reduced)
            channel = channel_of(o, c, ci, co, groups)
            within = o if groups == 1 else o % og
            visited = list(zip(met, place, steps, strict=True))
            rows = [a.row(i, r) for a, i, r in visited]
            taps = [a.tap(i, r) for a, i, r in visited]
            at = (*taps, channel, within) if lay.last else (channel, within, *taps)
            present = [a.has_tap(i, r) for a, i, r in visited]
            inside = [(row >= 0) & (row < a.size) for a, row in zip(met, rows, strict=True)]
            reads = every(x for pair in zip(present, inside, strict=True) for x in pair)
            exists = every(present)
            assert reads is not None
            w = value(weight[at])
            x = te.select(reads, value(input[lay.join(b, channel, rows)]), 0.0)
            return x * (w if exists is None else te.select(exists, w, 0.0))

        return te.sum(reduce_extents(lay, ci // groups, [a.taps for a in met]), tap)

    made = te.compute(lay.join(n, co, [a.out for a in met]), point)
    if met != whole:
        made = _spread(made, whole, lay)
    return biased(made, bias, lay)


conv_transpose1d, conv_transpose2d, conv_transpose3d = (over_axes(conv_transpose, axes) for axes in (1, 2, 3))


def _spread(met: te.TensorRef, axes: Sequence[_Axis], lay: Layout) -> te.TensorRef:
    """The whole result: the elements that taps meet, with zeros between them."""
    n, co, _ = lay.split(met.shape)

    def point(*index: te.Expr) -> te.Expr:
        b, o, place = lay.split(index)
        exists = every(a.is_met(i) for a, i in zip(axes, place, strict=True))
        assert exists is not None
        at = [a.place(i) for a, i in zip(axes, place, strict=True)]
        return te.select(exists, met[lay.join(b, o, at)], 0.0)

    return te.compute(lay.join(n, co, [a.out for a in axes]), point)


def _axes(
    op: str,
    sizes: tuple[int, ...],
    kernel: list[int],
    stride: te.Ints,
    padding: te.Ints,
    output_padding: te.Ints,
    dilation: te.Ints,
) -> list[_Axis]:
    spatial = len(sizes)
    steps = per_axis(op, "stride", stride, spatial, 1)
    pads = per_axis(op, "padding", padding, spatial, 0)
    gaps = per_axis(op, "dilation", dilation, spatial, 1)
    extras = per_axis(op, "output_padding", output_padding, spatial, 0)
    axes = [_Axis(*parts) for parts in zip(sizes, kernel, steps, pads, gaps, extras, strict=True)]
    for a in axes:
        if a.extra >= max(a.stride, a.dilation):
            raise UsageError(
                f"{op}: output_padding={a.extra} with stride={a.stride} dilation={a.dilation}",
                "output_padding is smaller than stride or dilation",
            )
        if a.out < 1:
            raise UsageError(
                f"{op}: padding={a.padding} leaves {a.out} elements of an input of {a.size} and a window of {a.kernel}",
                "(size - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1 is at least 1 on each axis",
            )
    return axes
