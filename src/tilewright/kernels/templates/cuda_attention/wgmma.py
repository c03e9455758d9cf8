"""The kernel for warp groups: TMA fills a ring with keys and values, and groups multiply from shared memory.

A group has tiles of 64 queries. While a block's PV product runs, the group computes the softmax of the next block's
products in registers (Shah and others, "FlashAttention-3", 2024). Keys and values of a slot have separate barriers, so
that each is refilled as soon as it has been multiplied.

Where a page table places keys, each lane of a warp reads a page's number and copies one piece of the tile. Where a
sequence ends within a block, that warp waits for the block's values and writes zeros to the rows behind the end.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.primitives.wgmma import ROWS
from tilewright.kernels.templates.cuda.launches import Parameter, tensor_maps
from tilewright.kernels.templates.cuda.warpgroups import BARRIER, EIGHT, LINE, REGISTERS, WARPS
from tilewright.kernels.templates.cuda_attention import softmax
from tilewright.kernels.templates.cuda_attention.boxes import Matrices, described, matrices
from tilewright.kernels.templates.cuda_attention.geometry import COLUMNS, DEPTH, AttentionTiling
from tilewright.kernels.templates.cuda_attention.match import Side
from tilewright.kernels.templates.cuda_attention.text import Body, indented, next_block, outer_text, place


def maps(p: AttentionTiling) -> tuple[Parameter, ...]:
    """The tensor maps of queries, keys and values."""
    return tensor_maps({f"map_{n}": described(p.f, s, p.tile(n)) for n, s in zip("qkv", p.f.sides, strict=True)})


BODY = """\
const tw::u32 raw = tw::shared_address(smem), sq = (raw + $less) & ~${less}u, ring = sq + $q_bytes;
$unless persistent:// Barriers: of each group's queries: they have come;
$if persistent:// Barriers: of each group's queries: they have come, they are done with;
// of each slot: keys have come, values have come, keys and values are done with.
const tw::u32 queries = ring + $ring_bytes, bars = queries + $groups * $group_bars;
$if ends:const tw::u32 cut = bars + $stages * $slot_bars;  // values have come that need zeros
$if turns:const tw::u32 may = bars + $stages * $slot_bars + $cuts_bytes;  // of each group: it may multiply
if (tid == 0) {
    for (int g = 0; g < $groups; g++) {
        tw::mbarrier_init(queries + $group_bars * g, 1);
$if persistent:        tw::mbarrier_init(queries + $group_bars * g + $barrier, $group_warps);
    }
$if ends:    tw::mbarrier_init(cut, 1);
    for (int s = 0; s < $stages; s++) {
        tw::mbarrier_init(bars + $slot_bars * s, 1);
        tw::mbarrier_init(bars + $slot_bars * s + $barrier, 1);
        tw::mbarrier_init(bars + $slot_bars * s + 2 * $barrier, $warps);
        tw::mbarrier_init(bars + $slot_bars * s + 3 * $barrier, $warps);
    }
$if turns:    for (int g = 0; g < $groups; g++) tw::mbarrier_init(may + $barrier * g, $group_warps);
    tw::mbarrier_fence();
}
tw::sync();
int slot = 0;
tw::u32 turn = 0;  // parity of the ring's round
$if persistent:tw::u32 walked = 0;  // parity of the walk's steps
const auto turned = [&]() {
    slot = slot + 1 == $stages ? 0 : slot + 1;
    turn ^= slot == 0;
};
$place
if (tw::shuffle(tid / 128, 0) == $groups) {  // the same for a warp, which the compiler is told so
$if fewer:    tw::fewer_registers<$fewer>();
    if (tid == $asker) {
        tw::tma_prefetch(map_q);
        $asks
    } else if ($copier) {
        tw::tma_prefetch(map_k);
        tw::tma_prefetch(map_v);
$if ends:        tw::u32 cuts = 0;  // parity of how many were cut
        $copies
    }
    return;
}
$if more:tw::more_registers<$more>();
const int group = tw::shuffle(warp / $group_warps, 0);
$if turns:tw::u32 mine = group == 0;  // parity: the first group has the first turn
$computes"""

TILE_LOOP = """\
TW_KEEP_LOOP
for (int number = (int)blockIdx.x; number < $blocks; number += (int)gridDim.x, walked ^= 1) {
    $place
    $body
}"""

ASKS = """\
if (next($start) < $end) {
    for (int g = 0; g < $groups; g++) {
        const tw::u32 bar = queries + $group_bars * g;
$if persistent:        tw::mbarrier_wait(bar + $barrier, walked ^ 1);
        tw::mbarrier_expect(bar, $q_group_bytes);
        $load_queries
    }
}"""

COPIES = """\
TW_KEEP_LOOP
for (int now = next($start); now < $end; now = next(now + 1)) {
    const int j0 = now * $block_k;
    const tw::u32 to = ring + slot * $stage_bytes, bars_of = bars + slot * $slot_bars;
    {
        const tw::u32 bar = bars_of;
        tw::mbarrier_wait(bars_of + 2 * $barrier, turn ^ 1);
        ${one}tw::mbarrier_expect(bar, $k_bytes);
        $load_keys
    }
    {
$unless ends:        const tw::u32 bar = bars_of + $barrier;
$if ends:        const tw::u32 bar = j0 + $block_k > known ? cut : bars_of + $barrier;
        tw::mbarrier_wait(bars_of + 3 * $barrier, turn ^ 1);
        ${one}tw::mbarrier_expect(bar, $v_bytes);
        $load_values
        $zeros
    }
    turned();
}"""

COMPUTES = """\
int now = next($start);
$initial
if (now < $end) {
    // Operands; a descriptor counts in 16 bytes.
    const tw::u64 own = tw::wgmma_operand(sq + warp / 4 * $tile_bytes, 0, $eight);
    const tw::u64 keys = tw::wgmma_operand(ring, 0, $eight);
    const tw::u64 values = tw::wgmma_operand(ring + $k_bytes, $across, $eight);
    float s[$tiles][$scored][4], scale[$tiles][2];
    tw::u32 high[$tiles][$key_steps][4];
$if kept:    tw::u32 low[$tiles][$key_steps][4];
    bool above = false;
    const auto release = [&](tw::u32 bar) {
        if (lane == 0) tw::mbarrier_arrive(bar);
    };
    // Registers as products leave and find them.
    const auto hold_scores = [&]() {
        TW_UNROLL
        for (int m = 0; m < $tiles; m++) tw::wgmma_hold(flat(s[m]));
    };
    const auto hold_sums = [&]() {
        TW_UNROLL
        for (int m = 0; m < $tiles; m++) tw::wgmma_hold(flat(o[m]));
    };
    const auto hold_weights = [&]() {
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int k = 0; k < $key_steps; k++)
            {
                tw::wgmma_hold(high[m][k]);
$if kept:                tw::wgmma_hold(low[m][k]);
            }
    };
    // Queries by the keys in a slot, as a group of products.
    const auto multiply = [&](int at) {
        const tw::u64 b = keys + (tw::u64)(at * $stage_units);
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int d = 0; d < $steps; d++)
                tw::wgmma_$t<0, 0>(flat(s[m]), own + m * $tile_units + d / 4 * $q_line + d % 4 * 2, \
b + d / 4 * $k_line + d % 4 * 2, d > 0);
        tw::wgmma_commit();
    };
    // Weights by the values in a slot, as a group of products.
    const auto mix = [&](int at) {
        const tw::u64 b = values + (tw::u64)(at * $stage_units);
        TW_UNROLL
        for (int k = 0; k < $key_steps; k++)
            TW_UNROLL
            for (int m = 0; m < $tiles; m++)
            {
                tw::wgmma_${t}_rs<1>(flat(o[m]), high[m][k], b + k * $v_step, 1);
$if kept:                tw::wgmma_${t}_rs<1>(flat(o[m]), low[m][k], b + k * $v_step, 1);
            }
        tw::wgmma_commit();
    };
    // Products of the block that begins at key j0, to weights in their place.
    const auto weigh = [&](int j0) {
        (void)j0;
        $scores
        $most
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int n = 0; n < $scored; n++)
                TW_UNROLL
                for (int c = 0; c < 4; c++)
                {
                    s[m][n][c] = tw::exp2_approx(power(s[m][n][c], shift[m][c / 2]));
                    sum[m][c / 2] += s[m][n][c];
                }
    };
    const auto pack = [&]() {
        TW_UNROLL
        for (int m = 0; m < $tiles; m++)
            TW_UNROLL
            for (int k = 0; k < $key_steps; k++)
                TW_UNROLL
                for (int w = 0; w < 4; w++)
                {
                    const int n = 2 * k + w / 2, c = w % 2 * 2;
$if rounded:                    high[m][k][w] = tw::pack_$t(s[m][n][c], s[m][n][c + 1]);
$if kept:                    parts(high[m][k][w], low[m][k][w], s[m][n][c], s[m][n][c + 1]);
                }
    };
    tw::mbarrier_wait(queries + $group_bars * group, $walked);
    tw::mbarrier_wait(bars + slot * $slot_bars, turn);
    hold_scores();
    tw::wgmma_fence();
    multiply(slot);
    tw::wgmma_wait<0>();
    hold_scores();
    release(bars + slot * $slot_bars + 2 * $barrier);
    weigh(now * $block_k);
    pack();
    TW_KEEP_LOOP
    while ((now = next(now + 1)) < $end) {
        const int before = slot;
        const tw::u32 turn_before = turn;
        turned();
        tw::mbarrier_wait(bars + slot * $slot_bars, turn);
        hold_scores();
        hold_sums();
        hold_weights();
$if turns:        tw::mbarrier_wait(may + $barrier * group, mine);
        tw::wgmma_fence();
        multiply(slot);
        tw::mbarrier_wait(bars + before * $slot_bars + $barrier, turn_before);
        mix(before);
$if turns:        release(may + $barrier * (group + 1 == $groups ? 0 : group + 1));
$if turns:        mine ^= 1;
        tw::wgmma_wait<1>();
        hold_scores();
        release(bars + slot * $slot_bars + 2 * $barrier);
        weigh(now * $block_k);
$if overlap:        // Values have long come; but compilers move no weights behind a loop that might wait.
$if overlap:        hold_scores();
$if overlap:        tw::mbarrier_wait(bars + before * $slot_bars + $barrier, turn_before);
        tw::wgmma_wait<0>();
        hold_sums();
        release(bars + before * $slot_bars + 3 * $barrier);
        if (tw::any_lane(above)) {
            TW_UNROLL
            for (int m = 0; m < $tiles; m++)
                TW_UNROLL
                for (int n = 0; n < $result; n++)
                    TW_UNROLL
                    for (int c = 0; c < 4; c++)
                        o[m][n][c] *= scale[m][c / 2];
        }
        pack();
    }
