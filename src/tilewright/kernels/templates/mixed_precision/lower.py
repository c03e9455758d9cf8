"""Printing a product: packing, register tiles, the blocking loops around them, and the entry points."""

from __future__ import annotations

from tilewright.core import IntExpr, Launch, LaunchProgram, Prepack
from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.mixed_precision import kinds, micro, packing
from tilewright.kernels.templates.mixed_precision.geometry import DotTiling
from tilewright.kernels.templates.mixed_precision.kinds import UNIT
from tilewright.kernels.templates.mixed_precision.store import Epilogue
from tilewright.kernels.templates.mixed_precision.texts import axis_names, declare, linear, number_of, scalar
from tilewright.kernels.templates.tiles import ChosenBlocks

BLOCKS = ("KC", "MC", "NC")
SPLITS = ("TM", "TN", "TK")
PIECES = 4
"""Into how many pieces a thread packing B as a whole is divided."""

CONTEXT = """struct Ctx { void *const *t; char *packed, *ws; long KC,MT,NT,TM,TN,TK,a_bytes,b_bytes,bytes;$more };"""


def arguments(p: DotTiling) -> tuple[str, ...]:
    """Names of the launch arguments, in order."""
    chosen = (p.c.m.varying.argument,) if p.c.m.varying else ()
    return (*BLOCKS, *(SPLITS if p.threads > 1 else ()), *chosen)


def source(p: DotTiling, symbol: str) -> str:
    """The whole kernel."""
    e = Epilogue(p)
    parts = [
        f"namespace {symbol}_ {{",
        kinds.functions(p.c, p.kind, p.vector_bytes),
        fill(CONTEXT, {"more": _more(p)}),
        packing.helpers(p),
        packing.four(p),
        micro.last_unit(p) if p.rest else "",
        micro.left_out(p),
    ]
    if p.pack_a:
        parts += [packing.row(p, "a"), packing.pack_a(p)]
    if not p.in_place_b:
        parts += [packing.row(p, "b"), packing.pack_b(p)]
    elif p.shifted:
        parts.append(micro.row_sums(p))
    if p.pack_b in ("once", "whole"):
        parts.append(_pack_task(p))
    parts.append(e.functions())
    parts += [micro.micro_kernel(p, r, v, t, e) for r, v, t in micro.variants(p)]
    parts += [_task(p), _merge(p, e) if p.split else "", "}", _entry(p, symbol)]
    if p.pack_b == "once":
        parts.append(_prepack(p, symbol))
    return "\n".join(x for x in parts if x)


def _more(p: DotTiling) -> str:
    """What else the context holds."""
    varying = " long extent, blocks, height, full;" if p.c.m.varying else ""
    return varying + (" S *parts;" if p.split else "")


def _block_bytes(p: DotTiling, k0: str) -> str:
    """C text of the bytes before the block of k that starts at ``k0``, for all columns."""
    head = f"+({k0})/x->KC*{p.vector_bytes}L" if p.shifted else ""
    return f"{p.column_vectors}L*(({k0})/{p.kind.group}L*{p.b_vector}L{head})"


def _whole_bytes(p: DotTiling, kc: str) -> str:
    """C text of the bytes of packed B for one position of its outer axes."""
    head = f"+tw::ceildiv({p.k}L,{kc})*{p.vector_bytes}L" if p.shifted else ""
    return f"{p.column_vectors}L*({p.units}L*{p.b_vector}L{head})"


PACK = """\
TW_NOINLINE void pack_task(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long pieces=tw::imin(${pieces}L,${count}L), i=t%pieces, o=t/pieces;
 const long c0=i*${count}L/pieces, c1=(i+1)*${count}L/pieces;
 char *q=x->packed+o*($whole);
 for(long k0=0;k0<${k}L;k0+=x->KC) { const long kc=tw::imin(x->KC,${k}L-k0);
  char *to=q+$block+$start*$panel;
  pack_b(x,o,c0,c1,k0,kc,to); } }
"""


def _pack_task(p: DotTiling) -> str:
    """Packs some columns of B, all of k."""
    return fill(
        PACK,
        {
            "pieces": PIECES * p.threads,
            "count": p.column_blocks.count,
            "whole": _whole_bytes(p, "x->KC"),
            "k": p.k,
            "block": _block_bytes(p, "k0"),
            "start": p.column_blocks.start("c0"),
            "panel": p.panel("kc"),
        },
    )


def _pack_count(p: DotTiling) -> str:
    return f"{p.c.b_outer.size}L*{min(PIECES * p.threads, p.column_blocks.count)}L"


