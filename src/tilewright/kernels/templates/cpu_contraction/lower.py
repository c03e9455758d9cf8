"""Printing the tasks of a contraction: cache-blocking loops around packing and register tiles; merging split-K sums."""

from __future__ import annotations

from tilewright.extent import ctext
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.templates.cpu_contraction import clip, finite, micro, prepack, triangle, valid_length
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.kernels.templates.cpu_contraction.text import (
    C_TYPES,
    along_m,
    combine_text,
    height,
    loop_positions,
    operand_pointer,
    outer_names,
    shorter,
    sizes,
    tile_row,
)  # fmt: skip

CONTEXT = """struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips;$more };"""


def context(p: ContractionTiling) -> str:
    """The C structure ``Ctx`` that tasks receive, with the members that only some kernels need."""
    told = "".join(f" long {name};" for name in p.c.program.size_arguments)
    blocks = " long blocks, height, full;" + (" long nblocks, nheight, nfull;" if p.c.n.varying else "")
    packed = f" {p.b_type} *packed;" if p.b_at_once else ""
    more = packed + (told + blocks if p.varying else " bool finite;" if finite.extreme(p) else "")
    return substitute(CONTEXT, {"more": more})


def _row_call(p: ContractionTiling, e: Epilogue, here: str) -> str:
    """The call of the register tile that fits row block ``rb`` and column block ``cb``."""
    rows, columns = p.row_blocks, p.column_blocks
    masked = micro.masked_variants(p)
    last = "cb==x->nblocks-1" if p.c.n.varying else f"cb=={columns.count - 1}L"
    tail = f"({last}?{p.tail}:{p.lanes}L)" if p.ragged else f"{p.lanes}L"
    shortened = p.c.b.valid_length is not None
    trips = "kr" if micro.nested(p) else "kt" if triangle.guards(p) or shortened else "kc"
    if p.table:
        trips += ",spans+pc" if clip.first_loop(p) else ",spans"
    if p.takes_sizes:
        trips += ",x"
    arguments = f"({trips},a,b,c,{'begun' if shortened else 'mode'},{tail}{e.arguments(cols_start(p), f'out+{here}')});"

    def by_columns(r: int) -> str:
        if p.c.n.varying:
            cases = ""
            for v in columns.sizes:
                call = f"{micro.name(r, v, False)}{arguments}"
                if masked:
                    call = f"if({last}) {micro.name(r, v, True)}{arguments} else {call}"
                cases += f"case {v}: {{ {call} }} break; "
            return f"{{ switch({columns.height('cb')}) {{ {cases}}} }}"
        out = ""
        have = [x for x in micro.variants(p) if x[0] == r]
        for _, v, t in have:
            conditions = []
            if masked:
                if t:
                    conditions.append(last)
                elif not columns.even and v == columns.size:
                    conditions.append(f"cb<{columns.full}L")
                else:
                    conditions.append(f"cb<{columns.count - 1}L")
            elif not columns.even:
                conditions.append(f"cb<{columns.full}L" if v == columns.size else f"cb>={columns.full}L")
            name = micro.name(r, v, t)
            call = name + arguments
            if finite.extreme(p):
                call = f"if(x->finite) {name}<true>{arguments} else {name}<false>{arguments}"
            out += f"if({'&&'.join(conditions)}) {{ {call} }} else " if conditions else f"{{ {call} }} else "
        return out.removesuffix(" else ")

    if rows.even:
        return by_columns(rows.size * p.lines)
    if p.symbolic_rows:
        cases = " ".join(f"case {r}: {by_columns(r)} break;" for r in rows.sizes)
        return f"switch({height(p)}) {{ {cases} }}"
    return f"if({shorter(p)}) {{ {by_columns(rows.size - 1)} }} else {{ {by_columns(rows.size)} }}"


def cols_start(p: ContractionTiling) -> str:
    return f"{p.column_blocks.start('cb')}*{p.lanes}L"


def _chunk_rows(p: ContractionTiling) -> int:
    """Output elements from one chunk to the next."""
    return p.images * p.c.out_strides[p.c.m.axes[0]] if p.chunks > 1 else 0


def _chunk_a(p: ContractionTiling) -> int:
    """Elements of A, read in place, from one chunk to the next."""
    return p.images * p.a_position.of(p.c.m.axes[0]) if p.a_position else 0


