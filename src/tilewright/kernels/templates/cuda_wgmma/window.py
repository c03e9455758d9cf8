"""Operands whose rows are windows over images. With channels last, TMA's im2col mode copies their pixels.

A row of the product is a position of the window, and k is its taps (the elements of the window) with all channels each.
A copy takes the pixels of adjacent rows for one tap: the tap is an offset common to all of them. Pixels outside an
image are zero, as the program's guard requires. Where channels do not fill the last chunk of a tap, both sides are
filled up with zeros: the other operand's tensor map has taps as a dimension.

With channels outermost, a line of shared memory holds adjacent rows of the product for one channel. They are a segment
of an image's row, which tiled tensor maps copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tilewright.core import Walk, tensor_map
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.index_forms import IndexForms, affine
from tilewright.kernels.templates.cuda.text import digits
from tilewright.kernels.templates.cuda.warpgroups import LINE, STEP_BYTES, Readers, Tile
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.launch import REACH


@dataclass(frozen=True)
class Window:
    """Addresses of a windowed operand's elements. Dimensions are listed from the innermost on, as in tensor maps.

    ``sizes``: of the channels, the dimensions that the window moves along, and the images. ``counts``: window positions
    along each dimension but channels. ``offsets``: of the taps along the window's dimensions, none below zero.
    ``taps``: axes of k but the channels. ``channels``: channels of a tap. ``first``: elements to a batch's first
    channel.
    """

    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    walk: Walk
    offsets: tuple[Linear, ...]
    taps: Group
    channels: int
    first: int

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def map(self, tensor: int, tile: Tile, readers: int) -> dict[str, Any]:
        """The tensor map of the operand; ``tensor``: index of the input, ``readers``: multicast width of a tile."""
        strides, step = [], tile.item
        for size in self.sizes[:-1]:
            step *= size
            strides.append(step)
        box = (tile.line, tile.part(readers))
        return tensor_map(("tensor", tensor), tile.item, self.sizes, tuple(strides), box, LINE, self.walk)

    def ragged(self, item: int) -> bool:
        """Whether a pixel's size is not a multiple of 16 bytes, the granularity of TMA."""
        return self.sizes[0] * item % CHUNK != 0

    def begin(self, origin: str, tile: Tile, readers: Readers) -> list[str]:
        """Statements that declare the window position of a tile's first row, or of the first row that a block
        copies."""
        share = readers.share(tile.part(readers.count))
        return [f"const int pixel = {origin}{share};", *self.places("pixel")]

    def places(self, row: str) -> list[str]:
        """Statements that declare the window position of a row. Rows behind the last one lie in images that do not
        exist."""
        names = _names(self.rank)
        *inside, images = self.counts
        found = digits(dict(reversed(list(zip(names, (*inside, images + 1), strict=True)))), row)
        walks = (*zip(self.walk.lower, self.walk.steps, strict=True), (0, 1))
        return [
            f"const int at_{x} = {found[x]}{f' * {step}' if step > 1 else ''}{f' + ({low})' if low else ''};"
            for x, (low, step) in zip(names, walks, strict=True)
        ]

    def moves(self) -> list[str]:
        """Statements that declare the offsets of ``tap``."""
        axes = digits(dict(zip(self.taps.axes, self.taps.extents, strict=True)), "tap")
        out = []
        for x, offset in zip(_names(self.rank), self.offsets, strict=False):
            terms = [f"{axes[a]} * {step}" if step != 1 else axes[a] for a, step in offset.axes.items()]
            text = " + ".join([*terms, *([str(offset.const)] if offset.const or not terms else [])])
            out.append(f"const tw::u16 by_{x} = (tw::u16)({text});")
        return out

    def loads(self, tile: Tile, of: str, to: str, batch: str, readers: Readers) -> list[str]:
        """Statements that copy a tile to ``to`` by the tensor map ``of``, from channel ``channel`` on."""
        names, out = _names(self.rank), []
        first = f" + {batch} * {self.first}" if self.first else ""
        for at, _, k in tile.boxes():
            places = [f"channel{first}{f' + {k}' if k else ''}", *(f"at_{x}" for x in names)]
            out.append(tile.load(of, to, at, places, readers, [f"by_{x}" for x in names[:-1]]))
        return out


