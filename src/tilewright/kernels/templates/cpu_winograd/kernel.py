"""Printing a convolution by minimal filtering: tiles are transformed, multiplied point by point, and transformed back.

A task takes a range of tiles and a range of panels of output channels. For each block of tiles it transforms the
inputs of all channels. The register tile of contractions multiplies them at every point with the weights of some
panels. The task then transforms the products back, applies the epilogue and stores the panels' outputs. Intermediate
values stay in the worker's own workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from tilewright.core import IntExpr, Launch, Prepack, Value
from tilewright.extent import Extent, ctext, divides, intexpr
from tilewright.kernels.codegen.context import context_sizes
from tilewright.kernels.codegen.integers import long_text
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import axis, const
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.winograd import Along
from tilewright.kernels.kernel import Array, CpuStatic, Kernel, Opaque, Workspace
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged
from tilewright.kernels.templates.cpu_contraction import micro
from tilewright.kernels.templates.cpu_contraction.match import Contraction
from tilewright.kernels.templates.cpu_contraction.steps import Steps
from tilewright.kernels.templates.cpu_contraction.store import Epilogue, Read
from tilewright.kernels.templates.cpu_winograd import text
from tilewright.kernels.templates.cpu_winograd.match import epilogue
from tilewright.kernels.templates.cpu_winograd.plan import APART, WinogradPlan
from tilewright.kernels.templates.cpu_winograd.rounding import rounding
from tilewright.kernels.templates.cpu_winograd.transforms import Matrix

BLOCKS = ("TB", "PB")
SPLITS = ("TT", "TP")
TILES, WEIGHTS_READ, PRODUCTS_MADE = "tiles", "weights", "products"
"""Names of the intermediate tensors in loop nests."""


def kernel(p: WinogradPlan, values: Mapping[str, Value]) -> Kernel:
    """The kernel of a schedule: transforms inputs, multiplies them at all points, and transforms products back."""
    number = p.number(p.found.convolution.weight.tensor.name)
    return Kernel(
        text=Opaque(_nests(p, values), partial(_source, p)),
        static=CpuStatic(prefetch=4 * p.prefetch * p.width),
        launches=(Launch("", (*BLOCKS, *(SPLITS if p.target.threads > 1 else ()), *p.c.program.size_arguments)),),
        workspace=_workspace(p),
        prepack=(Prepack(number, 4 * p.weights, Launch("_pack")),) if p.constant else (),
        rounding=rounding(p.outputs, p.channels),
    )


@lru_cache(maxsize=256)
def _table_elements(c: Contraction, lanes: int) -> int:
    e = epilogue(c, lanes)
    return len(e.tables) * int(e.columns)


def _workspace(p: WinogradPlan) -> Workspace:
    """The workspace: zeros, tables of columns, weights that are not constant; each worker's tiles and products.

    ``vs`` and ``ms``: elements from one point to the next, of transformed tiles and of products.
    """
    worker: IntExpr = ["*", p.points, ["+", "vs", ["*", "PB", "ms"]]]
    shared = {"zero": p.pitch, "tables": _table_elements(p.c, p.lanes), "made": 0 if p.constant else p.weights}
    arrays = tuple(Array(name, "float", count) for name, count in shared.items())
    return Workspace(
        (*arrays, Array("ws", "float", worker, p.target.threads)), 4096,
        {
            "TB": ["min", "TB", intexpr(p.tiles)], "PB": ["min", "PB", p.panels],
            "vs": ["+", ["*", "TB", p.pitch], APART], "ms": ["+", ["*", "TB", p.width], APART],
        },
    )  # fmt: skip


def _nests(p: WinogradPlan, values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """The nests: input transform, products of all points, and output transform with the epilogue."""
    tiles = int(p.tiles)
    tb, pb = min(int(values["TB"]), tiles), min(int(values["PB"]), p.panels)
    columns = p.panels * p.width
    divided = (("t", tiles, int(values.get("TT", 1))), ("f", columns, int(values.get("TP", 1))))
    shared = [Loop(a, n, -(-n // parts), "parallel") for a, n, parts in divided if parts > 1]
    t, q, k, f = axis("t"), axis("q"), axis("k"), axis("f")
    block = Loop("t", tiles, tb, level="l2", argument="TB")
    group = Loop("f", columns, pb * p.width, level="l2", argument="PB")
    one = (Loop("t", tiles, 1), Loop("q", p.points, 1, "unroll"))
    channels = (Loop("k", p.channels, p.lanes), Loop("k", p.channels, 1, "vector", "register"))
    place, terms = t * (p.outputs**2) + q % (p.outputs**2), p.transforms.points
    inputs = LoopNest(
        "inputs",
        {"t": tiles, "q": p.points, "k": p.channels},
        (*(x for x in shared if x.axis == "t"), block, *one, *channels),
        (
            Access(p.found.convolution.image.tensor.name, (place, k), "float32"),
            Access(TILES, (q, t, k), "float32", store=True),
        ),
        flops_per_point=terms,
    )
    packed = Layout.row_major(p.panels, p.points, p.channels, p.width)
    products = LoopNest(
        PRODUCTS_MADE,
        {"q": p.points, "t": tiles, "f": columns, "k": p.channels},
        (
            *shared, block, group, Loop("q", p.points, 1),
            Loop("f", columns, p.width, level="l1"), Loop("t", tiles, p.mr, level="l1"),
            Loop("k", p.channels, p.unroll, level="register"), Loop("k", p.channels, 1, "unroll", "register"),
            Loop("t", tiles, 1, "unroll", "register"), Loop("f", columns, p.lanes, "unroll", "register"),
            Loop("f", columns, 1, "vector", "register"),
        ),
        (
            Access(TILES, (q, t, k), "float32"), Access(WEIGHTS_READ, (q, k, f), "float32"),
            Access(PRODUCTS_MADE, (q, t, f), "float32", store=True),
        ),
        (Staged(WEIGHTS_READ, None if p.constant else 0, packed, "l3", terms),),
    )  # fmt: skip
    after = sum(count_ops(*s.body) for s in p.c.epilogue)
    outputs = LoopNest(
        "outputs",
        {"t": tiles, "q": p.points, "f": columns},
        (*shared, block, group, *one, Loop("f", columns, p.lanes), Loop("f", columns, 1, "vector", "register")),
        (
            Access(PRODUCTS_MADE, (q, t, f), "float32"),
            Access(p.c.output.name, (place, const(0, "index"), f), "float32", store=True),
        ),
        flops_per_point=terms,
        flops_per_output=after,
    )
    return inputs, products, outputs


CONTEXT = """struct Ctx {
 void *const *t; const T *u; T *zero, *tables, *made; char *ws; long TB, PB, TT, TP, vs, ms, bytes$sizes; };"""


def _source(p: WinogradPlan, kernel: Kernel, symbol: str) -> str:
    e = epilogue(p.c, p.lanes)
    heights = range(min(p.mr, int(p.tiles)), 0, -1)
    parts = [
        f"namespace {symbol}_ {{",
        f"typedef float T; typedef tw::f32v V; enum {{ L={p.lanes} }};",
        substitute(CONTEXT, {"sizes": "".join(f", {name}" for name in p.c.program.size_arguments)}),
        _weights(p),
        _inputs(p),
        e.table_text(),
        *(micro.micro_kernel(Steps(p.product), h, p.nv, False, Epilogue(p.product)) for h in heights),
        _products(p, list(heights)),
        _outputs(p, e),
        _task(p),
        "}",
        _prepack(p, symbol) if p.constant else "",
        _entry(p, e, kernel, symbol),
    ]
    return "\n".join(x for x in parts if x)


# --------------------------------------------------------------------------- weights

WEIGHTS = """\
TW_NOINLINE void weights(const T *g, long q, T *u) {
 static const double G[$n][3]={$matrix};
 for(long c=0;c<${channels}L;c++) {
  double a[9][$width],b[$n][3][$width];
  for(long j=0;j<${width}L;j++) { const long f=tw::imin(q*${width}L+j,${last}L);
   for(long r=0;r<3;r++) for(long s=0;s<3;s++) a[3*r+s][j]=g[c*${c}L+f*${f}L+r*${r}L+s*${s}L]; }
  for(long i=0;i<$n;i++) for(long s=0;s<3;s++) for(long j=0;j<$width;j++)
   b[i][s][j]=G[i][0]*a[s][j]+G[i][1]*a[3+s][j]+G[i][2]*a[6+s][j];
  for(long i=0;i<$n;i++) for(long k=0;k<$n;k++) { T *d=u+((q*${points}L+i*$n+k)*${channels}L+c)*${width}L;
   for(long j=0;j<$width;j++) d[j]=(T)(b[i][0][j]*G[k][0]+b[i][1][j]*G[k][1]+b[i][2][j]*G[k][2]); } } }"""


def _weights(p: WinogradPlan) -> str:
    """C function that transforms the weights of panel ``q``. Lanes beyond the last feature repeat that feature."""
    found = p.found.convolution
    where = found.weight.position
    rows = ",".join(
        "{" + ",".join(f"{x.numerator}.0/{x.denominator}" for x in row) + "}" for row in p.transforms.filter
    )
    mapping = {
        "n": p.transforms.points, "matrix": rows, "channels": p.channels, "width": p.width, "last": p.features - 1,
        "points": p.points, "c": where.of(found.channel), "f": where.of(found.feature),
        "r": where.of(found.rows.tap), "s": where.of(found.columns.tap),
    }  # fmt: skip
    lines = substitute(WEIGHTS, mapping)
    if not p.constant:
        lines += (
            "\nTW_NOINLINE void weights_task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;\n"
            f" weights((const T*)x->t[{p.number(found.weight.tensor.name)}],t,x->made); }}"
        )
    return lines


def _prepack(p: WinogradPlan, symbol: str) -> str:
    number = p.number(p.found.convolution.weight.tensor.name)
    return (
        f"TW_ENTRY({symbol}_pack) {{ using namespace {symbol}_; (void)args; (void)env;\n"
        f" for(long q=0;q<{p.panels}L;q++) weights((const T*)tensors[{number}],q,(T*)workspace);\n return 0; }}"
    )


# --------------------------------------------------------------------------- inputs

INPUTS = """\
TW_NOINLINE void inputs(const Ctx *x, long first, long count, T *v) {$sizes
 for(long t=0;t<count;t++,v+=${pitch}L) {
  const T *s[$points];
  { const T *d=(const T*)x->t[$image]; $place
   d+=n*$item;
   for(long i=0;i<$n;i++) for(long j=0;j<$n;j++) { const long a=y+i,b=z+j;
    s[i*$n+j]=a>=0&&a<$height&&b>=0&&b<$width?d+a*$row+b*$column:x->zero; } }
  T *TW_RESTRICT q=v;
  for(long c=0;c<${whole}L;c+=L,q+=L) {
$body
  }
$if tail:  { const long c=${whole}L;
$rest
$if tail:  }
 } }"""


def _inputs(p: WinogradPlan) -> str:
    """C function that transforms ``count`` tiles from tile ``first`` on, with all channels."""
    found = p.found.convolution
    where = found.image.position
    tail = p.channels % p.lanes
    mapping = {
        "pitch": p.pitch, "points": p.points, "n": p.transforms.points, "tail": tail,
        "image": p.number(found.image.tensor.name), "place": _place(p, starts=True),
        "sizes": context_sizes(p.c.program), "item": ctext(where.of(found.item) if found.item else 0),
        "row": ctext(found.image.tensor.strides[found.rows.dim]), "height": ctext(found.rows.length),
        "column": ctext(found.image.tensor.strides[found.columns.dim]), "width": ctext(found.columns.length),
        "whole": p.channels - tail, "body": _input_tile(p, 0), "rest": _input_tile(p, tail) if tail else [],
    }  # fmt: skip
    return substitute(INPUTS, mapping)


def _place(p: WinogradPlan, starts: bool) -> str:
    """Declarations of ``n``, ``y``, ``z``: item, first row and first column of tile ``first+t``.

    ``starts``: the row and column are in the image, not in the output.
    """
    _, rows, columns = p.found.tiles(p.outputs)

    def begin(along: Along) -> str:
        return f"+({ctext(along.start)})" if starts else ""

    found = p.found.convolution
    return (
        f"const long m=first+t,n=m/{ctext(rows * columns)}; (void)n; "
        f"const long y=m/{ctext(columns)}%{ctext(rows)}*{p.outputs}L{begin(found.rows)},"
        f"z=m%{ctext(columns)}*{p.outputs}L{begin(found.columns)};"
    )


def _input_tile(p: WinogradPlan, tail: int) -> list[str]:
    """Statements that transform one vector of channels of a tile; ``tail``: its number of channels if it is partial."""
    n = p.transforms.points
    matrix = p.transforms.input
    lines: list[str] = []
    for j in range(n):
        for i in range(n):
            at = f"s[{i * n + j}]+c"
            lines.append(f"   const V d{i}_{j}={f'tw::load_n<V>({at},{tail}L)' if tail else f'tw::load<V>({at})'};")
        lines += ["   " + x for x in text.by_rows(matrix, _names("d", n, column=j), _names("e", n, column=j))]
    for i in range(n):
        made = _names("f", n, row=i)
        lines += ["   " + x for x in text.by_rows(matrix, _names("e", n, row=i), made)]
        lines += [f"   tw::store(q+{i * n + j}L*x->vs,{made[j]});" for j in range(n)]
    return lines


def _names(prefix: str, count: int, row: int | None = None, column: int | None = None) -> list[str]:
    """C names of a row or a column of a tile's elements."""
    return [f"{prefix}{row}_{k}" if column is None else f"{prefix}{k}_{column}" for k in range(count)]


