"""Printing a contraction: packing, register tiles, the cache-blocking loops and the entry point."""

from __future__ import annotations

from tilewright.core import IntExpr, Launch, LaunchProgram
from tilewright.kernels.templates.contraction import clip, micro, prepack
from tilewright.kernels.templates.contraction.geometry import Plan
from tilewright.kernels.templates.contraction.image import image_rows, image_task
from tilewright.kernels.templates.contraction.packing import helpers, pack_a, pack_b
from tilewright.kernels.templates.contraction.store import Epilogue
from tilewright.kernels.templates.contraction.text import (
    C_TYPES,
    along_m,
    combine_text,
    operand_pointer,
    shorter,
    tile_row,
    walk_names,
)  # fmt: skip

BLOCKS = ("KC", "MC", "NC")
SPLITS = ("TM", "TN", "TK")


def arguments(p: Plan) -> tuple[str, ...]:
    """Names of the launch arguments, in order."""
    return BLOCKS + SPLITS if p.threads > 1 else BLOCKS


def source(p: Plan, symbol: str) -> str:
    """The whole kernel."""
    e = Epilogue(p)
    parts = [f"namespace {symbol}_ {{", f"typedef {p.ctype} T; typedef {p.vtype} V; enum {{ L={p.lanes} }};", CONTEXT]
    parts.append(helpers(p))
    if p.pack_a:
        parts.append(pack_a(p))
    if p.pack_b:
        parts.append(pack_b(p))
    if p.image:
        parts.append(image_task(p))
    parts += [clip.tables_of_rows(p), prepack.helpers(p), clip.start_tile(p), e.table_text()]
    if e.pass_over:
        parts.append(e.tile_pass())
    parts += [micro.micro_kernel(p, r, v, t, e) for r, v, t in micro.variants(p)]
    parts.append(_task(p, e))
    if p.split_k:
        parts.append(_combine_task(p, e))
    parts += ["}", prepack.entries(p, symbol), _entry(p, e, symbol)]
    return "\n".join(x for x in parts if x)


CONTEXT = """struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };"""


def _row_call(p: Plan, e: Epilogue) -> str:
    """The call of the right register tile at row block ``rb`` and column block ``cb``."""
    rows, columns = p.row_blocks, p.column_blocks
    masked = micro.masked_variants(p)
    tail = f"(cb=={columns.count - 1}L?{p.tail}L:{p.lanes}L)" if p.tail else f"{p.lanes}L"
    walk = "kr" if micro.nested(p) else "kc"
    if p.table:
        walk += ",spans+pc" if clip.first_loop(p) else ",spans"
    arguments = f"({walk},a,b,c,mode,{tail}{e.arguments(cols_start(p))});"

    def by_columns(r: int) -> str:
        out = ""
        have = [x for x in micro.variants(p) if x[0] == r]
        for _, v, t in have:
            conditions = []
            if masked:
                if t:
                    conditions.append(f"cb=={columns.count - 1}L")
                elif not columns.even and v == columns.size:
                    conditions.append(f"cb<{columns.full}L")
                else:
                    conditions.append(f"cb<{columns.count - 1}L")
            elif not columns.even:
                conditions.append(f"cb<{columns.full}L" if v == columns.size else f"cb>={columns.full}L")
            call = micro.name(r, v, t) + arguments
            out += f"if({'&&'.join(conditions)}) {{ {call} }} else " if conditions else f"{{ {call} }} else "
        return out.removesuffix(" else ")

    if rows.even:
        return by_columns(rows.size * p.lines)
    return f"if({shorter(p)}) {{ {by_columns(rows.size - 1)} }} else {{ {by_columns(rows.size)} }}"


def cols_start(p: Plan) -> str:
    return f"{p.column_blocks.start('cb')}*{p.lanes}L"


def _chunk_rows(p: Plan) -> int:
    """Output elements from one chunk to the next."""
    return p.images * p.c.out_strides[p.c.m.axes[0]] if p.chunks > 1 else 0


def _chunk_a(p: Plan) -> int:
    """Elements of A, read in place, from one chunk to the next."""
    return p.images * p.a_position.of(p.c.m.axes[0]) if p.a_position else 0


