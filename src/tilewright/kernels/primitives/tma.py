"""TMA copies of boxes of a tensor: to shared memory, counted by an mbarrier, and back, in groups.

A tensor map describes the tensor, the box and the swizzle pattern of its bytes. It is a parameter of the kernel:
``TW_TENSOR_MAP(name)`` in its list (PTX ISA, "Tensor"; CUDA Driver API, ``cuTensorMapEncodeTiled``).
"""

from __future__ import annotations

import numpy as np

from tilewright.core import tensor_map
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

LOADED = (2, 3, 4, 5)
"""Ranks of tensors whose boxes are loaded."""


def load_ptx(name: str, rank: int, *, multicast: bool = False, im2col: bool = False) -> str:
    """The PTX wrapper of a copy to shared memory.

    ``multicast``: to several blocks of a cluster. ``im2col``: in im2col mode, of a window's pixels, moved by offsets.
    """
    places, offsets, taken = _taken(rank, multicast, im2col)
    first = 4 if multicast else 3
    at = ", ".join(f"%{first + i}" for i in range(rank))
    moved = ", ".join(f"%{first + rank + i}" for i in range(len(offsets)))
    given = ", ".join([*(f'"r"({x})' for x in places), *(f'"h"({x})' for x in offsets)])
    mode, others = (".im2col", f", {{{moved}}}") if im2col else ("", "")
    more, last, held = (".multicast::cluster", ", %3", '"h"(mask), ') if multicast else ("", "", "")
    line = "\n        " if im2col else " "
    return f"""
TW_DEVICE void {name}_{rank}d({taken}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes{more} "
        "[%0], [%1, {{{at}}}], [%2]{others}{last};"{line}:: "r"(to), "l"(&map), "r"(barrier), {held}{given} : "memory");
}}"""


def load_emulated(name: str, rank: int, *, multicast: bool = False, im2col: bool = False) -> str:
    """The emulation of :func:`load_ptx`."""
    places, offsets, taken = _taken(rank, multicast, im2col)
    function, given = ("multicast_box", " mask,") if multicast else ("copy_box", "")
    offset = f"    const u16 offset[{len(offsets)}] = {{{', '.join(offsets)}}};\n" if im2col else ""
    return f"""
TW_DEVICE void {name}_{rank}d(
    {taken}, int line = __builtin_LINE()) {{
    const int place[{rank}] = {{{", ".join(places)}}};
{offset}    emu::{function}(to, &map, barrier, place, {rank},{given} line{", offset" if im2col else ""});
}}"""


def _taken(rank: int, multicast: bool, im2col: bool) -> tuple[list[str], list[str], str]:
    """Names of a copy's coordinates and offsets, and the text of all its parameters."""
    places, offsets = [f"c{i}" for i in range(rank)], [f"o{i}" for i in range(rank - 2)] if im2col else []
    mask = ["u16 mask"] if multicast else []
    numbers = [*(f"int {x}" for x in places), *(f"u16 {x}" for x in offsets)]
    return places, offsets, ", ".join(["u32 to", "const tensor_map &map", "u32 barrier", *mask, *numbers])


def _ptx_store(rank: int) -> str:
    names = [f"c{i}" for i in range(rank)]
    holes = ", ".join(f"%{2 + i}" for i in range(rank))
    given = ", ".join(f'"r"({n})' for n in names)
    return f"""
TW_DEVICE void tma_store_{rank}d(const tensor_map &map, u32 from, {", ".join(f"int {n}" for n in names)}) {{
    asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{holes}}}], [%1];"
        :: "l"(&map), "r"(from), {given} : "memory");
}}"""


_PTX = (
    """
struct alignas(64) tensor_map { u64 words[16]; };
TW_DEVICE void tma_prefetch(const tensor_map &map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}"""
    + "".join(load_ptx("tma_load", rank) for rank in LOADED)
    + _ptx_store(2)
    + _ptx_store(3)
    + """
TW_DEVICE void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int PENDING> TW_DEVICE void tma_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}
TW_DEVICE void shared_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
"""
)