# --------------------------------------------------------------------------- products

PRODUCTS = """\
TW_NOINLINE void products(const Ctx *x, long count, long q0, long q1, const T *v, T *o) {
 const long blocks=(count+$less)/$most,height=(count+blocks-1)/blocks,full=count-blocks*(height-1);
 for(long k=0;k<${points}L;k++) for(long q=q0;q<q1;q++) {
  const T *b=x->u+(q*${points}L+k)*${panel}L; T *d=o+((q-q0)*${points}L+k)*x->ms;
  for(long r=0;r<blocks;r++) {
   const long at=r*height-tw::imax(0,r-full); const T *a=v+k*x->vs+at*${pitch}L; T *c=d+at*${width}L;
   switch(height-(r>=full)) {
$cases
   } } } }"""


def _products(p: WinogradPlan, heights: list[int]) -> str:
    """C function that multiplies ``count`` tiles with panels ``q0`` to ``q1`` at every point."""
    call = f"({p.channels}L,a,b,c,0,{p.lanes}L); break;"
    mapping = {
        "less": p.mr - 1, "most": p.mr, "points": p.points, "panel": p.channels * p.width, "pitch": p.pitch,
        "width": p.width, "cases": [f"   case {h}: {micro.name(h, p.nv, False)}{call}" for h in heights],
    }  # fmt: skip
    return substitute(PRODUCTS, mapping)


