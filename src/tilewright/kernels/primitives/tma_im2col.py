"""TMA copies in im2col mode: pixels of images under a window, to shared memory.

A tensor map with a :class:`~tilewright.core.Walk` lists the positions of a window's first element. A copy takes some
channels of a number of successive positions, from its start coordinates on. The copy's offsets, of one element of the
window, move every position. Pixels outside an image are zero (PTX ISA, "im2col mode"). Coordinates go from the channel
outwards, offsets from the innermost dimension of pixels.
"""

from __future__ import annotations

import numpy as np

from tilewright.core import Walk, tensor_map
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words
from tilewright.kernels.primitives.tma import copying_kernel, load_emulated, load_ptx, swizzled

_NAMES = (("tma_im2col", False), ("tma_im2col_multicast", True))
_KINDS = [(name, rank, several) for name, several in _NAMES for rank in (3, 4, 5)]


# Two copies of 32 pixels by 32 words; the second one reaches behind the last image.
_PIXELS = copying_kernel(
    8192,
    """
        tw::tma_prefetch(map0);
        tw::mbarrier_expect(barrier, 8192);
        tw::tma_im2col_{rank}d(base, map0, barrier, {first});
        tw::tma_im2col_{rank}d(base + 4096, map0, barrier, {second});
""",
)

# Each of two blocks copies half of the pixels for both.
_HALVES = copying_kernel(
    8192,
    """
        tw::mbarrier_expect(barrier, 8192);
        if (rank == 0) tw::tma_im2col_multicast_{rank}d(base, map0, barrier, 3, {first});
        if (rank == 1) tw::tma_im2col_multicast_{rank}d(base + 4096, map0, barrier, 3, {second});
""",
    cluster=True,
)


def _copied(images: Array, walk: Walk, place: tuple[int, ...], offsets: tuple[int, ...], pixels: int = 32) -> Array:
    """Rows of 32 channels, with 16-byte chunks permuted by the row's number. ``images``: innermost dimension last."""
    sizes = images.shape[::-1]
    rows, at = np.zeros((pixels, 32), images.dtype), list(place)
    for row in rows:
        point = [*(x + o for x, o in zip(at[1:-1], offsets, strict=True)), at[-1]]
        if all(0 <= x < n for x, n in zip(point, sizes[1:], strict=True)):
            found = images[tuple(reversed(point))][place[0] : place[0] + 32]
            row[: len(found)] = found
        for d, (low, up, step) in enumerate(zip(walk.lower, walk.upper, walk.steps, strict=True), 1):
            at[d] += step
            if at[d] <= sizes[d] - 1 + up:
                break
            at[d] = low
        else:
            at[-1] += 1
    return swizzled(rows)


def _case(
    name: str, sizes: tuple[int, ...], walk: Walk, first: tuple[tuple[int, ...], tuple[int, ...]],
    second: tuple[tuple[int, ...], tuple[int, ...]], several: bool = False,
) -> Conformance:  # fmt: skip
    """A case of two copies, each with coordinates and offsets, from images of ``sizes``, channels first."""
    strides = tuple(4 * int(np.prod(sizes[:d])) for d in range(1, len(sizes)))
    holes = {"{rank}": str(len(sizes)), "{first}": "", "{second}": ""}
    for hole, (place, offsets) in (("{first}", first), ("{second}", second)):
        holes[hole] = ", ".join(map(str, (*place, *offsets)))
    body = _HALVES if several else _PIXELS
    for hole, text in holes.items():
        body = body.replace(hole, text)

    def expected(x: Array) -> Array:
        both = np.concatenate([_copied(x.reshape(sizes[::-1]), walk, *one) for one in (first, second)])
        return np.tile(both, 2) if several else both

    blocks = 2 if several else 1
    return Conformance(
        name, body, lambda: (words(int(np.prod(sizes)), 60 + len(sizes)),), "uint32", 2048 * blocks, expected,
        shared=8192 + 1024 + 8, maps=(tensor_map(("tensor", 0), 4, sizes, strides, (32, 32), 128, walk),),
        blocks=blocks, cluster=blocks,
    )  # fmt: skip


_FLAT = Walk((-1, -1), (-1, -1), (1, 1))  # windows of 3 by 3, padded by 1
_APART = Walk((-2, 0), (-1, -2), (2, 3))

PRIMITIVE = Primitive(
    "tma_im2col",
    "TMA copies in im2col mode to the shared memory of one block or several blocks of a cluster",
    90,
    "".join(load_ptx(name, rank, multicast=several, im2col=True) for name, rank, several in _KINDS) + "\n",
    "".join(load_emulated(name, rank, multicast=several, im2col=True) for name, rank, several in _KINDS) + "\n",
    tuple(f"{name}_{rank}d" for name, rank, _ in _KINDS),
    (
        _case("line", (36, 21, 2), Walk((-2,), (-2,), (2,)), ((4, -2, 0), (0,)), ((0, 12, 1), (3,))),
        _case("image", (36, 7, 5, 2), _FLAT, ((0, -1, 1, 0), (0, 0)), ((4, 3, 3, 1), (2, 1))),
        _case("strided", (32, 9, 8, 3), _APART, ((0, 0, 0, 0), (3, 2)), ((0, 4, 3, 1), (1, 0))),
        _case(
            "volume", (32, 3, 4, 5, 1), Walk((-1, -1, 0), (-1, 0, -1), (1, 1, 2)), ((0, -1, 0, 0, 0), (1, 0, 1)),
            ((0, 0, 3, 2, 0), (2, 1, 0)),
        ),
        _case("halves_line", (32, 40, 2), Walk((0,), (-1,), (1,)), ((0, 3, 0), (1,)), ((0, 35, 0), (0,)), True),
        _case("halves", (36, 7, 5, 2), _FLAT, ((0, -1, 1, 0), (0, 2)), ((4, 3, 3, 1), (2, 1)), True),
        _case(
            "halves_volume", (32, 5, 4, 3, 2), Walk((0, -1, 0), (-2, 0, 0), (1, 2, 1)), ((0, 1, 1, 0, 0), (2, 1, 0)),
            ((0, 0, -1, 2, 1), (0, 0, 0)), True,
        ),
    ),
    most_cc=90,  # later GPUs have parts of it at full speed only under their own names (sm_100a, ...)
)  # fmt: skip
