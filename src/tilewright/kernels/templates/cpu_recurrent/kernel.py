"""Prints a recurrent layer: a loop over steps, and for each step passes that are products with fused epilogues.

A step reads the previous state from the result, where the previous step stored it. A pass multiplies one value of all
rows by the packed weights of the pass's gates. A register tile covers some rows and features, and holds the
accumulators of all gates, so that the epilogue has all gates of a feature. The epilogue of the last pass computes the
next state; the epilogue of an earlier pass computes the value that the next pass multiplies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from tilewright.core import Launch, Prepack
from tilewright.extent import ctext
from tilewright.kernels.codegen.access import Values, stored
from tilewright.kernels.codegen.context import context_sizes
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.recurrence import Pass, Recurrent
from tilewright.kernels.kernel import Array, CpuStatic, Kernel, Opaque, Workspace, entry
from tilewright.kernels.loopnest import Access, Layout, Loop, LoopNest, Staged, reads
from tilewright.kernels.templates.cpu_recurrent.space import ALIGN, RecurrentPlan
from tilewright.kernels.templates.tiles import SymbolicBlocks

WEIGHTS, VALUES = "weights", "values"
"""Names, in loop nests, of the packed weights and of the value that a pass multiplies."""


def kernel(p: RecurrentPlan) -> Kernel:
    """The kernel of a schedule: one loop nest for each pass, with the loop over steps outermost."""
    packed = p.r.packed
    weights = p.offsets[-1] * p.item
    return Kernel(
        text=Opaque(_nests(p), partial(_source, p)),
        static=CpuStatic(fused=1),
        launches=entry(p.r.program, tasks=p.target.threads > 1),
        workspace=_workspace(p.r, 0 if packed else p.offsets[-1]),
        prepack=(Prepack(_number(p, packed), weights, Launch("_pack")),) if packed else (),
    )


def _source(p: RecurrentPlan, kernel: Kernel, symbol: str) -> str:
    parts = [_head(p, kernel, symbol), _pack(p), _start(p)]
    for n in range(len(p.r.passes)):
        parts += [_finish(p, n), *(_tile(p, n, h) for h in p.row_blocks.sizes), _pass(p, n)]
    prepack = [_prepack(symbol)] if kernel.prepack else []
    return "\n".join([*parts, "}", *prepack, _entry(p, kernel, symbol)]) + "\n"


def _nests(p: RecurrentPlan) -> tuple[LoopNest, ...]:
    """One loop nest for each pass of a step, with the loop over steps outermost."""
    _, steps, rows, features = map(int, p.r.sizes)
    axes = {"i1": steps, "i2": rows, "i3": features, "r0": features}
    span = -(-p.tiles // min(p.tasks, p.tiles)) * p.width
    shared = (Loop("i3", features, span, "parallel", "l2"),) if span < features else ()
    found = []
    for n, x in enumerate(p.r.passes):
        gates = len(x.mixes)
        loops = (
            Loop("i1", steps, 1), *shared, Loop("i3", min(features, span), p.width, level="l1"),
            Loop("i2", rows, p.rows, level="l1"), Loop("r0", features, p.unroll, level="register"),
            Loop("r0", p.unroll, 1, "unroll", "register"), Loop("i2", p.rows, 1, "unroll", "register"),
            Loop("i3", p.width, p.lanes, "unroll", "register"), Loop("i3", p.lanes, 1, "vector", "register"),
        )  # fmt: skip
        accesses, after = _body(p.r, n)
        weights = Layout.row_major(p.tiles, features, gates * p.width)
        found.append(
            LoopNest(
                f"pass{n}", axes, loops, accesses, (Staged(WEIGHTS, None if p.r.packed else 0, weights, "l2", 1),),
                2 * gates, p.item, after,
            )
        )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=256)
def _body(r: Recurrent, n: int) -> tuple[tuple[Access, ...], int]:
    """Accesses of a pass, and operations of the pass's epilogue per element."""
    dtype, last = r.output.dtype, n == len(r.passes) - 1
    t, b, j, k = (axis(a) for a in ("i1", "i2", "i3", "r0"))
    after: tuple[Expr, ...] = r.after if last else (r.passes[n + 1].value,)
    multiplied = Access(VALUES, (b, k), dtype), Access(WEIGHTS, (k, j * len(r.passes[n].mixes)), dtype)
    stored = Access(r.output.name if last else VALUES, (t, b, j), dtype, store=True)
    return (*multiplied, *reads(after, outside=True), stored), count_ops(*after)


def _number(p: RecurrentPlan, tensor: str) -> int:
    return next(n for n, t in enumerate((*p.r.program.inputs, p.r.output)) if t.name == tensor)


# --------------------------------------------------------------------------- memory