# --------------------------------------------------------------------------- outputs

OUTPUTS = """\
TW_NOINLINE void outputs(const Ctx *x, long first, long count, long q0, long q1, const T *o) {$sizes
 for(long t=0;t<count;t++) { $place
  T *to=(T*)x->t[$out]+n*$item+y*$row+z*$column;
$reads
  for(long q=q0;q<q1;q++) { const long end=tw::imin(${features}L,(q+1)*${width}L);
   const T *m=o+(q-q0)*${points}L*x->ms+t*${width}L;
   for(long f=q*${width}L;f<end;f+=L,m+=L) {
$if tail:    const long left=end-f;
$body
   } } } }"""


def _outputs(p: WinogradPlan, e: Epilogue) -> str:
    """C function that transforms products back, applies the epilogue and stores the outputs."""
    found = p.found.convolution
    c = p.c
    tail = p.features % p.lanes
    reads = []
    for r in e.reads:
        steps = ((found.item, "n"), (found.rows.axis, "y"), (found.columns.axis, "z"))
        at = "".join(f"+{ctext(r.where.of(a))}*{name}" for a, name in steps if a and r.where.of(a))
        reads.append(f"  const T *{r.name}={e.base(r)}{at};")
    n, m = p.transforms.points, p.outputs
    matrix: Matrix = p.transforms.output
    body: list[str] = []
    for j in range(n):
        body += [f"    const V d{i}_{j}=tw::load<V>(m+{i * n + j}L*x->ms);" for i in range(n)]
        body += ["    " + x for x in text.by_columns(matrix, _names("d", n, column=j), _names("e", m, column=j))]
    body += [f"    const V {r.name}_={_read(r, '0', tail)};" for r in e.reads if not _moves(p, r)]
    for i in range(m):
        body += ["    " + x for x in text.by_columns(matrix, _names("e", n, row=i), _names("f", m, row=i))]
        for j in range(m):
            body.append(_store(p, e, i, j, tail))
    strides = c.out_strides
    mapping = {
        "place": _place(p, starts=False), "out": len(c.program.inputs), "points": p.points,
        "sizes": context_sizes(p.c.program), "item": ctext(strides[found.item] if found.item else 0),
        "row": ctext(strides[found.rows.axis]), "column": ctext(strides[found.columns.axis]), "features": p.features,
        "width": p.width, "reads": reads, "tail": tail,
        "body": body,
    }  # fmt: skip
    return substitute(OUTPUTS, mapping)


