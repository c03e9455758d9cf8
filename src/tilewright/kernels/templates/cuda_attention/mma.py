"""The kernel for Tensor Cores: scores and results in fragments, weights handed from one to the other in registers.

A warp holds tiles of 16 queries. For each block of keys it multiplies queries by keys, turns the products into
scores, and scores into weights, beside a running maximum and sum a query (quads of lanes share a row). A score's
accumulators lie as the operand of the second product wants its rows, so the weights never leave the registers.
The program's weights are float32: each is split into two 16-bit parts, whose products are added.
"""

from __future__ import annotations

from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, ROWS, Plan
from tilewright.kernels.templates.cuda_attention.text import (
    every,
    fill,
    finish,
    finished,
    indented,
    kernel,
    next_block,
    position,
    scores,
)

LOG2_E = "0x1.715476p+0f"
"""Weights are at most 1: what 2^x loses to an argument's rounding is small beside their sum."""


def source(p: Plan, symbol: str) -> str:
    """The kernel's text."""
    return kernel(p, symbol, [_parts(p), finish(p)], _body(p))


def _short(p: Plan) -> str:
    return "bf16" if p.f.q.dtype == "bfloat16" else "f16"


def _parts(p: Plan) -> str:
    """``parts``: two weights as two words, whose sums they are to twice a 16-bit type's precision."""
    t = _short(p)
    return "\n".join([
        "TW_DEVICE void parts(tw::u32 &high, tw::u32 &low, float a, float b) {",
        f"    high = tw::pack_{t}(a, b);",
        f"    tw::{t} x, y;",
        "    x.bits = (tw::u16)high;",
        "    y.bits = (tw::u16)(high >> 16);",
        f"    low = tw::pack_{t}(a - tw::to_float(x), b - tw::to_float(y));",
        "}",
    ])  # fmt: skip


def _body(p: Plan) -> list[str]:
    scored, result = p.block_k // COLUMNS, p.width // COLUMNS
    steps = p.depth // DEPTH
    ahead = p.stages - 1
    q_at = f"(lane % 16) * {p.pitch('q')} + lane / 16 * 8"
    k_at = f"(lane % 8 + lane / 16 * 8) * {p.pitch('k')} + lane / 8 % 2 * 8"
    v_at = f"(lane % 16) * {p.pitch('v')} + lane / 16 * 8"
    lines = [
        f"const tw::u32 sq = tw::shared_address(smem), sk = sq + {p.bytes('q')}, sv = sk + {p.stages * p.bytes('k')};",
        f"const tw::u32 at_q = sq + (warp * {ROWS * p.tiles * p.pitch('q')} + {q_at}) * 2;",
        f"const tw::u32 at_k = ({k_at}) * 2, at_v = ({v_at}) * 2;",
        "// Block t of the keys and their values, to slot of the ring.",
        "const auto copy = [&](int slot, int t) {",
        *indented(fill(p, "k", f"sk + slot * {p.bytes('k')}", f"t * {p.block_k}")),
        *indented(fill(p, "v", f"sv + slot * {p.bytes('v')}", f"t * {p.block_k}")),
        "};",
        *next_block(p),
        *fill(p, "q", "sq", "i0"),
        "tw::cp_commit();",
        "int now = next(0), ahead = now, slot = 0, free = 0;",
        *(["TW_UNROLL", f"for (; free < {ahead}; free++) {{"] if ahead > 1 else ["{"]),
        f"    if (ahead < {p.key_blocks}) copy(free, ahead);",
        "    tw::cp_commit();",
        "    ahead = next(ahead + 1);",
        "}",
        *([] if ahead > 1 else ["free = 1;"]),
        f"float o[{p.tiles}][{result}][4], top[{p.tiles}][2], sum[{p.tiles}][2];",
        *every(p.tiles, "m"), "{",
        "    TW_UNROLL",
        f"    for (int n = 0; n < {result}; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0.0f;",
        "    top[m][0] = top[m][1] = -__builtin_inff();",
        "    sum[m][0] = sum[m][1] = 0.0f;",
        "}",
    ]  # fmt: skip
    if p.q_registers:
        lines += [
            f"tw::cp_wait<{ahead}>();",
            "tw::sync();",
            f"tw::u32 fq[{p.tiles}][{steps}][4];",
            *every(p.tiles, "m"),
            *indented(every(steps, "d")),
            f"        tw::ldmatrix_x4(fq[m][d], at_q + (m * {ROWS * p.pitch('q')} + d * {DEPTH}) * 2);",
        ]
    loop = [
        f"tw::cp_wait<{ahead - 1}>();",
        "tw::sync();",
        f"if (ahead < {p.key_blocks}) copy(free, ahead);",
        "tw::cp_commit();",
        "ahead = next(ahead + 1);",
        f"free = free + 1 == {p.stages} ? 0 : free + 1;",
        f"const int j0 = now * {p.block_k};",
        f"float s[{p.tiles}][{scored}][4];",
        *_products(p, scored, steps),
        *scores(
            p,
            [
                *every(p.tiles, "m"),
                *indented(every(scored, "n")),
                *indented(every(4, "c"), 2),
            ],
            "s[m][n][c]",
            f"i0 + (warp * {p.tiles} + m) * {ROWS} + c / 2 * 8 + lane / 4",
            f"j0 + n * {COLUMNS} + lane % 4 * 2 + c % 2",
        ),
        *_weights(p, scored, result),
        *_values(p),
        f"slot = slot + 1 == {p.stages} ? 0 : slot + 1;",
        "now = next(now + 1);",
    ]
    lines += [f"while (now < {p.key_blocks}) {{", *indented(loop), "}", "tw::cp_wait<0>();", *_store(p, result)]
    return lines