def kept(r: Recurrent, n: int) -> tuple[int, ...]:
    """Numbers of the pass's gate products (mixes) that the epilogues of later passes read too."""
    later: tuple[Expr, ...] = (*(x.value for x in r.passes[n + 2 :]), *r.after)
    read = {str(v.value) for e in later for v in e.walk() if v.op == "var"}
    last = n == len(r.passes) - 1
    return () if last else tuple(m for m in r.passes[n].mixes if f"m{m}" in read)


@lru_cache(maxsize=256)
def _workspace(r: Recurrent, packed: int) -> Workspace:
    """Workspace: the initial state, values and gate products kept for later passes, and ``packed`` weight elements."""
    states, _, rows, features = r.sizes
    one, dtype = rows * features, r.output.dtype
    found = {"start": states * one}
    for n, x in enumerate(r.passes):
        if x.component is None:
            found[f"v{n}"] = one
        found |= {f"k{m}": one for m in kept(r, n)}
    if packed:
        found["packed"] = packed
    return Workspace(tuple(Array(name, computed(dtype), size) for name, size in found.items()), ALIGN * ITEMSIZE[dtype])


HEAD = """\
namespace ${symbol}_ {
typedef $type T; typedef tw::vec<T, $lanes> V; enum { L=$lanes };
struct Ctx { void *const *t; const T *w; const T *h[$states]; T $arrays; long i1, tasks$sizes; };"""


def _head(p: RecurrentPlan, kernel: Kernel, symbol: str) -> str:
    arrays = ", ".join(f"*{a.name}" for a in kernel.workspace)
    mapping = {"symbol": symbol, "type": computed(p.r.output.dtype), "lanes": p.lanes, "states": p.r.sizes[0]}
    symbolic_rows = ("blocks", "height", "full") if _symbolic_rows(p) else ()
    sizes = "".join(f", {name}" for name in (*p.r.program.size_arguments, *symbolic_rows))
    return substitute(HEAD, {**mapping, "arrays": arrays, "sizes": sizes})


def _symbolic_rows(p: RecurrentPlan) -> SymbolicBlocks | None:
    """The blocks of rows if the number of rows is symbolic, else ``None``."""
    return p.row_blocks if isinstance(p.row_blocks, SymbolicBlocks) else None


def _tensors(p: RecurrentPlan, exprs: Sequence[Expr]) -> list[str]:
    """C declarations of pointers to the inputs that expressions read."""
    names = sorted({str(x.value) for e in exprs for x in e.loads()})
    return [f" const T *{n}=(const T*)x->t[{_number(p, n)}];" for n in names]


# --------------------------------------------------------------------------- weights

PACK = """\
 for(long q=0;q<${tiles}L;q++) for(long k=0;k<${terms}L;k++) for(long l=0;l<${width}L;l++) {
  const long j=q*${width}L+l; T *d=u+${offset}L+(q*${terms}L+k)*${step}L+l;
$gates
 }"""


def _pack(p: RecurrentPlan) -> str:
    """C++ function that packs the weights of all passes; padding features are zero."""
    features = p.r.sizes[3]
    lines = ["TW_NOINLINE void pack(void *const *t, T *u) {"]
    for x, offset in zip(p.r.passes, p.offsets, strict=False):
        gates = []
        for g, w in enumerate(x.mixes.values()):
            at = f"{w.where.const}L+j*{w.where.of('i3')}L+k*{w.where.of('r0')}L"
            gates.append(f"  d[{g * p.width}]=j<{features}L?((const T*)t[{_number(p, w.tensor)}])[{at}]:T(0);")
        mapping = {"tiles": p.tiles, "terms": features, "width": p.width, "offset": offset, "gates": gates}
        lines.append(substitute(PACK, {**mapping, "step": len(x.mixes) * p.width}))
    return "\n".join([*lines, "}"])


def _prepack(symbol: str) -> str:
    return (
        f"TW_ENTRY({symbol}_pack) {{ using namespace {symbol}_; (void)args; (void)env;\n"
        f" pack(tensors,(T*)workspace); return 0; }}"
    )


# --------------------------------------------------------------------------- the state


def _start(p: RecurrentPlan) -> str:
    """C++ function that fills the initial state."""
    _, _, rows, features = p.r.sizes
    start = p.r.step.start
    printer = Values(p.r.program.tensors, {}).at({"i2": "i2", "i3": "i3"})
    lines = [f"TW_NOINLINE void start(const Ctx *x) {{{context_sizes(p.r.program)}", *_tensors(p, start)]
    lines.append(f" for(long i2=0;i2<{ctext(rows)};i2++) for(long i3=0;i3<{features}L;i3++) {{")
    for c, e in enumerate(start):
        lines.append(f"  x->start[({ctext(c * rows)}+i2)*{features}L+i3]={printer.scalar(e)};")
    return "\n".join([*lines, " } }"])


