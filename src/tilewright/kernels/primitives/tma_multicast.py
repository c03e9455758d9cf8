"""TMA multicast: copies of boxes to the shared memory of several blocks of a cluster, at one offset in each.

Bit ``r`` of ``mask`` is block ``r`` of the cluster. The mbarrier at that offset in each block counts the bytes that
arrive there. So each block announces its own bytes, whichever block copies.
"""

from __future__ import annotations

import numpy as np

from tilewright.core import tensor_map
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words
from tilewright.kernels.primitives.tma import LOADED, box, copying_kernel, load_emulated, load_ptx, swizzled

# Each of two blocks copies half of a box for both, and one more box for itself, with a mask of one block.
_HALVES = copying_kernel(
    3072,
    """
        tw::mbarrier_expect(barrier, 3072);
        tw::tma_multicast_{rank}(base + rank * 1024, map0, barrier, 3, 4, 1 + 8 * rank{more});
        tw::tma_multicast_{rank}(base + 2048, map0, barrier, (tw::u16)(1 << rank), 0, 10 * rank - 3{more});
""",
    cluster=True,
)


def _rows(matrix: Array, row: int, column: int, rows: int) -> Array:
    return swizzled(box(matrix, row, column, rows, 32))


def _halves(x: Array) -> Array:
    matrix = x.reshape(-1, 16, 36)[-1]
    both = _rows(matrix, 1, 4, 16)
    return np.concatenate([both, _rows(matrix, -3, 0, 8), both, _rows(matrix, 7, 0, 8)])


# Two by two blocks: each copies a box for its row's blocks, and one for its column's blocks, which are every other
# rank.
_SQUARE = copying_kernel(
    4096,
    """
        tw::mbarrier_expect(barrier, 4096);
        tw::tma_multicast_2d(base + column * 1024, map0, barrier, (tw::u16)(3 << row * 2), 4 * row, 8 * column);
        tw::tma_multicast_2d(base + (2 + row) * 1024, map0, barrier, (tw::u16)(5 << column), 4 * column, 8 * row - 3);
""",
    cluster=True,
    places=", row = rank / 2, column = rank % 2",
)


def _square(x: Array) -> Array:
    matrix = x.reshape(16, 36)
    return np.concatenate([
        _rows(matrix, first + 8 * i, 4 * at, 8)
        for row in range(2) for column in range(2) for first, at in ((0, row), (-3, column)) for i in range(2)
    ])  # fmt: skip


def _case(name: str, rank: int, more: str, count: int) -> Conformance:
    sizes, strides = (36, 16, 2, 2, 1)[:rank], (144, 2304, 4608, 9216)[: rank - 1]
    made = tensor_map(("tensor", 0), 4, sizes, strides, (32, 8, 1, 1, 1)[:rank], 128)
    body = _HALVES.replace("{rank}", f"{rank}d").replace("{more}", more)
    return Conformance(
        name, body, lambda: (words(count, 72),), "uint32", 1536, _halves, blocks=2, cluster=2,
        shared=3072 + 1024 + 8, maps=(made,),
    )  # fmt: skip


PRIMITIVE = Primitive(
    "tma_multicast",
    "TMA multicast: copies of boxes of a tensor to the shared memory of several blocks of a cluster",
    90,
    "".join(load_ptx("tma_multicast", rank, multicast=True) for rank in LOADED) + "\n",
    "".join(load_emulated("tma_multicast", rank, multicast=True) for rank in LOADED) + "\n",
    tuple(f"tma_multicast_{rank}d" for rank in LOADED),
    (
        _case("halves", 2, "", 576),
        _case("halves_batched", 3, ", 1", 1152),
        _case("halves_batched_twice", 4, ", 1, 1", 2304),
        _case("halves_batched_thrice", 5, ", 1, 1, 0", 2304),
        Conformance(
            "square",
            _SQUARE,
            lambda: (words(576, 73),),
            "uint32",
            4096,
            _square,
            blocks=4,
            cluster=4,
            shared=4096 + 1024 + 8,
            maps=(tensor_map(("tensor", 0), 4, (36, 16), (144,), (32, 8), 128),),
        ),
    ),
    most_cc=90,  # later GPUs have it at full speed only under their own names (sm_100a, ...)
)
