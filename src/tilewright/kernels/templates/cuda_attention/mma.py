"""The kernel for ``mma.sync``: warps multiply, all threads copy tiles.

A warp holds tiles of 16 queries. For each block of keys it computes the QK product, then scores and weights
(``softmax``), then the PV product.

A ring of two or three slots is filled one or two blocks ahead. With a single slot, the next keys are copied behind the
QK product, and a block's values during it. This halves shared memory and costs one more barrier.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.templates.cuda_attention import softmax
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ROWS, AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import Body, copied, next_block

BODY = """\
const tw::u32 sq = tw::shared_address(smem), ring = sq + $q_bytes;
const tw::u32 at_q = sq + (warp * $q_warp + (lane % 16) * $q_pitch + lane / 16 * 8) * 2;
const tw::u32 at_k = ring + ((lane % 8 + lane / 16 * 8) * $k_pitch + lane / 8 % 2 * 8) * 2, \
at_v = ring + $k_bytes + ((lane % 16) * $v_pitch + lane / 16 * 8) * 2;
// Block t of the keys, or of their values, to a slot of the ring, which is named by its distance from the first.
const auto copy_keys = [&](tw::u32 slot, int t) {
    $copy_keys
};
const auto copy_values = [&](tw::u32 slot, int t) {
    $copy_values
};
$next
$queries
tw::cp_commit();
int now = next($start);
$if alone:const tw::u32 slot = 0;
$if alone:if (now < $end) copy_keys(slot, now);
$if alone:tw::cp_commit();
$unless alone:int ahead = now;
$unless alone:tw::u32 slot = 0, free = 0;
$unless alone:TW_UNROLL
$unless alone:for (; free < $last_slot; free += $stage_bytes) {
$unless alone:    if (ahead < $end) copy_keys(free, ahead), copy_values(free, ahead);
$unless alone:    tw::cp_commit();
$unless alone:    ahead = next(ahead + 1);
$unless alone:}
$initial
$if q_registers:tw::cp_wait<$groups>();
$if q_registers:tw::sync();
$if q_registers:tw::u32 fq[$tiles][$steps][4];
$if q_registers:TW_UNROLL
$if q_registers:for (int m = 0; m < $tiles; m++)
$if q_registers:    TW_UNROLL
$if q_registers:    for (int d = 0; d < $steps; d++)
$if q_registers:        tw::ldmatrix_x4(fq[m][d], at_q + (m * $q_tile + d * 16) * 2);
while (now < $end) {
    tw::cp_wait<$older>();
    tw::sync();
$if alone:    copy_values(slot, now);
$unless alone:    if (ahead < $end) copy_keys(free, ahead), copy_values(free, ahead);
    tw::cp_commit();
$unless alone:    ahead = next(ahead + 1);
    const int j0 = now * $block_k;
    float s[$tiles][$scored][4];
    TW_UNROLL
    for (int m = 0; m < $tiles; m++)
        TW_UNROLL
        for (int n = 0; n < $scored; n++)
            s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
    TW_UNROLL
    for (int d = 0; d < $steps; d++)
    {
$unless q_registers:        tw::u32 fq[$tiles][1][4];
$unless q_registers:        TW_UNROLL
$unless q_registers:        for (int m = 0; m < $tiles; m++)
$unless q_registers:            tw::ldmatrix_x4(fq[m][0], at_q + (m * $q_tile + d * 16) * 2);
        TW_UNROLL
        for (int n = 0; n < $scored_pairs; n++)
        {
            tw::u32 r[4];
            tw::ldmatrix_x4(r, at_k + slot + (n * $k_tile + d * 16) * 2);
            const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
            TW_UNROLL
            for (int m = 0; m < $tiles; m++)
            {
                tw::mma_$t(s[m][2 * n], fq[m][$step], first);
                tw::mma_$t(s[m][2 * n + 1], fq[m][$step], second);
            }
        }
    }
$if alone:    tw::cp_wait<0>();
$if alone:    tw::sync();
$if alone:    now = next(now + 1);
$if alone:    if (now < $end) copy_keys(slot, now);
$if alone:    tw::cp_commit();
    $scores
    $most
    TW_UNROLL
    for (int k = 0; k < $key_steps; k++)
    {
        tw::u32 high[$tiles][4];
$if kept:        tw::u32 low[$tiles][4];
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int w = 0; w < 4; w++)
            {
                const int n = 2 * k + w / 2, h = w % 2;
                const float a = tw::exp2_approx(power(s[m][n][2 * h], shift[m][h]));
                const float b = tw::exp2_approx(power(s[m][n][2 * h + 1], shift[m][h]));
                sum[m][h] += a;
                sum[m][h] += b;
$if rounded:                high[m][w] = tw::pack_$t(a, b);
$if kept:                parts(high[m][w], low[m][w], a, b);
            }
        TW_UNROLL
        for (int n = 0; n < $result_pairs; n++)
        {
            tw::u32 r[4];
            tw::ldmatrix_x4_trans(r, at_v + slot + (k * $v_tile + n * 16) * 2);
            const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
            TW_UNROLL
            for (int m = 0; m < $tiles; m++)
            {
                tw::mma_$t(o[m][2 * n], high[m], first);
                tw::mma_$t(o[m][2 * n + 1], high[m], second);
$if kept:                tw::mma_$t(o[m][2 * n], low[m], first);
$if kept:                tw::mma_$t(o[m][2 * n + 1], low[m], second);
            }
        }
    }
$unless alone:    free = slot;
$unless alone:    slot = $following;
$unless alone:    now = next(now + 1);
}
tw::cp_wait<0>();
$store"""


def body(p: AttentionTiling) -> Body:
    """The kernel's statements behind the declarations of a block's place."""
    scored, ahead = p.block_k // COLUMNS, p.stages - 1
    last_slot, used = ahead * p.stage_bytes, set[str]()
    mapping = {
        **softmax.statements(p, f"(warp * {p.tiles} + m)", used), **softmax.powers(p), "rounded": p.one_rounding,
        "kept": not p.one_rounding, "t": softmax.short(p),
        "q_bytes": p.memory.at("ring"), "k_bytes": p.bytes("k"), "stage_bytes": p.stage_bytes, "last_slot": last_slot,
        "following": f"{last_slot} - slot" if ahead == 1 else f"slot == {last_slot} ? 0 : slot + {p.stage_bytes}",
        "q_pitch": p.pitch("q"), "k_pitch": p.pitch("k"), "v_pitch": p.pitch("v"),
        "q_warp": ROWS * p.tiles * p.pitch("q"), "q_tile": ROWS * p.pitch("q"), "k_tile": 2 * COLUMNS * p.pitch("k"),
        "v_tile": DEPTH * p.pitch("v"),
        "copy_keys": copied(p, "k", "ring + slot", f"t * {p.block_k}", used),
        "copy_values": copied(p, "v", f"ring + slot + {p.bytes('k')}", f"t * {p.block_k}", used),
        "next": next_block(p, used), "queries": copied(p, "q", "sq", "i0", used),
        "alone": p.stages == 1, "groups": max(1, ahead), "older": max(1, ahead) - 1,
        "start": p.start, "end": p.end, "block_k": p.block_k, "key_steps": p.block_k // DEPTH,
        "tiles": p.tiles, "scored": scored, "scored_pairs": scored // 2, "result_pairs": p.width // DEPTH,
        "steps": p.steps, "q_registers": p.q_registers, "step": "d" if p.q_registers else "0",
    }  # fmt: skip
    return substituted(BODY, mapping), used