FINISH = """\
TW_NOINLINE void finish$n(const Ctx *x, long b, long count, long q, const V *m) { const long i1=x->i1; (void)i1;$sizes
$tensors
$output
 for(long r=0;r<count;r++,m+=${step}L) { const long i2=b+r; (void)i2;
  for(long v=0;v<$vectors;v++) { const long i3=q*${width}L+v*${lanes}L, left=${features}L-i3;
   if(left<=0) break;
$if whole:   {
$unless whole:   if(left>=L) {
$full
   }
$unless whole:   else {
$partial
$unless whole:   }
  } } }"""


def _finish(p: RecurrentPlan, n: int) -> str:
    """C++ function of a pass's epilogue: it reads the sums ``m`` of some rows and of a tile's features."""
    exprs, places = _results(p, n)
    features = p.r.sizes[3]
    whole = features % p.lanes == 0
    out = f" T *out=(T*)x->t[{len(p.r.program.inputs)}];" if n == len(p.r.passes) - 1 else ""
    mapping = {
        "n": n, "sizes": context_sizes(p.r.program), "tensors": _tensors(p, exprs) or "", "output": out,
        "step": len(p.r.passes[n].mixes) * p.vectors, "vectors": p.vectors, "width": p.width, "lanes": p.lanes,
        "features": features, "whole": whole,
        "full": _values(p, n, exprs, places, None), "partial": [] if whole else _values(p, n, exprs, places, "left"),
    }  # fmt: skip
    return substitute(FINISH, mapping)


def _results(p: RecurrentPlan, n: int) -> tuple[list[Expr], list[str]]:
    """Expressions that a pass's epilogue computes, and the C addresses of a row's vector where it stores them."""
    _, steps, rows, features = p.r.sizes
    here = f"i2*{features}L+i3"
    if n == len(p.r.passes) - 1:
        places = [f"out+(({ctext(c * steps)}+i1)*{ctext(rows)}+i2)*{features}L+i3" for c in range(len(p.r.after))]
        return list(p.r.after), places
    exprs, places = [], []
    following = p.r.passes[n + 1]
    if following.component is None:
        exprs.append(following.value)
        places.append(f"x->v{n + 1}+{here}")
    for m in kept(p.r, n):
        exprs.append(Expr("var", p.r.output.dtype, (), f"m{m}"))
        places.append(f"x->k{m}+{here}")
    return exprs, places


def _values(p: RecurrentPlan, n: int, exprs: Sequence[Expr], places: Sequence[str], count: str | None) -> list[str]:
    features = p.r.sizes[3]
    own = list(p.r.passes[n].mixes)
    read = sorted({str(v.value) for e in exprs for v in e.walk() if v.op == "var"})
    lines: list[str] = []
    for name in read:
        number = int(name[1:])
        if name.startswith("m") and number in own:
            lines.append(f"    const V {name}=m[{own.index(number) * p.vectors}L+v];")
            continue
        at = f"x->{'h' if name[0] == 'l' else 'k'}{f'[{number}]' if name[0] == 'l' else number}+i2*{features}L+i3"
        loaded = f"tw::load<V>({at})" if count is None else f"tw::load_n<V>({at},{count})"
        lines.append(f"    const V {name}={loaded};")
    here = {a: a for a in ("i1", "i2", "i3")}
    printer = Values(p.r.program.tensors, {}, p.lanes).at(here, "i3", {v: v for v in read}, count)
    fresh = iter(range(1000))
    printer.bind(list(exprs), lambda line: lines.append(f"    {line}"), lambda prefix: f"{prefix}{next(fresh)}_")
    dtype = p.r.output.dtype
    lines += [f"    const V y{k}={printer.vector_text(e)};" for k, e in enumerate(exprs)]
    lines += [f"    {stored(at, dtype, f'y{k}', count)}" for k, at in enumerate(places)]
    return lines


# --------------------------------------------------------------------------- products

TILE = """\
TW_NOINLINE void tile${n}_$height(const Ctx *x, long b, long q, const T *TW_RESTRICT w) {
 const T *a=$value+b*${features}L;
$zero
 for(long k=0;k<${whole}L;k+=$unroll,w+=${step}L) {
$steps
 }
$rest
 V m[$size];
$store
 finish$n(x,b,$height,q,m); }"""


