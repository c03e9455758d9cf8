"""The kernel for Tensor Cores: scores and results in fragments, weights handed from one to the other in registers.

A warp holds tiles of 16 queries. For each block of keys it multiplies queries by keys, turns the products into
scores, and scores into weights, beside a running base and sum a query (quads of lanes share a row). A score's
accumulators lie as the operand of the second product wants its rows, so the weights never leave the registers.
Weights are powers of 2 of what scores exceed the base by. It follows their maximum only when that has gone far ahead,
which happens seldom beyond the first block: sums and results are not scaled in each.

A ring of two or three slots is filled a block or two ahead. In a single slot the next keys come once these are
multiplied, and a block's values while its keys are: half the shared memory, for one more barrier.

Weights that the program rounds to the values' type are one operand. Those that it keeps in float32 are split into two
16-bit parts, whose products are added.
"""

from __future__ import annotations

import math

from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_attention import merge
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
ROOM, KEPT_ROOM = 15, 7
"""Powers of 2 that weights may reach before a query's base moves: the last that float16 holds, and less where weights
stay float32, as a longer power has fewer bits behind the point."""


def source(p: AttentionTiling, symbol: str) -> str:
    """The kernels' text."""
    parts = [] if p.one_rounding else [fill(PARTS, {"t": _short(p)})]
    powers = _powers(p)
    first = kernel(p, symbol, [*parts, fill(POWER, powers), finish(p).define().rstrip()], _body(p))
    return first + merge.kernel(p, symbol, f"tw::exp2_approx({powers['weight']})")


def _powers(p: AttentionTiling) -> dict[str, object]:
    """Texts: a weight as a power of 2, a base's opposite, by which power of 2 its move multiplies weights, room.

    ``weight``: the power of 2 by which a part of the keys counts.
    """
    log2 = f"{p.scale * LOG2_E:.9g}f"
    if p.one_rounding:
        power, raised, change = f"tw::fma(score, {log2}, shift)", f"-top * {log2}", "raised - shift[m][h]"
        weight = "base - top"
    else:
        power, raised, change = f"(score + shift) * {log2}", "-top", f"(raised - shift[m][h]) * {log2}"
        weight = f"(base - top) * {log2}"
    room = f"{ROOM if p.one_rounding else KEPT_ROOM}.0f"
    return {"power": power, "raised": raised, "change": change, "room": room, "weight": weight}


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

POWER = "TW_DEVICE float power(float score, float shift) { return $power; }"

