"""Prints an attention with online softmax: strips of queries, blocks of keys, and the entry point.

A task loops over the blocks of keys of a strip of queries. For each block it computes the scores by register tiles, the
online softmax, and the PV product by register tiles. The online softmax updates the running maximum and the sum of
weights, and rescales the result when the maximum grows. Scores lie in the workspace as [key][query], the result as
[width][query]; the final result is transposed.

- Blocks that a mask leaves out are not read, so infinity or NaN in their values does not spread.
- Values from their valid length on are not read.
- Paged keys and values are gathered, one block of keys at a time.
- If the keys of a strip are split among tasks (Flash-Decoding), each task stores its result, maximum and sum. A second
  pass merges these partial results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from tilewright.core import cached_property
from tilewright.extent import Extent, ctext
from tilewright.kernels.codegen.access import MemoryPrinter, Values, flat_index, storage, write
from tilewright.kernels.codegen.context import context_sizes
from tilewright.kernels.codegen.integers import long_text
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.attention import SCORE, VALUE, Rows
from tilewright.kernels.kernel import CpuStatic, Kernel, Opaque, entry
from tilewright.kernels.templates.cpu_attention.blocks import FALSE, TRUE, Blocks
from tilewright.kernels.templates.cpu_attention.geometry import AttentionTiling, converted
from tilewright.kernels.templates.cpu_attention.micro import score_tile, transpose, value_tile
from tilewright.kernels.templates.cpu_attention.staging import StagedRead, staged_reads, with_tiles

CHUNK = 1 << 14
"""Number of elements that one task converts to float32."""


def kernel(p: AttentionTiling) -> Kernel:
    """The kernel of a schedule: one nest for the scores, one for the result."""
    return Kernel(
        text=Opaque(p.nests, partial(_source, p)),
        static=CpuStatic(),
        launches=entry(p.a.program, "KB", *(("KP",) if p.split else ())),
        workspace=lambda: p.workspace,
    )


def _source(p: AttentionTiling, kernel: Kernel, symbol: str) -> str:
    """The source, printed with the loops of the kernel's nests.

    Raises ``ValueError`` if the two nests divide the queries differently.
    """
    scores, values = kernel.nests
    if any(scores.spans(a) != values.spans(a) for a in "oi"):
        raise ValueError("the scores and the result have other strips")
    text = _Text(replace(p, nests=kernel.nests), kernel)
    return "\n".join(x for x in text.parts(symbol) if x)


CONVERT = """\
TW_NOINLINE void convert_$name(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
$sizes
 const $kind *s=(const $kind*)x->t[$number]+t*${chunk}L;
 float *d=(float*)(x->ws+$offset)+t*${chunk}L;
 const long n=tw::imin(${chunk}L,$size-t*${chunk}L); long j=0;
 for(;j+L<=n;j+=L) tw::store(d+j,tw::load<V>(s+j));
 if(j<n) tw::store_n(d+j,tw::load_n<V>(s+j,n-j),n-j); }"""

GATHER = """\
TW_NOINLINE void gather_$name(const Ctx *x$outer, long ja, long jb, float *d) {$unused
$pointers
 for(long j=ja;j<jb;j++,d+=$length) { const $kind *s=(const $kind*)$tensor+($at); long r=0;
  for(;r+L<=$length;r+=L) tw::store(d+r,tw::load<V>(s+r));
  if(r<$length) tw::store_n(d+r,tw::load_n<V>(s+r,$length-r),$length-r); } }"""

QUERIES = """\
TW_NOINLINE void queries(const Ctx *x$outer, long q0, long nq, float *q, float *s) {$unused(void)s;
$pointers
$source
 long l=0;
 for(;l+L<=nq;l+=L) { const float *f=from+l*$along; long r=0;
  for(;r+L<=${depth}L;r+=L) turn(f+r,$along,q+r*W+l,W);
  for(;r<${depth}L;r++) for(long i=0;i<L;i++) q[r*W+l+i]=f[i*$along+r]; }
 for(;l<W;l++) for(long r=0;r<${depth}L;r++) q[r*W+l]=l<nq?from[l*$along+r]:0.0f;
}"""

MASKED = """\
TW_NOINLINE bool masked(const Ctx *x$outer, long q0, long q1, long j0, long j1) {$unused\
(void)q0; (void)q1; (void)j0; (void)j1;
$declared return $test; }"""

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

# The maximum may ignore NaN scores: their weights are NaN, and so is the sum. While all scores are minus infinity, the
# weights must be 0 instead of exp(-inf + inf).
SOFTMAX = """\
TW_NOINLINE void weigh(const Ctx *x$outer, long q0, long nq, long ja, long jb,
 float *s, float *m, float *l, float *c) {$unused(void)q0; (void)nq;
$pointers
 const long size=x->score_rows*W; (void)size;
 const V low=tw::splat<V>(-__builtin_inff()); float *p=s;
$tops
$if bounded: const long q1=q0+nq-1, j0=ja, j1=jb-1; (void)q1; (void)j0; (void)j1;
$if bounded: if($test) {
$if bounded:$simple
$if bounded: } else {
$scores
$if bounded: }
$weights
 p=s; for(long j=ja;j<jb;j++,p+=W) {
$powers
 }
$sums
}"""

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

# With a causal mask the last strips take longest. They come first, so that threads finish at about the same time.
# Fully masked tiles at both ends of a block are skipped.
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
 queries(x$given,q0,nq,q,s);
 for(long i=0;i<W;i++) { m[i]=-__builtin_inff(); l[i]=0; }
 const float *k=$from_k, *v=$from_v;
$known
 long first=1;
 for(long j=first_key;j<end;j+=x->KB) { long ja=j, jb=tw::imin(j+x->KB,end);
$if masked:  if(masked(x$given,q0,q0+nq-1,ja,jb-1)) continue;
$if masked:  while(ja+$rows<jb&&masked(x$given,q0,q0+nq-1,ja,ja+$rows_less)) ja+=$rows;
$if masked:  for(long z;ja+$rows<jb;jb=z) { z=ja+(jb-ja-1)/$rows*$rows;
$if masked:   if(!masked(x$given,q0,q0+nq-1,z,jb-1)) break; }
$if gathers_k:  gather_keys(x$given,ja,jb,(float*)k);
  float *d=s; long i=ja;
  for(;i+$rows<=jb;i+=$rows,d+=${tile}L) scores_$rows(k+$key*${along_k}L,q,d);
$rest
$stages
  weigh(x$given,q0,nq,ja,jb,s,m,l,c);
$if known:  jb=tw::imin(jb,known);
$if gathers_v:  gather_values(x$given,ja,jb,(float*)v);
  for(long b=0;b<${full}L;b++) values_$block$values
$unless even:  for(long b=$full;b<${blocks}L;b++) values_$smaller$values
  first=0; }
 if(first) for(long i=0;i<${width}L*W;i++) o_[i]=0;
$if split: if(mine) return;
 finish(x$given,q0,nq,o_,l,rows); }"""

