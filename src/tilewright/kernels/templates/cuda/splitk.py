"""Split-K: blocks sum splits of K into the workspace, and a second kernel merges the partial results.

The workspace holds ``SPLIT`` consecutive arrays of batch x M x N partial results. ``SPLIT`` is a launch argument, so
one binary serves every number of splits.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.core import IntExpr
from tilewright.kernels.codegen.integers import text, wide
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import axis
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.describe import WORKSPACE
from tilewright.kernels.templates.cuda.epilogue import Epilogue, combine, in_packs
from tilewright.kernels.templates.cuda.functions import Function
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.sizes import arguments, divisor, expression, tile_count, times
from tilewright.kernels.templates.cuda.sizes import used as sizes_used
from tilewright.kernels.templates.cuda.sorting import batch_of
from tilewright.kernels.templates.cuda.text import NARROW, VALUE, VALUE_BYTES
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256
MOST_SPLITS = 128
"""Largest number of splits."""
MOST_MMA_SPLITS = 64
"""Largest number of splits for templates with matrix instructions."""
WORKSPACE_LIMIT = 256 << 20
"""Bytes of partial results beyond which K is not split."""


@lru_cache(maxsize=1024)
def splits(c: CudaContraction, steps: int) -> tuple[int, ...]:
    """Values of SPLIT above 1 for ``steps`` tiles along K: no split is empty, and the workspace is within its limit."""
    found = []
    for s in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, MOST_SPLITS):
        fits = s * c.outputs * VALUE_BYTES[c.acc] <= WORKSPACE_LIMIT
        if s <= steps and fits and no_empty_split(steps, s):
            found.append(s)
    return tuple(found)


def mma_splits(c: CudaContraction, steps: int, depth: int) -> list[int]:
    """Values of SPLIT for templates with matrix instructions: each split has at least two tiles of ``depth``."""
    return [s for s in splits(c, steps) if s <= MOST_MMA_SPLITS and s * 2 * depth <= c.k.size]


def no_empty_split(steps: int, split: int) -> bool:
    """Whether no split is empty if ``split`` splits take ``ceil(steps / split)`` of ``steps`` tiles each."""
    return ceildiv(steps, ceildiv(steps, split)) == split


def workspace(c: CudaContraction, split: bool) -> IntExpr:
    """Bytes of workspace for partial results: 0 without ``split``."""
    return ["*", "SPLIT", times(VALUE_BYTES[c.acc], expression(c.outputs))] if split else 0


def width(c: CudaContraction) -> int:
    """Vector width of an access to partial results along N, in elements."""
    w = 16 // VALUE_BYTES[c.acc]
    while divisor(c.n.size) % w:
        w //= 2
    return w


def split_range(steps: int, first: str, end: str) -> str:
    """A statement that declares a split's tiles of K, ``first`` up to ``end``: lengths differ by one tile at most."""
    if steps * MOST_SPLITS < NARROW:
        return f"const int {first} = piece * {steps} / SPLIT, {end} = (piece + 1) * {steps} / SPLIT;"
    return f"const int {first} = int(piece * {steps}LL / SPLIT), {end} = int((piece + 1) * {steps}LL / SPLIT);"


@lru_cache(maxsize=256)
def partial(c: CudaContraction, values: int, edges: str) -> Function:
    """``store_partial(ws, v, piece, batch, m, n)`` of the kernel's namespace: stores unfinished sums in the workspace.

    ``values`` and ``edges`` as in :class:`.Epilogue`.
    """
    row = f"batch * {wide(expression(c.m.size))} + m" if c.batches > 1 else "(long long)m"
    w = min(values, width(c))
    inner = "n" in edges and divisor(c.n.size) % values != 0
    columns, several = text(expression(c.n.size)), c.outputs > c.n.size
    edges_of = {"m": text(expression(c.m.size)), **({} if inner else {"n": columns})}
    body = "".join(f"    if ({x} >= {size}) return;\n" for x, size in edges_of.items() if x in edges)
    place = f"({row}) * {columns} + n" if several else "n"
    body += f"    {VALUE[c.acc]} *to = ({VALUE[c.acc]} *)ws + piece * {wide(expression(c.outputs))} + {place};\n"
    body += in_packs(
        VALUE[c.acc], values, w, "to + i" if w < values else "to", lambda number: f"v[{number}]",
        [f"n + i >= {columns}"] if inner and w < values else [], "    ", w == 1 < values,
    )  # fmt: skip
    used = {"ws", "v", "piece", "n", *sizes_used(c.outputs), *(["batch"] if several and c.batches > 1 else [])}
    used |= {"m", *sizes_used(c.m.size)} if several or "m" in edges else set()
    taken = {"ws": "unsigned char *ws", "v": f"const {VALUE[c.acc]} (&v)[{values}]"}
    taken |= {x: f"int {x}" for x in ("piece", "batch", "m", "n", *arguments(c.program))}
    return Function("store_partial", "void", taken, body, used)