$if persistent:    release(queries + $group_bars * group + $barrier);
    tw::mbarrier_wait(bars + slot * $slot_bars + $barrier, turn);
    hold_sums();
    hold_weights();
    tw::wgmma_fence();
    mix(slot);
    tw::wgmma_wait<0>();
    hold_sums();
$if persistent:    release(bars + slot * $slot_bars + 3 * $barrier);
$if persistent:    turned();
}
$store"""


# Clears whole 128-byte rows, in eight chunks of 16 bytes: the order of chunks within a row does not matter.
ZEROS = """\
if (bar == cut) {
    tw::mbarrier_wait(cut, cuts);
    cuts ^= 1;
    for (int n = tw::imax(known - j0, 0) * 8 + lane; n < $block_k * 8; n += 32)
        TW_UNROLL
        for (int c = 0; c < $columns; c++)
            tw::store_shared(smem + (to - raw) + $k_bytes + c * $column_bytes + n * 16, tw::pack<tw::u32, 4>{});
    tw::shared_fence();
    tw::sync_warp();
    if (lane == 0) tw::mbarrier_arrive(bars_of + $barrier);
}"""


def body(p: AttentionTiling) -> Body:
    """The kernel's statements behind the declarations of a block's place."""
    fewer, more = REGISTERS[p.groups]
    tiles = {n: p.tile(n) for n in "qkv"}
    used: dict[str, set[str]] = {"asks": set(), "copies": set(), "computes": set()}
    texts = softmax.statements(p, f"(m * {p.warps} + warp)", used["computes"], later=True)
    mapping: dict[str, object] = {
        **texts, "rounded": p.one_rounding,
        "kept": not p.one_rounding, "t": softmax.short(p), "less": EIGHT - 1, "eight": EIGHT, "barrier": BARRIER,
        "slot_bars": p.memory.size("slots") // p.stages, "q_bytes": p.memory.at("ring"), "k_bytes": p.bytes("k"),
        "v_bytes": p.bytes("v"),
        "stage_bytes": p.stage_bytes, "stage_units": p.stage_bytes // 16, "ring_bytes": p.memory.size("ring"),
        "stages": p.stages, "groups": p.groups, "turns": p.ping_pong, "group_warps": WARPS,
        "cuts_bytes": p.memory.size("cut"), "warps": WARPS * p.groups, "fewer": fewer,
        "more": more,
        "copier": f"warp == {p.warps}" if p.warp_copies else f"tid == {32 * p.warps}",
        "one": "if (lane == 0) " if p.warp_copies else "", "ends": p.f.v.limit is not None,
        "persistent": p.persistent, "overlap": p.overlap, "walked": "walked" if p.persistent else "0",
        "blocks": p.blocks, "group_bars": p.memory.size("queries") // p.groups,
        "q_group_bytes": p.bytes("q") // p.groups, "asker": 32 * p.warps + 32,
        "start": p.start, "end": p.end,
        "block_k": p.block_k, "key_steps": p.block_k // DEPTH, "steps": p.steps, "tiles": p.tiles,
        "scored": p.block_k // COLUMNS, "result": p.width // COLUMNS, "tile_bytes": tiles["q"].bytes,
        "tile_units": p.groups * tiles["q"].bytes // 16, "q_line": ROWS * LINE // 16,
        "k_line": p.block_k * LINE // 16, "across": tiles["v"].across, "v_step": tiles["v"].step(1) // 16,
        "load_queries": _queries(p, used["asks"]),
        "load_keys": _load(p, "k", "to", "j0", used["copies"]),
        "load_values": _load(p, "v", f"to + {p.bytes('k')}", "j0", used["copies"]),
        "columns": p.width * p.item // LINE, "column_bytes": p.block_k * LINE,
    }  # fmt: skip
    mapping["zeros"] = substituted(ZEROS, mapping) if mapping["ends"] else []
    steps = {"asks": ASKS, "copies": COPIES, "computes": COMPUTES}
    parts = {name: substituted(text, mapping) for name, text in steps.items()}
    if p.persistent:
        parts = {name: _persistent_loop(p, lines, used[name]) for name, lines in parts.items()}
    every = set[str]().union(*used.values())
    following = [] if p.persistent else next_block(p, every)
    return substituted(BODY, {**mapping, "place": following, **parts}), every


def _persistent_loop(p: AttentionTiling, body: list[str], used: set[str]) -> list[str]:
    """A persistent loop over tiles of queries; ``body`` computes each."""
    following = next_block(p, used)
    return substituted(TILE_LOOP, {"blocks": p.blocks, "place": [*place(p, used, "number"), *following], "body": body})


def _load(p: AttentionTiling, name: str, to: str, first: str, used: set[str]) -> list[str]:
    """Statements that copy a tile of a side, from its row ``first`` on."""
    side = dict(zip("qkv", p.f.sides, strict=True))[name]
    found = matrices(side)
    assert found is not None
    if found.paged:
        return _pieces(p, name, side, found, to, first, used)
    places = ("0", first) if name == "v" else (first, "0")
    number = outer_text(p, found.number, used) if found.step else ""
    lines = p.tile(name).loads(f"map_{name}", to, *places, number)
    return ["if (lane == 0) {", *indented(lines), "}"] if p.warp_copies and name != "q" else lines


def _pieces(
    p: AttentionTiling, name: str, s: Side, found: Matrices, to: str, first: str, used: set[str]
) -> list[str]:  # fmt: skip
    """Statements by which each lane copies a piece of a tile that lies in one page; rows behind a page are zero."""
    each = found.piece(p.block_k)
    j = f"{first} + lane * {each}"
    if s.rows % p.block_k:  # no page holds rows past the last one
        j = f"tw::imin({j}, {s.rows - 1})"
    places = ("0", "row") if name == "v" else ("row", "0")
    return [
        f"if (lane < {p.block_k // each}) {{",
        f"    const int j = {j}, row = int(unsigned(j) % {found.rows}u);",
        f"    const int page = {outer_text(p, found.number, used, **{s.row: 'j'})};",
        *indented(p.tile(name).loads(f"map_{name}", f"{to} + lane * {each * LINE}", *places, "page")),
        "}",
    ]


def _queries(p: AttentionTiling, used: set[str]) -> list[str]:
    """Statements that copy the query tiles of group ``g``."""
    lines = []
    for m in range(p.tiles):
        n = f"({m * p.groups} + g)"
        lines += _load(p, "q", f"sq + {n} * {p.tile('q').bytes}", f"i0 + {n} * {ROWS}", used)
    return lines