def _task(p: Plan, e: Epilogue) -> str:
    c = p.c
    nr, nc = p.row_count, p.column_blocks.count
    units, unit = p.units, p.unit
    out_type = C_TYPES[c.output.dtype]
    lines = ["TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;"]
    if p.a == "pack":
        lines.append(" T *pa=(T*)(x->ws+w*x->bytes);")
    if p.b == "pack":
        lines.append(" T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);")
    lines += [
        " const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;",
        " const long tk=t%x->TK, o=t/x->TK; (void)o;",
        *[f" const long o_{a}={s}; (void)o_{a};" for a, s in c.batch.split("o").items()],
        f" const long r0=ti*{nr}L/x->TM, r1=(ti+1)*{nr}L/x->TM, c0=tj*{nc}L/x->TN, c1=(tj+1)*{nc}L/x->TN;",
        f" const long k0=tk*{units}L/x->TK, k1=(tk+1)*{units}L/x->TK;",
    ]
    strides = c.out_strides
    outer = "+".join(["0L"] + [f"{strides[a]}L*o_{a}" for a in c.batch.axes])
    if p.chunks > 1:
        outer += f"+x->chunk*{_chunk_rows(p)}L"
    lines.append(f" {out_type} *out=({out_type}*)x->t[{len(c.program.inputs)}]+{outer};")
    if p.split_k:
        lines.append(f" if(tk) out=(T*)(x->ws+{p.threads}*x->bytes)+(tk-1)*{c.output.size}L+{outer};")
    for which, how in (("A", p.a), ("B", p.b)):
        if how == "prepack":
            lines.append(f" const T *{which}={prepack.panels(p, which.lower())};")
        elif how != "pack":
            chunk = f"+x->chunk*{_chunk_a(p)}L" if which == "A" and p.chunks > 1 and not p.image else ""
            lines.append(f" const T *{which}={operand_pointer(p, which.lower())}{chunk};")
    if p.clip:
        lines.append(f" const T *skip={prepack.skipped_sums(p)};")
    if e.inline or (e.pass_over and e.vector and not p.split_k):
        lines += [f" const T *{r.name}={e.base(r)};" for r in e.reads]
    if not c.in_place:
        lines.append(f" alignas(64) T tile[{p.rows * p.width}];")
    lines += [
        " for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);",
        "  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);",
        f"   {'' if p.clip else 'const '}long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;",
    ]
    if p.clip:
        lines.append("   if(x->skips) mode|=1;")
    if p.b == "pack":
        lines.append(f"   pack_b(x,o,cb0,cb1,pc*{unit}L,kc*{unit}L,pb);")
    lines.append("   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);")
    if p.a == "pack":
        lines.append(f"    pack_a(x,o,rb0,rb1,pc*{unit}L,kc*{unit}L,pa);")
        lines.append(f"    const long pstep=(kc+{p.unroll - 1})/{p.unroll}*{p.rows * p.unroll}L;")
    i_loop, j_loop = "for(long rb=rb0;rb<rb1;rb++)", "for(long cb=cb0;cb<cb1;cb++)"
    lines.append("    " + (j_loop + " " + i_loop if p.order == "ji" else i_loop + " " + j_loop) + " {")
    lines.append("     " + walk_names(p))
    if p.a == "pack":
        lines.append("     const T *a=pa+(rb-rb0)*pstep;")
    elif p.a == "prepack":
        whole = clip.a_panel_elements(p) // p.row_count
        lines.append(f"     const T *a=A+rb*{whole}L+pc*{p.rows}L;")
    else:
        lines.append(f"     const T *a=A+{along_m(tuple(w.a for w in p.m_walks))}+pc*{p.k_walks[0].a}L;")
    if p.b == "pack":
        lines.append(f"     const T *b=pb+(cb-cb0)*kc*{unit * p.width}L;")
    elif p.b == "prepack":
        lines.append(f"     const T *b=B+cb*{c.k.size * p.width}L+pc*{unit * p.width}L;")
    else:
        lines.append(f"     const T *b=B+{cols_start(p)}+pc*{p.k_walks[0].other}L;")
    here = f"{along_m(tuple(w.other for w in p.m_walks))}+{_columns_out(p)}"
    lines.append("     T *c=tile;" if not c.in_place else f"     T *c=out+{here};")
    rows = p.row_blocks
    height = f"{rows.size}L" if rows.even else f"({rows.size}L-({shorter(p)}))"
    cols = p.column_blocks
    wide = f"{p.width}L" if cols.even else f"({p.width}L-(cb>={cols.full}L?{p.lanes}L:0L))"
    valid = f"tw::imin({wide},{c.n.size}L-{cols_start(p)})"
    if micro.nested(p):
        if p.table:
            lines.append(f"     const unsigned char *spans={clip.spans(p)};")
        if p.clip:
            sums = f"skip+cb*{clip.trips(p) * p.width}L"
            start = f"start({sums},kr,{'spans' if p.table else '0'},{height}*{p.lines}L,{valid},c);"
            lines.append(f"     if(x->skips&&pc==0) {{ {clip.bounds(p, False)} {start} }}")
        lines.append("     " + clip.bounds(p, True))
    lines.append("     " + _row_call(p, e))
    if e.pass_over and not p.split_k:
        for line in range(p.lines):
            down = line * p.m_walks[-2].other if line else 0
            sums = f"c+{p.row_c(line * p.inner)}L,{_row_step(p)}L"
            lines.append(
                f"     if(mode&2) finish(x,o,{_first_row(p, line)},{cols_start(p)},{height},{valid},"
                f"{sums},out+{here}+{down}L{e.pass_arguments(line, cols_start(p))});"
            )
    lines.append("    } } } } }")
    return "\n".join(lines)


