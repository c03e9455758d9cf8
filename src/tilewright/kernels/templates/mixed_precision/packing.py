"""Copying operands into units: B into panels, A into rows.

Rows of B that lie side by side in memory are woven unit by unit; a B whose k lie side by side is turned
in squares of 4 by 4 units. Everything else (padding, im2col, values that are computed) goes through a
buffer of single rows, filled run by run or element by element.
"""

from __future__ import annotations

from tilewright.kernels.expression.expr import SIXTEEN, Expr, unwidened
from tilewright.kernels.expression.linear import Linear, flat_step
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.mixed_precision.geometry import DotTiling
from tilewright.kernels.templates.mixed_precision.kinds import BF16, U8S8, conversions, from_value
from tilewright.kernels.templates.mixed_precision.match import STORED, Operand
from tilewright.kernels.templates.mixed_precision.texts import axis_names, declare, linear, number_of, scalar, stored


def source_type(p: DotTiling, operand: Operand) -> str:
    """C type of the elements that an operand's rows are copied from."""
    load = _gathered(p, operand)
    tensor = operand.raw.tensor if operand.raw else p.c.program.tensors[str(load.value)] if load is not None else None
    return STORED[tensor.dtype] if tensor else p.kind.element


def _gathered(p: DotTiling, operand: Operand) -> Expr | None:
    """What is read of a B with a limit whose rows may lie anywhere, each side by side."""
    c, load = p.c, operand.value
    if operand.limit is None or operand.raw or len(c.n.axes) != 1:
        return None
    load = unwidened(load)
    if load.op != "load" or load.dtype not in ("float32", *SIXTEEN):
        return None
    strides = c.program.tensors[str(load.value)].strides
    return load if flat_step(load.args, strides, c.n.axes[0]) == 1 else None


def helpers(p: DotTiling) -> str:
    """Functions on elements, units and rows."""
    sides = [p.c.b, *([p.c.a] if p.pack_a else [])]
    sources = dict.fromkeys([p.kind.element, *(source_type(p, x) for x in sides)])
    g, bits = p.kind.group, 8 * p.kind.bytes
    rows = ",".join(f"const T *r{i}" for i in range(g))
    woven = "|".join(f"as_unit(r{i})<<{i * bits}" if i else "as_unit(r0)" for i in range(g))
    if p.kind == U8S8:
        woven = f"weave_bytes({','.join(f'bytes16(r{i})' for i in range(g))})"
    singly = "|".join(f"as_four(r{i})<<{i * bits}" if i else "as_four(r0)" for i in range(g))
    parts = [conversions(p.kind, s) for s in sources]
    parts.append(f"template <class T> TW_INLINE W weave({rows}) {{ return {woven}; }}\n")
    mask = f"&{(1 << bits) - 1}" if g > 1 else ""
    parts.append(f"""typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) {{ int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }}
template <class T> TW_INLINE Q as_four(const T *p) {{
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i])){mask}; return q; }}
template <class T> TW_INLINE Q weave4({rows}) {{ return {singly}; }}
template <class T> TW_INLINE int gather(const T *p,long step,long n) {{
 E e[G]={{}}; for(long i=0;i<n;i++) e[i]=as_element(p[i*step]);
 int v; __builtin_memcpy(&v,e,4); return v; }}
template <class T> TW_INLINE void copy(E *d,const T *s,long n) {{
 if constexpr(sizeof(T)==sizeof(E) && sizeof(T)<4) __builtin_memcpy(d,s,n*sizeof(E));
 else {{ long i=0;
  if constexpr(sizeof(E)==4) for(;i+L<=n;i+=L) tw::put<W>((int*)d+i,as_unit(s+i));
  for(;i<n;i++) d[i]=as_element(s[i]); }} }}
TW_INLINE void turn(Q a,Q b,Q c,Q e,char *d0,char *d1,char *d2,char *d3) {{
 const Q ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const Q ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::put<Q>((int*)d0,__builtin_shufflevector(ab,ce,0,1,4,5));
 tw::put<Q>((int*)d1,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::put<Q>((int*)d2,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::put<Q>((int*)d3,__builtin_shufflevector(AB,CE,2,3,6,7)); }}
""")
    return "".join(parts)


# --------------------------------------------------------------------------- rows, run by run