@dataclass(frozen=True)
class Planes(Window):
    """Windows over images with channels outside of the pixels; fields as in :class:`Window`."""

    def fits(self, item: int) -> bool:
        """Whether 16-bit rows of images are whole 128-byte lines, and the window's steps are all 1. ``item``: bytes of
        an element."""
        lines = self.counts[0] * item % LINE == 0 and self.sizes[1] * item % CHUNK == 0
        return lines and item == 2 and set(self.walk.steps) == {1}  # only 16-bit operands may be contiguous along rows

    def ragged(self, item: int) -> bool:
        return False

    def map(self, tensor: int, tile: Tile, readers: int) -> dict[str, Any]:
        channels, *pixels, images = self.sizes
        sizes, strides = (*pixels, channels, images), [tile.item]
        for size in sizes[:-1]:
            strides.append(strides[-1] * size)
        box = (tile.line, *(1 for _ in pixels[1:]), tile.part(readers), 1)
        return tensor_map(("tensor", tensor), tile.item, sizes, tuple(strides[1:]), box, LINE)

    def begin(self, origin: str, tile: Tile, readers: Readers) -> list[str]:
        return [f"const int pixel = {origin};"]

    def loads(self, tile: Tile, of: str, to: str, batch: str, readers: Readers) -> list[str]:
        *pixels, image = _names(self.rank)
        out, own = [], readers.share(tile.part(readers.count))
        first = f" + {batch} * {self.first}" if self.first else ""
        for at, row, _ in tile.boxes():
            places = [*(f"at_{x} + by_{x}" for x in pixels), f"channel{first}{own}", f"at_{image}"]
            copied = tile.load(of, to, at, places, readers)
            out += ["{", *("    " + x for x in (*self.places(f"(pixel + {row})" if row else "pixel"), copied)), "}"]
        return out


def _names(rank: int) -> tuple[str, ...]:
    """Names of the dimensions but channels: those of pixels, and images."""
    return (*"xyz"[: rank - 2], "image")


def tiled(s: Source) -> bool:
    """Whether rows and k each have one stride, from an operand's first element on."""
    return s.is_packed or (not s.widened and s.strides is not None and not s.plain.where.const)


@lru_cache(maxsize=256)
def window(s: Source) -> Window | None:
    """The window of an operand's rows; ``None`` where a tiled tensor map describes the operand, or no window does."""
    c, rows = s.c, s.group
    if tiled(s) or s.widened or s.plain.others or not c.k.axes:
        return None
    *taps, channel = c.k.axes
    indices, sizes = _indices(s), list(s.plain.tensor.shape)
    if indices and not _image(indices[0], rows):  # a single image without a dimension of its own
        indices, sizes = [Linear(), *indices], [1, *sizes]
    if not indices or len(sizes) not in REACH or not _image(indices[0], rows):
        return None
    if s.contiguous == "row":  # channels stand behind the images
        indices, sizes = ([x[0], *x[2:], x[1]] for x in (indices, sizes))
    image, *between, last = indices
    first = {a: n for a, n in last.axes.items() if a != channel}
    # Batches (groups of a convolution) have channels of their own.
    if last.of(channel) != 1 or last.const or first.keys() - set(c.batch.axes) or len(c.batch.axes) > 1:
        return None
    ways = [_way(index, rows, taps, c.stage.ranges) for index in between]
    if None in ways:
        return None
    moves = [w for w in reversed(ways) if w is not None]
    outwards = [*(w.axis for w in moves if w.axis), *image.axes]
    if outwards != [a for a, n in reversed(list(zip(rows.axes, rows.extents, strict=True))) if n > 1]:
        return None
    sizes.reverse()
    if s.contiguous == "row":
        moves, sizes = _joined(moves, sizes)
    walk = Walk(
        tuple(w.first for w in moves),
        tuple(w.first + (w.count - 1) * w.step - (size - 1) for w, size in zip(moves, sizes[1:-1], strict=True)),
        tuple(w.step for w in moves),
    )
    if not walk.possible(sizes) or any(w.farthest >= 2 * REACH[len(sizes)] for w in moves):
        return None
    images = max((c.stage.ranges[a] for a in image.axes), default=1)
    made = (
        tuple(sizes), (*(w.count for w in moves), images), walk, tuple(w.offset for w in moves), c.group(taps),
        c.stage.ranges[channel], max(first.values(), default=0),
    )  # fmt: skip
    if s.contiguous == "k":
        return Window(*made)
    planes = Planes(*made)
    return planes if planes.fits(s.item) else None


def _indices(s: Source) -> list[Linear] | None:
    """The linear indices of an operand's read; ``None`` where its guard tests more than the edges of its tensor."""
    [read] = s.value.loads()
    found = [affine(i) for i in read.args]
    dims = [d for d in found if d is not None]
    bounds = [] if s.plain.guard is None else IndexForms().bounds(s.plain.guard)
    if len(dims) != len(found) or bounds is None:
        return None
    edges = [e for d, n in zip(dims, s.plain.tensor.shape, strict=True) for e in (d, Linear(n - 1).plus(d, -1))]
    return dims if all(b in edges for b in bounds) else None


