"""The online softmax over blocks of keys: powers of 2 for all kernels, and code of both Tensor Core kernels.

``s[tile][n][4]`` are a thread's scores of a tile of queries, and ``o[tile][n][4]`` its sums of values. Both are in the
order of accumulators: two adjacent elements in each of two rows, for every eight columns; four lanes share a row. The
layout of the scores is the operand layout of the PV product, so weights never leave the registers.

Weights are powers of 2 of the score's excess over a base. The base follows the running maximum only when the maximum is
far ahead of it. That is rare behind the first block, so sums and results are seldom rescaled.

Weights that the program rounds to the values' type are one operand. Weights that the program keeps in float32 are split
into two 16-bit operands, whose products are added.

Polynomials of degree 3 for a quarter of the exponentials (FlashAttention-4) took 1.08 to 1.18 of the time on an H200.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.kernels.codegen.substitution import substitute, substituted
from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_attention import merge
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, ROWS, AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import finish, indented, position, scores

LOG2_E = math.log2(math.e)
ROOM, KEPT_ROOM = 15, 7
"""Largest exponent of 2 of a weight before a query's base moves: the last that float16 holds.

It is smaller where weights stay float32, since a larger exponent leaves fewer fraction bits.
"""


def short(p: AttentionTiling) -> str:
    """The operands' type in names of primitives."""
    return "bf16" if p.f.q.dtype == "bfloat16" else "f16"


def powers(p: AttentionTiling, shift: str = "shift[m][h]") -> dict[str, object]:
    """Texts of the softmax's exponents.

    ``power``: a weight's exponent of 2. ``raised``: the negated new base. ``change``: the exponent by which weights are
    rescaled when the base moves from ``shift``. ``room``: the exponent above which the base moves. ``weight``: the
    exponent of the factor of a part of the keys.
    """
    log2 = f"{p.scale * LOG2_E:.9g}f"
    if p.one_rounding:
        power, raised, change = f"tw::fma(score, {log2}, shift)", f"-top * {log2}", f"raised - {shift}"
        weight = "base - top"
    else:
        power, raised, change = f"(score + shift) * {log2}", "-top", f"(raised - {shift}) * {log2}"
        weight = f"(base - top) * {log2}"
    room = f"{ROOM if p.one_rounding else KEPT_ROOM}.0f"
    return {"power": power, "raised": raised, "change": change, "room": room, "weight": weight}


def weight(p: AttentionTiling) -> str:
    """Text of the factor of a part of the keys, from its ``base`` and the largest base, ``top``."""
    return f"tw::exp2_approx({powers(p)['weight']})"


def functions(p: AttentionTiling) -> str:
    """Device functions of a schedule's kernels."""
    parts = [substitute(PARTS, {"t": short(p)})] if p.cores and not p.one_rounding else []
    return "\n".join([*([FLAT] if p.groups else []), *parts, substitute(POWER, powers(p)), finish(p).define()])


# A tile's fragments as the flat registers of one warp-group instruction.
FLAT = """\
template <int N> TW_DEVICE float (&flat(float (&x)[N][4]))[4 * N] { return reinterpret_cast<float (&)[4 * N]>(x); }"""

# Splits two weights into two words, each a pair of 16-bit numbers. A weight's two numbers add up to twice a 16-bit
# type's precision.
PARTS = """\
TW_DEVICE void parts(tw::u32 &high, tw::u32 &low, float a, float b) {
    high = tw::pack_$t(a, b);
    tw::$t x, y;
    x.bits = (tw::u16)high;
    y.bits = (tw::u16)(high >> 16);
    low = tw::pack_$t(a - tw::to_float(x), b - tw::to_float(y));
}"""

POWER = "TW_DEVICE float power(float score, float shift) { return $power; }"

# ``shift`` is the negated base, as an exponent of 2 where one rounding is allowed: the error of 2^x from rounding x is
# small beside the sum. The initial shift makes every score but minus infinity exceed the base, and gives minus infinity
# the weight 0. A row moves its base only for its own scores: no result depends on other rows. The maximum may ignore
# NaN scores: they make the weight NaN, and with it the sum.
INITIAL = """\
float o[$tiles][$result][4], shift[$tiles][2], sum[$tiles][2];
TW_UNROLL
for (int m = 0; m < $tiles; m++)
{
    TW_UNROLL
    for (int n = 0; n < $result; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0.0f;
    shift[m][0] = shift[m][1] = 0x1.fffffep127f;
    sum[m][0] = sum[m][1] = 0.0f;
}"""

