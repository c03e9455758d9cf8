"""Packing operands into units: B into panels, A into rows.

A B that is contiguous along N is interleaved unit by unit. A B that is contiguous along K is transposed in squares of
4 by 4 units. Other operands (padding, im2col, computed values) go through a buffer of single rows, filled run by run
or element by element.
"""

from __future__ import annotations

from tilewright.extent import ctext
from tilewright.kernels.expression.expr import SIXTEEN, Expr, unwidened
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.kinds import BF16, U8S8, conversions, from_value
from tilewright.kernels.templates.cpu_contraction.match import Operand
from tilewright.kernels.templates.cpu_contraction.packing import clipped
from tilewright.kernels.templates.cpu_contraction.text import (
    form,
    operand_pointer,
    outer_names,
    outer_texts,
    scalar_read,
    scalar_text,
    sizes,
    tensor_pointer,
)  # fmt: skip


def _source_type(p: ContractionTiling, operand: Operand) -> str:
    """C type of the elements that packing copies from."""
    load = _gathered(p, operand)
    dtype = operand.dtype or (p.c.program.tensors[str(load.value)].dtype if load is not None else None)
    return _element(p) if dtype is None else p.source_type(dtype)


def _element(p: ContractionTiling) -> str:
    """C type of a packed element."""
    return "T" if p.kind.element == p.ctype else p.kind.element


def _gathered(p: ContractionTiling, operand: Operand) -> Expr | None:
    """The read of a B with a valid length, whose rows may lie anywhere but are contiguous; else ``None``."""
    c, load = p.c, unwidened(operand.value)
    if operand.valid_length is None or operand.window or len(c.n.axes) != 1 or load.op != "load":
        return None
    strides = c.program.tensors[str(load.value)].strides
    return load if load.dtype in ("float32", *SIXTEEN) and flat_step(load.args, strides, c.n.axes[0]) == 1 else None


def helpers(p: ContractionTiling) -> str:
    """C functions that convert and interleave elements, units and rows."""
    sides = [*([p.c.a] if p.a == "rows" else []), p.c.b]
    sources = dict.fromkeys(_source_type(p, x) for x in sides)
    g, bits = p.group, 8 * p.kind.bytes
    rows = ",".join(f"const X *r{i}" for i in range(g))
    interleaved, singly = (
        "|".join(f"{one}(r{i})<<{i * bits}" if i else f"{one}(r0)" for i in range(g)) for one in ("as_unit", "as_four")
    )
    if p.kind == U8S8:
        interleaved = f"weave_bytes({','.join(f'bytes16(r{i})' for i in range(g))})"
    quads = (
        "return as_four(p);"
        if g == 1
        else ("E e[4*G]; for(int i=0;i<4*G;i++) e[i]=as_element(p[i]); return tw::get<Q>((const int*)e);")
    )
    if p.kind in (BF16, U8S8):
        quads = "return tw::get<Q>((const int*)p);"
    mask = f"&{(1 << bits) - 1}" if g > 1 else ""
    return (
        "".join(conversions(p.kind, s) for s in dict.fromkeys([*sources, _element(p)]))
        + f"""\
template <class X> TW_INLINE W weave({rows}) {{ return {interleaved}; }}
typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) {{ int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }}
template <class X> TW_INLINE Q as_four(const X *p) {{
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i])){mask}; return q; }}
template <class X> TW_INLINE Q weave4({rows}) {{ return {singly}; }}
template <class X> TW_INLINE Q four(const X *p) {{ {quads} }}
template <class X> TW_INLINE int gather(const X *p,long step,long n) {{
 E e[G]={{}}; for(long i=0;i<n;i++) e[i]=as_element(p[i*step]);
 int v; __builtin_memcpy(&v,e,4); return v; }}
template <class X> TW_INLINE void copy(E *d,const X *s,long n) {{
 if constexpr(sizeof(X)==sizeof(E) && sizeof(X)<4) __builtin_memcpy(d,s,n*sizeof(E));
 else {{ long i=0;
  if constexpr(sizeof(E)==4) for(;i+L<=n;i+=L) tw::put<W>((int*)d+i,as_unit(s+i));
  for(;i<n;i++) d[i]=as_element(s[i]); }} }}
TW_INLINE void turn(Q a,Q b,Q c,Q e,void *d0,void *d1,void *d2,void *d3) {{
 const Q ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const Q ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::put<Q>((int*)d0,__builtin_shufflevector(ab,ce,0,1,4,5));
 tw::put<Q>((int*)d1,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::put<Q>((int*)d2,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::put<Q>((int*)d3,__builtin_shufflevector(AB,CE,2,3,6,7)); }}
"""
    )


