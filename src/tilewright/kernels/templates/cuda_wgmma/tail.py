"""Tiles of the last round, divided along k: blocks sum pieces of them into the workspace, a second kernel merges these.

Blocks that walk have whole tiles as long as there is one for each; what is left falls into ``SPLIT`` pieces a tile.
The workspace holds each piece of a tile as the tile lies, and the pieces of one tile follow each other: they are added
in that order, whichever block comes first.
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
    """Statements that name the tile of a walk's ``work``, and the piece of it."""
    return substituted(WHICH, {"whole": p.whole, "left": p.left})


def pieces(p: WgmmaTiling) -> list[str]:
    """Statements that declare the steps of k of a piece."""
    return substituted(PIECE, {"whole": p.whole, "steps": p.tiles_k})


def stored(p: WgmmaTiling, whole: list[str]) -> list[str]:
    """Statements that store a tile by those for a ``whole`` one, or a piece."""
    return substituted(STORE, {
        "whole": p.whole, "store": whole, "acc": p.instruction.acc,
        "of_cluster": f" * {p.together} + rank" if p.together > 1 else "", "size": p.bm * p.bn, "mi": p.mi,
        "eights": p.bn // 8, "bn": p.bn,
    })  # fmt: skip


def kernel(p: WgmmaTiling, place: list[str]) -> GlobalFunction:
    """The second kernel, ``<symbol>_merge``: a thread has a pair of sums, and the last block none to spare.

    ``place``: statements that declare the place of tile ``tail``.
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
    """Bytes of workspace."""
    return ["*", "SPLIT", p.left * p.together * p.bm * p.bn * VALUE_BYTES[p.p.c.acc]]