TASK = """\
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
$sizes
$if pack_a: T *pa=(T*)(x->ws+w*x->bytes);
$if pack_b: $b_type *pb=($b_type*)(x->ws+w*x->bytes+x->a_bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
$batch
 const long r0=ti*$rows/x->TM, r1=(ti+1)*$rows/x->TM, c0=tj*$columns/x->TN, c1=(tj+1)*$columns/x->TN;
 const long k0=tk*$units/x->TK, k1=(tk+1)*$units/x->TK;
 $out_type *out=($out_type*)x->t[$inputs]+$outer;
$if split_k: if(tk) out=(T*)(x->ws+$threads*x->bytes)+(tk-1)*$outputs+$outer;
$if parts: T *const part=(T*)(x->ws+$threads*x->bytes)+tk*$parts+o*$part;
$if resumes: T *const sums=(T*)(x->ws+(w+1)*x->bytes)-x->MT*x->NT*$tile;
$operands
$if clip: const T *skip=$skipped;
$cuts
$after
$if a_tile: alignas(64) T tile[$tile];
$if rows_first: for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
$if pack_rows:  pack_a(x,o,rb0,rb1,0,$depth,pa);
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
$if clip:   long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
$unless clip:   const long mode=(pc>k0)|(pc+kc>=k1?2:0)$marks; (void)mode;
$if clip:   if(x->skips) mode|=1;
$taken
$if pack_b:   pack_b(x,o,cb0,cb1,pc*${unit}L,$steps_of_b*${unit}L,pb);
$checked
$unless rows_first:   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
$if pack_blocks:    pack_a(x,o,rb0,rb1,pc*${unit}L,kc*${unit}L,pa);
$if pack_blocks:    const long pstep=(kc+$unroll_less)/$unroll*${panel_step}L;
    $loops {
     $positions
     const $a_type *a=$a;
     const $b_type *b=$b;
     T *c=$c;
$steps
$before
     $call
$finish
    } } } } }"""


def task(p: ContractionTiling, e: Epilogue) -> str:
    c = p.c
    strides = c.out_strides
    outer = "+".join(["0L"] + [f"{ctext(strides[a])}*o_{a}" for a in c.batch.axes])
    if p.chunks > 1:
        outer += f"+x->chunk*{_chunk_rows(p)}L"
    i_loop, j_loop = "for(long rb=rb0;rb<rb1;rb++)", "for(long cb=cb0;cb<cb1;cb++)"
    here = f"{along_m(tuple(w.other for w in p.m_loops))}+{_columns_out(p)}"
    return substitute(
        TASK,
        {
            "pack_a": p.a in ("pack", "rows"),
            "pack_blocks": p.a == "pack",
            "pack_rows": p.a == "rows",
            "rows_first": p.mixed,
            "depth": ctext(p.depth),
            "pack_b": p.b == "pack",
            "a_type": p.a_type,
            "b_type": p.b_type,
            "split_k": p.split_k and c.in_place,
            "parts": ctext(p.part * c.batch.size) if p.part else "",
            "part": ctext(p.part),
            "resumes": sums_wait(p),
            "marks": p.marks,
            "clip": p.clip,
            "a_tile": not c.in_place and not p.part,
            "batch": outer_names(p).splitlines(),
            "rows": p.row_count_text,
            "columns": p.column_count_text,
            "units": ctext(p.units),
            "sizes": sizes(p).splitlines(),
            "unit": p.unit,
            "out_type": C_TYPES[c.output.dtype],
            "inputs": len(c.program.inputs),
            "outer": outer,
            "threads": p.target.threads,
            "outputs": ctext(c.output.size),
            "operands": _operands(p),
            "cuts": clip.cuts(p).splitlines(),
            "skipped": prepack.skipped_sums(p) if p.clip else "",
            "after": _read_after(e) if e.inline or (e.pass_over and e.vector and not p.split_k) else [],
            "tile": p.rows * p.width,
            "unroll": p.unroll,
            "unroll_less": p.unroll - 1,
            "panel_step": p.rows * p.unroll,
            "loops": f"{j_loop} {i_loop}" if p.order == "ji" else f"{i_loop} {j_loop}",
            "positions": loop_positions(p),
            "a": _tile_a(p),
            "b": _tile_b(p),
            "c": _tile_c(p, here),
            "taken": valid_length.steps(p),
            "steps_of_b": _steps_of_b(p),
            "checked": triangle.checked(p, "cb0", "cb1"),
            "steps": triangle.steps(p) + valid_length.start(p, _valid(p)),
            "before": _bounds(p),
            "call": _row_call(p, e, here),
            "finish": _finish(p, e, here) if e.pass_over and not p.split_k else [],
        },
    )