def _moves(p: WinogradPlan, r: Read) -> bool:
    """Whether a read of the epilogue differs between the outputs of a tile."""
    return any(r.where.of(along.axis) for along in (p.found.convolution.rows, p.found.convolution.columns))


def _read(r: Read, at: str, tail: int) -> str:
    """C text of a vector that the epilogue reads, ``at`` elements from the read of the tile's first output."""
    if r.n == 0:
        return f"tw::splat<V>({r.name}[{at}])"
    place = f"{r.name}+f+{at}"
    return f"(left>=L?tw::load<V>({place}):tw::load_n<V>({place},left))" if tail else f"tw::load<V>({place})"


def _store(p: WinogradPlan, e: Epilogue, i: int, j: int, tail: int) -> str:
    """Statement that applies the epilogue to one output of a tile and stores it, if it lies within the edges."""
    found = p.found.convolution
    guards = []
    for name, along, number in (("y", found.rows, i), ("z", found.columns, j)):
        # With a symbolic size, the last tile may have any number of outputs.
        left = 1 if isinstance(along.size, Extent) else along.size % p.outputs
        if not divides(p.outputs, along.size) and number >= left:
            guards.append(f"{name}+{number}<{ctext(along.size)}")
    lines, names = [], {}
    for r in e.reads:
        name = f"{r.name}_"
        if _moves(p, r):
            at = ctext(i * r.where.of(found.rows.axis) + j * r.where.of(found.columns.axis))
            lines.append(f"const V {r.name}v={_read(r, at, tail)};")
            name = f"{r.name}v"
        names[repr(r.load)] = name
    lines += e.values("v", names)
    place = f"to+{ctext(i * p.c.out_strides[found.rows.axis] + j * p.c.out_strides[found.columns.axis])}+f"
    lines.append(
        f"if(left>=L) tw::store({place},v); else tw::store_n({place},v,left);" if tail else f"tw::store({place},v);"
    )
    condition = f"if({'&&'.join(guards)}) " if guards else ""
    return f"    {condition}{{ V v=f{i}_{j}; {' '.join(lines)} }}"


