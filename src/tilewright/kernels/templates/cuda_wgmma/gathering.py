"""C++ of the copying warp group that fetches A's rows from where they lie, 16 bytes a thread and copy.

TMA copies adjacent rows, but rows that choose their batch may lie apart. So the threads copy the rows with ``cp.async``
to the addresses that TMA would use. They signal that a slot is full once copies of :data:`AHEAD` later slots have
begun. TMA copies B's tiles. Rows of a warp group without any valid row are not copied, and the warp group does not read
them.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.primitives.wgmma import THREADS
from tilewright.kernels.templates.cuda.warpgroups import BARRIER, LINE
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling

AHEAD = 2
"""Slots that may be in flight while the copies of a later slot begin. The ring has two more."""
LANES = LINE // CHUNK
"""Number of threads that copy a row's 128 bytes."""
ROUND = THREADS // LANES
"""Number of rows that the copying group copies at once."""

COPIER = """\
const int own = tid % $threads;
if (own == 0) tw::tma_prefetch(map_b);
const tw::u32 at = own / $lanes * $line + ((own % $lanes ^ own / $lanes % $lanes) << 4);
int begun = 0, late = 0;  // slots that nobody was told of, and the first of them
const auto tell = [&]() {
    tw::shared_fence();
    tw::sync_warp();
    if (lane == 0) tw::mbarrier_arrive(full + $barrier * late);
    late = late + 1 == $stages ? 0 : late + 1;
};
$tile_loop
    int parts = 1;  // with rows
    TW_UNROLL
    for (int i = 1; i < $parts; i++) parts += tw::load_written<int>(order + (m0 + i * $part)) < $m;
    int from[$rounds];
    TW_UNROLL
    for (int i = 0; i < $rounds; i++) {
        int row = tw::load_written<int>(order + (m0 + i * $round + own / $lanes));
        row -= row == $m;
        from[i] = $offset + own % $lanes * $each;
    }
    for (int t = $first; t < $end; t++) {
        tw::mbarrier_wait(empty + $barrier * slot, turn ^ 1);
        const tw::u32 bar = full + $barrier * slot, to = ring + slot * $stage_bytes;
        if (own == 0) {
            tw::mbarrier_expect(bar, $bytes);
            $loads
        }
        TW_UNROLL
        for (int d = 0; d < $lines; d++) {
            const int k = t * $bk + d * $step;
$if ragged:            const int left = ($depth - k - own % $lanes * $each) * $item;
$if ragged:            const int valid = left < 0 ? 0 : left < 16 ? left : 16;
            TW_UNROLL
            for (int i = 0; i < $rounds; i++) {
                if (i * $round < parts * $part)
                    tw::cp_async<16>(to + at + d * $box + i * $bytes_of_round, $tensor + (from[i] + k)$valid);
            }
        }
        tw::cp_commit();
        next();
        if (begun < $ahead) {
            begun++;
        } else {
            tw::cp_wait<$ahead>();
            tell();
        }
    }
}
tw::cp_wait<0>();
for (; begun > 0; begun--) tell();"""


def copier(p: WgmmaTiling, tile_loop: list[str], loads: list[str], first: str, end: str) -> list[str]:
    """Statements of the copying group. ``loads``: the statements that fetch B's tile."""
    source, ragged = p.p.a.in_place, p.p.k % p.bk != 0
    rows = p.bm // p.sharing
    return substituted(COPIER, {
        "threads": THREADS, "lanes": LANES, "line": LINE, "barrier": BARRIER, "stages": p.stages,
        "tile_loop": tile_loop, "parts": p.sharing, "part": rows, "rounds": p.bm // ROUND, "round": ROUND, "m": p.p.m,
        "offset": source.offset("0", "row", "0"), "each": CHUNK // source.item, "first": first, "end": end,
        "stage_bytes": p.stage_bytes, "bytes": p.b.bytes, "loads": loads,
        "lines": p.bk // p.a.line, "bk": p.bk, "step": p.a.line, "ragged": ragged, "depth": p.p.k,
        "item": source.item, "box": p.bm * LINE, "bytes_of_round": ROUND * LINE, "tensor": source.tensor,
        "valid": ", valid" if ragged else "", "ahead": AHEAD,
    })  # fmt: skip