# The weight of a split of the keys is exp(its maximum - the largest maximum). A split whose scores are all minus
# infinity has the weight 0.
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
 finish(x$given,q0,nq,o_,l,rows); }"""

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


@dataclass(frozen=True, eq=False)
class _Text:
    """Prints the functions of a kernel."""

    p: AttentionTiling
    kernel: Kernel

    def parts(self, symbol: str) -> list[str]:
        """All parts of the source, in order."""
        p, a = self.p, self.p.a
        sizes = "".join(f" long {n};" for n in a.program.size_arguments)
        return [
            f"namespace {symbol}_ {{",
            f"typedef tw::f32v V; enum {{ L={p.lanes}, W={p.strip} }};",
            "struct Ctx { void *const *t; char *ws; const float *k, *v; long KB, score_rows, bytes;"
            f"{sizes}{' float *parts; long KP;' if p.split else ''} }};",
            transpose(p.lanes),
            *map(self.convert, p.converted),
            *(self.gather(r, *names) for r, *names in ((a.k, "keys", "r0"), (a.v, "values", "e")) if r.gathered),
            self.queries(),
            self.masked(),
            *map(self.stage, staged_reads(a)),
            self.softmax(),
            *(score_tile(p, r) for r in (p.key_rows, *p.key_rests)),
            *(value_tile(p, r) for r in p.value_blocks.sizes),
            self.finish(),
            self.task(),
            self.substitute(MERGE) if p.split else "",
            "}",
            self.entry(symbol),
        ]

    @cached_property
    def mapping(self) -> Mapping[str, object]:
        """Substitutions that all printed functions share: outer axes, sizes, strips and memory."""
        p, a = self.p, self.p.a
        strips, sizes = p.counted(a.queries, p.strip), context_sizes(a.program)
        return {
            "outer": "".join(f", long o_{x}" for x in a.outer),
            "given": "".join(f",o_{x}" for x in a.outer),
            "unused": f" (void)x; {''.join(f'(void)o_{x}; ' for x in a.outer)}{sizes}",
            "sizes": context_sizes(a.program, "\n").splitlines(),
            "axes": [f" const long o_{x}={text}; (void)o_{x};" for x, text in a.group.split("o").items()],
            "strips": strips,
            "last_strip": f"{strips}-1" if isinstance(a.queries, Extent) else f"{p.strips - 1}L",
            "queries": ctext(a.queries),
            "keys": ctext(a.keys),
            "depth": a.depth,
            "width": a.width,
            "tiles": p.tiles,
            "split": p.split,
            "part": p.part,
            "chunk": CHUNK,
            "converted": ctext(self.kernel.workspace.at("ws")),
        }

    def substitute(self, text: str, *read: Expr, **mapping: object) -> str:
        """Fill in the text of a function, with declared pointers to the inputs that ``read`` expressions read."""
        return substitute(text, {**self.mapping, "pointers": self.pointers(*read), **mapping})

    # ----------------------------------------------------------------------- names in the printed text

    def pointers(self, *exprs: Expr) -> list[str]:
        """C declarations of pointers to the inputs that expressions read, named ``x0``, ``x1``, ..."""
        read = {str(x.value) for e in exprs for x in e.loads()}
        return [
            f" const {storage(t.dtype)} *{t.name}=(const {storage(t.dtype)}*)x->t[{n}];"
            for n, t in enumerate(self.p.a.program.inputs)
            if t.name in read
        ]

    def printer(
        self, axes: Mapping[str, str], vector: str | None = None, var: Mapping[str, str] | None = None,
        count: str | None = None,
    ) -> MemoryPrinter:  # fmt: skip
        """A printer for a point, or for a vector along an axis, at a task's position of the outer axes."""
        p = self.p
        values = Values(p.a.program.tensors, {**p.a.ranges, p.a.query: p.strips * p.strip}, p.lanes)
        return values.at({**{a: f"o_{a}" for a in p.a.outer}, **axes}, vector, var, count)

    @property
    def blocks(self) -> Blocks:
        ends = {a: (f"o_{a}", f"o_{a}") for a in self.p.a.outer}
        return Blocks({**ends, self.p.a.query: ("q0", "q1"), self.p.a.key: ("j0", "j1")}, self.printer({}).scalar)

    # ----------------------------------------------------------------------- keys, values and queries

    def convert(self, rows: Rows) -> str:
        """C++ function that converts one chunk of a tensor to float32."""
        t, offset = rows.tensor, ctext(self.kernel.workspace.at(converted(rows)))
        number = self.p.a.program.inputs.index(t)
        return self.substitute(CONVERT, name=t.name, kind=_kind(t), number=number, offset=offset, size=ctext(t.size))

    def gather(self, rows: Rows, name: str, inner: str) -> str:
        """C++ function that gathers the rows of a block of keys into a packed float32 buffer."""
        t, printer = rows.tensor, self.printer({self.p.a.key: "j", inner: "0L"})
        return self.substitute(
            GATHER, rows.load, name=name, length=f"{self.p.steps(rows)[0]}L", kind=_kind(t), tensor=t.name,
            at=flat_index(rows.load.args, t, printer),
        )  # fmt: skip

    def queries(self) -> str:
        """C++ function that copies a strip of queries as [depth][query]; ``s`` is a scratch buffer for a strip."""
        a, d = self.p.a, self.p.a.depth
        along, step = a.q_steps
        if step == 1 and along is not None:
            tensor = a.program.tensors[str(a.q.value)]
            at = flat_index(a.q.args, tensor, self.printer({a.query: "q0", "r0": "0L"}))
            return self.substitute(
                QUERIES, a.q, along=ctext(along), source=[f" const float *from={tensor.name}+({at});"]
            )
        vectors, rest = (
            self.printer({a.query: "(q0+l)", "r0": "r"}, "r0", count=n).vector_text(a.q) for n in (None, "n")
        )
        computed = [
            " const float *from=s;",
            " for(long l=0;l<nq;l++) {",
            "  long r=0;",
            f"  for(;r+L<={d}L;r+=L) tw::store(s+l*{d}L+r,{vectors});",
            *([f"  {{ const long n={d}L-r; tw::store_n(s+l*{d}L+r,{rest},n); }}"] if d % self.p.lanes else []),
            " }",
        ]
        return self.substitute(QUERIES, a.q, along=ctext(d), source=computed)

    # ----------------------------------------------------------------------- the softmax

    def masked(self) -> str:
        """C++ function that tests whether all scores of a block (both ends included) are minus infinity."""
        score = self.p.a.score
        test = self.blocks.masked(score)
        return "" if test == FALSE else self.substitute(MASKED, test=test, declared="".join(self.pointers(score)))

    def stage(self, r: StagedRead) -> str:
        """C++ function that transposes a block of a mask or bias into a tile [key][query]."""
        t, along = r.tensor, ctext(r.along)
        element = f"from[(l+i)*{along}+j]"
        return self.substitute(
            STAGE, r.load, name=r.name, kind=_kind(t), tensor=t.name, along=along,
            base=flat_index(r.load.args, t, self.printer({self.p.a.query: "q0", self.p.a.key: "ja"})),
            value=f"tw::widen({element})" if "float16" in t.dtype else f"(float){element}",
        )  # fmt: skip

    def softmax(self) -> str:
        """C++ function of the online softmax: it replaces a block of QK products by softmax weights."""
        p, fresh = self.p, _fresh()
        score = with_tiles(p.a, p.a.score)
        test, simple = self.blocks.open(score)
        every = [(v, v * p.lanes) for v in range(p.vectors)]
        return self.substitute(
            SOFTMAX, p.a.score, bounded=test != TRUE, test=test,
            tops=[f" const V m{v}=tw::load<V>(m+{at}L); V t{v}=m{v};" for v, at in every],
            simple=[] if test == TRUE else self.scores(simple, fresh), scores=self.scores(score, fresh),
            weights=[
                f" const V f{v}=t{v}==low?V{{}}:t{v}, c{v}=tw::exp(m{v}-f{v}); V l{v}={{}};\n"
                f" tw::store(m+{at}L,t{v}); tw::store(c+{at}L,c{v});"
                for v, at in every
            ],
            powers=[
                f"  {{ const V y=tw::exp(tw::load<V>(p+{at}L)-f{v}); tw::store(p+{at}L,y); l{v}+=y; }}"
                for v, at in every
            ],
            sums=[f" tw::store(l+{at}L,tw::load<V>(l+{at}L)*c{v}+l{v});" for v, at in every],
        )  # fmt: skip

    def scores(self, score: Expr, fresh: Callable[[str], str]) -> list[str]:
        """C statements that store the final scores of a block, and update the running maximum."""
        p = self.p
        lines = [" for(long j=ja;j<jb;j++,p+=W) {"]
        read = {str(x.value) for x in score.walk() if x.op == "var"}
        tiles = {r: n for n, r in enumerate(staged_reads(p.a), 1) if r.name in read}
        for v in range(p.vectors):
            at = f"p+{v * p.lanes}L"
            if score.op == "var":
                lines.append(f"  {{ const V y=tw::load<V>({at}); t{v}=y>t{v}?y:t{v}; }}")
                continue
            axes, texts = {p.a.query: f"(q0+{v * p.lanes}L)", p.a.key: "j"}, {r.name: r.text for r in tiles}
            left = f"(nq-{v * p.lanes}L)" if p.ragged else None
            printer = self.printer(axes, p.a.query, {SCORE: "y", **texts}, left)
            lines.append(f"  {{ const V y=tw::load<V>({at});")
            lines += [f"   const V {r.name}=tw::load<V>({at}+{n}*size);" for r, n in tiles.items()]
            bound: list[str] = []
            printer.bind((score,), bound.append, fresh)
            lines += [f"   {line}" for line in bound]
            lines.append(f"   const V z={printer.vector_text(score)}; tw::store({at},z); t{v}=z>t{v}?z:t{v}; }}")
        return [*lines, " }"]

    # ----------------------------------------------------------------------- the result

    def finish(self) -> str:
        """C++ function that divides by the sums, transposes the result and applies the epilogue."""
        a = self.p.a
        axes = tuple(f"i{n}" for n in range(len(a.output.shape) - 1))
        strides = dict(zip((*axes, "e"), a.output.strides, strict=True))
        at = "+".join([f"q0*{ctext(strides[a.query])}", *(f"o_{b}*{ctext(strides[b])}" for b in a.outer)])
        return self.substitute(
            FINISH, a.finish, kind=storage(a.output.dtype), output=a.output.name, number=len(a.program.inputs),
            to=f"{a.output.name}+{at}" if a.plain_finish else "rows",
            step=ctext(strides[a.query] if a.plain_finish else a.width),
            after=[] if a.plain_finish else self.row_pass(axes),
        )  # fmt: skip

    def row_pass(self, axes: tuple[str, ...]) -> list[str]:
        """C statements that apply the epilogue to the rows of the result. ``axes``: the output axes before the last."""
        a, d, fresh = self.p.a, self.p.a.width, _fresh()
        lines = [" for(long i=0;i<nq;i++) {", "  long e=0;"]
        indices, at = tuple(axis(x) for x in (*axes, a.key)), f"rows+i*{d}L+e"
        for left in (None, "n") if d % self.p.lanes else (None,):
            body = [f"const V y={f'tw::load<V>({at})' if left is None else f'tw::load_n<V>({at},n)'};"]
            printer = self.printer({a.query: "(q0+i)", a.key: "e"}, a.key, {VALUE: "y"}, left)
            printer.bind((a.finish,), body.append, fresh)
            body.append(write(printer, a.output, indices, a.finish, left))
            head = f"  for(;e+L<={d}L;e+=L) {{" if left is None else f"  {{ const long n={d}L-e;"
            lines.append(" ".join([head, *body, "}"]))
        return [*lines, " }"]

    # ----------------------------------------------------------------------- loops

    def task(self) -> str:
        p, a, blocks = self.p, self.p.a, self.p.value_blocks
        (along, inner), (key_along, _) = p.steps(a.v), p.steps(a.k)
        start, given = blocks.start("b"), self.mapping["given"]
        return self.substitute(
            TASK, key_tiles=p.counted(a.keys, p.key_rows), from_k=self.begin(a.k, "r0"), from_v=self.begin(a.v, "e"),
            gathers_k=a.k.gathered, gathers_v=a.v.gathered, masked=self.blocks.masked(a.score) != FALSE,
            known=self.valid_length(), key=_row(a.k, "i"), along_k=key_along, rest=self.rest(),
            rows=p.key_rows, rows_less=p.key_rows - 1, tile=p.key_rows * p.strip,
            full=blocks.full, block=blocks.size, even=blocks.even, blocks=blocks.count, smaller=blocks.size - 1,
            values=f"(jb-ja,v+{_row(a.v, 'ja')}*{along}L+{start}*{inner}L,s,o_+{start}*W,c,first);",
            stages=[
                f"  stage_{read.name}(x{given},q0,nq,ja,jb,s+{n}*x->score_rows*W);"
                for n, read in enumerate(staged_reads(a), 1)
            ],
        )  # fmt: skip

    def begin(self, rows: Rows, inner: str) -> str:
        """C text of the address of a task's rows, or of the buffer of a block's gathered rows."""
        if rows.gathered:
            return f"q+{self.p.fixed}L+{self.p.tiles}*x->score_rows*W"
        at = flat_index(rows.load.args, rows.tensor, self.printer({self.p.a.key: "0L", inner: "0L"}))
        return f"x->{'k' if rows is self.p.a.k else 'v'}+({at})"

    def rest(self) -> list[str]:
        """C statements that compute the scores of the last keys, which do not fill a tile."""
        rests, place = self.p.key_rests, f"k+{_row(self.p.a.k, 'i')}*{self.p.steps(self.p.a.k)[0]}L,q,d"
        if len(rests) < 2:
            return [f"  if(i<jb) scores_{r}({place});" for r in rests]
        cases = " ".join(f"case {r}: scores_{r}({place}); break;" for r in rests)
        return [f"  switch(jb-i) {{ {cases} }}"]

    def valid_length(self) -> list[str]:
        """C statements that declare the valid length of the values; empty if all values are valid."""
        limit = self.p.a.v.limit
        if limit is None:
            return []
        return [*self.pointers(limit), f" const long known={self.printer({}).scalar(limit)};"]

    def entry(self, symbol: str) -> str:
        p, a, kernel, memory = self.p, self.p.a, self.kernel, self.kernel.workspace

        def where(rows: Rows) -> str:
            if rows.gathered:
                return "nullptr"
            if rows.converted:
                return f"(const float*)(x.ws+{ctext(memory.at(converted(rows)))})"
            return f"(const float*)tensors[{a.program.inputs.index(rows.tensor)}]"

        names = {name: str(e) if isinstance(e, int) else f"x.{name}" for name, e in memory.locals.items()} | {"W": "W"}
        tasks = f"{a.group.size * p.strips}L"
        if a.program.sizes:
            tasks = f"{a.group.size_text}*{p.counted(a.queries, p.strip)}"
        return self.substitute(
            ENTRY, symbol=symbol, k=where(a.k), v=where(a.v), threads=p.threads, tasks=tasks,
            block=long_text(memory.locals["KB"], {**names, "KB": kernel.argument("KB")}),
            score_rows=long_text(memory.locals["score_rows"], names), bytes=long_text(memory.each("ws"), names),
            parts=kernel.argument("KP") if p.split else "",
            conversions=[
                f" tw::parallel_for(env,{p.counted(r.tensor.size, CHUNK)},convert_{r.tensor.name},&x);"
                for r in p.converted
            ],
            sizes=[f" const long {s}=x.{s}={kernel.argument(s)}; (void){s};" for s in a.program.size_arguments],
        )  # fmt: skip


def _kind(t: Tensor) -> str:
    """C type of a tensor's elements in memory, before their conversion to float32."""
    return "signed char" if t.dtype == "bool" else storage(t.dtype)


def _row(rows: Rows, number: str) -> str:
    """C text of a row's index among the rows that tiles read: all rows, or the rows of a gathered block."""
    return f"({number}-ja)" if rows.gathered else number


def _fresh() -> Callable[[str], str]:
    """A function that returns a new C name for each temporary."""
    numbers = count(1)
    return lambda prefix: f"{prefix}_{next(numbers)}"
