"""The kernel for Tensor Cores: scores and results in fragments, weights handed from one to the other in registers.

A warp holds tiles of 16 queries. For each block of keys it multiplies queries by keys, turns the products into
scores, and scores into weights, beside a running maximum and sum a query (quads of lanes share a row). A score's
accumulators lie as the operand of the second product wants its rows, so the weights never leave the registers.
Weights that the program rounds to the values' type are one operand. Those that it keeps in float32 are split into two
16-bit parts, whose products are added.
"""

from __future__ import annotations

import math

from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ROWS, AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import (
    copied,
    finish,
    indented,
    kernel,
    next_block,
    position,
    scores,
)

LOG2_E = math.log2(math.e)


def source(p: AttentionTiling, symbol: str) -> str:
    """The kernel's text."""
    parts = [] if p.one_rounding else [fill(PARTS, {"t": _short(p)})]
    return kernel(p, symbol, [*parts, finish(p).define().rstrip()], _body(p))


def _short(p: AttentionTiling) -> str:
    return "bf16" if p.f.q.dtype == "bfloat16" else "f16"


# Two weights as two words, whose sums they are to twice a 16-bit type's precision.
PARTS = """\
TW_DEVICE void parts(tw::u32 &high, tw::u32 &low, float a, float b) {
    high = tw::pack_$t(a, b);
    tw::$t x, y;
    x.bits = (tw::u16)high;
    y.bits = (tw::u16)(high >> 16);
    low = tw::pack_$t(a - tw::to_float(x), b - tw::to_float(y));
}"""

# Where all scores so far are minus infinity the weights are 0 rather than exp(-inf + inf). Weights are at most 1: what
# 2^x loses to an argument's rounding is small beside their sum. NaN scores need no care in the maximum: they make the
# weight NaN, and with it the sum.
BODY = """\
const tw::u32 sq = tw::shared_address(smem), sk = sq + $q_bytes, sv = sk + $k_ring;
const tw::u32 at_q = sq + (warp * $q_warp + (lane % 16) * $q_pitch + lane / 16 * 8) * 2;
const tw::u32 at_k = ((lane % 8 + lane / 16 * 8) * $k_pitch + lane / 8 % 2 * 8) * 2, \
at_v = ((lane % 16) * $v_pitch + lane / 16 * 8) * 2;
// Block t of the keys and their values, to slot of the ring.
const auto copy = [&](int slot, int t) {
$copies
};
$next
$queries
tw::cp_commit();
int now = next(0), ahead = now, slot = 0, free = 0;
$if deep:TW_UNROLL
$if deep:for (; free < $ahead; free++) {
$unless deep:{
    if (ahead < $key_blocks) copy(free, ahead);
    tw::cp_commit();
    ahead = next(ahead + 1);
}
$unless deep:free = 1;
float o[$tiles][$result][4], top[$tiles][2], sum[$tiles][2];
TW_UNROLL
for (int m = 0; m < $tiles; m++)
{
    TW_UNROLL
    for (int n = 0; n < $result; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0.0f;
    top[m][0] = top[m][1] = -__builtin_inff();
    sum[m][0] = sum[m][1] = 0.0f;
}
$if q_registers:tw::cp_wait<$ahead>();
$if q_registers:tw::sync();
$if q_registers:tw::u32 fq[$tiles][$steps][4];
$if q_registers:TW_UNROLL
$if q_registers:for (int m = 0; m < $tiles; m++)
$if q_registers:    TW_UNROLL
$if q_registers:    for (int d = 0; d < $steps; d++)
$if q_registers:        tw::ldmatrix_x4(fq[m][d], at_q + (m * $q_tile + d * 16) * 2);
while (now < $key_blocks) {
    tw::cp_wait<$older>();
    tw::sync();
    if (ahead < $key_blocks) copy(free, ahead);
    tw::cp_commit();
    ahead = next(ahead + 1);
    free = free + 1 == $stages ? 0 : free + 1;
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
            tw::ldmatrix_x4(r, sk + slot * $k_bytes + at_k + (n * $k_tile + d * 16) * 2);
            const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
            TW_UNROLL
            for (int m = 0; m < $tiles; m++)
            {
                tw::mma_$t(s[m][2 * n], fq[m][$step], first);
                tw::mma_$t(s[m][2 * n + 1], fq[m][$step], second);
            }
        }
    }
$scores
    TW_UNROLL
    for (int m = 0; m < $tiles; m++)
        TW_UNROLL
        for (int h = 0; h < 2; h++)
        {
            float most = top[m][h];
            TW_UNROLL
            for (int n = 0; n < $scored; n++)
                most = tw::max_number(most, tw::max_number(s[m][n][2 * h], s[m][n][2 * h + 1]));
            most = tw::max_number(most, tw::shuffle_xor(most, 1));
            most = tw::max_number(most, tw::shuffle_xor(most, 2));
$if rounded:            const float base = most == -__builtin_inff() ? 0.0f : most * $log2;
$if rounded:            const float scale = tw::exp2_approx(tw::fma(top[m][h], $log2, -base));
$if kept:            const float base = most == -__builtin_inff() ? 0.0f : most, scale = tw::exp(top[m][h] - base);
            top[m][h] = most;
            float total = sum[m][h] * scale;
            TW_UNROLL
            for (int n = 0; n < $scored; n++)
                TW_UNROLL
                for (int c = 0; c < 2; c++)
                {
$if rounded:                    const float w = tw::exp2_approx(tw::fma(s[m][n][2 * h + c], $log2, -base));
$if kept:                    const float w = tw::exp2_approx((s[m][n][2 * h + c] - base) * $log2);
                    s[m][n][2 * h + c] = w;
                    total += w;
                }
            sum[m][h] = total;
            TW_UNROLL
            for (int n = 0; n < $result; n++)
            {
                o[m][n][2 * h] *= scale;
                o[m][n][2 * h + 1] *= scale;
            }
        }
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
                const float a = s[m][2 * k + w / 2][w % 2 * 2], b = s[m][2 * k + w / 2][w % 2 * 2 + 1];
$if rounded:                high[m][w] = tw::pack_$t(a, b);
$if kept:                parts(high[m][w], low[m][w], a, b);
            }
        TW_UNROLL
        for (int n = 0; n < $result_pairs; n++)
        {
            tw::u32 r[4];
            tw::ldmatrix_x4_trans(r, sv + slot * $v_bytes + at_v + (k * $v_tile + n * 16) * 2);
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
    slot = slot + 1 == $stages ? 0 : slot + 1;
    now = next(now + 1);
}
tw::cp_wait<0>();
TW_UNROLL
for (int m = 0; m < $tiles; m++)
    TW_UNROLL
    for (int h = 0; h < 2; h++)
    {
        float total = sum[m][h];
        total += tw::shuffle_xor(total, 1);
        total += tw::shuffle_xor(total, 2);
        const int i = i0 + (warp * $tiles + m) * 16 + h * 8 + lane / 4;
        $row_exists{
            TW_UNROLL
            for (int n = 0; n < $result; n++)
            {
                const int e = n * 8 + lane % 4 * 2;
$if pairs:                $pair_exists{
$if pairs:                    tw::pack<$out, 2> two;
$if pairs:                    two.v[0] = $first;
$if pairs:                    two.v[1] = $second;
$if pairs:                    tw::store_global(out + ($pair_at), two);
$if pairs:                }
$unless pairs:                TW_UNROLL
$unless pairs:                for (int c = 0; c < 2; c++)
$unless pairs:                    if (e + c < $width) tw::store_global(out + ($one_at), $one);
            }
        }
    }"""


