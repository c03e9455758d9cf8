"""Printing an attention: strips of queries, blocks of keys, and the entry point.

For each strip, the keys are walked block by block: scores by tiles, then the running maximum, the weights and
their sum, then the result by tiles, which is scaled when the maximum has grown. Scores lie in the workspace as
[key][query], the result as [width][query]; it is turned when it is done. Blocks that a mask leaves out are not read:
infinity or NaN in their values does not spread. Of values only those before their limit are read. Rows that another
tensor places, as a table of pages does, are gathered, a block of keys at a time. Where tasks share the keys of a strip,
each leaves its result, maximum and sum, and another pass adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.core import Value
from tilewright.extent import Extent, ctext
from tilewright.kernels.codegen.access import Values, flat_index, storage, write
from tilewright.kernels.codegen.context import context_sizes
from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.codegen.integers import long_text
from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.attention import SCORE, VALUE, Rows
from tilewright.kernels.kernel import CpuStatic, Kernel, Opaque, Workspace, entry
from tilewright.kernels.templates.cpu_attention.blocks import FALSE, TRUE, Blocks
from tilewright.kernels.templates.cpu_attention.geometry import AttentionTiling, converted
from tilewright.kernels.templates.cpu_attention.micro import score_tile, turn, value_tile
from tilewright.kernels.templates.cpu_attention.nests import nests
from tilewright.kernels.templates.cpu_attention.staging import StagedRead, staged_reads, with_tiles

CHUNK = 1 << 14
"""Elements that one task converts."""


def kernel(p: AttentionTiling, values: Mapping[str, Value]) -> Kernel:
    """The kernel of a schedule: scores, then the result."""
    return Kernel(
        text=Opaque(partial(nests, p, values), partial(_source, p)),
        static=CpuStatic(),
        launches=entry(p.a.program, "KB", *(("KP",) if p.split else ())),
        workspace=lambda: p.workspace,
    )


def _source(p: AttentionTiling, kernel: Kernel, symbol: str) -> str:
    parts = [
        f"namespace {symbol}_ {{",
        f"typedef tw::f32v V; enum {{ L={p.lanes}, W={p.strip} }};",
        "struct Ctx { void *const *t; char *ws; const float *k, *v; long KB, score_rows, bytes;"
        f"{''.join(f' long {n};' for n in p.a.program.size_arguments)}"
        f"{' float *parts; long KP;' if p.split else ''} }};",
        turn(p.lanes),
        *(_convert(p, kernel.workspace, r) for r in p.converted),
        *(_gather(p, r, *names) for r, *names in ((p.a.k, "keys", "r0"), (p.a.v, "values", "e")) if r.gathered),
        _queries(p),
        _masked(p),
        *(_stage(p, r) for r in staged_reads(p.a)),
        _weigh(p),
        *(score_tile(p, r) for r in (p.key_rows, *p.key_rests)),
        *(value_tile(p, r) for r in p.value_blocks.sizes),
        _finish(p),
        _task(p, kernel.workspace),
        _merge(p, kernel.workspace) if p.split else "",
        "}",
        _entry(p, kernel, symbol),
    ]
    return "\n".join(x for x in parts if x)


# --------------------------------------------------------------------------- names in the printed text


def _pointers(p: AttentionTiling, *exprs: Expr) -> list[str]:
    """Declarations of the inputs that expressions read, as ``x0``, ``x1``, ..."""
    read = {str(x.value) for e in exprs for x in e.loads()}
    return [
        f" const {storage(t.dtype)} *{t.name}=(const {storage(t.dtype)}*)x->t[{n}];"
        for n, t in enumerate(p.a.program.inputs)
        if t.name in read
    ]


def _outer_parameters(p: AttentionTiling) -> str:
    return "".join(f", long o_{a}" for a in p.a.outer)


def _outer_arguments(p: AttentionTiling) -> str:
    return "".join(f",o_{a}" for a in p.a.outer)


def _unused(p: AttentionTiling) -> str:
    return " (void)x; " + "".join(f"(void)o_{a}; " for a in p.a.outer) + context_sizes(p.a.program)


def _printer(
    p: AttentionTiling, axes: Mapping[str, str], vector: str | None = None, var: Mapping[str, str] | None = None,
    count: str | None = None,
) -> Printer:  # fmt: skip
    """A printer for a point, or for a vector along an axis, of what the outer axes say of a task."""
    extents = {**p.a.ranges, p.a.query: p.strips * p.strip}
    values = Values(p.a.program.tensors, extents, p.lanes)
    return values.at({**{a: f"o_{a}" for a in p.a.outer}, **axes}, vector, var, count)


class _Fresh:
    """Names of temporaries."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"