_EMULATED = """
typedef emu::TensorMap tensor_map;
TW_DEVICE void tma_prefetch(const tensor_map &) {}
TW_DEVICE void tma_store_2d(const tensor_map &map, u32 from, int c0, int c1, int line = __builtin_LINE()) {
    const int place[2] = {c0, c1};
    emu::store_box(&map, from, place, 2, line);
}
TW_DEVICE void tma_store_3d(const tensor_map &map, u32 from, int c0, int c1, int c2, int line = __builtin_LINE()) {
    const int place[3] = {c0, c1, c2};
    emu::store_box(&map, from, place, 3, line);
}
TW_DEVICE void tma_commit(int line = __builtin_LINE()) { emu::box_commit(line); }
template <int PENDING> TW_DEVICE void tma_wait(int line = __builtin_LINE()) { emu::await_boxes(PENDING, line); }
TW_DEVICE void shared_fence(int line = __builtin_LINE()) { emu::shared_fence(line); }
""" + "".join(load_emulated("tma_load", rank) for rank in LOADED)

_COPIED = """
    TW_SHARED(smem);
    const tw::u32 raw = tw::shared_address(smem), base = (raw + 1023) & ~1023u, barrier = base + {bytes};
    const int t = threadIdx.x{rank}{places};
    if (t == 0) {
        tw::mbarrier_init(barrier, 1);
        tw::mbarrier_fence();
    }
    {meet}
    if (t == 0) {{copies}    }
    tw::mbarrier_wait(barrier, 0);
    for (int i = t; i < {words}; i += 32) out[{at}] = tw::load_shared<tw::u32>(smem + (base - raw) + 4 * i);
"""