def _declared(group: Group, fused: str) -> str:
    """Declarations of a group's axes, given C text of the fused position."""
    return " ".join(f"const long {a}={t}; (void){a};" for a, t in group.split(fused).items())


# --------------------------------------------------------------------------- rows, run by run


def row(p: ContractionTiling, which: str) -> str:
    """C function that copies elements [f0, f0+n) into ``d``: ``row_b`` along N at one k, ``row_a`` along K at one m."""
    c = p.c
    operand, along, fixed = (c.b, c.n, c.k) if which == "b" else (c.a, c.k, c.m)
    half = which == "b" and p.half_b  # copies 16-bit elements without conversion
    kind = "unsigned short" if half else "E"
    texts = dict.fromkeys((*c.stage.axes, *c.stage.reduce_axes), "0L") | outer_texts(c)
    texts |= {a: a for a in (*along.axes, *fixed.axes)}
    head = (
        f"TW_NOINLINE void row_{which}(const Ctx *x,long o,long at,long f0,long n,{kind} *d) {{ (void)o; (void)at;\n"
        f"{sizes(p)}{outer_names(p)} {_declared(fixed, 'at')}\n"
    )
    w, load = operand.window, _gathered(p, operand)
    if load is not None:
        read = scalar_read(p, load, {**texts, along.axes[0]: "f0"}).removeprefix("tw::widen")
        return f"{head} copy(d,&{read},n); }}\n"
    if w is None or not along.axes:
        value = scalar_text(p, operand.value, texts)
        each = f"{_declared(along, '(f0+l)')}\n  d[l]={from_value(p.kind, value)};"
        return f"{head} for(long l=0;l<n;l++) {{ {each} }} }}\n"
    inner, extent = along.axes[-1], along.extents[-1]
    step, source = w.position.of(inner), _source_type(p, operand)
    lines = [
        head + f" for(long l=0;l<n;) {{ {_declared(along, '(f0+l)')}",
        f"  const long len=tw::imin(n-l,{ctext(extent)}-{inner}); long lo=0,hi=len;",
        *("  " + clipped(b.of(inner), form(b, texts)) for b in w.bounds),
        "  if(lo>hi) lo=hi;",
        f"  const {source} *s=(const {source}*){tensor_pointer(c, w.tensor.name)}+({form(w.position, texts)});",
    ]
    if w.bounds:
        lines.append("  for(long y=0;y<lo;y++) d[l+y]=0;\n  for(long y=hi;y<len;y++) d[l+y]=0;")
    if step == 1:
        lines.append(f"  if(hi>lo) {'__builtin_memcpy(d+l+lo,s+lo,2*(hi-lo))' if half else 'copy(d+l+lo,s+lo,hi-lo)'};")
    else:
        one = f"s[y*{ctext(step)}].bits" if half else f"as_element(s[y*{ctext(step)}])"
        lines.append(f"  for(long y=lo;y<hi;y++) d[l+y]={one};")
    lines.append("  l+=len; } }\n")
    return "\n".join(lines)


# --------------------------------------------------------------------------- B