def _columns_out(p: Plan) -> str:
    return cols_start(p) if p.c.n_step == 1 else f"{cols_start(p)}*{p.c.n_step}L"


def _row_step(p: Plan) -> int:
    """Elements between a tile's rows along its innermost loop, where sums are kept."""
    return p.m_walks[-1].other if p.c.in_place else p.width


def _first_row(p: Plan, line: int) -> str:
    """The fused M index of a tile's line."""
    text = tile_row(p)
    if line:
        text += f"+{line * p.m_walks[-1].size}L"
    if p.chunks > 1:
        text += f"+x->chunk*{p.m.size}L"
    return text


def _combine_task(p: Plan, e: Epilogue) -> str:
    c = p.c
    last = len(p.m_walks) - 1
    split = []
    step = 1
    for d in range(last, -1, -1):
        at = "m" if step == 1 else f"m/{step}L"
        split.append(f" const long l{d}={at if d == 0 else f'({at})%{p.m_walks[d].size}L'};")
        step *= p.m_walks[d].size
    lines = [
        "TW_NOINLINE void merge(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;",
        f" const long o=t/{p.m.size}L, m=t%{p.m.size}L; (void)o;",
        *[f" const long o_{a}={s}; (void)o_{a};" for a, s in c.batch.split("o").items()],
        *split,
    ]
    strides = c.out_strides
    at = "+".join([along_m(tuple(w.other for w in p.m_walks))] + [f"{strides[a]}L*o_{a}" for a in c.batch.axes])
    if p.chunks > 1:
        at += f"+x->chunk*{_chunk_rows(p)}L"
    lines += [
        f" T *d=(T*)x->t[{len(c.program.inputs)}]+{at};",
        f" const T *s=(const T*)(x->ws+{p.threads}*x->bytes)+{at};",
        f" for(long j=0;j<{c.n.size}L;j+=L) {{ const long n={c.n.size}L-j;",
        "  V v=n>=L?tw::load<V>(d+j):tw::load_n<V>(d+j,n);",
        f"  for(long k=0;k<x->TK-1;k++) {{ const T *y=s+k*{c.output.size}L+j;",
        f"   const V r=n>=L?tw::load<V>(y):tw::load_n<V>(y,n); v={combine_text(p, 'v', 'r')}; }}",
        "  if(n>=L) tw::store(d+j,v); else tw::store_n(d+j,v,n); }",
    ]
    if e.pass_over:
        if e.vector:
            lines += [f" const T *{r.name}={e.base(r)};" for r in e.reads]
        first = f"m+x->chunk*{p.m.size}L" if p.chunks > 1 else "m"
        lines.append(f" finish(x,o,{first},0,1,{c.n.size}L,d,0L,d{e.pass_arguments(0, '0')});")
    lines.append("}")
    return "\n".join(lines)