# --------------------------------------------------------------------------- keys, values and queries


CONVERT = """\
TW_NOINLINE void convert_$name(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
$sizes
 const $kind *s=(const $kind*)x->t[$number]+t*${chunk}L;
 float *d=(float*)(x->ws+$offset)+t*${chunk}L;
 const long n=tw::imin(${chunk}L,$size-t*${chunk}L); long j=0;
 for(;j+L<=n;j+=L) tw::store(d+j,tw::load<V>(s+j));
 if(j<n) tw::store_n(d+j,tw::load_n<V>(s+j,n-j),n-j); }"""


def _convert(p: AttentionTiling, memory: Workspace, rows: Rows) -> str:
    t = rows.tensor
    return fill(
        CONVERT,
        {
            "name": t.name,
            "kind": _kind(t),
            "number": [x.name for x in p.a.program.inputs].index(t.name),
            "chunk": CHUNK,
            "offset": ctext(memory.at(converted(rows))),
            "size": ctext(t.size),
            "sizes": context_sizes(p.a.program, "\n").splitlines(),
        },
    )


def _kind(t: Tensor) -> str:
    """C type in which a tensor's elements are read to be converted."""
    return "signed char" if t.dtype == "bool" else storage(t.dtype)


GATHER = """\
TW_NOINLINE void gather_$name(const Ctx *x$outer, long ja, long jb, float *d) {$unused
$pointers
 for(long j=ja;j<jb;j++,d+=$length) { const $kind *s=(const $kind*)$tensor+($at); long r=0;
  for(;r+L<=$length;r+=L) tw::store(d+r,tw::load<V>(s+r));
  if(r<$length) tw::store_n(d+r,tw::load_n<V>(s+r,$length-r),$length-r); } }"""


def _gather(p: AttentionTiling, rows: Rows, name: str, inner: str) -> str:
    """A function that copies rows which lie where another tensor says, converted, one behind the other."""
    printer = _printer(p, {p.a.key: "j", inner: "0L"})
    return fill(
        GATHER,
        {
            "name": name,
            "outer": _outer_parameters(p),
            "unused": _unused(p),
            "pointers": _pointers(p, rows.load),
            "length": f"{p.steps(rows)[0]}L",
            "kind": _kind(rows.tensor),
            "tensor": rows.tensor.name,
            "at": flat_index(rows.load.args, rows.tensor, printer),
        },
    )


def _queries(p: AttentionTiling) -> str:
    """A function that copies a strip of queries as [depth][query]; ``s`` is scratch of the same size."""
    a, d = p.a, p.a.depth
    head = (
        f"TW_NOINLINE void queries(const Ctx *x{_outer_parameters(p)}, long q0, long nq, float *q, float *s) {{"
        f"{_unused(p)}(void)s;"
    )
    lines = [head, *_pointers(p, a.q)]
    along, step = a.q_steps
    if step == 1 and along is not None:
        base = _printer(p, {a.query: "q0", "r0": "0L"})
        tensor = a.program.tensors[str(a.q.value)]
        lines.append(f" const float *from={tensor.name}+({flat_index(a.q.args, tensor, base)});")
    else:
        along, step = d, 1
        lines += [" const float *from=s;", " for(long l=0;l<nq;l++) {", "  long r=0;"]
        for count in (None, "n"):
            printer = _printer(p, {a.query: "(q0+l)", "r0": "r"}, "r0", count=count)
            text = printer.vector_text(a.q)
            if count is None:
                lines.append(f"  for(;r+L<={d}L;r+=L) tw::store(s+l*{d}L+r,{text});")
            elif d % p.lanes:
                lines.append(f"  {{ const long n={d}L-r; tw::store_n(s+l*{d}L+r,{text},n); }}")
        lines.append(" }")
    lines += [
        " long l=0;",
        f" for(;l+L<=nq;l+=L) {{ const float *f=from+l*{ctext(along)}; long r=0;",
        f"  for(;r+L<={d}L;r+=L) turn(f+r,{ctext(along)},q+r*W+l,W);",
        f"  for(;r<{d}L;r++) for(long i=0;i<L;i++) q[r*W+l+i]=f[i*{ctext(along)}+r]; }}",
        f" for(;l<W;l++) for(long r=0;r<{d}L;r++) q[r*W+l]=l<nq?from[l*{ctext(along)}+r]:0.0f;",
        "}",
    ]
    return "\n".join(lines)


