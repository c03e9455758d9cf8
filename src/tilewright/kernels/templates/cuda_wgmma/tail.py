"""Split tail wave: blocks sum splits of k of the last wave's tiles into the workspace, and a second kernel merges them.

Persistent blocks compute whole tiles in full waves. Each remaining tile is split along k into ``SPLIT`` pieces. The
workspace holds a piece in the layout of its tile, and the pieces of a tile follow each other. The merge adds pieces in
that order, whichever block finishes first.
"""

from __future__ import annotations

from tilewright.core import IntExpr
from tilewright.kernels.codegen.substitution import substitute, substituted
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.text import VALUE, VALUE_BYTES
from tilewright.kernels.templates.cuda_wgmma.geometry import PAIR, WgmmaTiling
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256

WHICH = """\
const int piece = work < $whole ? 0 : (work - $whole) / $left;
const int which = work < $whole ? work : $whole + (work - $whole) % $left;"""

PIECE = """\
const int first_tile = work < $whole ? 0 : piece * $steps / SPLIT;
const int end_tile = work < $whole ? $steps : (piece + 1) * $steps / SPLIT;"""

STORE = """\
if (work < $whole) {
    $store
} else {
    $acc *const part = ($acc *)ws + (((which - $whole) * SPLIT + piece)$of_cluster) * $size;
    TW_UNROLL
    for (int i = 0; i < $mi; i++) {
        TW_UNROLL
        for (int j = 0; j < $eights; j++) {
            TW_UNROLL
            for (int h = 0; h < 2; h++) {
                tw::pack<$acc, 2> two;
                two.v[0] = acc[i][4 * j + 2 * h];
                two.v[1] = acc[i][4 * j + 2 * h + 1];
                const int r = (group * $mi + i) * 64 + warp * 16 + h * 8 + lane / 4;
                tw::store_global(part + r * $bn + j * 8 + lane % 4 * 2, two);
            }
        }
    }
}"""

MERGE = """\
    using namespace ${symbol}_;
    tw::grid_wait();
    const int at = (int)(blockIdx.x * $threads + threadIdx.x) * 2;
    const int element = at % $size, number = at / $size;
$if paired:    const int rank = number % $together;
    const int tail = number$of_tiles;
    $place
    const $acc *from = (const $acc *)ws + (tail * SPLIT$of_cluster) * $size + element;
$merged
    const int m = m0 + element / $bn, n = n0 + element % $bn;
    $call;
"""


def which(p: WgmmaTiling) -> list[str]:
    """Statements that declare the tile and the piece of the work item ``work``."""
    return substituted(WHICH, {"whole": p.whole, "left": p.left})


def pieces(p: WgmmaTiling) -> list[str]:
    """Statements that declare the range of steps of k of a piece."""
    return substituted(PIECE, {"whole": p.whole, "steps": p.tiles_k})


def stored(p: WgmmaTiling, whole: list[str]) -> list[str]:
    """Statements that store a complete tile by the statements ``whole``, or a piece to the workspace."""
    return substituted(STORE, {
        "whole": p.whole, "store": whole, "acc": p.instruction.acc,
        "of_cluster": f" * {p.together} + rank" if p.together > 1 else "", "size": p.bm * p.bn, "mi": p.mi,
        "eights": p.bn // 8, "bn": p.bn,
    })  # fmt: skip


def kernel(p: WgmmaTiling, place: list[str]) -> GlobalFunction:
    """The kernel ``<symbol>_merge``: a thread merges a pair of results.

    ``place``: statements that declare the coordinates of tile ``tail``.
    """
    return GlobalFunction(
        program=p.p.c.program, body=lambda symbol: _body(p, symbol, place), threads=THREADS, symbol="_merge",
        blocks=ceildiv(p.left * p.together * p.bm * p.bn // PAIR, THREADS), arguments=raster.arguments(True),
        early=True,
    )  # fmt: skip


def _body(p: WgmmaTiling, symbol: str, place: list[str]) -> str:
    c, paired = p.p.c, p.together > 1
    call = p.results[1].call(v="v", batch="batch" if p.p.batch > 1 else "0", m="m", n="n")
    return substitute(MERGE, {
        "threads": THREADS, "symbol": symbol, "size": p.bm * p.bn,
        "paired": paired, "together": p.together, "of_tiles": f" / {p.together}" if paired else "",
        "place": place,
        "acc": VALUE[c.acc], "of_cluster": f" * {p.together} + rank" if paired else "",
        "merged": splitk.merged(c, PAIR, str(p.together * p.bm * p.bn)), "bn": p.bn, "call": call,
    })  # fmt: skip


def workspace(p: WgmmaTiling) -> IntExpr:
    """Bytes of workspace for the pieces of the last wave."""
    return ["*", "SPLIT", p.left * p.together * p.bm * p.bn * VALUE_BYTES[p.p.c.acc]]
