"""C++ that hands a warp group's accumulators to the epilogue: from registers, or through boxes in shared memory.

A thread holds two adjacent results along n in each of two rows. Stored as they are, 16-bit pairs fill half of each
32-byte sector. So two threads exchange pairs where four adjacent results are contiguous. Boxes of 64 rows in shared
memory are stored as a whole, while the group goes on.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.primitives.wgmma import ROWS
from tilewright.kernels.templates.cuda import sorting
from tilewright.kernels.templates.cuda.epilogue import Epilogue
from tilewright.kernels.templates.cuda.warpgroups import WARPS
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_mma.store import direct
from tilewright.kernels.templates.cuda_wgmma.geometry import FOUR, WgmmaTiling

# Two threads exchange pairs: each gives its pair of one group of eight columns for the other thread's pair of the next
# group of eight.
BY_FOURS = """\
const bool odd = lane % 2;
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $eights; j += 2) {
        TW_UNROLL
        for (int h = 0; h < 2; h++) {
            // Values: a choice between elements would be one of addresses, for which accumulators had to have some.
            const $acc a0 = acc[i][4 * j + 2 * h], a1 = acc[i][4 * j + 2 * h + 1];
            const $acc b0 = acc[i][4 * j + 4 + 2 * h], b1 = acc[i][4 * j + 5 + 2 * h];
            const $acc c0 = tw::shuffle_xor(odd ? +a0 : +b0, 1), c1 = tw::shuffle_xor(odd ? +a1 : +b1, 1);
            const $acc v[4] = {odd ? +c0 : +a0, odd ? +c1 : +a1, odd ? +b0 : +c0, odd ? +b1 : +c1};
            $call
        }
    }
}"""

# Writes the finished values of box ``s`` to shared memory, two at a time.
FILLED = """\
        TW_UNROLL
        for (int j = 0; j < $eights; j++) {
            TW_UNROLL
            for (int h = 0; h < 2; h++) {
                const int r = warp * 16 + h * 8 + lane / 4, c = j * 8 + lane % 4 * 2, e = (s * $eights + j) * 4 + 2 * h;
                $places
                tw::pack<$out, 2> two = {};
                $if_inside{
                    two.v[0] = $finish_0;
                    two.v[1] = $finish_1;
                }
                const int at = r * $row + c * $item;
                tw::store_shared(boxes + place * $box_bytes + $moved, two);
            }
        }
"""

# A warp's 16 rows pass through its part of a box. Adjacent lanes store a row, wherever the row lies in the output.
BY_ROWS = (
    """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    const int *const rows = order + ($first + warp * 16);
    int to[$rounds];
    TW_UNROLL
    for (int q = 0; q < $rounds; q++) to[q] = tw::load_written<int>(rows + (q * 32 + lane) / $lanes);
    TW_UNROLL
    for (int s = 0; s < $boxes; s++) {
"""
    + FILLED
    + """\
        tw::sync_warp();
        const int n = n0 + s * $columns + lane % $lanes * $each;
        TW_UNROLL
        for (int q = 0; q < $rounds; q++) {
            const int m = to[q], at = (warp * 16 + (q * 32 + lane) / $lanes) * $row + lane % $lanes * 16;
            const auto piece = tw::load_shared<tw::pack<tw::u32, 4>>(boxes + place * $box_bytes + $moved);
            if ($exists) tw::store_global(out + ($offset), piece);
        }
        place ^= 1;
    }
}"""
)

# Two boxes alternate: one is filled while TMA stores the other one.
BY_ENGINE = (
    """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int s = 0; s < $boxes; s++) {
        if (tid % 128 == 0) tw::tma_wait<1>();
        tw::sync_some<128>(1 + group);
"""
    + FILLED
    + """\
        tw::shared_fence();
        tw::sync_some<128>(1 + group);
        if (tid % 128 == 0) {
            tw::tma_store_${rank}d(map_out, boxes_at + place * $box_bytes, n0 + s * $columns, \
$first$batch);
            tw::tma_commit();
        }
        place ^= 1;
    }
}"""
)


def store(p: WgmmaTiling) -> list[str]:
    """Statements that store a group's accumulators."""
    batch = "batch" if p.p.batch > 1 else "0"
    first = p.row("i")
    if p.box is None:
        fours = p.adjacent == FOUR
        call = p.results[1].call(
            v="v", batch=batch, m=sorting.row(p.p.c, f"{first} + warp * 16 + h * 8 + lane / 4"),
            n="n0 + (j + odd) * 8 + lane % 4 / 2 * 4" if fours else "n0 + j * 8 + lane % 4 * 2",
        )  # fmt: skip
        if not fours:
            return direct(p.instruction.acc, p.mi, p.bn // 8, "[4 * j + 2 * h]", "[4 * j + 2 * h + 1]", call + ";")
        return substituted(BY_FOURS, {"mi": p.mi, "eights": p.bn // 8, "acc": p.instruction.acc, "call": call + ";"})
    e, box, by_rows = Epilogue(p.p.c), p.box, p.store is None
    # The epilogue may read inputs at the element's index, which is out of bounds at the edges of the output.
    reads = [x for x in ("m", "n") if x in e.finished.taken]
    inside = [f"{x} < {size}" for x, size in (("m", p.p.m), ("n", p.p.n)) if x in p.edges and x in reads]
    places = {"m": sorting.row(p.p.c, f"{first} + r"), "n": f"n0 + s * {box.columns} + c"}
    one, two = (
        e.finished.call(v=f"acc[i][e{more}]", batch=batch, m="m", n=f"n{more}") for more in ("", " + 1")
    )  # fmt: skip
    swizzle = box.swizzle // 16 - 1
    exists = ["m < " + str(p.p.m), *([f"n < {p.p.n}"] if "n" in p.edges else [])]
    return substituted(BY_ROWS if by_rows else BY_ENGINE, {
        "mi": p.mi, "boxes": p.bn // box.columns, "eights": box.columns // 8, "columns": box.columns, "out": e.out,
        "if_inside": f"if ({' && '.join(inside)}) " if inside else "", "finish_0": one, "finish_1": two,
        "row": box.row, "item": box.item, "box_bytes": box.bytes, "rank": box.rank,
        "places": [f"const int {x} = {places[x]};" for x in reads],
        "moved": f"(at ^ ((at >> 7 & {swizzle}) << 4))" if box.swizzle else "at",
        "batch": ", batch" if box.rank == 3 else "", "first": first, "lanes": box.row // CHUNK,
        "rounds": ROWS // WARPS * box.row // CHUNK // 32, "each": CHUNK // box.item, "exists": " && ".join(exists),
        "offset": e.offset(batch, "m", "n"),
    })  # fmt: skip
