"""C++ that hands a warp's accumulators to the epilogue: directly from fragments, or through shared memory.

A fragment holds two neighbours along n in each of two rows. 16-bit outputs stored directly from fragments fill half of
each 32-byte sector. Rows that pass through shared memory are stored in packs of 16 bytes.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.templates.cuda import sorting
from tilewright.kernels.templates.cuda_mma.geometry import STAGING_GAP, STAGING_RUN, MmaTiling
from tilewright.kernels.templates.cuda_mma.instruction import COLUMNS, ROWS


def direct(acc: str, mi: int, eights: int, first: str, second: str, call: str) -> list[str]:
    """Statements that store accumulators directly from fragments.

    ``first``, ``second``: subscripts within ``acc[i]`` of a pair's two elements.
    """
    mapping = {"acc": acc, "mi": mi, "ni": eights, "first": first, "second": second, "call": call}
    return substituted(DIRECT, mapping)


def _call(p: MmaTiling, m: str, n: str) -> str:
    return p.results[1].call(v="v", batch=p.batch, m=sorting.row(p.p.c, m), n=n) + ";"


DIRECT = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $ni; j++) {
        TW_UNROLL
        for (int h = 0; h < 2; h++) {
            const $acc v[2] = {acc[i]$first, acc[i]$second};
            $call
        }
    }
}"""

# 16 rows pass through a warp's staging buffer at a time; a lane stores packs of ``v`` elements.
THROUGH_SHARED = """\
tw::sync();  // the ring is free
$acc *strip = ($acc *)smem$warp;
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $ni; j++) {
        TW_UNROLL
        for (int h = 0; h < 2; h++) {
            tw::pack<$acc, 2> two;
            two.v[0] = acc[i][j][2 * h]; two.v[1] = acc[i][j][2 * h + 1];
            tw::store_shared(strip + ((h * 8 + lane / 4) * $strip + j * 8 + lane % 4 * 2$gaps_j), two);
        }
    }
    tw::sync_warp();
    $packs{
        const int $place;
$if four:        const tw::pack<$acc, 4> four = tw::load_shared<tw::pack<$acc, 4>>(strip + r * $strip$column$gaps);
$if four:        const $acc v[4] = {four.v[0], four.v[1], four.v[2], four.v[3]};
$unless four:        $acc v[$v];
$unless four:        TW_UNROLL
$unless four:        for (int q = 0; q < $v; q += 4) {
$unless four:            const tw::pack<$acc, 4> four = \
tw::load_shared<tw::pack<$acc, 4>>(strip + r * $strip$column$gaps + q);
$unless four:            TW_UNROLL
$unless four:            for (int g = 0; g < 4; g++) v[q + g] = four.v[g];
$unless four:        }
        $call
    }
$if again:    tw::sync_warp();
}"""


def store(p: MmaTiling) -> list[str]:
    """Statements that store a block's accumulators."""
    acc, v, m, n = p.instruction.acc, p.width, f"m0 + {p.warp_at('a')}i * 16 + ", f"n0 + {p.warp_at('b')}"
    if not p.store_shared:
        call = _call(p, f"{m}h * 8 + lane / 4", f"{n}j * 8 + lane % 4 * 2")
        return direct(acc, p.mi, p.ni, "[j][2 * h]", "[j][2 * h + 1]", call)
    per_row, gaps = p.wn // v, p.wn > STAGING_RUN
    packs = ROWS * per_row
    e = "e" if packs > 32 else "lane"
    columns = f"c = {e} % {per_row} * {v}" if per_row > 1 else ""
    loop = f"for (int e = lane; e < {packs}; e += 32) "
    return substituted(THROUGH_SHARED, {
        "mi": p.mi, "ni": p.ni, "acc": acc, "v": v, "four": v == 4, "again": p.mi > 1, "strip": p.staging_pitch,
        "warp": f" + warp * {ROWS * p.staging_pitch}" if p.threads > 32 else "",
        "gaps_j": f" + j / {STAGING_RUN // COLUMNS} * {STAGING_GAP}" if gaps else "",
        "gaps": f" + c / {STAGING_RUN} * {STAGING_GAP}" if gaps else "",
        "packs": loop if packs > 32 else f"if (lane < {packs}) " if packs < 32 else "",
        "place": f"r = {e} / {per_row}, {columns}" if columns else f"r = {e}", "column": " + c" if columns else "",
        "call": _call(p, f"{m}r", f"{n}c" if columns else n.removesuffix(" + ")),
    })  # fmt: skip