TASK = """\
TW_NOINLINE void task(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
$if split: const long tk=t%x->TK, o=t/x->TK, steps=tw::ceildiv(${k}L,x->KC);
$if split: const long first=tk*steps/x->TK*x->KC, end=tw::imin((tk+1)*steps/x->TK*x->KC,${k}L);
$unless split: const long o=t, first=0, end=${k}L; (void)o;
 $batch
 const long ob=$b_outer; (void)ob;
 const long r0=ti*$rows/x->TM, r1=(ti+1)*$rows/x->TM;
 const long c0=tj*${columns}L/x->TN, c1=(tj+1)*${columns}L/x->TN;
$if mine: char *const mine=x->ws+w*x->bytes;
$if split: S *const out=x->parts+tk*${sums}L+o*${rows_padded}L; const long ldc=${padded}L;
$if direct: S *const out=(S*)x->t[$inputs]+$out; const long ldc=${ldc}L;
$if apart: S *const out=(S*)(mine+x->a_bytes+x->b_bytes); const long ldc=x->NT*${width}L;
$operands
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
$if pack_a:  pack_a(x,o,$first_row,$last_row-$first_row,mine);
  for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
   for(long k0=first;k0<end;k0+=x->KC) { const long kc=tw::imin(x->KC,end-k0);
$taken
    const long mode=(k0>first?1:0)|(k0+kc>=${k}L?$last:0), panel=$panel;
$if blocks:    char *const B=mine+x->a_bytes; pack_b(x,ob,cb0,cb1,k0,$steps,B);
$if direct_b:    (void)panel;
$if whole:    const char *const B=x->packed+ob*($whole)+$block;
    $loops {
     const long m=$row, v=$column, n=v*${lanes}L;
     const char *a=$a;
     const char *b=$b;
     $call
    } } } } }
"""


def _task(p: DotTiling) -> str:
    c, rows, cols = p.c, p.row_blocks, p.column_blocks
    b_outer, step = [], 1
    for a, extent in zip(reversed(c.b_outer.axes), reversed(c.b_outer.extents), strict=True):
        b_outer.append(f"{a}*{step}L")
        step *= extent
    i_loop, j_loop = "for(long rb=rb0;rb<rb1;rb++)", "for(long cb=cb0;cb<cb1;cb++)"
    steps = "kc" if c.b.limit is None else "kt"
    units = f"kc/{p.kind.group}L" if p.rest else f"({steps}+{p.kind.group - 1}L)/{p.kind.group}L"
    left = "" if c.b.limit is None else ",kc-kt"
    direct = c.in_place or p.split
    where = "m*ldc+n" if direct else f"(m-{rows.start('rb0')})*ldc+n-{cols.start('cb0')}*{p.lanes}L"
    tail = f"(cb=={cols.count - 1}L?{p.tail}L:{p.lanes}L)"
    a = f"mine+(m-{rows.start('rb0')})*{p.a_step}L" if p.pack_a else f"A+m*{p.a_step}L"
    base = cols.start("cb0") if p.pack_b == "blocks" else "0"
    b = f"B+k0*{p.b_row}L+n*{p.b_item}L" if p.in_place_b else f"B+(v-{base})*panel"
    stored = Linear(0, {x: c.out_strides[x] for x in c.batch.axes})
    return fill(
        TASK,
        {
            "batch": declare(c.batch, "o"),
            "b_outer": "+".join(b_outer) or "0",
            "rows": p.row_count,
            "columns": cols.count,
            "mine": p.pack_a or p.pack_b == "blocks" or not direct,
            "split": p.split,
            "sums": p.sums,
            "padded": p.column_vectors * p.lanes,
            "rows_padded": p.sums // c.batch.size,
            "last": 4 if p.split else 6,
            "direct": c.in_place and not p.split,
            "apart": not direct,
            "inputs": len(c.program.inputs),
            "out": linear(stored, axis_names(c)),
            "ldc": c.ldc,
            "width": p.vectors * p.lanes,
            "operands": _operands(p),
            "pack_a": p.pack_a,
            "first_row": rows.start("rb0"),
            "last_row": rows.start("rb1"),
            "k": p.k,
            "taken": _taken(p),
            "steps": steps,
            "panel": p.panel(steps),
            "blocks": p.pack_b == "blocks",
            "direct_b": p.pack_b != "blocks" and p.in_place_b,
            "whole": "" if p.pack_b == "blocks" or p.in_place_b else _whole_bytes(p, "x->KC"),
            "block": _block_bytes(p, "k0"),
            "loops": f"{j_loop} {i_loop}" if p.order == "ji" else f"{i_loop} {j_loop}",
            "row": rows.start("rb"),
            "column": cols.start("cb"),
            "lanes": p.lanes,
            "a": f"{a}+k0*{p.kind.bytes}L",
            "b": b,
            "call": _choose(p, f"(x,{units},a,b,out+{where},ldc,mode,{tail},o,m,n{left});"),
        },
    )