# --------------------------------------------------------------------------- tasks

TASK = """\
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx;$sizes
 T *v=(T*)(x->ws+w*x->bytes),*o=v+${points}L*x->vs;
 const long i=t%x->TT,j=t/x->TT,t0=i*$tiles/x->TT,t1=(i+1)*$tiles/x->TT;
 const long q0=j*${panels}L/x->TP,q1=(j+1)*${panels}L/x->TP,blocks=tw::ceildiv(t1-t0,x->TB);
 for(long b=0;b<blocks;b++) {
  const long first=t0+(t1-t0)*b/blocks,count=t0+(t1-t0)*(b+1)/blocks-first;
  inputs(x,first,count,v);
  for(long q=q0;q<q1;q+=x->PB) { const long end=tw::imin(q1,q+x->PB);
   products(x,count,q,end,v,o);
   outputs(x,first,count,q,end,o); } } }"""


def _task(p: WinogradPlan) -> str:
    return substitute(
        TASK,
        {"points": p.points, "tiles": ctext(p.tiles), "panels": p.panels, "sizes": context_sizes(p.c.program)},
    )


ENTRY = """\
TW_ENTRY($symbol) { using namespace ${symbol}_;
 Ctx c{}; Ctx *x=&c; x->t=tensors; $told$shared
 x->ws=(char*)(x->made+${made}L); x->TB=$tiles_at_once; x->PB=$panels_at_once; $splits
 x->vs=$vs; x->ms=$ms;
 x->bytes=$bytes;
 for(long i=0;i<${zero}L;i++) x->zero[i]=0;
$if filled: fill_tables(x);
$if constant: x->u=(const T*)tensors[$weight];
$unless constant: x->u=x->made; tw::parallel_for(env,${panels}L,weights_task,x);
 tw::parallel_for(env,x->TT*x->TP,task,x);
 return 0; }"""