# --------------------------------------------------------------------------- the softmax


def _blocks(p: AttentionTiling) -> Blocks:
    ends = {a: (f"o_{a}", f"o_{a}") for a in p.a.outer}
    return Blocks({**ends, p.a.query: ("q0", "q1"), p.a.key: ("j0", "j1")}, _printer(p, {}).scalar)


def _masked(p: AttentionTiling) -> str:
    """A function that says whether all scores of a block (both ends included) are minus infinity."""
    test = _blocks(p).masked(p.a.score)
    if test == FALSE:
        return ""
    return (
        f"TW_NOINLINE bool masked(const Ctx *x{_outer_parameters(p)}, long q0, long q1, long j0, long j1) {{"
        f"{_unused(p)}(void)q0; (void)q1; (void)j0; (void)j1;\n{''.join(_pointers(p, p.a.score))} return {test}; }}"
    )


def _score_pass(p: AttentionTiling, score: Expr, fresh: _Fresh) -> list[str]:
    """The final scores of a block, stored, and their maximum."""
    lines = [" for(long j=ja;j<jb;j++,p+=W) {"]
    read = {str(x.value) for x in score.walk() if x.op == "var"}
    tiles = [r for r in staged_reads(p.a) if r.name in read]
    for v in range(p.vectors):
        at = f"p+{v * p.lanes}L"
        if score.op == "var":
            lines.append(f"  {{ const V y=tw::load<V>({at}); t{v}=y>t{v}?y:t{v}; }}")
            continue
        count = f"(nq-{v * p.lanes}L)" if p.ragged else None
        axes, texts = {p.a.query: f"(q0+{v * p.lanes}L)", p.a.key: "j"}, {r.name: r.text for r in tiles}
        printer = _printer(p, axes, p.a.query, {SCORE: "y", **texts}, count)
        lines.append(f"  {{ const V y=tw::load<V>({at});")
        for n, r in enumerate(staged_reads(p.a), 1):
            if r in tiles:
                lines.append(f"   const V {r.name}=tw::load<V>({at}+{n}*size);")
        printer.bind((score,), lambda s: lines.append("   " + s), fresh)
        lines.append(f"   const V z={printer.vector_text(score)}; tw::store({at},z); t{v}=z>t{v}?z:t{v}; }}")
    return [*lines, " }"]


STAGE = """\
TW_NOINLINE void stage_$name(const Ctx *x$outer, long q0, long nq, long ja, long jb,
 float *d) {$unused
$pointers
 const $kind *from=(const $kind*)$tensor+($base);
 const long n=jb-ja;
 for(long l=0;l<nq;l+=L) { const long wide=tw::imin(nq-l,L); long j=0;
  if(wide==L) for(;j+L<=n;j+=L) turn(from+l*$along+j,$along,d+j*W+l,W);
  for(;j<n;j++) for(long i=0;i<wide;i++) d[j*W+l+i]=$value; }
}"""