def _image(index: Linear, rows: Group) -> bool:
    """Whether an index selects an image: it is an axis of the rows, or always 0."""
    return not index.const and (not index.coef or [(a in rows.axes, n) for a, n in index.coef.items()] == [(True, 1)])


@dataclass(frozen=True)
class _Way:
    """How a window moves along a dimension: the axis of the rows, if any, the first position, and the offsets of the
    taps."""

    axis: str
    count: int
    step: int
    first: int
    offset: Linear
    farthest: int  # largest offset of a tap

    def whole(self, size: int) -> bool:
        """Whether the window is a single pixel that visits the complete dimension."""
        return self == _Way(self.axis, size, 1, 0, Linear(), 0)


def _joined(moves: list[_Way], sizes: list[int]) -> tuple[list[_Way], list[int]]:
    """``moves`` and ``sizes`` with the innermost dimensions fused, as far as the window is a single pixel in them."""
    (way, *ways), (channels, size, *more) = moves, sizes
    while ways and way.whole(size) and ways[0].whole(more[0]):
        ways, size = ways[1:], size * more.pop(0)
        way = replace(way, count=size)
    return [way, *ways], [channels, size, *more]


def _way(index: Linear, rows: Group, taps: Sequence[str], ranges: Mapping[str, int]) -> _Way | None:
    own = [a for a in index.axes if a in rows.axes]
    if len(own) > 1 or index.coef.keys() - {*own, *taps}:
        return None
    axis = own[0] if own else ""
    offset = index.without(axis).plus(-index.const)
    ends = [n * (ranges[a] - 1) for a, n in offset.axes.items()]
    least, most = sum(min(0, x) for x in ends), sum(max(0, x) for x in ends)
    return _Way(
        axis, ranges.get(axis, 1), index.of(axis) or 1, index.const + least, offset.plus(-least), most - least
    )  # fmt: skip


# a product with a windowed operand


@dataclass(frozen=True)
class Depth:
    """The k axis of a product as tiles take it. ``line``: elements of 128 bytes. ``window``: of the windowed operand.

    ``read_bytes``: bytes of both operands that are read from memory once; windows share pixels.
    """

    k: int
    line: int
    window: Window | None
    read_bytes: int

    @property
    def options(self) -> tuple[int, ...]:
        """Depths of a tile in elements: whole lines. Each tap's channels are filled up to whole lines."""
        w, line = self.window, self.line
        several = self.k > line if w is None else ceildiv(w.channels, line) % 2 == 0
        return (line, 2 * line) if several else (line,)

    def steps(self, bk: int) -> int:
        """Number of tiles along k. Where an operand is windowed, each tap has tiles of its own."""
        w = self.window
        return ceildiv(self.k, bk) if w is None else w.taps.size * ceildiv(w.channels, bk)

    def multiplied(self, bk: int) -> int:
        """Elements of k that a tile multiplies. Where a tile holds one tap, its zero filling is left out."""
        each = self.line * STEP_BYTES // LINE
        return bk if self.window is None else min(bk, ceildiv(self.window.channels, each) * each)

    @property
    def padded(self) -> tuple[int, int] | None:
        """Number of taps and of channels of a tap, where taps are filled up with zeros; else ``None``."""
        w = self.window
        return (w.taps.size, w.channels) if w is not None and w.channels % self.line else None


@lru_cache(maxsize=256)
def depth(p: Product) -> Depth:
    """The k axis of a product."""
    bytes_of = [
        s.item * (p.batch * s.group.size * p.k if window(s) is None else s.plain.tensor.size) for s in (p.a, p.b)
    ]
    return Depth(p.k, LINE // p.instruction.item, window(p.a) or window(p.b), sum(bytes_of))


def refuses(p: Product) -> str:
    """Why TMA cannot copy the windows; empty where it can, and where no operand is windowed."""
    k, both = depth(p), [w for w in (window(p.a), window(p.b)) if w is not None]
    if not both:
        return ""
    [w, *more] = both
    if more:
        return "has windows on both sides"
    if w.ragged(p.instruction.item):
        return f"has pixels that are not a whole number of {CHUNK} bytes"
    if 2 * w.channels < k.line:  # most of a copy would be zeros, and the cost estimate assumes single copies
        return f"has {w.channels} channels, of {k.line} that are copied at once"
    if k.padded and p.batch > 1:
        return "has groups of channels that do not fill copies"
    return ""