def _products(p: Plan, scored: int, steps: int) -> list[str]:
    """``s``: queries by keys."""
    mma = f"tw::mma_{_short(p)}"
    read = [] if p.q_registers else [
        f"tw::u32 fq[{p.tiles}][1][4];",
        *every(p.tiles, "m"),
        f"    tw::ldmatrix_x4(fq[m][0], at_q + (m * {ROWS * p.pitch('q')} + d * {DEPTH}) * 2);",
    ]  # fmt: skip
    step = "d" if p.q_registers else "0"
    return [
        *every(p.tiles, "m"),
        *indented(every(scored, "n")),
        "        s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;",
        *every(steps, "d"), "{",
        *indented(read),
        *indented(every(scored // 2, "n")), "    {",
        "        tw::u32 r[4];",
        f"        tw::ldmatrix_x4(r, sk + slot * {p.bytes('k')} + at_k + "
        f"(n * {2 * COLUMNS * p.pitch('k')} + d * {DEPTH}) * 2);",
        "        const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};",
        *indented(every(p.tiles, "m"), 2), "        {",
        f"            {mma}(s[m][2 * n], fq[m][{step}], first);",
        f"            {mma}(s[m][2 * n + 1], fq[m][{step}], second);",
        "        }",
        "    }",
        "}",
    ]  # fmt: skip


def _weights(p: Plan, scored: int, result: int) -> list[str]:
    """Scores become weights; what was summed so far is scaled where the maximum has grown.

    Where all scores so far are minus infinity the weights are 0 rather than exp(-inf + inf).
    """
    return [
        *every(p.tiles, "m"),
        *indented(every(2, "h")), "    {",
        "        float most = top[m][h];",
        *indented(every(scored, "n"), 2),
        "            most = tw::max(most, tw::max(s[m][n][2 * h], s[m][n][2 * h + 1]));",
        "        most = tw::max(most, tw::shuffle_xor(most, 1));",
        "        most = tw::max(most, tw::shuffle_xor(most, 2));",
        "        const float base = most == -__builtin_inff() ? 0.0f : most, scale = tw::exp(top[m][h] - base);",
        "        top[m][h] = most;",
        "        float total = sum[m][h] * scale;",
        *indented(every(scored, "n"), 2),
        *indented(every(2, "c"), 3), "            {",
        f"                const float w = tw::exp2_approx((s[m][n][2 * h + c] - base) * {LOG2_E});",
        "                s[m][n][2 * h + c] = w;",
        "                total += w;",
        "            }",
        "        sum[m][h] = total;",
        *indented(every(result, "n"), 2), "        {",
        "            o[m][n][2 * h] *= scale;",
        "            o[m][n][2 * h + 1] *= scale;",
        "        }",
        "    }",
    ]  # fmt: skip


def _values(p: Plan) -> list[str]:
    """``o``: weights by values are added."""
    mma = f"tw::mma_{_short(p)}"
    words = [f"        parts(high[m][{w}], low[m][{w}], s[m][2 * k + {w // 2}][{w % 2 * 2}], "
             f"s[m][2 * k + {w // 2}][{w % 2 * 2 + 1}]);" for w in range(4)]  # fmt: skip
    products = [f"            {mma}(o[m][2 * n{more}], {part}[m], {values});"
                for part in ("high", "low") for more, values in (("", "first"), (" + 1", "second"))]  # fmt: skip
    return [
        *every(p.block_k // DEPTH, "k"), "{",
        f"    tw::u32 high[{p.tiles}][4], low[{p.tiles}][4];",
        *indented(every(p.tiles, "m")), "    {",
        *words,
        "    }",
        *indented(every(p.width // DEPTH, "n")), "    {",
        "        tw::u32 r[4];",
        f"        tw::ldmatrix_x4_trans(r, sv + slot * {p.bytes('v')} + at_v + "
        f"(k * {DEPTH * p.pitch('v')} + n * {DEPTH}) * 2);",
        "        const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};",
        *indented(every(p.tiles, "m"), 2), "        {",
        *products,
        "        }",
        "    }",
        "}",
    ]  # fmt: skip


def _store(p: Plan, result: int) -> list[str]:
    """The normalised results leave as pairs of neighbours."""
    out = STORAGE[p.a.output.dtype]
    e = f"n * {COLUMNS} + lane % 4 * 2"
    guard = f"if (e < {p.a.width}) " if p.width != p.a.width else ""
    if p.output_vector == 2:
        store = [
            f"{guard}{{",
            f"    tw::pack<{out}, 2> two;",
            f"    two.v[0] = {finished(p, 'o[m][n][2 * h] / total', 'e')};",
            f"    two.v[1] = {finished(p, 'o[m][n][2 * h + 1] / total', 'e + 1')};",
            f"    tw::store_global(out + ({position(p, 'i', 'e')}), two);",
            "}",
        ]
    else:
        value = finished(p, "o[m][n][2 * h + c] / total", "e + c")
        one = f"tw::store_global(out + ({position(p, 'i', 'e + c')}), {value});"
        store = [*every(2, "c"), f"    if (e + c < {p.a.width}) {one}"]
    rows = f"if (i < {p.a.queries}) " if p.a.queries % p.block_q else ""
    return [
        *every(p.tiles, "m"),
        *indented(every(2, "h")), "    {",
        "        float total = sum[m][h];",
        "        total += tw::shuffle_xor(total, 1);",
        "        total += tw::shuffle_xor(total, 2);",
        f"        const int i = i0 + (warp * {p.tiles} + m) * {ROWS} + h * 8 + lane / 4;",
        f"        {rows}{{",
        *indented(every(result, "n"), 3), "            {",
        f"                const int e = {e};",
        *indented(store, 4),
        "            }",
        "        }",
        "    }",
    ]  # fmt: skip