def pack_b(p: ContractionTiling) -> str:
    """C function that packs column blocks ``[cb, ce)`` of B, ``kc`` units from ``k0`` on, into ``q``."""
    g, s = p.group, p.c.b_side
    lines = [
        "TW_NOINLINE void pack_b(const Ctx *x,long o,long cb,long ce,long k0,long kc,"
        f"{p.b_type} *TW_RESTRICT q) {{ (void)o;",
        f"{sizes(p)}{outer_names(p)} const long deep=tw::imin(kc*{g}L,{ctext(p.c.k.size)}-k0*{g}L), units=deep/{g}L;",
        f" const long rest=deep-units*{g}L; (void)rest;",
        f" for(;cb<ce;cb++) {{ const long j0={p.column_blocks.start('cb')}*{p.lanes}L;",
        f"  const long n=tw::imin({p.width}L,{p.c.n.size_text}-j0); (void)n;",
    ]
    if p.heads:
        lines.append(f"  T *const sums=q; q+={p.width}L;")
    if s is not None:
        step = f"+j0*{ctext(s.along)}+k0*{ctext(g * s.k)}"
        lines.append(f"  const {_source_type(p, p.c.b)} *s={operand_pointer(p, 'b')}{step};")
    if s is None:
        lines += _buffered(p)
    elif s.along == 1:
        # Register tiles do not read vectors of a panel beyond the last column.
        lines += ["  if(n%L==0) {", *_interleaved(p, s.k), "  } else {", *_buffered(p), "  }"]
    else:
        lines += _transposed(p, s.along, s.k)
    if p.heads:
        lines += [
            f"  for(long l=0;l<{p.width}L;l+=L) {{ V t={{}}; const W all=tw::splat<W>((int)0x80808080);",
            f"   for(long u=0;u<kc;u++) t=dot4(t,all,tw::get<W>((const int*)q+u*{p.width}L+l));",
            "   tw::put<W>((int*)sums+l,-t); }",
        ]
    lines.append(f"  q+=kc*{p.width}L; }} }}\n")
    return "\n".join(lines)


def _store(p: ContractionTiling, rows: list[str]) -> str:
    """Statement that interleaves rows of elements into ``d``: all vectors of a panel's row that have columns."""
    each = "for(long l=0;l<n;l+=L)"
    if p.half_b:
        half = f"tw::vec<unsigned short,{p.lanes}>"
        return f"{each} tw::put<{half}>(d+l,tw::get<{half}>((const unsigned short*)({rows[0]})));"
    return f"{each} tw::put<W>((int*)d+l,weave({','.join(rows)}));"


def _interleaved(p: ContractionTiling, k_step: int) -> list[str]:
    """Statements that interleave rows, contiguous along N, in place; a missing last row of a unit counts as zeros."""
    rows = [f"s+{ctext(i * k_step)}+l" for i in range(p.group)]
    further = f"s+={ctext(p.group * k_step)},d+={p.width}L"
    lines = [f"   {p.b_type} *d=q;", f"   for(long u=0;u<units;u++,{further}) {_store(p, rows)}"]
    if p.group > 1:
        last = [f"({i}<rest?{x}:none)" for i, x in enumerate(rows)]
        lines += [f"   if(rest) {{ const {_source_type(p, p.c.b)} none[L]={{}};", f"    {_store(p, last)} }}"]
    return lines


def _buffered(p: ContractionTiling) -> list[str]:
    """Statements that fill rows one at a time into a buffer, zero past the edge, and interleave them."""
    g = p.group
    element = "unsigned short" if p.half_b else "E"
    lines = [
        f"   alignas(64) {element} rows[{g}][{p.width}]={{}}; {p.b_type} *d=q;",
        f"   for(long k=0;k<deep;d+={p.width}L) {{",
    ]
    for i in range(g):
        clear = f" else __builtin_memset(rows[{i}],0,sizeof rows[{i}]);" if i else ""
        lines.append(f"    if(k<deep) row_b(x,o,k0*{g}L+k,j0,n,rows[{i}]);{clear} k++;")
    return [*lines, f"    {_store(p, [f'rows[{i}]+l' for i in range(g)])} }}"]