MERGE = """\
TW_NOINLINE void merge(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long o=t/$pieces, i=t%$pieces;
 for(long m=i*${m}L/$pieces;m<(i+1)*${m}L/$pieces;m++) for(long n=0;n<${n}L;n+=L) {
  const S *p=x->parts+o*${rows_padded}L+m*${padded}L+n; V v=tw::load<V>(p);
  for(long k=1;k<x->TK;k++) { p+=${sums}L; v+=tw::load<V>(p); }
  $pointers
  const long some=${n}L-n; if(some>=L) $whole else $rest } }
"""


def _taken(p: DotTiling) -> list[str]:
    """Declares ``kt``, the elements that are taken of the block of ``kc`` from ``k0``, where B has a limit."""
    limit = p.c.b.limit
    if limit is None:
        return []
    return [f"    const long kt=tw::imin(tw::imax(({scalar(p.c, limit, axis_names(p.c))})-k0,0L),kc);"]


def _merge(p: DotTiling, e: Epilogue) -> str:
    """Adds the parts of k for some rows, and finishes the sums."""
    return fill(
        MERGE,
        {
            "pieces": _merge_pieces(p),
            "m": p.c.m.size,
            "n": p.c.n.size,
            "rows_padded": p.sums // p.c.batch.size,
            "padded": p.column_vectors * p.lanes,
            "sums": p.sums,
            "pointers": e.pointers(),
            "whole": e.call("v", "0", "0", ""),
            "rest": e.call("v", "0", "0", "some"),
        },
    )


def _merge_pieces(p: DotTiling) -> int:
    """Tasks that add the parts of one outer position."""
    return min(p.c.m.size, p.threads)


def _operands(p: DotTiling) -> list[str]:
    """Pointers to the operands that are read where they lie."""
    c, names, lines = p.c, axis_names(p.c), []
    for name, operand, in_place in (("A", c.a, not p.pack_a), ("B", c.b, p.in_place_b)):
        if in_place and operand.raw is not None:
            raw = operand.raw
            at = linear(Linear(raw.where.const, {a: raw.where.of(a) for a in c.batch.axes}), names)
            number, size = number_of(c, raw.tensor.name), ITEMSIZE[raw.tensor.dtype]
            lines.append(f" const char *const {name}=(const char*)x->t[{number}]+({at})*{size}L;")
    return lines


def _choose(p: DotTiling, call: str) -> str:
    """The call of the right register tile at row block ``rb`` and column block ``cb``."""
    rows, cols = p.row_blocks, p.column_blocks

    def by_columns(r: int) -> str:
        text = micro.name(r, cols.size, False) + call
        if not cols.even:
            text = f"if(cb<{cols.full}L) {text} else {micro.name(r, cols.size - 1, False)}{call}"
        if micro.masked_variants(p):
            text = f"if(cb=={cols.count - 1}L) {micro.name(r, cols.sizes[-1], True)}{call} else {text}"
        return text

    if rows.even:
        return by_columns(rows.size)
    if p.c.m.varying:
        cases = " ".join(f"case {r}: {by_columns(r)} break;" for r in rows.sizes)
        return f"switch({rows.height('rb')}) {{ {cases} }}"
    return f"if(rb<{rows.full}L) {{ {by_columns(rows.size)} }} else {{ {by_columns(rows.size - 1)} }}"


ENTRY = """\
TW_ENTRY($symbol) { using namespace ${symbol}_; (void)workspace;
 const long kc=tw::imin(args[0],${k}L); (void)kc;
$if varying: Ctx x; x.extent=args[$last]; $chosen
 const long mt=tw::imin(tw::imax(1,args[1]/$rows),$row_count);
 const long nt=tw::imin(tw::imax(1,args[2]/$width),${column_count}L);
 ${context}x.t=tensors; x.KC=args[0]; x.MT=mt; x.NT=nt; $splits
 x.a_bytes=$a_bytes; x.b_bytes=$b_bytes; x.bytes=x.a_bytes+x.b_bytes+$sums;
$if once: x.packed=(char*)tensors[$constant]; x.ws=(char*)workspace;
$if whole: x.packed=(char*)workspace; x.ws=x.packed+$whole;
$if whole: tw::parallel_for(env,$pack_count,pack_task,&x);
$if blocks: x.packed=nullptr; x.ws=(char*)workspace;
$if split: x.parts=(S*)(x.ws+${threads}L*x.bytes);
 tw::parallel_for(env,${batch}L*x.TM*x.TN*x.TK,task,&x);
$if split: tw::parallel_for(env,${batch}L*$pieces,merge,&x);
 return 0; }"""


