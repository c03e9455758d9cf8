"""Printing a contraction: packing, register tiles, the cache-blocking loops and the entry point."""

from __future__ import annotations

from tilewright.core import IntExpr, Launch, LaunchProgram
from tilewright.kernels.templates.contraction import micro
from tilewright.kernels.templates.contraction.geometry import Plan
from tilewright.kernels.templates.contraction.packing import helpers, operand_pointer, pack_a, pack_b
from tilewright.kernels.templates.contraction.store import C_TYPES, Epilogue, combine_text

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
    if e.pass_over:
        parts.append(e.tile_pass())
    parts += [micro.micro_kernel(p, r, v, t, e) for r, v, t in micro.variants(p)]
    parts.append(_task(p, e))
    if p.split_k:
        parts.append(_combine_task(p, e))
    parts.append("}")
    parts.append(_entry(p, symbol))
    return "\n".join(x for x in parts if x)


CONTEXT = """struct Ctx { void *const *t; char *ws; long KC, MT, NT, TM, TN, TK, bytes, a_bytes; };"""


def _row_call(p: Plan, e: Epilogue) -> str:
    """The call of the right register tile at row block ``rb`` and column block ``cb``."""
    rows, columns = p.row_blocks, p.column_blocks
    masked = micro.masked_variants(p)
    tail = f"(cb=={columns.count - 1}L?{p.tail}L:{p.lanes}L)" if p.tail else f"{p.lanes}L"
    arguments = f"(kc,a,b,c,mode,{tail}{e.arguments(rows_start(p), cols_start(p))});"

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
        return by_columns(rows.size)
    return f"if(rb<{rows.full}L) {{ {by_columns(rows.size)} }} else {{ {by_columns(rows.size - 1)} }}"


def rows_start(p: Plan) -> str:
    return p.row_blocks.start("rb")


def cols_start(p: Plan) -> str:
    return f"{p.column_blocks.start('cb')}*{p.lanes}L"


def _task(p: Plan, e: Epilogue) -> str:
    c = p.c
    nr, nc = p.row_blocks.count, p.column_blocks.count
    k = c.k.size
    out_type = C_TYPES[c.output.dtype]
    lines = ["TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;"]
    if p.pack_a:
        lines.append(" T *pa=(T*)(x->ws+w*x->bytes);")
    if p.pack_b:
        lines.append(" T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);")
    lines += [
        " const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;",
        " const long tk=t%x->TK, o=t/x->TK; (void)o;",
        *[f" const long o_{a}={s}; (void)o_{a};" for a, s in c.outer.split("o").items()],
        f" const long r0=ti*{nr}L/x->TM, r1=(ti+1)*{nr}L/x->TM, c0=tj*{nc}L/x->TN, c1=(tj+1)*{nc}L/x->TN;",
        f" const long k0=tk*{k}L/x->TK, k1=(tk+1)*{k}L/x->TK;",
    ]
    strides = c.out_strides
    outer = "+".join(["0L"] + [f"{strides[a]}L*o_{a}" for a in c.outer.axes])
    lines.append(f" {out_type} *out=({out_type}*)x->t[{len(c.program.inputs)}]+{outer};")
    if p.split_k:
        lines.append(f" if(tk) out=(T*)(x->ws+{p.threads}*x->bytes)+(tk-1)*{c.output.size}L+{outer};")
    if not p.pack_a:
        lines.append(f" const T *A={operand_pointer(p, 'a')};")
    if not p.pack_b:
        lines.append(f" const T *B={operand_pointer(p, 'b')};")
    if e.inline:
        lines += [f" const T *{r.name}={e.base(r)};" for r in e.reads]
    if not c.in_place:
        lines.append(f" alignas(64) T tile[{p.rows * p.width}];")
    lines += [
        " for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);",
        "  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);",
        "   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;",
    ]
    if p.pack_b:
        lines.append("   pack_b(x,o,cb0,cb1,pc,kc,pb);")
    lines.append("   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);")
    if p.pack_a:
        lines.append("    pack_a(x,o,rb0,rb1,pc,kc,pa);")
        lines.append(f"    const long pstep=(kc+{p.unroll - 1})/{p.unroll}*{p.rows * p.unroll}L;")
    i_loop, j_loop = "for(long rb=rb0;rb<rb1;rb++)", "for(long cb=cb0;cb<cb1;cb++)"
    lines.append("    " + (j_loop + " " + i_loop if p.order == "ji" else i_loop + " " + j_loop) + " {")
    a_side, b_side = p.a_side, p.b_side
    if p.pack_a:
        lines.append("     const T *a=pa+(rb-rb0)*pstep;")
    else:
        assert a_side is not None
        lines.append(f"     const T *a=A+{rows_start(p)}*{a_side.along}L+pc*{a_side.k}L;")
    if p.pack_b:
        lines.append(f"     const T *b=pb+(cb-cb0)*kc*{p.width}L;")
    else:
        assert b_side is not None
        lines.append(f"     const T *b=B+{cols_start(p)}+pc*{b_side.k}L;")
    here = f"{rows_start(p)}*{c.ldc}L+{cols_start(p)}"
    lines.append("     T *c=tile;" if not c.in_place else f"     T *c=out+{here};")
    lines.append("     " + _row_call(p, e))
    if e.pass_over and not p.split_k:
        rows = p.row_blocks
        height = f"{rows.size}L" if rows.even else f"({rows.size}L-(rb>={rows.full}L))"
        cols = p.column_blocks
        wide = f"{p.width}L" if cols.even else f"({p.width}L-(cb>={cols.full}L?{p.lanes}L:0L))"
        lines.append(
            f"     if(mode&2) finish(x,o,{rows_start(p)},{cols_start(p)},{height},"
            f"tw::imin({wide},{c.n.size}L-{cols_start(p)}),c,{p.ldc}L,out+{here});"
        )
    lines.append("    } } } } }")
    return "\n".join(lines)