def _read_after(e: Epilogue) -> list[str]:
    """Declarations of pointers to the tensors and tables that the epilogue reads."""
    return [f" const {e.p.source_type(r.load.dtype)} *{r.name}={e.base(r)};" for r in e.reads]


def _operands(p: ContractionTiling) -> list[str]:
    """Declarations of pointers to the operands that the task does not pack itself."""
    lines = []
    for which, how, kind in (("A", p.a, p.a_type), ("B", p.b, p.b_type)):
        if how in ("prepack", "whole"):
            lines.append(f" const {kind} *{which}={prepack.panels(p, which.lower())};")
        elif how not in ("pack", "rows"):
            chunk = f"+x->chunk*{_chunk_a(p)}L" if which == "A" and p.chunks > 1 and not p.image else ""
            lines.append(f" const {kind} *{which}={operand_pointer(p, which.lower())}{chunk};")
    return lines


def _tile_a(p: ContractionTiling) -> str:
    """C text of the address of a register tile's first row of A."""
    if p.a == "pack":
        return "pa+(rb-rb0)*pstep"
    if p.a == "rows":
        return f"pa+(l0-{p.row_blocks.start('rb0')})*{ctext(p.m_loops[-1].a)}+pc"
    if p.a == "prepack":
        return f"A+rb*{clip.a_panel_elements(p) // p.row_count}L+pc*{p.rows}L"
    return f"A+{along_m(tuple(w.a for w in p.m_loops))}+pc*{ctext(p.k_loops[0].a)}"


def _steps_of_b(p: ContractionTiling) -> str:
    """C text of the number of steps of a block of K for which B is packed."""
    return "kc" if p.c.b.valid_length is None else "kt"


def _tile_b(p: ContractionTiling) -> str:
    """C text of the address of a register tile's first column of B."""
    head = f"+{p.heads * p.width}L" if p.heads else ""
    if p.b == "pack":
        step = f"({_steps_of_b(p)}+{p.heads}L)" if p.heads else _steps_of_b(p)
        return f"pb+(cb-cb0)*{step}*{p.unit * p.width}L{head}"
    if p.pack_b:
        return f"B+cb*{(p.heads + p.depth) * p.width}L+pc*{p.unit * p.width}L{head}"
    return f"B+{cols_start(p)}+pc*{ctext(p.k_loops[0].other)}"


def sums_wait(p: ContractionTiling) -> bool:
    """Whether unfinished sums wait in the workspace, tile by tile, from one block of K to the next."""
    return p.resumes and p.mixed and not p.c.in_place and not p.part


def _tile_c(p: ContractionTiling, here: str) -> str:
    """C text of the address of a register tile's sums."""
    if p.part:
        return f"part+l0*{ctext(p.row_step)}+{cols_start(p)}"
    if sums_wait(p):
        return f"x->KC<{ctext(p.depth)}?sums+((rb-rb0)*x->NT+cb-cb0)*{p.rows * p.width}L:tile"
    return f"out+{here}" if p.c.in_place else "tile"


def _valid(p: ContractionTiling) -> str:
    """C text of the number of the register tile's columns that exist."""
    cols = p.column_blocks
    wide = f"{p.width}L" if cols.even else f"({p.width}L-(cb>={cols.full}L?{p.lanes}L:0L))"
    if p.c.n.varying:
        wide = f"{cols.height('cb')}*{p.lanes}L"
    return f"tw::imin({wide},{p.c.n.size_text}-{cols_start(p)})"