def copying_kernel(size: int, copies: str, cluster: bool = False, places: str = "") -> str:
    """A kernel whose ``copies`` bring ``size`` bytes to shared memory, and which stores all of the bytes.

    ``cluster``: blocks of a cluster copy for each other. ``places``: further declarations, of a block's place by its
    rank.
    """
    meet = "tw::cluster_arrive();\n    tw::cluster_wait();" if cluster else "tw::sync();"
    holes = {
        "bytes": str(size), "words": str(size // 4), "meet": meet, "places": places,
        "rank": ", rank = (int)tw::cluster_rank()" if cluster else "",
        "at": f"{size // 4} * rank + i" if cluster else "i", "copies": copies,
    }  # fmt: skip
    body = _COPIED + (f"    {meet}\n" if cluster else "")
    for name, text in holes.items():
        body = body.replace(f"{{{name}}}", text)
    return body


# Two boxes: the first one reaches over one edge of the matrix, and the second one over two edges.
_BOXES = copying_kernel(
    4096,
    """
        tw::tma_prefetch(map0);
        tw::mbarrier_expect(barrier, 4096);
        tw::tma_load_2d(base, map0, barrier, 0, 3);
        tw::tma_load_2d(base + 2048, map0, barrier, 20, -5);
""",
)

_BATCHED = copying_kernel(
    2048,
    """
        tw::mbarrier_expect(barrier, 2048);
        tw::tma_load_{rank}d(base, map0, barrier, 4, 2, 1{more});
""",
)


# Boxes of a matrix that reach over its lower and its right edge. A stored box may not begin before the matrix: that is
# an illegal instruction on an H200, although loaded boxes may.
_STORED = """
    TW_SHARED(smem);
    const tw::u32 raw = tw::shared_address(smem), base = (raw + 1023) & ~1023u;
    const int t = threadIdx.x;
    for (int i = t; i < 576; i += 32) out[i] = 7u;
    tw::threadfence();
    for (int b = 0; b < 2; b++)
        for (int i = t; i < 512; i += 32) {
            const int at = 4 * i;
            tw::store_shared(smem + (base - raw) + 2048 * b + (at ^ ((at >> 7 & 7) << 4)), x0[512 * b + i]);
        }
    tw::shared_fence();
    tw::sync();
    if (t == 0) {
        tw::tma_store_{rank}(map0, base, {first});
        tw::tma_commit();
        tw::tma_store_{rank}(map0, base + 2048, {second});
        tw::tma_commit();
        tw::tma_wait<1>();
        tw::tma_wait<0>();
    }
"""


def _stored_by(rank: str, more: str) -> str:
    text = _STORED.replace("{rank}", rank)
    return text.replace("{first}", f"0, 12{more}").replace("{second}", f"32, 0{more}")


def _stored(x: Array) -> Array:
    out = np.full((16, 36), 7, np.uint32)
    out[12:, :32] = x[:512].reshape(16, 32)[:4]
    out[:, 32:] = x[512:].reshape(16, 32)[:, :4]
    return out.reshape(-1)


def box(x: Array, row: int, column: int, rows: int, columns: int) -> Array:
    """A box of a matrix, with zeros outside of the matrix."""
    out = np.zeros((rows, columns), x.dtype)
    for i in range(rows):
        for j in range(columns):
            if 0 <= row + i < x.shape[0] and 0 <= column + j < x.shape[1]:
                out[i, j] = x[row + i, column + j]
    return out


def swizzled(rows: Array) -> Array:
    """Rows of 128 bytes (32 words), with 16-byte chunks permuted by the row's number."""
    moved = np.arange(8)[None, :] ^ (np.arange(len(rows)) % 8)[:, None]
    return np.take_along_axis(rows.reshape(-1, 8, 4), moved[:, :, None], 1).reshape(-1)


def _boxes(x: Array) -> Array:
    matrix = x.reshape(16, 36)
    return np.concatenate([swizzled(box(matrix, row, column, 16, 32)) for row, column in ((3, 0), (-5, 20))])


def _batched(x: Array) -> Array:
    return box(x.reshape(-1, 3, 16, 36)[-1, 1], 2, 4, 16, 32).reshape(-1)


def _of_batches(name: str, rank: int) -> Conformance:
    """A case that loads a box of the last of several batches, along dimensions behind the matrix's two."""
    sizes, strides, more = (36, 16, 3, 2, 2)[:rank], (144, 2304, 6912, 13824)[: rank - 1], ", 1" * (rank - 3)
    body = _BATCHED.replace("{rank}", str(rank)).replace("{more}", more)
    made = tensor_map(("tensor", 0), 4, sizes, strides, (32, 16, 1, 1, 1)[:rank], 0)
    count = strides[-1] // 4 * sizes[-1]
    return Conformance(
        name, body, lambda: (words(count, 52),), "uint32", 512, _batched, shared=2048 + 1024 + 8, maps=(made,)
    )


PRIMITIVE = Primitive(
    "tma",
    "TMA copies of boxes of a tensor to and from shared memory; elements out of bounds are zero, or not written",
    90,
    _PTX,
    _EMULATED,
    (
        "tma_prefetch", *(f"tma_load_{rank}d" for rank in LOADED), "tma_store_2d", "tma_store_3d", "tma_commit",
        "tma_wait", "shared_fence",
    ),
    (
        Conformance(
            "boxes", _BOXES, lambda: (words(576, 51),), "uint32", 1024, _boxes, shared=4096 + 1024 + 8,
            maps=(tensor_map(("tensor", 0), 4, (36, 16), (144,), (32, 16), 128),),
        ),
        _of_batches("batched", 3), _of_batches("batched_twice", 4), _of_batches("batched_thrice", 5),
        Conformance(
            "stored", _stored_by("2d", ""), lambda: (words(1024, 54),), "uint32", 576, _stored,
            shared=4096 + 1024, maps=(tensor_map(("tensor", 1), 4, (36, 16), (144,), (32, 16), 128),),
        ),
        Conformance(
            "stored_batched", _stored_by("3d", ", 0"), lambda: (words(1024, 54),), "uint32", 576,
            _stored, shared=4096 + 1024,
            maps=(tensor_map(("tensor", 1), 4, (36, 16, 1), (144, 2304), (32, 16, 1), 128),),
        ),
    ),
)  # fmt: skip
