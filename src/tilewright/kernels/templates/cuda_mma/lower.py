"""The printed kernel and its launches."""

from __future__ import annotations

from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda import raster, sizes, sorting, splitk
from tilewright.kernels.templates.cuda.epilogue import Epilogue
from tilewright.kernels.templates.cuda.launches import DeviceKernel, lowered
from tilewright.kernels.templates.cuda_mma import fragments, pack
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling
from tilewright.kernels.templates.cuda_mma.loads import Loader
from tilewright.kernels.templates.cuda_mma.match import rounding
from tilewright.kernels.templates.cuda_mma.ring import ring
from tilewright.kernels.templates.cuda_mma.store import results, store


def kernel(p: MmaTiling, symbol: str) -> LoweredKernel:
    """Sorting and packing, the product, and the merge of partial results."""
    c, workspace = p.p.c, pack.workspace_bytes(p)
    sort = sorting.sorts(c, p.bm, workspace)  # its tables lie behind all else
    before = (*(s.kernel for s in sort), *(pack.kernel(p, s) for s in pack.packed(p)))
    main = DeviceKernel(
        program=c.program, body=lambda symbol: _body(p, symbol, sort), arguments=raster.arguments(p.split_k),
        blocks=raster.blocks(p.tiles_m, p.tiles_n, sizes.expression(c.batches), p.split_k),
        threads=p.threads, min_blocks=p.min_blocks, shared=p.shared, early=bool(sort) and len(before) == 1,
    )  # fmt: skip
    return lowered(
        symbol, (*before, main, *splitk.kernels(c, p.split_k)), results(p)[0],
        workspace=sort[0].end if sort else workspace, align=alignment(p), rounding=rounding(p.p),
    )  # fmt: skip


def alignment(p: MmaTiling) -> int:
    """Bytes to which tensors must be aligned: the widest access to any of them."""
    widths = [s.copy for s in p.sides if s.direct and not s.source.is_packed]
    out = Epilogue(p.p.c).width * ITEMSIZE[p.p.c.output.dtype]
    return max(1, out, *(ITEMSIZE[t.dtype] for t in p.p.c.program.inputs), *widths)


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
$if split:    $pieces
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


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return [" " * 4 * depth + x for x in lines]


def _body(p: MmaTiling, symbol: str, sort: tuple[sorting.Sorting, ...]) -> str:
    loaders = [Loader(p, s) for s in p.sides]
    direct, carried = [x for x in loaders if x.s.direct], [x for x in loaders if not x.s.direct]
    declared = [*pack.declare(p), *(line for x in loaders for line in x.declare()), *fragments.declare(p)]
    read = [*(line for x in loaders for line in fragments.read(x.s, p)), *fragments.rounded(p)]
    tiles = raster.raster(
        p.tiles_m, p.tiles_n, sizes.expression(p.p.c.batches), p.split_k, reads=("tile_m",) if sort else ()
    ) + "".join(s.declare() for s in sort)
    return fill(BODY, {
        "symbol": symbol, "raster": tiles.splitlines(),
        "m0": f"tile_m * {p.bm}" if sizes.several(p.tiles_m) else "0",
        "n0": f"tile_n * {p.bn}" if sizes.several(p.tiles_n) or p.tiles_m == 1 else "0",
        "one_warp": p.threads == 32, "many_warps": p.warps_m > 1 and p.warps_n > 1, "warps_n": p.warps_n,
        "ring_a": p.stages * p.a.bytes, "split": p.split_k,
        "pieces": splitk.pieces(p.tiles_k, "first_tile", "end_tile"), "declared": _indent(declared),
        "acc": p.instruction.acc, "register": p.instruction.register, "mi": p.mi, "ni": p.ni,
        "scaled": p.fold is not None,
        "zeroed": "acc[i][j][e]" if p.fold is None else "acc[i][j][e] = part[i][j][e]",
        "copies": direct, "copy": _indent([line for x in direct for line in x.copies()], 2),
        "carries": carried, "fetch": _indent([line for x in carried for line in x.fetch()], 2),
        "put": _indent([line for x in carried for line in x.put()], 2),
        "read": _indent(read, 2), "multiply": _indent(fragments.multiply(p), 2),
        "loop": _indent(ring(p)), "store": _indent(store(p)),
    })  # fmt: skip