def _tile(p: RecurrentPlan, n: int, height: int) -> str:
    """C++ function of a register tile: ``height`` rows from ``b`` on, the features of tile ``q``, all gates."""
    x, features = p.r.passes[n], p.r.sizes[3]
    gates = len(x.mixes)
    columns = [(g, v) for g in range(gates) for v in range(p.vectors)]
    whole = features // p.unroll * p.unroll

    def step(k: str, offset: int) -> list[str]:
        lines = [f"  {{ const T {', '.join(f's{r}=a[{r * features}L+{k}]' for r in range(height))};"]
        for g, v in columns:
            lines.append(f"   {{ const V u=tw::load<V>(w+{(offset * gates + g) * p.width + v * p.lanes}L);")
            lines.append(f"    {' '.join(f'c{r}_{g}_{v}+=u*s{r};' for r in range(height))} }}")
        return [*lines, "  }"]

    mapping = {
        "n": n, "height": height, "value": _value(x, n), "features": features, "whole": whole, "unroll": p.unroll,
        "step": p.unroll * gates * p.width, "size": height * len(columns),
        "zero": [f" V {', '.join(f'c{r}_{g}_{v}={{}}' for g, v in columns)};" for r in range(height)],
        "steps": [line for k in range(p.unroll) for line in step(f"k+{k}", k)],
        "rest": [line for k in range(features - whole) for line in step(f"{whole + k}L", k)],
        "store": [
            f" m[{r * len(columns) + k}]=c{r}_{g}_{v};" for r in range(height) for k, (g, v) in enumerate(columns)
        ],
    }  # fmt: skip
    return substitute(TILE, mapping)


def _value(x: Pass, n: int) -> str:
    return f"x->v{n}" if x.component is None else f"x->h[{x.component}]"


PASS = """\
TW_NOINLINE void pass$n(const Ctx *x, long q0, long q1) {
 for(long q=q0;q<q1;q++) { const T *w=x->w+${offset}L+q*${panel}L;
  for(long r=0;r<$blocks;r++) { const long b=$start;
   $tiles_of
  } } }
TW_NOINLINE void task$n(void *ctx, long t, long) { const Ctx *x=(const Ctx*)ctx;
 pass$n(x,t*${tiles}L/x->tasks,(t+1)*${tiles}L/x->tasks); }"""


def _pass(p: RecurrentPlan, n: int) -> str:
    """C++ functions of a pass: one for a range of tiles over all rows, and one for a task's share of the tiles."""
    rows = p.row_blocks
    calls = {h: f"tile{n}_{h}(x,b,q,w);" for h in rows.sizes}
    if _symbolic_rows(p):
        tiles = f"switch({rows.height('r')}) {{ {' '.join(f'case {h}: {x} break;' for h, x in calls.items())} }}"
    elif rows.even:
        tiles = calls[rows.size]
    else:
        tiles = f"if(r<{rows.full}L) {calls[rows.size]} else {calls[rows.size - 1]}"
    mapping = {
        "n": n, "offset": p.offsets[n], "panel": p.panel(p.r.passes[n]), "start": rows.start("r"), "tiles": p.tiles,
        "blocks": "x->blocks" if _symbolic_rows(p) else f"{rows.count}L", "tiles_of": tiles,
    }  # fmt: skip
    return substitute(PASS, mapping)


ENTRY = """\
TW_ENTRY($symbol) { using namespace ${symbol}_; (void)args;
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->tasks=$tasks;$told T *at=(T*)workspace;
$arrays
$if packed: x->w=(const T*)tensors[$weights];
$unless packed: pack(tensors,x->packed); x->w=x->packed;
 start(x);
 const T *out=(const T*)tensors[$out];
 for(long s=0;s<$steps;s++) { x->i1=$position;
  for(long k=0;k<$states;k++) x->h[k]=s?out+(k*$steps+x->i1$before)*$size:x->start+k*$size;
$passes
 }
 return 0; }"""


def _told(p: RecurrentPlan, kernel: Kernel) -> str:
    """C statements that set the symbolic sizes in the kernel's context."""
    told = "".join(f" const long {n}={kernel.argument(n)}; x->{n}={n};" for n in p.r.program.size_arguments)
    rows = _symbolic_rows(p)
    return told + (f" {rows.set(ctext(p.r.sizes[2]))}" if rows else "")


def _entry(p: RecurrentPlan, kernel: Kernel, symbol: str) -> str:
    states, steps, rows, features = p.r.sizes
    threads, reverse = p.target.threads > 1, p.r.step.reverse
    mapping = {
        "symbol": symbol, "tasks": f"tw::imin({kernel.argument('tasks')},{p.tiles}L)" if threads else "1",
        "told": _told(p, kernel),
        "arrays": [f" x->{a.name}=at; at+={ctext(kernel.workspace.elements(a))};" for a in kernel.workspace],
        "packed": p.r.packed is not None, "weights": _number(p, p.r.packed) if p.r.packed else 0,
        "out": len(p.r.program.inputs), "steps": ctext(steps), "states": states, "size": ctext(rows * features),
        "position": f"{ctext(steps - 1)}-s" if reverse else "s", "before": "+1" if reverse else "-1",
        "passes": [f"  tw::parallel_for(env,x->tasks,task{n},x);" for n in range(len(p.r.passes))],
    }  # fmt: skip
    return substitute(ENTRY, mapping)
