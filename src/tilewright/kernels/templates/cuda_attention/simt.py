"""The kernel for CUDA cores: tiles of queries, keys and values in shared memory, float32 throughout.

``lanes`` threads of a warp share ``rows`` queries. A thread scores every ``lanes``-th key of a block. For the result, a
thread sums groups of adjacent elements, ``lanes`` groups apart. The weights pass through shared memory in between. They
are powers of 2 relative to a base that seldom changes, as on Tensor Cores (:mod:`.softmax`).
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.templates.cuda_attention import merge, softmax
from tilewright.kernels.templates.cuda_attention.geometry import AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import (
    Body,
    copied,
    finish,
    next_block,
    position,
    scores,
)

BODY = """\
const int lane_k = tid % $lanes, first = tid / $lanes * $rows;
float *const q = (float *)smem;
float *const weights = (float *)(smem + $before_weights);
unsigned char *const ring = smem + $q_bytes;
const auto copy = [&](int slot, int t) {
    (void)slot;
    $copies
};
$next
float o[$rows][$groups][$vector], shift[$rows], sum[$rows];
TW_UNROLL
for (int r = 0; r < $rows; r++)
{
    TW_UNROLL
    for (int g = 0; g < $groups; g++)
        TW_UNROLL
        for (int c = 0; c < $vector; c++)
            o[r][g][c] = 0.0f;
    shift[r] = 0x1.fffffep127f;
    sum[r] = 0.0f;
}
$queries
$unless two_stages:int now = next($start);
$if two_stages:int now = next($start), ahead = now, slot = 0;
$if two_stages:if (ahead < $end) copy(0, ahead);
$if two_stages:tw::cp_commit();
while (now < $end) {
$unless two_stages:    tw::sync();
$unless two_stages:    copy(0, now);
$if waits:    tw::cp_commit();
$if async:    tw::cp_wait<0>();
    tw::sync();
$if two_stages:    ahead = next(ahead + 1);
$if two_stages:    if (ahead < $end) copy(1 - slot, ahead);
$if two_stages:    tw::cp_commit();
    const float *const k = (const float *)(ring$slot);
    const float *const v = k + $k_elements;
    const int j0 = now * $block_k;
    float s[$rows][$keys];
    TW_UNROLL
    for (int r = 0; r < $rows; r++)
        TW_UNROLL
        for (int n = 0; n < $keys; n++)
            s[r][n] = 0.0f;
    $depth_loop
    for (int d = 0; d < $depth; d += 4) {
        tw::pack<float, 4> a[$rows], b[$keys];
        TW_UNROLL
        for (int r = 0; r < $rows; r++)
            a[r] = tw::load_shared<tw::pack<float, 4>>(q + (first + r) * $q_pitch + d);
        TW_UNROLL
        for (int n = 0; n < $keys; n++)
            b[n] = tw::load_shared<tw::pack<float, 4>>(k + (n * $lanes + lane_k) * $k_pitch + d);
        TW_UNROLL
        for (int r = 0; r < $rows; r++)
            TW_UNROLL
            for (int n = 0; n < $keys; n++)
                TW_UNROLL
                for (int c = 0; c < 4; c++)
                    s[r][n] = tw::fma(a[r].v[c], b[n].v[c], s[r][n]);
    }
    $scores
    float most[$rows];
    bool above = false;
    TW_UNROLL
    for (int r = 0; r < $rows; r++)
    {
        most[r] = s[r][0];
        TW_UNROLL
        for (int n = 1; n < $keys; n++)
            most[r] = tw::max_number(most[r], s[r][n]);
        above |= power(most[r], shift[r]) > $room;
    }
    if (tw::any_lane(above)) {
        TW_UNROLL
        for (int r = 0; r < $rows; r++)
        {
            float top = most[r];
            $most
            const float raised = power(top, shift[r]) > $room ? -top : shift[r];
            const float scale = tw::exp2_approx($change);
            shift[r] = raised;
            sum[r] *= scale;
            TW_UNROLL
            for (int g = 0; g < $groups; g++)
                TW_UNROLL
                for (int c = 0; c < $vector; c++)
                    o[r][g][c] *= scale;
        }
    }
    tw::sync_warp();  // the weights of the block before have been read
    TW_UNROLL
    for (int r = 0; r < $rows; r++)
        TW_UNROLL
        for (int n = 0; n < $keys; n++)
        {
            const float w = tw::exp2_approx(power(s[r][n], shift[r]));
            sum[r] += w;
            tw::store_shared(weights + (first + r) * $weight_pitch + n * $lanes + lane_k, w);
        }
    tw::sync_warp();
    TW_KEEP_LOOP
    for (int j = 0; j < $block_k; j += 4) {
        tw::pack<float, 4> a[$rows];
        TW_UNROLL
        for (int r = 0; r < $rows; r++)
            a[r] = tw::load_shared<tw::pack<float, 4>>(weights + (first + r) * $weight_pitch + j);
        TW_UNROLL
        for (int u = 0; u < 4; u++)
        {
            TW_UNROLL
            for (int g = 0; g < $groups; g++)
            {
                const tw::pack<float, $vector> b = \
tw::load_shared<tw::pack<float, $vector>>(v + (j + u) * $v_pitch + (g * $lanes + lane_k) * $vector);
                TW_UNROLL
                for (int r = 0; r < $rows; r++)
                    TW_UNROLL
                    for (int c = 0; c < $vector; c++)
                        o[r][g][c] = tw::fma(a[r].v[u], b.v[c], o[r][g][c]);
            }
        }
    }
$if two_stages:    slot = 1 - slot;
    now = next(now + 1);
}
$if unread:tw::cp_commit();  // the queries, where none of them sees a key
$if async:tw::cp_wait<0>();
TW_UNROLL
for (int r = 0; r < $rows; r++)
{
    $sum
    const int i = i0 + first + r;
    $row_exists{
        $left
        TW_UNROLL
        for (int g = 0; g < $groups; g++)
            TW_UNROLL
            for (int c = 0; c < $vector; c++)
            {
                const int e = (g * $lanes + lane_k) * $vector + c;
                ${exists}tw::store_global($to + ($at), $value);
            }
    }
}"""


def body(p: AttentionTiling) -> Body:
    """The kernel's statements behind the declarations of a block's place."""
    shared, used = p.parts > 1, set[str]()
    if not shared:
        used |= set(finish(p).taken)
    ring = "tw::shared_address(ring) + slot * {}" if p.async_copies else "(float *)ring"
    k = ring.format(p.stage_bytes)
    v = f"{k} + {p.bytes('k') // (1 if p.async_copies else 4)}"
    masks = [1 << n for n in range(p.lanes.bit_length() - 1)]
    loops = [f"for (int {name} = 0; {name} < {n}; {name}++)" for name, n in (("r", p.rows), ("n", p.keys_each))]
    mapping = {
        **softmax.powers(p, "shift[r]"),
        "lanes": p.lanes, "rows": p.rows, "keys": p.keys_each, "groups": p.value_groups, "vector": p.value_vector,
        "depth": p.depth, "block_k": p.block_k, "start": p.start, "end": p.end,
        "q_bytes": p.memory.at("ring"), "before_weights": p.memory.at("weights"),
        "k_elements": p.bytes("k") // 4,
        "q_pitch": p.pitch("q"), "k_pitch": p.pitch("k"), "v_pitch": p.pitch("v"), "weight_pitch": p.weight_pitch,
        "copies": [x for n, to in (("k", k), ("v", v)) for x in copied(p, n, to, f"t * {p.block_k}", used)],
        "next": next_block(p, used),
        "queries": copied(p, "q", "tw::shared_address(q)" if p.async_copies else "q", "i0", used),
        "two_stages": p.stages > 1, "async": p.async_copies, "waits": p.async_copies and p.stages == 1,
        "unread": p.async_copies and p.stages == 1,
        "slot": f" + slot * {p.stage_bytes}" if p.stages > 1 else "",
        "depth_loop": "TW_KEEP_LOOP" if p.rows * p.keys_each * p.depth > 1024 else "TW_UNROLL",
        "scores": scores(p, loops, "s[r][n]", "i0 + first + r", f"j0 + n * {p.lanes} + lane_k", used),
        "most": [f"top = tw::max_number(top, tw::shuffle_xor(top, {x}));" for x in masks],
        "sum": [f"sum[r] += tw::shuffle_xor(sum[r], {x});" for x in masks],
        "row_exists": f"if (i < {p.a.queries}) " if p.a.queries % p.block_q else "",
        "exists": f"if (e < {p.a.width}) " if p.width != p.a.width else "",
        "left": merge.left(p, "lane_k == 0", "-shift[r]", "sum[r]"), "to": "partial" if shared else "out",
        "at": "e" if shared else position(p, "i", "e", used),
        "value": "o[r][g][c]" if shared else finish(p).call(o="o[r][g][c] / sum[r]", e="e"),
    }  # fmt: skip
    return substituted(BODY, mapping), used
