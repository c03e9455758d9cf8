"""The kernel for ordinary units: tiles of queries, keys and values in shared memory, float32 throughout.

``lanes`` threads of a warp share ``rows`` queries: each scores every ``lanes``-th key of a block, and sums groups of
neighbours of the result, ``lanes`` groups apart. In between, the weights pass through shared memory.
"""

from __future__ import annotations

from tilewright.kernels.templates.cuda_attention.geometry import Plan
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

FOUR = "tw::pack<float, 4>"


def source(p: Plan, symbol: str) -> str:
    """The whole kernel."""
    return kernel(p, symbol, [finish(p)], _body(p))


def _body(p: Plan) -> list[str]:
    held, vector = p.value_groups, p.value_vector
    slot = f"slot * {p.stage_bytes}"
    own = [f"sum[r] += tw::shuffle_xor(sum[r], {1 << n});" for n in range(p.lanes.bit_length() - 1)]
    return [
        f"const int lane_k = tid % {p.lanes}, first = tid / {p.lanes} * {p.rows};",
        "float *const q = (float *)smem;",
        f"float *const weights = (float *)(smem + {p.bytes('q') + p.stages * p.stage_bytes});",
        f"unsigned char *const ring = smem + {p.bytes('q')};",
        *_copies(p),
        *next_block(p),
        f"float o[{p.rows}][{held}][{vector}], top[{p.rows}], sum[{p.rows}];",
        *every(p.rows, "r"), "{",
        *indented(every(held, "g")),
        *indented(every(vector, "c"), 2),
        "            o[r][g][c] = 0.0f;",
        "    top[r] = -__builtin_inff();",
        "    sum[r] = 0.0f;",
        "}",
        *_start(p),
        f"while (now < {p.key_blocks}) {{",
        *indented(_arrive(p)),
        f"    const float *const k = (const float *)(ring{f' + {slot}' if p.stages > 1 else ''});",
        f"    const float *const v = k + {p.bytes('k') // 4};",
        f"    const int j0 = now * {p.block_k};",
        f"    float s[{p.rows}][{p.keys_each}];",
        *indented(_products(p)),
        *indented(scores(
            p, [*every(p.rows, "r"), *indented(every(p.keys_each, "n"))], "s[r][n]", "i0 + first + r",
            f"j0 + n * {p.lanes} + lane_k",
        )),
        *indented(_weights(p)),
        *indented(_values(p)),
        *(["    slot = 1 - slot;"] if p.stages > 1 else []),
        "    now = next(now + 1);",
        "}",
        *(["tw::cp_wait<0>();"] if p.async_copies else []),
        *every(p.rows, "r"), "{",
        *indented(own),
        "    const int i = i0 + first + r;",
        f"    {f'if (i < {p.a.queries}) ' if p.a.queries % p.block_q else ''}{{",
        *indented(every(held, "g"), 2),
        *indented(every(vector, "c"), 3), "            {",
        f"                const int e = (g * {p.lanes} + lane_k) * {vector} + c;",
        f"                {f'if (e < {p.a.width}) ' if p.width != p.a.width else ''}"
        f"tw::store_global(out + ({position(p, 'i', 'e')}), {finished(p, 'o[r][g][c] / sum[r]', 'e')});",
        "            }",
        "    }",
        "}",
    ]  # fmt: skip


def _copies(p: Plan) -> list[str]:
    """A lambda that brings a block of keys and values to a slot."""
    if p.async_copies:
        base = f"tw::shared_address(ring) + slot * {p.stage_bytes}"
        k, v = base, f"{base} + {p.bytes('k')}"
    else:
        k, v = "(float *)ring", f"(float *)ring + {p.bytes('k') // 4}"
    return [
        "const auto copy = [&](int slot, int t) {",
        "    (void)slot;",
        *indented(fill(p, "k", k, f"t * {p.block_k}")),
        *indented(fill(p, "v", v, f"t * {p.block_k}")),
        "};",
    ]


def _start(p: Plan) -> list[str]:
    queries = fill(p, "q", "tw::shared_address(q)" if p.async_copies else "q", "i0")
    if p.stages == 1:
        return [*queries, "int now = next(0);"]
    return [
        *queries,
        "int now = next(0), ahead = now, slot = 0;",
        f"if (ahead < {p.key_blocks}) copy(0, ahead);",
        "tw::cp_commit();",
    ]


