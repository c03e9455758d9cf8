"""The kernel of a contraction: its loop nest, static features, launch, workspace and entry point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from tilewright.core import IntExpr, Value
from tilewright.extent import ctext, intexpr
from tilewright.kernels.codegen.integers import long_text
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.kernel import Array, CpuStatic, Kernel, Opaque, Workspace, entry
from tilewright.kernels.kernel.workspace import rounded
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cpu_contraction import clip, finite, lower, micro, prepack, valid_length
from tilewright.kernels.templates.cpu_contraction.geometry import LINE, ContractionTiling
from tilewright.kernels.templates.cpu_contraction.image import image_task
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.steps import Steps
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.kernels.templates.cpu_contraction.text import sizes
from tilewright.kernels.templates.sharing import SPLITS
from tilewright.kernels.templates.tiles import SymbolicBlocks, ceildiv

BLOCKS = ("KC", "MC", "NC")
PAGE = 4096
INTERLEAVED = 4.0
"""Instructions per vector of B that is read in place as units, whose rows are interleaved."""
COMPUTED, RUNS = 6.0, 0.25
"""Instructions per packed element: with an address computed for each element, or for a run of adjacent elements."""


def kernel(steps: Steps, values: Mapping[str, Value]) -> Kernel:
    """The kernel of a schedule. ``steps`` prints its register tiles."""
    p = steps.p
    # B is prefetched k steps ahead, or panels to the right at the same k; units in place: cache lines to the right.
    step = max(1, p.k_loops[-1].other) if p.prefetch_b > 0 else -p.width
    ahead = p.prefetch_b * (LINE if p.mixed and not p.pack_b else step * p.b_item)
    return Kernel(
        text=Opaque(partial(_nests, p, values), partial(_source, steps)),
        static=CpuStatic(prefetch=ahead, prefetch_output=p.prefetch_c and p.c.in_place),
        launches=entry(p.c.program, *BLOCKS, *(SPLITS if p.target.threads > 1 else ())),
        workspace=partial(_workspace, p),
        prepack=partial(prepack.prepacks, p),
    )


# --------------------------------------------------------------------------- loops


def _nests(p: ContractionTiling, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """One nest: chunks of the batch, outer axes, tasks, cache blocks, register tiles, k, the register tile itself.

    K is one axis in the nest, also where several loops cover it. Steps that a clipped window skips count as taken.
    """
    c = p.c
    m, n, k = int(p.m.size), int(c.n.size), int(c.k.size)

    def get(name: str) -> int:
        return int(values.get(name, 1))

    rows, width = p.rows, p.width
    mc = max(rows, min(get("MC"), ceildiv(m, rows) * rows) // rows * rows)
    nc = max(width, min(get("NC"), ceildiv(n, p.lanes) * p.lanes) // width * width)
    kc = max(p.unit, min(get("KC"), k) // p.unit * p.unit)
    loops = [Loop("m", c.m.size, m)] if p.chunks > 1 else []
    image_depth = len(loops)
    if c.batch.size > 1:
        loops.append(Loop("o", c.batch.size, 1, "parallel" if p.target.threads > 1 else "serial"))
    for name, extent, split in (("k", k, get("TK")), ("n", n, get("TN")), ("m", m, get("TM"))):
        if split > 1:
            loops.append(Loop(name, extent, ceildiv(extent, split), "parallel"))
    rows_block = Loop("m", m, mc, level="l2", argument="MC")
    columns_block = Loop("n", n, nc, level="l3", argument="NC")
    steps_block = Loop("k", k, kc, level="l2" if p.mixed else "l3", argument="KC")
    blocks = [columns_block, steps_block]
    blocks.insert(0 if p.mixed else 2, rows_block)
    a_depth, b_depth = (len(loops) + blocks.index(x) + 1 for x in (rows_block, steps_block))
    loops += blocks
    tile_m, tile_n = Loop("m", m, rows, level="l1"), Loop("n", n, width, level="l1")
    loops += [tile_n, tile_m] if p.order == "ji" else [tile_m, tile_n]
    loops += [
        Loop("k", k, p.unroll * p.group, level="register"),
        Loop("k", k, 1, "unroll", "register"),
        Loop("m", m, 1, "unroll", "register"),
        Loop("n", n, p.lanes, "unroll", "register"),
        Loop("n", n, 1, "vector", "register"),
    ]
    copies: dict[str, tuple[int | None, Layout, str, float]] = {}
    panels = (p.group,) if p.group > 1 else ()
    if p.image:
        copies["a"] = (image_depth, Layout.row_major(*p.image.shape), "l3", 1 / p.lanes)
    elif p.a == "rows":
        copies["a"] = (a_depth, Layout.row_major(mc, p.depth * p.group), "l2", 0.0)
    elif p.pack_a:
        packed = (mc, kc) if p.a == "pack" else (m, k)
        layout = Layout.row_major(ceildiv(packed[0], rows), ceildiv(packed[1], p.unroll), rows, p.unroll)
        copies["a"] = (a_depth if p.a == "pack" else None, layout, "l2", _moves(p, "a"))
    if p.pack_b:
        packed = (nc, kc) if p.b == "pack" else (n, k)
        layout = Layout.row_major(ceildiv(packed[0], width), ceildiv(packed[1], p.group), width, *panels)
        depth = {"pack": b_depth, "whole": 0}.get(p.b)
        copies["b"] = (depth, layout, "l2" if p.mixed else "l3", 0.0 if p.mixed else _moves(p, "b"))
    reads = _reads(c)
    if p.mixed:
        reads = {side: tuple(_in_panels(p, side, x, side in copies) for x in found) for side, found in reads.items()}
    staged = [Staged(x.tensor, *copies[side]) for side in ("a", "b") if side in copies for x in reads[side]]
    extents = {"m": c.m.size, "n": c.n.size, "k": c.k.size} | ({"o": c.batch.size} if c.batch.size > 1 else {})
    return (
        LoopNest(
            name=c.stage.name, axes=extents, loops=tuple(loops), accesses=(*reads["a"], *reads["b"], *_after(c)),
            staged=tuple(staged), flops_per_point=c.flops[0], itemsize=p.item // p.group, flops_per_output=c.flops[1],
        ),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _reads(c: Contraction) -> dict[str, tuple[Access, ...]]:
    """The reads of sides ``a`` and ``b``."""
    return {side: c.accesses(operand.value.loads(), "o") for side, operand in (("a", c.a), ("b", c.b))}


@lru_cache(maxsize=256)
def _after(c: Contraction) -> tuple[Access, ...]:
    """The reads of the epilogue, and the write of the output."""
    return (*c.accesses(c.read_after, "o", outside=True), c.written("o"))


def _in_panels(p: ContractionTiling, side: str, x: Access, packed: bool) -> Access:
    """A read of narrow elements as register tiles make it: widened in panels, or interleaved as it is read in place."""
    if packed and p.group == 1 and p.c.acc == "float32" and not (side == "b" and p.b_item < p.item):
        return replace(x, dtype=p.c.acc)
    return replace(x, moves=INTERLEAVED) if side == "b" and not packed and p.group > 1 else x


def _moves(p: ContractionTiling, side: str) -> float:
    """Instructions per packed element in the code that ``packing`` prints."""
    found = p.c.a_side if side == "a" else p.c.b_side
    if found is not None:
        if side == "a":
            return 1 / p.unroll if found.k == 1 else 1.0
        return 1 / p.lanes if found.along == 1 else 0.5 if found.k == 1 else 1.0
    w = p.c.b.window if side == "b" else None
    if w is None or w.tensor.dtype != p.c.acc:
        return COMPUTED
    return RUNS if w.position.of(p.c.n.axes[-1]) == 1 else 1.0


# --------------------------------------------------------------------------- memory and the entry point


def _workspace(p: ContractionTiling) -> Workspace:
    """The workspace: arrays that all threads share, arrays of each thread, and partial sums of splits of K.

    All threads share the padded image, the tables of columns, and B where it is packed at once. Each thread has its
    packed blocks of A and B, and its sums that wait. A block is ``mt`` by ``nt`` register tiles, of which ``kc`` steps
    of K are packed. Numbers among the locals are printed without a suffix.
    """
    c, e = p.c, Epilogue(p)
    u = 1 if p.mixed else p.unroll
    most = ceildiv(int(p.depth), u) * u
    panels = prepack.elements(p, "b") * p.b_item if p.b == "whole" else 0
    a_steps = p.m_loops[-1].a if p.a == "rows" else "kc"
    b_steps: IntExpr = ["+", "kc", p.heads] if p.heads else "kc"
    packed_a = ["*", "mt", p.rows, a_steps, p.item] if p.a in ("pack", "rows") else 0
    packed_b = ["*", "nt", p.width, b_steps, p.b_item] if p.b == "pack" else 0
    parts: IntExpr = 0
    if p.split_k:  # the first split's sums live in the output where its type allows
        beside = p.part * c.batch.size or c.output.size
        parts = ["*", "TK" if p.part else ["-", "TK", 1], intexpr(beside), p.item]
    tiles: IntExpr = intexpr(p.row_count)
    if p.symbolic_rows:
        tiles = ["*", intexpr(p.row_lines), ["ceildiv", intexpr(p.m_loops[-1].size), p.rows]]
    columns: IntExpr = p.column_blocks.count
    if c.n.varying:
        columns = ["ceildiv", ["ceildiv", intexpr(c.n.size), p.lanes], p.vectors]
    return Workspace(
        (
            Array("image", "char", rounded(p.image.size * p.item if p.image else 0, PAGE)),
            Array("tables", "char", rounded(len(e.tables) * int(e.columns) * p.item, PAGE)),
            Array("packed", "char", rounded(panels, PAGE)),
            Array("a", "char", rounded(packed_a, PAGE), p.target.threads),
            Array("b", "char", rounded(packed_b, PAGE), p.target.threads),
            Array("sums", "char", "waiting" if lower.sums_wait(p) else 0, p.target.threads),
            Array("parts", "char", parts),
        ),
        1,
        {
            "one": 1, "rows": p.rows, "width": p.width, "unroll": u, "tile": p.rows * p.width * p.item,
            "row_tiles": tiles, "column_tiles": columns,
            "mt": ["min", ["max", "one", ["//", "MC", "rows"]], "row_tiles"],
            "nt": ["min", ["max", "one", ["//", "NC", "width"]], "column_tiles"],
            "kc": most if p.at_once else ["min", ["*", ["ceildiv", "KC", u * p.group], "unroll"], most],
            "waiting": ["*", ["min", 1, ["//", int(c.k.size) - 1, "KC"]], "mt", "nt", "tile"],
        },
    )  # fmt: skip


def _source(steps: Steps, kernel: Kernel, symbol: str) -> str:
    """The whole source of the kernel."""
    p = steps.p
    e = Epilogue(p)
    parts = [
        f"namespace {symbol}_ {{",
        steps.types(),
        lower.context(p),
        *steps.copies(),
        image_task(p, p.image) if p.image else "",
        finite.functions(p),
        valid_length.left_out(p),
        clip.tables_of_rows(p),
        prepack.helpers(p),
        clip.start_tile(p),
        e.table_text(),
        e.tile_pass() if e.pass_over else "",
        *(micro.micro_kernel(steps, r, v, t, e) for r, v, t in micro.variants(p)),
        lower.task(p, e),
        lower.merge(p, e) if p.split_k else "",
        "}",
        prepack.entries(p, symbol),
        _entry(p, e, kernel, symbol),
    ]
    return "\n".join(x for x in parts if x)


ENTRY = """\
TW_ENTRY($symbol) { using namespace ${symbol}_; (void)workspace;
$if varying: Ctx c{}; Ctx *x=&c; $told
$if varying: $sizes
$if blocks: $blocks
 const long mt=$mt;
 const long nt=$nt;
 ${context}x->t=tensors; x->ws=(char*)workspace+${at_a}L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+${at_tables}L); x->KC=$units; x->MT=mt; x->NT=nt; $splits
 x->a_bytes=$a; x->bytes=x->a_bytes+$b$sums;