def row(p: DotTiling, which: str) -> str:
    """``row_b``: elements [f0, f0+n) of N at one k; ``row_a``: of K at one m; both into ``d``."""
    c = p.c
    operand, along, fixed, outer = (
        (c.b, c.n, Group(c.k.axes, c.k.extents), c.b_outer) if which == "b" else (c.a, c.k, c.m, c.batch)
    )
    half = which == "b" and p.half_b  # 16-bit patterns as they are
    kind = "unsigned short" if half else "E"
    head = (
        f"TW_NOINLINE void row_{which}(const Ctx *x,long o,long at,long f0,long n,{kind} *d) {{ (void)o; (void)at;\n "
    )
    head += declare(outer, "o") + declare(fixed, "at") + "\n"
    raw = operand.raw
    names = axis_names(c)
    load = _gathered(p, operand)
    if load is not None:
        return f"{head} copy(d,&{stored(c, load, {**names, along.axes[0]: 'f0'})},n); }}\n"
    if raw is None or not along.axes:
        value = from_value(p.kind, scalar(c, operand.value, names))
        return f"{head} for(long l=0;l<n;l++) {{ {declare(along, '(f0+l)')}\n  d[l]={value}; }} }}\n"
    inner, extent = along.axes[-1], along.extents[-1]
    step = raw.where.of(inner)
    source = source_type(p, operand)
    lines = [
        head + f" for(long l=0;l<n;) {{ {declare(along, '(f0+l)')}",
        f"  const long len=tw::imin(n-l,{extent}L-{inner}); long lo=0,hi=len;",
    ]
    for form in raw.bounds:
        lines.append("  " + _clip(form, inner, linear(form, names)))
    lines += [
        "  if(lo>hi) lo=hi;",
        f"  const {source} *s=(const {source}*)x->t[{number_of(c, raw.tensor.name)}]+({linear(raw.where, names)});",
    ]
    if raw.bounds:
        lines.append("  for(long y=0;y<lo;y++) d[l+y]=0;\n  for(long y=hi;y<len;y++) d[l+y]=0;")
    if step == 1:
        lines.append(f"  if(hi>lo) {'__builtin_memcpy(d+l+lo,s+lo,2*(hi-lo))' if half else 'copy(d+l+lo,s+lo,hi-lo)'};")
    else:
        one = f"s[y*{step}L].bits" if half else f"as_element(s[y*{step}L])"
        lines.append(f"  for(long y=lo;y<hi;y++) d[l+y]={one};")
    lines.append("  l+=len; } }\n")
    return "\n".join(lines)


def _clip(form: Linear, inner: str, text: str) -> str:
    """Statements that narrow [lo, hi) to where a form, which starts at ``text``, is at least 0."""
    slope = form.of(inner)
    if slope == 0:
        return f"if({text}<0) hi=0;"
    if slope > 0:
        return f"{{ const long v={text}; if(v<0) lo=tw::imax(lo,(-v+{slope - 1})/{slope}); }}"
    return f"{{ const long v={text}; hi=v<0?0:tw::imin(hi,v/{-slope}+1); }}"


# --------------------------------------------------------------------------- B


def pack_b(p: DotTiling) -> str:
    """Column blocks [cb, ce) and ``kc`` elements of k from ``k0``, into ``q``."""
    c, blocks, g = p.c, p.column_blocks, p.kind.group
    raw = c.b.raw
    plain = raw is not None and not raw.bounds and c.n.stride(raw.where) is not None
    k_step = c.k.stride(raw.where) if raw is not None else None
    n_step = c.n.stride(raw.where) if raw is not None else None
    lines = [
        "TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, char *q) { (void)o;",
        " " + declare(c.b_outer, "o"),
        f" const long units=kc/{g}L, rest=kc-units*{g}L; (void)rest;",
        f" for(;cb<ce;cb++) {{ const long v={blocks.height('cb')}, j0={blocks.start('cb')}*{p.lanes}L;",
        f"  const long n=tw::imin(v*{p.lanes}L,{c.n.size}L-j0); (void)n;",
    ]
    if p.shifted:
        lines.append(f"  char *const sums=q; q+=v*{p.vector_bytes}L;")
    buffered = _buffered(p)
    if plain and raw is not None and k_step is not None:
        source = source_type(p, c.b)
        names = axis_names(c)
        outer = linear(Linear(raw.where.const, {a: raw.where.of(a) for a in c.b_outer.axes}), names)
        lines.append(
            f"  const {source} *s=(const {source}*)x->t[{number_of(c, raw.tensor.name)}]+{outer}"
            f"+j0*{n_step}L+k0*{k_step}L;"
        )
        if n_step == 1:
            lines += [f"  if(n==v*{p.lanes}L) {{", *_woven(p, k_step), "  } else {", *buffered, "  }"]
        else:
            lines += _turned(p, n_step or 0, k_step)
    else:
        lines += buffered
    step = f"v*(units+(rest?1:0))*{p.b_vector}L" if g > 1 else f"v*units*{p.b_vector}L"
    if p.shifted:
        lines += [
            "  for(long i=0;i<v;i++) { V t={}; const W all=tw::splat<W>((int)0x80808080);",
            f"   for(long u=0;u<units+(rest?1:0);u++) t=dot4(t,all,tw::get<W>((const int*)(q+(u*v+i)*{p.b_vector}L)));",
            f"   tw::put<W>((int*)(sums+i*{p.vector_bytes}L),-t); }}",
        ]
    lines.append(f"  q+={step}; }} }}\n")
    return "\n".join(lines)