def _stage(p: AttentionTiling, r: StagedRead) -> str:
    """A function that turns a block of a mask or bias into a tile [key][query]."""
    t = r.tensor
    base = _printer(p, {p.a.query: "q0", p.a.key: "ja"})
    element = f"from[(l+i)*{ctext(r.along)}+j]"
    return fill(
        STAGE,
        {
            "name": r.name,
            "outer": _outer_parameters(p),
            "unused": _unused(p),
            "pointers": _pointers(p, r.load),
            "kind": _kind(t),
            "tensor": t.name,
            "base": flat_index(r.load.args, t, base),
            "along": ctext(r.along),
            "value": f"tw::widen({element})" if "float16" in t.dtype else f"(float){element}",
        },
    )


def _weigh(p: AttentionTiling) -> str:
    """A function that turns a block of products into weights.

    NaN scores need no care in the maximum: they make the weight NaN, and with it the sum. Where all scores so
    far are minus infinity, the weights are 0 rather than exp(-inf + inf).
    """
    blocks, fresh = _blocks(p), _Fresh()
    score = with_tiles(p.a, p.a.score)
    test, simple = blocks.open(score)
    every = range(p.vectors)
    lines = [
        f"TW_NOINLINE void weigh(const Ctx *x{_outer_parameters(p)}, long q0, long nq, long ja, long jb,",
        f" float *s, float *m, float *l, float *c) {{{_unused(p)}(void)q0; (void)nq;",
        *_pointers(p, p.a.score),
        " const long size=x->score_rows*W; (void)size;",
        " const V low=tw::splat<V>(-__builtin_inff()); float *p=s;",
        *(f" const V m{v}=tw::load<V>(m+{v * p.lanes}L); V t{v}=m{v};" for v in every),
    ]
    if test == TRUE:
        lines += _score_pass(p, score, fresh)
    else:
        lines.append(" const long q1=q0+nq-1, j0=ja, j1=jb-1; (void)q1; (void)j0; (void)j1;")
        lines += [f" if({test}) {{", *_score_pass(p, simple, fresh), " } else {"]
        lines += [*_score_pass(p, score, fresh), " }"]
    for v in every:
        at = v * p.lanes
        lines += [
            f" const V f{v}=t{v}==low?V{{}}:t{v}, c{v}=tw::exp(m{v}-f{v}); V l{v}={{}};",
            f" tw::store(m+{at}L,t{v}); tw::store(c+{at}L,c{v});",
        ]
    lines.append(" p=s; for(long j=ja;j<jb;j++,p+=W) {")
    for v in every:
        place = f"p+{v * p.lanes}L"
        lines.append(f"  {{ const V y=tw::exp(tw::load<V>({place})-f{v}); tw::store({place},y); l{v}+=y; }}")
    lines.append(" }")
    lines += [f" tw::store(l+{v * p.lanes}L,tw::load<V>(l+{v * p.lanes}L)*c{v}+l{v});" for v in every]
    return "\n".join([*lines, "}"])


# --------------------------------------------------------------------------- the result


FINISH = """\
TW_NOINLINE void finish(const Ctx *x$outer, long q0, long nq, float *o, const float *l, float *rows) {$unused\
(void)rows; (void)q0;
$pointers
 $kind *$output=($kind*)x->t[$number];
 float *d=$to;
 for(long b=0;b<nq;b+=L) { const long n=tw::imin(nq-b,L);
  const V h=tw::splat<V>(1.0f)/tw::load<V>(l+b);
  for(long e=0;e<${width}L;e++) tw::store(o+e*W+b,tw::load<V>(o+e*W+b)*h);
  float *g=d+b*$step; long e=0;
  if(n==L) for(;e+L<=${width}L;e+=L) turn(o+e*W+b,W,g+e,$step);
  for(;e<${width}L;e++) for(long i=0;i<n;i++) g[i*$step+e]=o[e*W+b+i]; }
$after
}"""


