"""The statements of the main kernel."""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.templates.cuda import sizes, sorting, splitk
from tilewright.kernels.templates.cuda_mma import fragments, pack
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling
from tilewright.kernels.templates.cuda_mma.loads import Loader
from tilewright.kernels.templates.cuda_mma.ring import ring
from tilewright.kernels.templates.cuda_mma.store import store

BODY = """\
    TW_SHARED(smem);
    using namespace ${symbol}_;
$if split:    tw::grid_launch();
    $raster
    const int m0 = $m0, n0 = $n0;
$if one_warp:    const int tid = (int)threadIdx.x, lane = tid;
$unless one_warp:    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
$if many_warps:    const int wm = warp / $warps_n, wn = warp % $warps_n;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + $ring_a;
$if split:    $split_range
    $declared
    $acc acc[$mi][$ni][4];
$if scaled:    $acc part[$mi][$ni][4];  // of a tile of k
    TW_UNROLL
    for (int i = 0; i < $mi; i++)
        TW_UNROLL
        for (int j = 0; j < $ni; j++)
            TW_UNROLL
            for (int e = 0; e < 4; e++) $zeroed = 0;
$if copies:    // Tile t of k, from global memory to slot of the ring.
$if copies:    const auto copy = [&](int slot, int t) {
        $copy
$if copies:    };
$if carries:    // The same through registers, in two steps.
$if carries:    const auto fetch = [&](int t) {
        $fetch
$if carries:    };
$if carries:    const auto put = [&](int slot) {
        $put
$if carries:    };
    // Step q of the tile in slot, from shared memory to registers.
    const auto read = [&]($register (&fa)[$mi][4], $register (&fb)[$ni][2], int slot, int q) {
        $read
    };
    const auto multiply = [&](const $register (&fa)[$mi][4], const $register (&fb)[$ni][2]) {
        $multiply
    };
    $loop
    $store
"""


def body(p: MmaTiling, symbol: str, sort: tuple[sorting.Sorting, ...]) -> str:
    """The kernel's statements; ``sort``: the launch that sorts rows, or empty."""
    loaders = [Loader(p, s) for s in p.sides]
    direct, carried = [x for x in loaders if x.s.direct], [x for x in loaders if not x.s.direct]
    declared = [*pack.declare(p), *(line for x in loaders for line in x.declare()), *fragments.declare(p)]
    read = [*(line for x in loaders for line in fragments.read(x.s, p)), *fragments.rounded(p)]
    tiles = [*p.raster.declare(("tile_m",) if sort else ()), *(line for x in sort for line in x.declare())]
    tiles_m, tiles_n = p.raster.tiles_m, p.raster.tiles_n
    return substitute(BODY, {
        "symbol": symbol, "raster": tiles,
        "m0": f"tile_m * {p.bm}" if sizes.several(tiles_m) else "0",
        "n0": f"tile_n * {p.bn}" if sizes.several(tiles_n) or tiles_m == 1 else "0",
        "one_warp": p.threads == 32, "many_warps": p.warps_m > 1 and p.warps_n > 1, "warps_n": p.warps_n,
        "ring_a": p.ring.at("b"), "split": p.split_k,
        "split_range": splitk.split_range(p.tiles_k, "first_tile", "end_tile"), "declared": declared,
        "acc": p.instruction.acc, "register": p.instruction.register, "mi": p.mi, "ni": p.ni,
        "scaled": p.fold is not None,
        "zeroed": "acc[i][j][e]" if p.fold is None else "acc[i][j][e] = part[i][j][e]",
        "copies": direct, "copy": [line for x in direct for line in x.copies()],
        "carries": carried, "fetch": [line for x in carried for line in x.fetch()],
        "put": [line for x in carried for line in x.put()],
        "read": read, "multiply": fragments.multiply(p), "loop": ring(p), "store": store(p),
    })  # fmt: skip
