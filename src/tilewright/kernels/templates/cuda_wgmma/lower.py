"""The statements of the main kernel."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.codegen import integers
from tilewright.kernels.codegen.substitution import substitute, substituted
from tilewright.kernels.templates.cuda import splitk
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.warpgroups import BARRIER, EIGHT, GATHERING, REGISTERS, WARPS
from tilewright.kernels.templates.cuda_wgmma import tail
from tilewright.kernels.templates.cuda_wgmma.gathering import copier
from tilewright.kernels.templates.cuda_wgmma.geometry import BOX_BUFFERS, Side, WgmmaTiling
from tilewright.kernels.templates.cuda_wgmma.loop import loop
from tilewright.kernels.templates.cuda_wgmma.match import batched
from tilewright.kernels.templates.cuda_wgmma.store import store
from tilewright.kernels.templates.tiles import ceildiv

BODY = """\
    TW_SHARED(smem);
    using namespace ${symbol}_;
$if merged:    tw::grid_launch();
    const int tid = (int)threadIdx.x, lane = tid % 32;
    const int group = tw::shuffle(tid / 128, 0);  // the same for a warp, which the compiler is told so
$if paired:    const int rank = (int)tw::cluster_rank();
    const tw::u32 start = tw::shared_address(smem), ring = (start + $less) & ~${less}u;
    const tw::u32 full = ring + $barriers, empty = full + $bytes_of_full;
$if turns:    const tw::u32 may = empty + $bytes_of_full;  // a group multiply
    if (tid == 0) {
        for (int s = 0; s < $stages; s++) {
            tw::mbarrier_init(full + $barrier * s, $filled);
            tw::mbarrier_init(empty + $barrier * s, $warps);
        }
$if turns:        for (int g = 0; g < 2; g++) tw::mbarrier_init(may + $barrier * g, $group_warps);
        tw::mbarrier_fence();
    }
$if alone:    tw::sync();
$if paired:    tw::cluster_arrive();
$if paired:    tw::cluster_wait();
$if sorted:    const int used = $used;
$if scaled:    const float *const scales = (const float *)(smem + (ring - start + $scales_at));  // of each slot
    int slot = 0;
    tw::u32 turn = 0;  // parity of the ring's round
    const auto next = [&]() {
        slot = slot + 1 == $stages ? 0 : slot + 1;
        turn ^= slot == 0;
    };
    if (group == $groups) {
$if fewer:        tw::fewer_registers<$fewer>();
        $copier
        $scales
    } else {
$if more:        tw::more_registers<$more>();
        const int warp = tid / 32 % 4;
$if boxes:        const tw::u32 boxes_at = ring + $boxes_at + group * $group_boxes;
$if boxes:        unsigned char *const boxes = smem + (boxes_at - start);
$if boxes:        int place = 0;
        const tw::u64 first_a = tw::wgmma_operand(ring$group_place, $across_a, $eight);
        const tw::u64 first_b = tw::wgmma_operand(ring + $bytes_a, $across_b, $eight);
        $acc acc[$mi][$sums];
$if scaled:        $acc part[$parts][$sums];  // of 64 rows of slots
        // The products of the tile in a slot. A descriptor counts in 16 bytes.
$unless scaled:        const auto multiply = [&](int s, int add) {
$if scaled:        const auto multiply = [&](int s, int i, $acc (&part)[$sums]) {
            const tw::u64 oa = first_a + (tw::u64)(s * $stage_units$of_rows), \
ob = first_b + (tw::u64)(s * $stage_units);
            tw::wgmma_fence();
            $products
            tw::wgmma_commit();
        };
$if paired:        const tw::u32 other = tw::cluster_address(empty, $peer);  // that block copies to these slots too
        const auto release = [&](int s) {
$if several:            tw::sync_warp();  // each lane tells of what all of them have read
            if (lane == 0) tw::mbarrier_arrive(empty + $barrier * s);
$if paired:            if ($told) tw::mbarrier_arrive_cluster(other + $barrier * s);
        };
$if turns:        const auto skip = [&]() {  // the slots of the other group's tile
$if turns:            slot += $rest;
$if turns:            turn ^= $rounds;
$if turns:            if (slot >= $stages) {
$if turns:                slot -= $stages;
$if turns:                turn ^= 1;
$if turns:            }
$if turns:        };
$if turns:        if (group == 1) skip();
$if turns:        tw::u32 mine = group ^ 1;  // parity of this group's turn; the first one is group 0's
        $group_loop
$if turns:            tw::mbarrier_wait(may + $barrier * group, mine);
$if turns:            mine ^= 1;
$if parted:            if ($has_rows) {
$if parted:                $loop
$unless parted:            $loop
$if parted:                $store
$unless parted:            $store
$if parted:            } else {
$if parted:                for (int t = $first; t < $end; t++) {  // another group's rows
$if parted:                    tw::mbarrier_wait(full + $barrier * slot, turn);
$if parted:                    release(slot);
$if parted:                    next();
$if parted:                }
$if parted:            }
$if turns:            skip();
$if persistent:        }
$if by_engine:        if (tid % 128 == 0) tw::tma_wait<0>();
    }