def _finish(p: AttentionTiling) -> str:
    """A function that divides by the sums, turns the result and applies what comes after."""
    a = p.a
    strides = dict(zip((*_rows_axes(p), "e"), a.output.strides, strict=True))
    at = "+".join([f"q0*{ctext(strides[a.query])}", *(f"o_{b}*{ctext(strides[b])}" for b in a.outer)])
    return fill(
        FINISH,
        {
            "outer": _outer_parameters(p),
            "unused": _unused(p),
            "pointers": _pointers(p, a.finish),
            "kind": storage(a.output.dtype),
            "output": a.output.name,
            "number": len(a.program.inputs),
            "to": f"{a.output.name}+{at}" if a.plain_finish else "rows",
            "width": a.width,
            "step": ctext(strides[a.query] if a.plain_finish else a.width),
            "after": [] if a.plain_finish else _row_pass(p),
        },
    )


def _rows_axes(p: AttentionTiling) -> tuple[str, ...]:
    """Names of the output's axes but the last, in order."""
    return tuple(f"i{n}" for n in range(len(p.a.output.shape) - 1))


def _row_pass(p: AttentionTiling) -> list[str]:
    a, d = p.a, p.a.width
    fresh = _Fresh()
    lines = [" for(long i=0;i<nq;i++) {", "  long e=0;"]
    indices = tuple(axis(x) for x in (*_rows_axes(p), a.key))
    for count in (None, "n"):
        if count is not None and d % p.lanes == 0:
            break
        body: list[str] = []
        at = f"rows+i*{d}L+e"
        body.append(f"const V y={f'tw::load<V>({at})' if count is None else f'tw::load_n<V>({at},n)'};")
        printer = _printer(p, {a.query: "(q0+i)", a.key: "e"}, a.key, {VALUE: "y"}, count)
        printer.bind((a.finish,), body.append, fresh)
        body.append(write(printer, a.output, indices, a.finish, count))
        head = f"  for(;e+L<={d}L;e+=L) {{" if count is None else f"  {{ const long n={d}L-e;"
        lines.append(" ".join([head, *body, "}"]))
    return [*lines, " }"]


# --------------------------------------------------------------------------- loops


def _from(p: AttentionTiling, rows: Rows, inner: str) -> str:
    """C text of where the rows of a task begin, or of where a block's are gathered."""
    if rows.gathered:
        return f"q+{p.fixed}L+{p.tiles}*x->score_rows*W"
    printer = _printer(p, {p.a.key: "0L", inner: "0L"})
    return f"x->{'k' if rows is p.a.k else 'v'}+({flat_index(rows.load.args, rows.tensor, printer)})"


def _row(rows: Rows, number: str) -> str:
    """C text of a row's number among those that tiles read: of all, or of a block's."""
    return f"({number}-ja)" if rows.gathered else number


# With a causal mask the last strips take longest: they come first, so that threads end together. Whole tiles that are
# masked are left out at both ends of a block.
TASK = """\
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx;
$sizes
$if split: float *const mine=x->KP>1?x->parts+t*${part}L:nullptr; const long part=t%x->KP; t/=x->KP;
$if split: const long first_key=part*$key_tiles/x->KP*$rows;
$if split: const long end=tw::imin((part+1)*$key_tiles/x->KP*$rows,$keys);
$unless split: const long first_key=0, end=$keys;
 const long o=t/$strips, q0=($last_strip-t%$strips)*W, nq=tw::imin(W,$queries-q0); (void)o;
$axes
 float *q=(float*)(x->ws+$converted+w*x->bytes), *s=q+${depth}L*W;
 float *o_=s+$tiles*x->score_rows*W, *rows=o_+${part}L; (void)rows;
$if split: if(mine) o_=mine;
 float *m=o_+${width}L*W, *l=m+W, *c=l+W;
 queries(x$outer,q0,nq,q,s);
 for(long i=0;i<W;i++) { m[i]=-__builtin_inff(); l[i]=0; }
 const float *k=$from_k, *v=$from_v;
$known
 long first=1;
 for(long j=first_key;j<end;j+=x->KB) { long ja=j, jb=tw::imin(j+x->KB,end);
$if masked:  if(masked(x$outer,q0,q0+nq-1,ja,jb-1)) continue;
$if masked:  while(ja+$rows<jb&&masked(x$outer,q0,q0+nq-1,ja,ja+$rows_less)) ja+=$rows;
$if masked:  for(long z;ja+$rows<jb;jb=z) { z=ja+(jb-ja-1)/$rows*$rows;
$if masked:   if(!masked(x$outer,q0,q0+nq-1,z,jb-1)) break; }
$if gathers_k:  gather_keys(x$outer,ja,jb,(float*)k);
  float *d=s; long i=ja;
  for(;i+$rows<=jb;i+=$rows,d+=${tile}L) scores_$rows(k+$key*${along_k}L,q,d);
$rest
$stages
  weigh(x$outer,q0,nq,ja,jb,s,m,l,c);
$if known:  jb=tw::imin(jb,known);
$if gathers_v:  gather_values(x$outer,ja,jb,(float*)v);
  for(long b=0;b<${full}L;b++) values_$block$values
$unless even:  for(long b=$full;b<${blocks}L;b++) values_$smaller$values
  first=0; }
 if(first) for(long i=0;i<${width}L*W;i++) o_[i]=0;
$if split: if(mine) return;
 finish(x$outer,q0,nq,o_,l,rows); }"""