def _bounds(p: ContractionTiling) -> list[str]:
    """Statements before a tile with nested loops over K: row ranges, bounds of trips, and the sums of skipped trips."""
    if not micro.nested(p):
        return []
    lines = []
    if p.table:
        lines.append(f"     {clip.spans(p)}")
    if p.clip:
        sums = f"skip+cb*{clip.trips(p) * p.width}L"
        start = f"start({sums},kr,{'spans' if p.table else '0'},{height(p)}*{p.lines}L,{_valid(p)},c);"
        lines.append(f"     if(x->skips&&pc==0) {{ {clip.bounds(p, False)} {start} }}")
    return [*lines, "     " + clip.bounds(p, True)]


def _finish(p: ContractionTiling, e: Epilogue, here: str) -> list[str]:
    """Calls of ``finish`` for a tile's sums, line by line."""
    lines = []
    for line in range(p.lines):
        down = line * p.m_loops[-2].other if line else 0
        sums = f"c+{ctext(p.row_c(line * p.inner))},{ctext(p.row_step)}"
        lines.append(
            f"     if(mode&2) finish(x,o,{_first_row(p, line)},{cols_start(p)},{height(p)},{_valid(p)},"
            f"{sums},out+{here}+{ctext(down)}{e.pass_arguments(line, cols_start(p))});"
        )
    return lines


def _columns_out(p: ContractionTiling) -> str:
    return cols_start(p) if p.c.n_step == 1 else f"{cols_start(p)}*{ctext(p.c.n_step)}"


def _first_row(p: ContractionTiling, line: int) -> str:
    """C text of the fused M index of the first row of a tile's line."""
    text = tile_row(p)
    if line:
        text += f"+{line * p.m_loops[-1].size}L"
    if p.chunks > 1:
        text += f"+x->chunk*{p.m.size}L"
    return text


MERGE = """\
TW_NOINLINE void merge(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
$sizes
 const long o=t/$rows, m=t%$rows; (void)o;
$batch
$places
$if in_place: T *d=(T*)x->t[$inputs]+$at;
$if in_place: const T *s=(const T*)(x->ws+$threads*x->bytes)+$at;
$unless in_place: T *d=(T*)(x->ws+$threads*x->bytes)+t*$row;
$unless in_place: const T *s=d+$outputs;
 for(long j=0;j<$columns;j+=L) { const long n=$columns-j;
  V v=n>=L?tw::load<V>(d+j):tw::load_n<V>(d+j,n);
  for(long k=0;k<x->TK-1;k++) { const T *y=s+k*$outputs+j;
   const V r=n>=L?tw::load<V>(y):tw::load_n<V>(y,n); v=$combined; }
  if(n>=L) tw::store(d+j,v); else tw::store_n(d+j,v,n); }
$finish
}"""


def merge(p: ContractionTiling, e: Epilogue) -> str:
    c = p.c
    places, step = [], 1
    for d in range(len(p.m_loops) - 1, -1, -1):
        at = "m" if step == 1 else f"m/{ctext(step)}"
        places.append(f" const long l{d}={at if d == 0 else f'({at})%{ctext(p.m_loops[d].size)}'};")
        step *= p.m_loops[d].size
    strides = c.out_strides
    at = "+".join([along_m(tuple(w.other for w in p.m_loops))] + [f"{ctext(strides[a])}*o_{a}" for a in c.batch.axes])
    if p.chunks > 1:
        at += f"+x->chunk*{_chunk_rows(p)}L"
    finish = []
    if e.pass_over:
        first = f"m+x->chunk*{p.m.size}L" if p.chunks > 1 else "m"
        finish = _read_after(e) if e.vector else []
        to = "d" if c.in_place else f"({e.out_type}*)x->t[{len(c.program.inputs)}]+{at}"
        finish.append(f" finish(x,o,{first},0,1,{c.n.size_text},d,0L,{to}{e.pass_arguments(0, '0')});")
    return substitute(
        MERGE,
        {
            "rows": p.m.size_text,
            "sizes": sizes(p).splitlines(),
            "columns": c.n.size_text,
            "batch": outer_names(p).splitlines(),
            "places": places,
            "inputs": len(c.program.inputs),
            "at": at,
            "threads": p.target.threads,
            "in_place": c.in_place,
            "row": ctext(p.row_step),
            "outputs": ctext(p.part * c.batch.size) if p.part else ctext(c.output.size),
            "combined": combine_text(p, "v", "r"),
            "finish": finish,
        },
    )