"""

COPIER = """\
if (tid == $first_copier) {
    tw::tma_prefetch(map_a);
    tw::tma_prefetch(map_b);
    $copier_loop
$if persistent:        $places
$unless persistent:    $places
$if kept:        TW_KEEP_LOOP  // few registers are left for copying
        for (int t = $first; t < $end; t++) {
            tw::mbarrier_wait(empty + $barrier * slot, turn ^ 1);
            const tw::u32 bar = full + $barrier * slot, to = ring + slot * $stage_bytes;
            tw::mbarrier_expect(bar, $stage_bytes);
            $taps
            $loads
            next();
        }
$if persistent:    }
$if paired:    // $still may still tell it of a slot.
$if paired:    for (int s = 0; s < $stages; s++) {
$if paired:        tw::mbarrier_wait(empty + $barrier * slot, turn ^ 1);
$if paired:        next();
$if paired:    }
}"""


def _cluster_raster(p: WgmmaTiling) -> Raster:
    """Raster over clusters of tiles. Where rows choose their batch, a table holds the number of rows of tiles."""
    return p.raster if p.sorting is None else replace(p.raster, tiles_m="used")


def _tile_loop(p: WgmmaTiling, alone: bool = False) -> list[str]:
    """Statements that begin the persistent loop over cluster tiles, or that declare the single tile of a block.

    ``alone``: for one of two ping-pong groups, which takes every other tile.
    """
    tiles = f"{p.whole} + {p.left} * {p.pieces}" if p.pieces else integers.text(_cluster_raster(p).blocks)
    by = f" / {p.together}" if p.together > 1 else ""
    start = "work" if p.persistent else f"(int)blockIdx.x{by}" if by else ""
    lines = [*tail.which(p), *place_of(p, "which")] if p.pieces else place_of(p, start)
    if p.tail:
        lines += tail.pieces(p)
    if p.split_k:
        lines.append(splitk.split_range(p.tiles_k, "first_tile", "end_tile"))
    if not p.persistent:
        return lines
    first, step = f"(int)blockIdx.x{by}", f"(int)gridDim.x{by}"
    if alone:
        first, step = f"{first} + group * ({step})", f"2 * ({step})"
    return [f"for (int work = {first}; work < {tiles}; work += {step}) {{", *("    " + x for x in lines)]


def place_of(p: WgmmaTiling, number: str) -> list[str]:
    """Statements that declare the coordinates of a tile, or of a block's tile in its cluster.

    ``number``: text of the tile's number.
    """
    s, (rows, columns), (m, n), (row, column) = p.sorting, p.clusters, p.cluster, p.place
    coordinates = _cluster_raster(p).declare(("tile_m",) if s is not None else (), number)
    m0 = _place("tile_m", rows > 1, m, row, p.bm) if s is None else f"tile_m * {p.bm}"
    n0 = _place("tile_n", columns > 1 or rows == 1, n, column, p.bn)
    return [*coordinates, *(s.of_tile() if s is not None else ()), f"const int m0 = {m0}, n0 = {n0};"]


def _place(tile: str, several: bool, together: int, own: str, size: int) -> str:
    """Text of a tile's first row or column. In a cluster, a block's tile is at its ``own`` row or column."""
    if together == 1:
        return f"{tile} * {size}" if several else "0"
    return f"({tile} * {together} + {own}) * {size}" if several else f"{own} * {size}"


def _loads(p: WgmmaTiling, s: Side) -> list[str]:
    """Statements that copy an operand's tile to a slot, or multicast a block's part of it to the slots of a cluster."""
    to, origin = ("to", "m0") if s.name == "a" else (f"to + {p.a.bytes}", "n0")
    if s.window is not None:
        return s.window.loads(s, f"map_{s.name}", to, "batch", s.readers)
    if s.taps is not None:
        return s.loads(f"map_{s.name}", to, origin, "channel", "tap", s.readers)
    batch = "batch" if batched(s.source) else ""
    return s.loads(f"map_{s.name}", to, origin, f"t * {p.bk}", batch, s.readers)


def _places(p: WgmmaTiling) -> list[str]:
    """Statements that declare the window position of a tile's first row, or of the first row that a block copies."""
    out = []
    for s, origin in zip(p.sides, ("m0", "n0"), strict=True):
        if s.window is not None:
            out += s.window.begin(origin, s, s.readers)
    return out