def _task(p: AttentionTiling, memory: Workspace) -> str:
    a = p.a
    outer, blocks = _outer_arguments(p), p.value_blocks
    start, (along, inner) = blocks.start("b"), p.steps(a.v)
    return fill(
        TASK,
        {
            **_strip(p, memory),
            "split": p.split,
            "part": p.part,
            "key_tiles": p.counted(a.keys, p.key_rows),
            "depth": a.depth,
            "from_k": _from(p, a.k, "r0"),
            "from_v": _from(p, a.v, "e"),
            "gathers_k": a.k.gathered,
            "gathers_v": a.v.gathered,
            "known": _known(p),
            "key": _row(a.k, "i"),
            "keys": ctext(a.keys),
            "masked": _blocks(p).masked(a.score) != FALSE,
            "rows": p.key_rows,
            "rows_less": p.key_rows - 1,
            "tile": p.key_rows * p.strip,
            "along_k": p.steps(a.k)[0],
            "rest": _rest(p),
            "stages": [
                f"  stage_{read.name}(x{outer},q0,nq,ja,jb,s+{n}*x->score_rows*W);"
                for n, read in enumerate(staged_reads(a), 1)
            ],
            "full": blocks.full,
            "block": blocks.size,
            "values": f"(jb-ja,v+{_row(a.v, 'ja')}*{along}L+{start}*{inner}L,s,o_+{start}*W,c,first);",
            "even": blocks.even,
            "blocks": blocks.count,
            "smaller": blocks.size - 1,
        },
    )


def _rest(p: AttentionTiling) -> list[str]:
    """Statements that compute the scores of the last keys, fewer than a tile has."""
    place = f"k+{_row(p.a.k, 'i')}*{p.steps(p.a.k)[0]}L,q,d"
    if len(p.key_rests) < 2:
        return [f"  if(i<jb) scores_{r}({place});" for r in p.key_rests]
    cases = " ".join(f"case {r}: scores_{r}({place}); break;" for r in p.key_rests)
    return [f"  switch(jb-i) {{ {cases} }}"]


def _known(p: AttentionTiling) -> list[str]:
    """Statements that say how many rows of values there are; none where all exist."""
    limit = p.a.v.limit
    if limit is None:
        return []
    return [*_pointers(p, limit), f" const long known={_printer(p, {}).scalar(limit)};"]