def _combine_task(p: Plan, e: Epilogue) -> str:
    c = p.c
    lines = [
        "TW_NOINLINE void merge(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;",
        f" const long o=t/{c.m.size}L, m=t%{c.m.size}L; (void)o;",
        *[f" const long o_{a}={s}; (void)o_{a};" for a, s in c.outer.split("o").items()],
    ]
    strides = c.out_strides
    at = "+".join([f"m*{c.ldc}L"] + [f"{strides[a]}L*o_{a}" for a in c.outer.axes])
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
        lines.append(f" finish(x,o,m,0,1,{c.n.size}L,d,{c.ldc}L,d);")
    lines.append("}")
    return "\n".join(lines)


def _entry(p: Plan, symbol: str) -> str:
    c = p.c
    r, u, width = p.rows, p.unroll, p.width
    kc = f"tw::imin((args[0]+{u - 1})/{u}*{u},{-(-c.k.size // u) * u}L)"
    a_bytes = f"(mt*{r}L*{kc}*{p.item}L+4095)/4096*4096" if p.pack_a else "0"
    b_bytes = f"(nt*{width}L*{kc}*{p.item}L+4095)/4096*4096" if p.pack_b else "0"
    splits = "".join(f"x.{a}={f'args[{3 + i}]' if p.threads > 1 else 1};" for i, a in enumerate(SPLITS))
    lines = [
        f"TW_ENTRY({symbol}) {{ using namespace {symbol}_; (void)workspace;",
        f" const long mt=tw::imin(tw::imax(1,args[1]/{r}),{p.row_blocks.count}L);",
        f" const long nt=tw::imin(tw::imax(1,args[2]/{width}),{p.column_blocks.count}L);",
        f" Ctx x; x.t=tensors; x.ws=(char*)workspace; x.KC=args[0]; x.MT=mt; x.NT=nt; {splits}",
        f" x.a_bytes={a_bytes}; x.bytes=x.a_bytes+{b_bytes};",
        f" tw::parallel_for(env,{c.outer.size}L*x.TM*x.TN*x.TK,task,&x);",
    ]
    if p.split_k:
        lines.append(f" tw::parallel_for(env,{c.outer.size * c.m.size}L,merge,&x);")
    lines.append(" return 0; }")
    return "\n".join(lines)


def launch_program(p: Plan, symbol: str) -> LaunchProgram:
    c = p.c
    r, u, width = p.rows, p.unroll, p.width
    kc: IntExpr = ["min", ["roundup", "KC", u], -(-c.k.size // u) * u]
    mt: IntExpr = ["min", ["max", 1, ["//", "MC", r]], p.row_blocks.count]
    nt: IntExpr = ["min", ["max", 1, ["//", "NC", width]], p.column_blocks.count]
    a_bytes: IntExpr = ["roundup", ["*", mt, r * p.item, kc], 4096] if p.pack_a else 0
    b_bytes: IntExpr = ["roundup", ["*", nt, width * p.item, kc], 4096] if p.pack_b else 0
    size: IntExpr = ["*", p.threads, ["+", a_bytes, b_bytes]] if p.pack_a or p.pack_b else 0
    if p.split_k:
        size = ["+", size, ["*", ["-", "TK", 1], c.output.size * p.item]]
    return LaunchProgram((Launch(symbol, arguments(p)),), workspace=size)