def _store(p: DotTiling, at: str, rows: list[str]) -> str:
    """One vector of units from rows of elements."""
    if p.half_b:
        half = f"tw::vec<unsigned short,{p.lanes}>"
        return f"tw::put<{half}>((unsigned short*)({at}),tw::get<{half}>((const unsigned short*)({rows[0]})));"
    return f"tw::put<W>((int*)({at}),weave({','.join(rows)}));"


def _woven(p: DotTiling, k_step: int) -> list[str]:
    """Rows side by side along N, read where they are; a missing last row of a unit is zeros."""
    g = p.kind.group
    rows = [f"s+{i * k_step}L+l" for i in range(g)]
    inner = f"for(long i=0,l=0;i<v;i++,l+=L,d+={p.b_vector}) "
    lines = ["   char *d=q;", f"   for(long u=0;u<units;u++,s+={g * k_step}L) {inner}{_store(p, 'd', rows)}"]
    if g > 1:
        source = source_type(p, p.c.b)
        lines.append(f"   if(rest) {{ const {source} none[L]={{}};")
        last = [f"({i}<rest?s+{i * k_step}L+l:none)" for i in range(g)]
        lines.append(f"    {inner}{_store(p, 'd', last)} }}")
    return lines


def _buffered(p: DotTiling) -> list[str]:
    """Rows filled one at a time into a buffer, zero past the edge, then woven."""
    g = p.kind.group
    element = "unsigned short" if p.half_b else "E"
    lines = [f"   alignas(64) {element} rows[{g}][{p.vectors * p.lanes}]={{}}; char *d=q;", "   for(long k=0;k<kc;) {"]
    for i in range(g):
        clear = f" else __builtin_memset(rows[{i}],0,sizeof rows[{i}]);" if i else ""
        lines.append(f"    if(k<kc) row_b(x,o,k0+k,j0,n,rows[{i}]);{clear} k++;")
    at = [f"rows[{i}]+l" for i in range(g)]
    lines.append(f"    for(long i=0,l=0;i<v;i++,l+=L,d+={p.b_vector}) {_store(p, 'd', at)} }}")
    return lines


def _turned(p: DotTiling, n_step: int, k_step: int) -> list[str]:
    """Columns side by side along K (or neither): units are collected column by column."""
    g, unit = p.kind.group, p.b_vector // p.lanes
    if p.half_b:
        return [
            "  for(long u=0;u<kc;u++) for(long l=0;l<v*L;l++)",
            f"   ((unsigned short*)q)[u*v*L+l]=l<n?s[l*{n_step}L+u*{k_step}L].bits:(unsigned short)0;",
        ]
    lines = ["  long l=0;"]
    if k_step == 1:
        row = f"v*{p.b_vector}L"
        columns = [f"const {source_type(p, p.c.b)} *s{i}=s+(l+{i})*{n_step}L;" for i in range(4)]
        quads = ",".join(f"four(s{i}+u*{g})" for i in range(4))
        targets = ",".join(f"d+{i}*{row}" for i in range(4))
        lines += [
            f"  for(;l+4<=n;l+=4) {{ {' '.join(columns)}",
            f"   char *d=q+l*{unit}; long u=0;",
            f"   for(;u+4<=units;u+=4,d+=4*{row}) turn({quads},{targets});",
            f"   for(;u<units;u++,d+={row}) for(int i=0;i<4;i++) ((int*)d)[i]=gather(s+(l+i)*{n_step}L+u*{g},1,{g});",
            f"   if(rest) for(int i=0;i<4;i++) ((int*)d)[i]=gather(s+(l+i)*{n_step}L+units*{g},1,rest); }}",
        ]
    lines += [
        "  for(;l<v*L;l++) for(long u=0;u<units+(rest?1:0);u++)",
        f"   ((int*)q)[u*v*L+l]=l<n?gather(s+l*{n_step}L+u*{g * k_step}L,{k_step}L,u<units?{g}L:rest):0;",
    ]
    return lines