def _entry(p: DotTiling, symbol: str) -> str:
    c, width = p.c, p.vectors * p.lanes
    whole, varying, blocks = p.pack_b == "whole", c.m.varying, p.row_blocks
    return fill(
        ENTRY,
        {
            "symbol": symbol,
            "k": p.k,
            "rows": p.rows,
            "width": width,
            "row_count": p.row_count.replace("->", "."),
            "varying": varying,
            "context": "" if varying else "Ctx x; ",
            "last": len(arguments(p)) - 1,
            "chosen": blocks.set(varying.text("x.extent"), "x.")
            if varying and isinstance(blocks, ChosenBlocks)
            else "",
            "column_count": p.column_blocks.count,
            "splits": "".join(f"x.{a}={f'args[{3 + i}]' if p.threads > 1 else 1};" for i, a in enumerate(SPLITS)),
            "a_bytes": f"mt*{p.rows * p.a_row}L" if p.pack_a else "0",
            "b_bytes": f"nt*{p.vectors}L*{p.panel('kc')}" if p.pack_b == "blocks" else "0",
            "split": p.split,
            "threads": p.threads,
            "pieces": _merge_pieces(p),
            "sums": "0" if c.in_place or p.split else f"(args[0]<{p.k}L?mt*nt*{p.rows * width * UNIT}L:0)",
            "once": p.pack_b == "once",
            "constant": c.constant_b,
            "whole": f"{c.b_outer.size}L*({_whole_bytes(p, 'args[0]')})" if whole else "",
            "pack_count": _pack_count(p),
            "blocks": p.pack_b not in ("once", "whole"),
            "batch": c.batch.size,
        },
    )


PREPACK = """\
TW_ENTRY(${symbol}_pack) { using namespace ${symbol}_;
 Ctx x{}; x.t=tensors; x.KC=args[0]; x.packed=(char*)workspace;
 tw::parallel_for(env,$count,pack_task,&x); return 0; }"""


def _prepack(p: DotTiling, symbol: str) -> str:
    return fill(PREPACK, {"symbol": symbol, "count": _pack_count(p)})


def packed_bytes(p: DotTiling) -> IntExpr:
    """Of B as a whole."""
    size: IntExpr = p.units * p.b_vector
    if p.shifted:
        size = ["+", size, ["*", ["ceildiv", p.k, "KC"], p.vector_bytes]]
    return ["*", p.c.b_outer.size * p.column_vectors, size]


def launch_program(p: DotTiling, symbol: str) -> LaunchProgram:
    c, width, g = p.c, p.vectors * p.lanes, p.kind.group
    rows: IntExpr = p.row_blocks.count
    if (extent := c.m.varying) is not None:
        rows = ["ceildiv", ["*", extent.argument, extent.unit], p.rows]
    mt: IntExpr = ["min", ["max", 1, ["//", "MC", p.rows]], rows]
    nt: IntExpr = ["min", ["max", 1, ["//", "NC", width]], p.column_blocks.count]
    each: list[IntExpr] = []
    if p.pack_a:
        each.append(["*", mt, p.rows * p.a_row])
    if p.pack_b == "blocks":
        units: IntExpr = ["ceildiv", ["min", "KC", p.k], g]
        head = p.vector_bytes if p.shifted else 0
        each.append(["*", nt, p.vectors, ["+", ["*", units, p.b_vector], head]])
    if not c.in_place and not p.split:
        several: IntExpr = ["min", 1, ["//", p.k - 1, "KC"]]
        each.append(["*", several, mt, nt, p.rows * width * UNIT])
    size: IntExpr = ["*", p.threads, ["+", 0, *each]] if each else 0
    if p.pack_b == "whole":
        size = ["+", size, packed_bytes(p)]
    if p.split:
        size = ["+", size, ["*", "TK", p.sums * UNIT]]
    main = Launch(symbol, arguments(p))
    if p.pack_b != "once":
        return LaunchProgram((main,), workspace=size)
    assert c.constant_b is not None
    prepack = Prepack(c.constant_b, packed_bytes(p), Launch(f"{symbol}_pack", ("KC",)))
    return LaunchProgram((main,), workspace=size, prepack=(prepack,))


__all__ = ["arguments", "launch_program", "source"]