MOST = """\
float most[$tiles][2];
$above = false;
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
            $scale = tw::exp2_approx($change);
            shift[m][h] = raised;
            sum[m][h] *= $by;
$unless later:            TW_UNROLL
$unless later:            for (int n = 0; n < $result; n++)
$unless later:            {
$unless later:                o[m][n][2 * h] *= scale;
$unless later:                o[m][n][2 * h + 1] *= scale;
$unless later:            }
        }
}"""

STORE = """\
TW_UNROLL
for (int m = 0; m < $tiles; m++)
    TW_UNROLL
    for (int h = 0; h < 2; h++)
    {
        float total = sum[m][h];
        total += tw::shuffle_xor(total, 1);
        total += tw::shuffle_xor(total, 2);
$unless part:        const float share = 1.0f / total;
        const int i = i0 + $row * 16 + h * 8 + lane / 4;
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


def statements(p: AttentionTiling, row: str, used: set[str], later: bool = False) -> dict[str, list[str]]:
    """Statements by purpose.

    ``initial`` declares sums. ``scores`` turns the products of the block at ``j0`` into scores. ``most`` moves bases
    that scores exceed. ``store`` stores the result. ``row``: text of the number of a warp's 16 rows in the block, of
    tile ``m``. ``later``: ``most`` does not rescale the sums of values but leaves the factors in ``scale``, for warps
    with a lane whose scores are ``above`` its base. ``used`` receives the variables that the statements use.
    """
    scored, result = p.block_k // COLUMNS, p.width // COLUMNS
    loops = [f"for (int {name} = 0; {name} < {n}; {name}++)" for name, n in (("m", p.tiles), ("n", scored), ("c", 4))]
    mapping = {
        **powers(p), "tiles": p.tiles, "scored": scored, "result": result, "row": row, "width": p.a.width,
        "later": later, "scale": "scale[m][h]" if later else "const float scale",
        "by": "scale[m][h]" if later else "scale", "above": "above" if later else "bool above",
        "row_exists": f"if (i < {p.a.queries}) " if p.a.queries % p.block_q else "",
        "pair_exists": f"if (e < {p.a.width}) " if p.width != p.a.width else "",
        "pairs": p.output_vector == 2,
    }  # fmt: skip
    query, key = f"i0 + {row} * {ROWS} + c / 2 * 8 + lane / 4", f"j0 + n * {COLUMNS} + lane % 4 * 2 + c % 2"
    return {
        "initial": substituted(INITIAL, mapping),
        "scores": scores(p, loops, "s[m][n][c]", query, key, used),
        "most": substituted(MOST, mapping), "store": _store(p, mapping, used),
    }  # fmt: skip


def _store(p: AttentionTiling, mapping: Mapping[str, object], used: set[str]) -> list[str]:
    """Statements that store a tile's result, or a part's unnormalised result."""

    def text(part: bool, left: list[str]) -> list[str]:
        return substituted(STORE, {**mapping, "part": part, **_stored(p, part, used), "left": left})

    if not p.divided:
        return text(False, [])
    part = text(True, merge.left(p, "lane % 4 == 0", "-shift[m][h]", "total"))
    if p.parts > 1:
        return part
    return [f"if (work < {p.query_tiles - p.left}) {{", *indented(text(False, [])), "} else {", *indented(part), "}"]


def _stored(p: AttentionTiling, part: bool, used: set[str]) -> dict[str, object]:
    """Texts of the stored values and their places, for a complete result or a ``part``."""
    sums = {
        "first": ("o[m][n][2 * h]", "e"),
        "second": ("o[m][n][2 * h + 1]", "e + 1"),
        "one": ("o[m][n][2 * h + c]", "e + c"),
    }
    if part:
        return {
            **{name: o for name, (o, _) in sums.items()},
            "out": "float",
            "to": "partial",
            "pair_at": "e",
            "one_at": "e + c",
        }
    used |= set(finish(p).taken)
    values = {name: finish(p).call(o=f"{o} * share", e=e) for name, (o, e) in sums.items()}
    at = {"pair_at": position(p, "i", "e", used), "one_at": position(p, "i", "e + c", used)}
    return {**values, **at, "out": STORAGE[p.a.output.dtype], "to": "out"}