# The weight of a part is exp(its maximum - the largest); a part whose scores are all minus infinity has none.
MERGE = """\
TW_NOINLINE void merge(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx;
$sizes
 const long o=t/$strips, q0=($last_strip-t%$strips)*W, nq=tw::imin(W,$queries-q0); (void)o;
$axes
 float *rows=(float*)(x->ws+$converted+w*x->bytes)+${depth}L*W+$tiles*x->score_rows*W+${part}L;
 float *const o_=x->parts+t*x->KP*${part}L, *const m=o_+${width}L*W, *const l=m+W, *const c=l+W; (void)rows;
 const V low=tw::splat<V>(-__builtin_inff());
 for(long i=0;i<W;i+=L) { V y=low, z{};
  for(long p=0;p<x->KP;p++) { const V v=tw::load<V>(m+p*${part}L+i); y=v>y?v:y; }
  y=y==low?V{}:y;
  for(long p=0;p<x->KP;p++) { const long at=p*${part}L+i; const V e=tw::exp(tw::load<V>(m+at)-y);
   z+=tw::load<V>(l+at)*e; tw::store(c+at,e); }
  tw::store(l+i,z);
  for(long e=0;e<${width}L;e++) { V r{};
   for(long p=0;p<x->KP;p++) r+=tw::load<V>(o_+p*${part}L+e*W+i)*tw::load<V>(c+p*${part}L+i);
   tw::store(o_+e*W+i,r); } }
 finish(x$outer,q0,nq,o_,l,rows); }"""


def _merge(p: AttentionTiling, memory: Workspace) -> str:
    """A task that adds the results of a strip's parts."""
    return fill(MERGE, {**_strip(p, memory), "depth": p.a.depth, "part": p.part})


def _strip(p: AttentionTiling, memory: Workspace) -> dict[str, str | int | list[str]]:
    """What every task over strips says of them."""
    strips = p.counted(p.a.queries, p.strip)
    return {
        "sizes": context_sizes(p.a.program, "\n").splitlines(),
        "strips": strips,
        "last_strip": f"{strips}-1" if isinstance(p.a.queries, Extent) else f"{p.strips - 1}L",
        "queries": ctext(p.a.queries),
        "axes": [f" const long o_{b}={text}; (void)o_{b};" for b, text in p.a.group.split("o").items()],
        "converted": ctext(memory.at("ws")),
        "tiles": p.tiles,
        "width": p.a.width,
        "outer": _outer_arguments(p),
    }


ENTRY = """\
TW_ENTRY($symbol) { using namespace ${symbol}_; Ctx x; x.t=tensors; x.ws=(char*)workspace;
$sizes
 x.k=$k; x.v=$v; x.KB=$block;
 x.score_rows=$score_rows;
 x.bytes=$bytes;
$if split: x.KP=$parts; x.parts=(float*)(x.ws+$converted+${threads}L*x.bytes);
$conversions
$if split: tw::parallel_for(env,$tasks*x.KP,task,&x); if(x.KP>1) tw::parallel_for(env,$tasks,merge,&x);
$unless split: tw::parallel_for(env,$tasks,task,&x);
 return 0; }"""


def _entry(p: AttentionTiling, kernel: Kernel, symbol: str) -> str:
    numbers = {t.name: n for n, t in enumerate(p.a.program.inputs)}
    memory = kernel.workspace

    def where(rows: Rows) -> str:
        if rows.gathered:
            return "nullptr"
        if rows.converted:
            return f"(const float*)(x.ws+{ctext(memory.at(converted(rows)))})"
        return f"(const float*)tensors[{numbers[rows.tensor.name]}]"

    names = {name: str(e) if isinstance(e, int) else f"x.{name}" for name, e in memory.locals.items()} | {"W": "W"}
    block = long_text(memory.locals["KB"], {**names, "KB": kernel.argument("KB")})
    return fill(
        ENTRY,
        {
            "symbol": symbol, "k": where(p.a.k), "v": where(p.a.v), "block": block,
            "score_rows": long_text(memory.locals["score_rows"], names), "bytes": long_text(memory.each("ws"), names),
            "split": p.split, "parts": kernel.argument("KP") if p.split else "", "converted": ctext(memory.at("ws")),
            "threads": p.threads,
            "conversions": [
                f" tw::parallel_for(env,{p.counted(r.tensor.size, CHUNK)},convert_{r.tensor.name},&x);"
                for r in p.converted
            ],
            "sizes": [f" const long {s}=x.{s}={kernel.argument(s)}; (void){s};" for s in p.a.program.size_arguments],
            "tasks": f"{p.a.group.size_text}*{p.counted(p.a.queries, p.strip)}"
            if p.a.program.sizes
            else f"{p.a.group.size * p.strips}L",
        },
    )  # fmt: skip