# ``shift`` is the base's opposite, as a power of 2 where one rounding is allowed: what 2^x loses to an argument's
# rounding is small beside the sum. It starts where every score lies far ahead of it but minus infinity, whose weight
# is 0. A row moves its base only for its own scores: no result depends on other rows. NaN scores need no care in the
# maximum: they make the weight NaN, and with it the sum.
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
float o[$tiles][$result][4], shift[$tiles][2], sum[$tiles][2];
TW_UNROLL
for (int m = 0; m < $tiles; m++)
{
    TW_UNROLL
    for (int n = 0; n < $result; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0.0f;
    shift[m][0] = shift[m][1] = 0x1.fffffep127f;
    sum[m][0] = sum[m][1] = 0.0f;
}
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
    float most[$tiles][2];
    bool above = false;
    TW_UNROLL
    for (int m = 0; m < $tiles; m++)
        TW_UNROLL
        for (int h = 0; h < 2; h++)
        {
            most[m][h] = tw::max_number(s[m][0][2 * h], s[m][0][2 * h + 1]);
            TW_UNROLL
            for (int n = 1; n < $scored; n++)
                most[m][h] = tw::max_number(most[m][h], tw::max_number(s[m][n][2 * h], s[m][n][2 * h + 1]));
            above |= power(most[m][h], shift[m][h]) > $room;
        }
    if (tw::any_lane(above)) {
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int h = 0; h < 2; h++)
            {
                float top = most[m][h];
                top = tw::max_number(top, tw::shuffle_xor(top, 1));
                top = tw::max_number(top, tw::shuffle_xor(top, 2));
                const float raised = power(top, shift[m][h]) > $room ? $raised : shift[m][h];
                const float scale = tw::exp2_approx($change);
                shift[m][h] = raised;
                sum[m][h] *= scale;
                TW_UNROLL
                for (int n = 0; n < $result; n++)
                {
                    o[m][n][2 * h] *= scale;
                    o[m][n][2 * h + 1] *= scale;
                }
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
$left
            TW_UNROLL
            for (int n = 0; n < $result; n++)
            {
                const int e = n * 8 + lane % 4 * 2;
$if pairs:                $pair_exists{
$if pairs:                    tw::pack<$out, 2> two;
$if pairs:                    two.v[0] = $first;
$if pairs:                    two.v[1] = $second;
$if pairs:                    tw::store_global($to + ($pair_at), two);
$if pairs:                }
$unless pairs:                TW_UNROLL
$unless pairs:                for (int c = 0; c < 2; c++)
$unless pairs:                    if (e + c < $width) tw::store_global($to + ($one_at), $one);
            }
        }
    }"""


def _body(p: AttentionTiling) -> list[str]:
    scored, result, ahead = p.block_k // COLUMNS, p.width // COLUMNS, p.stages - 1
    loops = [f"for (int {name} = 0; {name} < {n}; {name}++)" for name, n in (("m", p.tiles), ("n", scored), ("c", 4))]
    last_slot = ahead * p.stage_bytes
    holes = {
        **_powers(p), "rounded": p.one_rounding, "kept": not p.one_rounding,
        "t": _short(p), "width": p.a.width,
        "q_bytes": p.bytes("q"), "k_bytes": p.bytes("k"), "stage_bytes": p.stage_bytes, "last_slot": last_slot,
        "following": f"{last_slot} - slot" if ahead == 1 else f"slot == {last_slot} ? 0 : slot + {p.stage_bytes}",
        "q_pitch": p.pitch("q"), "k_pitch": p.pitch("k"), "v_pitch": p.pitch("v"),
        "q_warp": ROWS * p.tiles * p.pitch("q"), "q_tile": ROWS * p.pitch("q"), "k_tile": 2 * COLUMNS * p.pitch("k"),
        "v_tile": DEPTH * p.pitch("v"),
        "copy_keys": indented(copied(p, "k", "ring + slot", f"t * {p.block_k}")),
        "copy_values": indented(copied(p, "v", f"ring + slot + {p.bytes('k')}", f"t * {p.block_k}")),
        "next": next_block(p), "queries": copied(p, "q", "sq", "i0"),
        "alone": p.stages == 1, "groups": max(1, ahead), "older": max(1, ahead) - 1,
        "start": "start" if p.parts > 1 else "0", "end": p.end, "block_k": p.block_k, "key_steps": p.block_k // DEPTH,
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
        "left": indented(merge.left(p, "lane % 4 == 0", "-shift[m][h]", "total"), 3), **_stored(p),
    }  # fmt: skip
    return fill(BODY, holes).split("\n")


def _stored(p: AttentionTiling) -> dict[str, object]:
    """Texts of what is stored, and where."""
    sums = {
        "first": ("o[m][n][2 * h]", "e"),
        "second": ("o[m][n][2 * h + 1]", "e + 1"),
        "one": ("o[m][n][2 * h + c]", "e + c"),
    }
    if p.parts > 1:
        return {
            **{name: o for name, (o, _) in sums.items()},
            "out": "float",
            "to": "partial",
            "pair_at": "e",
            "one_at": "e + c",
        }
    values = {name: finish(p).call(o=f"{o} / total", e=e) for name, (o, e) in sums.items()}
    at = {"pair_at": position(p, "i", "e"), "one_at": position(p, "i", "e + c")}
    return {**values, **at, "out": STORAGE[p.a.output.dtype], "to": "out"}