def _taps(p: WgmmaTiling) -> list[str]:
    """Statements that declare the tap of step ``t``, its first channel, and the tap's offsets in the window."""
    w = p.k.window
    if w is None:
        return []
    each = ceildiv(w.channels, p.bk)
    if each == 1:
        return ["const int tap = t, channel = 0;", *w.moves()]
    return [f"const int tap = t / {each}, channel = t % {each} * {p.bk};", *w.moves()]


def _products(p: WgmmaTiling) -> list[str]:
    """Statements that issue the instructions of one slot. Where sums are scaled: of the slot's 64 rows number ``i``."""
    kinds = ", ".join(str(int(s.rows_contiguous)) for s in p.sides)
    out = []
    for q in range(p.steps):
        right = f"ob + {p.b.step(q) // 16}" if p.b.step(q) else "ob"
        again = "add" if q == 0 else "1"
        if p.fold is not None:
            left = f"oa + {p.a.step(q) // 16}" if p.a.step(q) else "oa"
            out.append(f"tw::{p.function}<{kinds}>(part, {left}, {right}, {int(q > 0)});")
            continue
        for i in range(p.mi):
            a = (p.a.step(q) + p.a.block(i)) // 16
            left = f"oa + {a}" if a else "oa"
            out.append(f"tw::{p.function}<{kinds}>(acc[{i}], {left}, {right}, {again});")
    return out


def _scales(p: WgmmaTiling, first: str, end: str) -> list[str]:
    """Statements of one further copying warp for each scaled side, which puts scales into the ring's slots."""
    fold, out = p.fold, list[str]()
    if fold is None:
        return out
    batch, staged, begin = "batch" if p.p.batch > 1 else "0", p.staged, 0
    for number, side in enumerate(fold.sides):
        along, count, size = ("m", p.bm, p.p.m) if side == "a" else ("n", fold.runs, p.p.n)
        each = fold.run if side == "b" else 1
        place, further = f"{along}0 + lane" + (f" * {each}" if each > 1 else ""), f"u * {32 * each}"
        if side == "a" and not fold.copied:
            place, further = f"{place} + {further}", ""
        scale = fold.of(side, batch, place, f"t{' / 4 * 4' if staged else ''} * {p.bk}", further)
        copied = fold.copied and not staged
        mapping = {
            "rolled": copied and along in p.edges, "count": ceildiv(count, 32), "rest": count % 32, "all": count,
            "staged": staged,
            "own": fold.place("lane") if side == "b" else "lane", "copied": copied,
            "scale": "tw::load_shared<float>(own + u * 512 + t % 4 * 4)" if staged else scale, "of_four": scale,
            "valid": f", {place} + {further} < {size} ? {16 if staged else 4} : 0" if along in p.edges else "",
        }  # fmt: skip
        out += substituted(SCALES, {
            "warp": 4 * p.groups + 1 + number, "tile_loop": _tile_loop(p), "persistent": p.persistent,
            "first": first, "end": end, "barrier": BARRIER,
            "copies": substituted(COPY, mapping), "fetches": substituted(FETCH, mapping),
            "staged": staged, "scale_bytes": p.scale_bytes, "scales_at": p.memory.at("scales") + begin,
            "staged_at": p.memory.at("staged") + 4 * begin,
            "arrive": "arrive_copied" if copied else "arrive",
        })  # fmt: skip
        begin += 4 * count
    return out


# Each lane arrives for its own scales and does not wait for them. Where scales are contiguous along k, a lane copies
# four steps' scales at once and distributes them over the slots.
SCALES = """\
if (tid / 32 == $warp) {
$if staged:    const tw::u32 fours = ring + $staged_at + lane * 16;  // this lane's of four steps
$if staged:    const unsigned char *const own = smem + (fours - start);
    $tile_loop
        TW_KEEP_LOOP  // few registers are left for copying
        for (int t = $first; t < $end; t++) {
$if staged:            if (t == $first || t % 4 == 0) {
$if staged:                $fetches
$if staged:                tw::cp_commit();
$if staged:                tw::cp_wait<0>();
$if staged:            }
            tw::mbarrier_wait(empty + $barrier * slot, turn ^ 1);
            const tw::u32 to = ring + $scales_at + slot * $scale_bytes;
            $copies
            tw::mbarrier_$arrive(full + $barrier * slot);
            next();
        }
$if persistent:    }
}"""
FETCH = """\
TW_KEEP_LOOP
for (int u = 0; u < $count; u++) {
$if rest:    if (u * 32 + lane < $all)
    tw::cp_async<16>(fours + u * 512, $of_four$valid);
}"""
COPY = """\
$if rolled:TW_KEEP_LOOP
$unless rolled:TW_UNROLL
for (int u = 0; u < $count; u++) {
$if rest:    if (u * 32 + lane < $all)
$if copied:    tw::cp_async<4>(to + u * 128 + $own * 4, $scale$valid);
$unless copied:    tw::store_shared(smem + (to - start + u * 128 + $own * 4), $scale);
}"""