def _arrive(p: Plan) -> list[str]:
    """The block is there, for all threads; with two stages the next one is on its way."""
    if p.stages == 1:
        wait = ["tw::cp_commit();", "tw::cp_wait<0>();"] if p.async_copies else []
        return ["tw::sync();", "copy(0, now);", *wait, "tw::sync();"]
    return [
        "tw::cp_wait<0>();",
        "tw::sync();",
        "ahead = next(ahead + 1);",
        f"if (ahead < {p.key_blocks}) copy(1 - slot, ahead);",
        "tw::cp_commit();",
    ]


def _products(p: Plan) -> list[str]:
    return [
        *every(p.rows, "r"),
        *indented(every(p.keys_each, "n")),
        "        s[r][n] = 0.0f;",
        "TW_KEEP_LOOP" if p.rows * p.keys_each * p.depth > 1024 else "TW_UNROLL",
        f"for (int d = 0; d < {p.depth}; d += 4) {{",
        f"    {FOUR} a[{p.rows}], b[{p.keys_each}];",
        *indented(every(p.rows, "r")),
        f"        a[r] = tw::load_shared<{FOUR}>(q + (first + r) * {p.pitch('q')} + d);",
        *indented(every(p.keys_each, "n")),
        f"        b[n] = tw::load_shared<{FOUR}>(k + (n * {p.lanes} + lane_k) * {p.pitch('k')} + d);",
        *indented(every(p.rows, "r")),
        *indented(every(p.keys_each, "n"), 2),
        *indented(every(4, "c"), 3),
        "                s[r][n] = tw::fma(a[r].v[c], b[n].v[c], s[r][n]);",
        "}",
    ]


def _weights(p: Plan) -> list[str]:
    """Scores become weights, in shared memory; what was summed so far is scaled where the maximum has grown.

    Where all scores so far are minus infinity the weights are 0 rather than exp(-inf + inf).
    """
    across = [f"most = tw::max(most, tw::shuffle_xor(most, {1 << n}));" for n in range(p.lanes.bit_length() - 1)]
    return [
        "tw::sync_warp();  // the weights of the block before have been read",
        *every(p.rows, "r"), "{",
        "    float most = top[r];",
        *indented(every(p.keys_each, "n")),
        "        most = tw::max(most, s[r][n]);",
        *indented(across),
        "    const float base = most == -__builtin_inff() ? 0.0f : most, scale = tw::exp(top[r] - base);",
        "    top[r] = most;",
        "    sum[r] *= scale;",
        *indented(every(p.keys_each, "n")), "    {",
        "        const float w = tw::exp(s[r][n] - base);",
        "        sum[r] += w;",
        f"        tw::store_shared(weights + (first + r) * {p.weight_pitch} + n * {p.lanes} + lane_k, w);",
        "    }",
        *indented(every(p.value_groups, "g")),
        *indented(every(p.value_vector, "c"), 2),
        "            o[r][g][c] *= scale;",
        "}",
        "tw::sync_warp();",
    ]  # fmt: skip


def _values(p: Plan) -> list[str]:
    vector = f"tw::pack<float, {p.value_vector}>"
    return [
        "TW_KEEP_LOOP",
        f"for (int j = 0; j < {p.block_k}; j += 4) {{",
        f"    {FOUR} a[{p.rows}];",
        *indented(every(p.rows, "r")),
        f"        a[r] = tw::load_shared<{FOUR}>(weights + (first + r) * {p.weight_pitch} + j);",
        *indented(every(4, "u")), "    {",
        *indented(every(p.value_groups, "g"), 2), "        {",
        f"            const {vector} b = tw::load_shared<{vector}>(v + (j + u) * {p.pitch('v')} + "
        f"(g * {p.lanes} + lane_k) * {p.value_vector});",
        *indented(every(p.rows, "r"), 3),
        *indented(every(p.value_vector, "c"), 4),
        "                    o[r][g][c] = tw::fma(a[r].v[u], b.v[c], o[r][g][c]);",
        "        }",
        "    }",
        "}",
    ]  # fmt: skip