$if whole: x->packed=($b_type*)((char*)workspace+${at_packed}L); tw::parallel_for(env,$pack_count,pack_task,x);
$if clip: x->skips=$flag;
$if extreme: x->finite=$finite;
$if tables: fill_tables(x);
 for(x->chunk=0;x->chunk<${chunks}L;x->chunk++) {
$if copied:  tw::parallel_for(env,${copied}L,copy_row,x);
  tw::parallel_for(env,$batch*x->TM*x->TN*x->TK,task,x);
$if split_k:  tw::parallel_for(env,$merged,merge,x);
 }
 return 0; }"""


def _entry(p: ContractionTiling, e: Epilogue, kernel: Kernel, symbol: str) -> str:
    c = p.c
    splits = {a: "1" if p.target.threads == 1 or (a == "TK" and p.symbolic_k) else kernel.argument(a) for a in SPLITS}
    return substitute(
        ENTRY,
        {
            **_memory_texts(p, kernel),
            "symbol": symbol,
            "varying": p.varying,
            "context": "" if p.varying else "Ctx c{}; Ctx *x=&c; ",
            "told": " ".join(f"x->{a}={kernel.argument(a)};" for a in c.program.size_arguments),
            "sizes": " ".join(sizes(p).split("\n")),
            "blocks": _symbolic_blocks(p),
            "units": _units(p, kernel.argument("KC")),
            "splits": "".join(f"x->{a}={text};" for a, text in splits.items()),
            "whole": p.b == "whole",
            "b_type": p.b_type,
            "pack_count": prepack.pack_count(p) if p.b_at_once else "",
            "clip": p.clip,
            "flag": prepack.flag(p) if p.clip else "",
            "extreme": finite.extreme(p),
            "finite": finite.checked(p),
            "tables": bool(e.tables),
            "chunks": p.chunks,
            "copied": p.image.rows if p.image else "",
            "batch": c.batch.size_text,
            "split_k": p.split_k,
            "merged": f"{c.batch.size_text}*{p.m.size_text}" if p.varying else f"{c.batch.size * p.m.size}L",
        },
    )


def _memory_texts(p: ContractionTiling, kernel: Kernel) -> dict[str, str]:
    """C text for the entry point: register tiles of a block, offsets of shared arrays, bytes of a thread's arrays."""
    memory = kernel.workspace
    names = {a: kernel.argument(a) for a in BLOCKS} | {n: str(x) for n, x in memory.locals.items()}
    names |= {"row_tiles": p.row_count_text, "column_tiles": p.column_count_text}
    texts = {n: long_text(memory.locals[n], names) for n in ("mt", "nt", "kc")}
    # Written by hand, because expressions of launch arguments have no conditions.
    waiting = f"(x->KC<{ctext(p.depth)}?mt*nt*{names['tile']}L:0)"
    names |= {"mt": "mt", "nt": "nt", "kc": texts["kc"], "waiting": waiting}
    own = {x.name: long_text(x.count, names) if x.count != 0 else "" for x in memory if x.copies}
    at = {f"at_{n}": str(memory.at(n)) for n in ("a", "tables", "packed")}
    return texts | at | {"a": own["a"] or "0", "b": own["b"] or "0", "sums": own["sums"] and f"+{own['sums']}"}


def _symbolic_blocks(p: ContractionTiling) -> str:
    """Statements that fill in the blocks of symbolic extents."""
    columns = f"tw::ceildiv({p.c.n.size_text},{p.lanes}L)"
    extents = ((p.row_blocks, ctext(p.m_loops[-1].size)), (p.column_blocks, columns))
    return " ".join(b.set(text) for b, text in extents if isinstance(b, SymbolicBlocks))


def _units(p: ContractionTiling, steps: str) -> str:
    """C text of the number of trips in a block of K, given ``steps``, the text of the launch argument ``KC``."""
    if p.at_once:
        return ctext(p.depth)
    if p.group > 1:
        return f"({steps}+{p.group - 1})/{p.group}"
    return steps if p.unit == 1 else f"tw::imax(1,{steps}/{p.unit})"