def _body(p: AttentionTiling) -> list[str]:
    scored, result, ahead = p.block_k // COLUMNS, p.width // COLUMNS, p.stages - 1
    loops = [f"for (int {name} = 0; {name} < {n}; {name}++)" for name, n in (("m", p.tiles), ("n", scored), ("c", 4))]
    holes = {
        "rounded": p.one_rounding, "kept": not p.one_rounding, "log2": f"{(p.scale * LOG2_E):.9g}f",
        "t": _short(p), "out": STORAGE[p.a.output.dtype], "width": p.a.width,
        "q_bytes": p.bytes("q"), "k_bytes": p.bytes("k"), "v_bytes": p.bytes("v"), "k_ring": p.stages * p.bytes("k"),
        "q_pitch": p.pitch("q"), "k_pitch": p.pitch("k"), "v_pitch": p.pitch("v"),
        "q_warp": ROWS * p.tiles * p.pitch("q"), "q_tile": ROWS * p.pitch("q"), "k_tile": 2 * COLUMNS * p.pitch("k"),
        "v_tile": DEPTH * p.pitch("v"),
        "copies": indented([
            *copied(p, "k", f"sk + slot * {p.bytes('k')}", f"t * {p.block_k}"),
            *copied(p, "v", f"sv + slot * {p.bytes('v')}", f"t * {p.block_k}"),
        ]),
        "next": next_block(p), "queries": copied(p, "q", "sq", "i0"),
        "deep": ahead > 1, "ahead": ahead, "older": ahead - 1, "stages": p.stages,
        "key_blocks": p.key_blocks, "block_k": p.block_k, "key_steps": p.block_k // DEPTH,
        "tiles": p.tiles, "scored": scored, "scored_pairs": scored // 2, "result": result,
        "result_pairs": p.width // DEPTH, "steps": p.depth // DEPTH,
        "q_registers": p.q_registers, "step": "d" if p.q_registers else "0",
        "scores": indented(scores(
            p, loops, "s[m][n][c]", f"i0 + (warp * {p.tiles} + m) * {ROWS} + c / 2 * 8 + lane / 4",
            f"j0 + n * {COLUMNS} + lane % 4 * 2 + c % 2",
        )),
        "row_exists": f"if (i < {p.a.queries}) " if p.a.queries % p.block_q else "",
        "pair_exists": f"if (e < {p.a.width}) " if p.width != p.a.width else "",
        "pairs": p.output_vector == 2,
        "first": finish(p).call(o="o[m][n][2 * h] / total", e="e"), "pair_at": position(p, "i", "e"),
        "second": finish(p).call(o="o[m][n][2 * h + 1] / total", e="e + 1"),
        "one": finish(p).call(o="o[m][n][2 * h + c] / total", e="e + c"), "one_at": position(p, "i", "e + c"),
    }  # fmt: skip
    return fill(BODY, holes).split("\n")