def _fixed(p: Plan, e: Epilogue) -> tuple[int, int]:
    """Bytes at the start of the workspace: the padded image, and the tables of columns."""
    image = p.image.size * p.item if p.image else 0
    tables = len(e.tables) * e.columns * p.item
    return (image + 4095) // 4096 * 4096, (tables + 4095) // 4096 * 4096


def _entry(p: Plan, e: Epilogue, symbol: str) -> str:
    c = p.c
    r, u, width = p.rows, p.unroll, p.width
    kc = f"tw::imin((args[0]+{u - 1})/{u}*{u},{-(-c.k.size // u) * u}L)"
    a_bytes = f"(mt*{r}L*{kc}*{p.item}L+4095)/4096*4096" if p.a == "pack" else "0"
    b_bytes = f"(nt*{width}L*{kc}*{p.item}L+4095)/4096*4096" if p.b == "pack" else "0"
    splits = "".join(f"x.{a}={f'args[{3 + i}]' if p.threads > 1 else 1};" for i, a in enumerate(SPLITS))
    image, tables = _fixed(p, e)
    units = "args[0]" if p.unit == 1 else f"tw::imax(1,args[0]/{p.unit})"
    lines = [
        f"TW_ENTRY({symbol}) {{ using namespace {symbol}_; (void)workspace;",
        f" const long mt=tw::imin(tw::imax(1,args[1]/{r}),{p.row_count}L);",
        f" const long nt=tw::imin(tw::imax(1,args[2]/{width}),{p.column_blocks.count}L);",
        f" Ctx c{{}}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+{image + tables}L; x->image=(T*)workspace;",
        f" x->tables=(T*)((char*)workspace+{image}L); x->KC={units}; x->MT=mt; x->NT=nt; {splits.replace('x.', 'x->')}",
        f" x->a_bytes={a_bytes}; x->bytes=x->a_bytes+{b_bytes};",
    ]
    if p.clip:
        lines.append(f" x->skips={prepack.flag(p)};")
    if e.tables:
        lines.append(" fill_tables(x);")
    lines.append(f" for(x->chunk=0;x->chunk<{p.chunks}L;x->chunk++) {{")
    if p.image:
        lines.append(f"  tw::parallel_for(env,{image_rows(p)}L,copy_row,x);")
    lines.append(f"  tw::parallel_for(env,{c.batch.size}L*x->TM*x->TN*x->TK,task,x);")
    if p.split_k:
        lines.append(f"  tw::parallel_for(env,{c.batch.size * p.m.size}L,merge,x);")
    lines.append(" }\n return 0; }")
    return "\n".join(lines)


def launch_program(p: Plan, symbol: str) -> LaunchProgram:
    c = p.c
    r, u, width = p.rows, p.unroll, p.width
    kc: IntExpr = ["min", ["roundup", "KC", u], -(-c.k.size // u) * u]
    mt: IntExpr = ["min", ["max", 1, ["//", "MC", r]], p.row_count]
    nt: IntExpr = ["min", ["max", 1, ["//", "NC", width]], p.column_blocks.count]
    a_bytes: IntExpr = ["roundup", ["*", mt, r * p.item, kc], 4096] if p.a == "pack" else 0
    b_bytes: IntExpr = ["roundup", ["*", nt, width * p.item, kc], 4096] if p.b == "pack" else 0
    size: IntExpr = ["*", p.threads, ["+", a_bytes, b_bytes]] if "pack" in (p.a, p.b) else 0
    if p.split_k:
        size = ["+", size, ["*", ["-", "TK", 1], c.output.size * p.item]]
    fixed = sum(_fixed(p, Epilogue(p)))
    if fixed:
        size = ["+", size, fixed] if size != 0 else fixed
    return LaunchProgram((Launch(symbol, arguments(p)),), workspace=size, prepack=prepack.prepacks(p, symbol))