def _told(p: WgmmaTiling) -> dict[str, str]:
    """Texts that name the blocks to notify of a free slot: blocks of the same cluster row or column.

    Ranks are numbered along rows, so the rank of a neighbour differs in a bit. In a row or column of four, the third
    differs in both bits. One lane of a warp notifies each block.
    """
    if p.peers == 1:
        return {"peer": "rank ^ 1", "told": "lane == 0", "still": "Neither block ends while the other"}
    return {
        "peer": f"rank ^ (lane % {p.peers} + 1)",
        "told": f"lane < {p.peers}",
        "still": "No block ends while another one",
    }


def _has_rows(p: WgmmaTiling) -> str:
    """The condition that a group computes rows of its block's tile; empty where every group does."""
    if p.tail_rows:
        return f"work < {p.whole} || group == piece"
    if p.sorting is None or p.sharing == 1:
        return ""
    first = f"order + (m0 + group * {p.bm // p.sharing})"
    return f"tw::shuffle(tw::load_written<int>({first}), 0) < {p.p.m}"


def body(p: WgmmaTiling, symbol: str) -> str:
    """The kernel's statements."""
    fewer, more = (GATHERING if p.gather or p.fold is not None else REGISTERS)[p.groups]
    first, end = ("first_tile", "end_tile") if p.split_k or p.tail else ("0", str(p.tiles_k))
    arrivals = 1 + (WARPS if p.gather else 0) + (32 * len(p.fold.sides) if p.fold is not None else 0)
    if p.gather:
        copies = copier(p, _tile_loop(p), _loads(p, p.b), first, end)
    else:
        loads = [line for s in p.sides for line in _loads(p, s)]
        copies = substituted(COPIER, {
            "first_copier": 128 * p.groups, "copier_loop": _tile_loop(p), "first": first, "end": end,
            "barrier": BARRIER, "places": _places(p), "taps": _taps(p),
            "stage_bytes": p.stage_bytes, "loads": loads, "persistent": p.persistent, "stages": p.stages,
            **_told(p), "paired": p.together > 1, "kept": p.together > 1 or p.fold is not None,
        })  # fmt: skip
    return substitute(BODY, {
        "symbol": symbol, "less": EIGHT - 1, "eight": EIGHT, "barriers": p.memory.at("barriers"),
        "bytes_of_full": BARRIER * p.stages, "filled": arrivals, "scales_at": p.memory.at("scales"),
        "scales": _scales(p, first, end), "parts": p.parts,
        "of_rows": f" + i * {p.a.block(1) // 16}" if p.fold is not None and p.mi > 1 else "",
        "barrier": BARRIER, "stages": p.stages, "warps": WARPS * p.sharing * (1 + p.peers), "groups": p.groups,
        "fewer": fewer, "more": more, "copier": copies, "first": first, "end": end,
        "stage_units": p.stage_bytes // 16, "persistent": p.persistent, "boxes": p.box is not None,
        "by_engine": p.store is not None, "acc": p.instruction.acc, "boxes_at": p.memory.at("boxes"),
        "group_boxes": BOX_BUFFERS * p.box.bytes if p.box is not None else 0,
        "merged": p.split_k or p.tail, "sorted": p.sorting is not None,
        "used": p.sorting.used if p.sorting is not None else "", "parted": _has_rows(p) != "", "has_rows": _has_rows(p),
        "group_place": "" if p.ping_pong else f" + group * {p.a.block(p.mi)}",
        "across_a": p.a.across, "across_b": p.b.across,
        "bytes_a": p.a.bytes, "mi": p.mi, "sums": p.sums, "products": _products(p),
        "store": tail.stored(p, store(p)) if p.tail else store(p),
        "turns": p.ping_pong, "group_warps": WARPS,
        "rest": p.tiles_k % p.stages, "rounds": p.tiles_k // p.stages % 2,
        "group_loop": _tile_loop(p, p.ping_pong), "alone": p.together == 1,
        "loop": loop(p, first, end), "scaled": p.fold is not None,
        **_told(p), "paired": p.together > 1, "several": p.peers > 1 or p.fold is not None,
    })  # fmt: skip