def results(c: CudaContraction, values: int, edges: str, split: bool) -> tuple[str, Function]:
    """Text of functions for the kernel's namespace, and the function that stores ``values`` sums of a thread."""
    e = Epilogue(c, values, edges)
    store = partial(c, values, edges) if split else e.stored
    return e.finished.define() + store.define(), store


def kernels(c: CudaContraction, split: int) -> tuple[GlobalFunction, ...]:
    """The second kernel, ``<symbol>_combine``, of a split K: merges partial results in order, finishes and stores.

    The kernel calls ``finish`` of the source's namespace.
    """
    if split == 1:
        return ()
    return (
        GlobalFunction(
            program=c.program, body=lambda symbol: _combining(c, symbol), threads=THREADS, symbol="_combine",
            blocks=tile_count(c.outputs, THREADS * width(c)), arguments=("SPLIT",), early=True,
            loops=lambda: (_nest(c, split),),
        ),
    )  # fmt: skip


def _combining(c: CudaContraction, symbol: str) -> str:
    w, n, m = width(c), c.n.size, c.m.size
    rows, columns, outputs = expression(m), text(expression(n)), expression(c.outputs)
    epilogue = Epilogue(c)
    wanted = [(c.n, 1), (c.m, n), (c.batch, m * n)]
    where = Linear(0, c.out_strides)
    in_order = not c.clips and all(group.size == 1 or group.stride(where) == step for group, step in wanted)
    used = set[str]()
    store = epilogue.write(w, used, "e" if in_order else None, "        ")
    places = {
        "batch": batch_of(c) if c.is_sorted else f"e / {text(times(rows, expression(n)))}",
        "m": f"e / {columns} % {text(rows)}" if c.batches > 1 else f"e / {columns}",
        "n": f"e % {columns}" if c.outputs > n else "e",
    }  # fmt: skip
    return substitute(COMBINE, {
        "threads": THREADS, "symbol": symbol, "acc": VALUE[c.acc], "merged": merged(c, w, wide(outputs)),
        "by": f" * {w}" if w > 1 else "", "spare": divisor(c.outputs) % (THREADS * w), "outputs": text(outputs),
        "places": [f"    const int {x} = {places[x]};" for x in ("n", "m", "batch") if x in used],
        "store": store.splitlines(),
    })  # fmt: skip


COMBINE = """\
    using namespace ${symbol}_;
    tw::grid_wait();
    const int e = (int)(blockIdx.x * $threads + threadIdx.x)$by;
$if spare:    if (e >= $outputs) return;
$places
    const $acc *from = (const $acc *)ws + e;
$merged
    {
$store
    }
"""

MERGED = """\
    $acc v[$w];
    tw::pack<$acc, $w> part = tw::load_written<tw::pack<$acc, $w>>(from);
    TW_UNROLL
    for (int i = 0; i < $w; i++) v[i] = part.v[i];
    for (int s = 1; s < SPLIT; s++) {
        part = tw::load_written<tw::pack<$acc, $w>>(from + s * $apart);
        TW_UNROLL
        for (int i = 0; i < $w; i++) v[i] = $combined;
    }"""


def merged(c: CudaContraction, width: int, apart: str) -> str:
    """Statements that merge ``SPLIT`` packs of ``width`` partial results into ``v``.

    The packs begin at ``from`` and lie ``apart`` elements apart.
    """
    combined = combine(c, "v[i]", "part.v[i]")
    return substitute(MERGED, {"acc": VALUE[c.acc], "w": width, "apart": apart, "combined": combined})


@lru_cache(maxsize=256)
def _nest(c: CudaContraction, split: int) -> LoopNest:
    """Loop nest of the kernel that merges partial results."""
    e, s = axis("e"), axis("s")
    each = width(c)
    return LoopNest(
        name="combine",
        axes={"e": c.outputs, "s": split},
        loops=(
            Loop("e", c.outputs, THREADS * each, "parallel", "l2"),
            Loop("e", THREADS * each, 32 * each, "serial", "l1"),
            Loop("s", split, 1, "serial", "register"),
            Loop("e", 32 * each, each, "vector", "register"),
            Loop("e", each, 1, "unroll", "register"),
        ),
        accesses=(
            Access(WORKSPACE, (s * c.outputs + e,), c.acc),
            Access(c.output.name, (e,), c.output.dtype, store=True),
        ),
        flops_per_point=1,
        itemsize=VALUE_BYTES[c.acc],
        flops_per_output=c.flops[1],
    )