def _transposed(p: ContractionTiling, n_step: int, k_step: int) -> list[str]:
    """Statements that collect units column by column, from a B contiguous along K or along neither axis."""
    g, width, along = p.group, p.width, ctext(n_step)
    if p.half_b:
        at = f"s[l*{along}+u*{ctext(k_step)}].bits"
        return [f"  for(long u=0;u<kc;u++) for(long l=0;l<{width}L;l++) q[u*{width}L+l]=l<n?{at}:(unsigned short)0;"]
    lines = ["  long l=0; int *const to=(int*)q;"]
    if k_step == 1:
        quads = ",".join(f"four(s+(l+{i})*{along}+u*{g})" for i in range(4))
        targets = ",".join(f"d+{i * width}" for i in range(4))
        one = f"for(int i=0;i<4;i++) d[i]=gather(s+(l+i)*{along}+u*{g},1,"
        lines += [
            "  for(;l+4<=n;l+=4) { int *d=to+l; long u=0;",
            f"   for(;u+4<=units;u+=4,d+={4 * width}) turn({quads},{targets});",
            f"   for(;u<units;u++,d+={width}) {one}{g});",
            f"   if(rest) {one}rest); }}",
        ]
    one = f"gather(s+l*{along}+u*{ctext(g * k_step)},{ctext(k_step)},u<units?{g}L:rest)"
    return [*lines, f"  for(;l<{width}L;l++) for(long u=0;u<kc;u++) to[u*{width}L+l]=l<n?{one}:0;"]


# --------------------------------------------------------------------------- A


def pack_a(p: ContractionTiling) -> str:
    """C function that packs row blocks ``[rb, re)`` of A with all of k into ``q``, each row padded to whole units."""
    c, g, s, step, k = p.c, p.group, p.c.a_side, p.a_row, p.c.k.size
    first, last = (p.row_blocks.start(x) for x in ("rb", "re"))
    lines = [
        "TW_NOINLINE void pack_a(const Ctx *x,long o,long rb,long re,long k0,long kc,T *TW_RESTRICT q) { (void)o;",
        f"{sizes(p)}{outer_names(p)} const long m0={first}, rows={last}-m0; long r=0; (void)k0; (void)kc;",
    ]
    pad = f" for(long i={k};i<{p.depth * g};i++) d[i]=0;" if k % g else ""
    copied = f"row_a(x,o,m0+r,0,{k}L,d);"
    if s is not None:
        lines.append(f" const {_source_type(p, c.a)} *s={operand_pointer(p, 'a')}+m0*{ctext(s.along)};")
        copied = f"for(long i=0;i<{k}L;i++) d[i]=as_element(s[r*{ctext(s.along)}+i*{ctext(s.k)}]);"
        if s.k == 1:
            copied = f"copy(d,s+r*{ctext(s.along)},{k}L);"
    if s is not None and s.along == 1 and s.k != 1:
        # A is contiguous along M: units of four rows are collected and transposed.
        quads = (",".join(f"s+r+(u*{g}+{i * g + e})*{ctext(s.k)}" for e in range(g)) for i in range(4))
        targets = ",".join(f"d+{i * step}" for i in range(4))
        one = f"gather(s+r+i+u*{ctext(g * s.k)},{ctext(s.k)},tw::imin({g},{k}L-u*{g}))"
        lines += [
            f" for(;r+4<=rows;r+=4) {{ int *d=(int*)q+r*{step}L; long u=0;",
            f"  for(;u<{k // g // 4 * 4};u+=4,d+=4) turn({','.join(f'weave4({x})' for x in quads)},{targets});",
            f"  for(;u<{p.depth};u++,d++) for(int i=0;i<4;i++) d[i*{step}]={one}; }}",
        ]
    lines.append(f" for(;r<rows;r++) {{ E *d=(E*)(q+r*{step}L); {copied}{pad} }} }}\n")
    return "\n".join(lines)