def _entry(p: WinogradPlan, e: Epilogue, kernel: Kernel, symbol: str) -> str:
    memory = kernel.workspace
    room = {a.name: memory.elements(a) for a in memory if not a.copies}
    names = {name: f"x->{name}" for name in memory.locals}
    given = {name: kernel.argument(name) for name in (*BLOCKS, *p.c.program.size_arguments)}
    own = {n: long_text(x, given if n in BLOCKS else names) for n, x in memory.locals.items()}
    threads = p.target.threads > 1
    chain = zip(room, ("(T*)workspace", *(f"x->{name}+{size}L" for name, size in room.items())), strict=False)
    mapping = {
        "symbol": symbol, "told": "".join(f"x->{a}={kernel.argument(a)}; " for a in p.c.program.size_arguments),
        "shared": " ".join(f"x->{name}={at};" for name, at in chain), "made": room["made"],
        "splits": "".join(f"x->{a}={kernel.argument(a) if threads else 1};" for a in SPLITS),
        "tiles_at_once": own["TB"], "panels_at_once": own["PB"], "vs": own["vs"], "ms": own["ms"],
        "bytes": long_text(memory.each("ws"), names), "zero": room["zero"], "panels": p.panels,
        "filled": bool(e.tables), "constant": p.constant,
        "weight": p.number(p.found.convolution.weight.tensor.name),
    }  # fmt: skip
    return substitute(ENTRY, mapping) + "\n"