def four(p: DotTiling) -> str:
    """``four(p)``: four units whose elements lie side by side in memory."""
    g = p.kind.group
    sources = dict.fromkeys(source_type(p, x) for x in (p.c.b, p.c.a))
    out = ""
    for s in sources:
        if p.kind in (BF16, U8S8):
            body = "return tw::get<Q>((const int*)p);"
        elif g == 1:
            body = "return as_four(p);"
        else:
            body = "E e[4*G]; for(int i=0;i<4*G;i++) e[i]=as_element(p[i]); return tw::get<Q>((const int*)e);"
        out += f"TW_INLINE Q four(const {s} *p) {{ {body} }}\n"
    return out


# --------------------------------------------------------------------------- A


def pack_a(p: DotTiling) -> str:
    """Rows [m0, m0+rows) of A with all of k, into ``q``, each padded with zeros to whole units."""
    c, g, raw, step = p.c, p.kind.group, p.c.a.raw, p.a_row
    lines = [
        "TW_NOINLINE void pack_a(const Ctx *x, long o, long m0, long rows, char *q) { (void)o;",
        " " + declare(c.batch, "o"),
    ]
    pad = f" for(long i={p.k};i<{p.units * g};i++) ((E*)(q+r*{step}L))[i]=0;" if p.k % g else ""
    m_step = c.m.stride(raw.where) if raw is not None and not raw.bounds else None
    k_step = c.k.stride(raw.where) if raw is not None and not raw.bounds else None
    if raw is None or m_step is None or k_step is None:
        lines.append(f" for(long r=0;r<rows;r++) {{ row_a(x,o,m0+r,0,{p.k}L,(E*)(q+r*{step}L));{pad} }} }}\n")
        return "\n".join(lines)
    source = source_type(p, c.a)
    outer = linear(Linear(raw.where.const, {a: raw.where.of(a) for a in c.batch.axes}), axis_names(c))
    lines.append(
        f" const {source} *s=(const {source}*)x->t[{number_of(c, raw.tensor.name)}]+{outer}+m0*{m_step}L; long r=0;"
    )
    if m_step == 1 and k_step != 1:
        # Columns of A: units of four rows are collected and turned.
        whole = p.k // g // 4 * 4
        quads = []
        for i in range(4):
            quads.append(f"weave4({','.join(f's+r+(u*{g}+{i * g + e})*{k_step}L' for e in range(g))})")
        targets = ",".join(f"d+{i * step}L" for i in range(4))
        lines += [
            f" for(;r+4<=rows;r+=4) {{ char *d=q+r*{step}L; long u=0;",
            f"  for(;u<{whole};u+=4,d+=16) turn({','.join(quads)},{targets});",
            f"  for(;u<{p.units};u++,d+=4) for(int i=0;i<4;i++) {{ const int w=gather(s+r+i+u*{g * k_step}L,{k_step}L,"
            f"tw::imin({g},{p.k}L-u*{g})); __builtin_memcpy(d+i*{step}L,&w,4); }} }}",
        ]
    copied = (
        f"copy(d,s+r*{m_step}L,{p.k}L);"
        if k_step == 1
        else f"for(long i=0;i<{p.k}L;i++) d[i]=as_element(s[r*{m_step}L+i*{k_step}L]);"
    )
    lines.append(f" for(;r<rows;r++) {{ E *d=(E*)(q+r*{step}L); {copied}{pad} }} }}\n")
    return "\n".join(lines)
