"""Packing operand blocks in the order in which the register tile reads them.

Panels of A: ``[k / unroll][MR][unroll]``. A few consecutive k of each row lie side by side, so that a row-major A is
copied without a transposition. Panels of B: ``[k][NR]``, zero past the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.extent import Extent, ctext
from tilewright.kernels.codegen.printer import number
from tilewright.kernels.expression.linear import Linear, flat_step
from tilewright.kernels.families.index_forms import Window
from tilewright.kernels.templates.cpu_contraction import triangle
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Choices, Part
from tilewright.kernels.templates.cpu_contraction.text import (
    C_TYPES,
    axis_texts,
    form,
    height,
    operand_pointer,
    outer_names,
    outer_texts,
    scalar_read,
    scalar_text,
    sizes,
    tensor_pointer,
    var_text,
)  # fmt: skip

ROWS_AT_A_TIME = 8
"""Rows of B that are copied into all panels of a block before further rows: hardware prefetchers follow that many."""


def pack_a(p: ContractionTiling) -> str:
    """C function that packs row blocks ``[rb, re)`` of A, ``kc`` steps from ``k0`` on, into ``q``."""
    r, u = p.rows, p.unroll
    head = (
        "TW_NOINLINE void pack_a(const Ctx *x, long o, long rb, long re, long k0, long kc, T *TW_RESTRICT q) {\n"
        " (void)o;\n" + sizes(p) + outer_names(p)
    )
    blocks = p.row_blocks
    first = blocks.start("rb")
    if len(p.m_loops) > 1:
        first = f"(rb/{blocks.count}L)*{p.m_loops[-1].size}L+{blocks.start(f'(rb%{blocks.count}L)')}"
    if p.chunks > 1:
        first += f"+x->chunk*{p.m.size}L"
    begin = f" for(;rb<re;rb++) {{ const long i0={first}, n={height(p)}; (void)n;\n"
    end = f"\n  q+=(kc+{u - 1})/{u}*{r * u}L; }} }}"
    s = p.c.a_side
    if triangle.guards(p):
        return head + begin + _guarded(p) + end
    if s is None:
        place = f"q[(kk/{u}*{r}+l)*{u}+kk%{u}]"
        rows = _chosen_rows(p, place) or _window_rows(p) or _general(p, "a", place)
        return head + begin + rows + end
    lines = [head, f" const T *base={operand_pointer(p, 'a')}+k0*{ctext(s.k)};", begin]
    lines.append(f"  const T *s=base+i0*{ctext(s.along)}; T *d=q; long k=0;")
    copies = []
    for i in range(r):
        guard = "" if i < min(blocks.sizes) else f"if(n>{i}) " if p.m.varying else f"if(n=={r}) "
        if s.k == 1 and u > 1:
            copies.append(f"{guard}__builtin_memcpy(d+{i * u},s+{ctext(i * s.along)},{u * p.item});")
        else:
            each = " ".join(f"d[{i * u + v}]=s[{ctext(i * s.along + v * s.k)}];" for v in range(u))
            copies.append(f"{guard}{{ {each} }}")
    lines.append(f"  for(;k+{u}<=kc;k+={u}) {{ {' '.join(copies)} d+={r * u}; s+={ctext(u * s.k)}; }}")
    if u > 1:
        lines.append(
            f"  for(long v=0;k<kc;k++,v++) for(long i=0;i<n;i++) d[i*{u}+v]=s[i*{ctext(s.along)}+v*{ctext(s.k)}];"
        )
    return "\n".join(lines) + end


def _guarded(p: ContractionTiling) -> str:
    """C text that packs rows of a tensor, with zeros at the steps that the guards exclude."""
    r, u, w, along = p.rows, p.unroll, p.c.a.window, triangle.along(p)
    assert w is not None
    step = w.position.of(along)
    at = form(w.position, outer_texts(p.c) | {p.c.m.axes[0]: "m", along: "k0"})
    kind = C_TYPES[w.tensor.dtype]
    each = " ".join(f"d[{v}]=(T)s[{v * step}L];" for v in range(u))
    if step == 1 and w.tensor.dtype == p.c.acc:
        each = f"__builtin_memcpy(d,s,{u * p.item});"
    return "\n".join([
        "  for(long l=0;l<n;l++) { const long m=i0+l; long low=0, high=kc;",
        *triangle.narrowed(p, "m", "m", "k0"),
        f"   const {kind} *s=(const {kind}*){tensor_pointer(p.c, w.tensor.name)}+({at}); T *d=q+l*{u};",
        f"   for(long kk=0;kk<kc;kk+={u},s+={u * step}L,d+={r * u}) {{",
        f"    if(kk>=low&&kk+{u}<=high) {{ {each} }}",
        f"    else for(long v=0;v<{u};v++) d[v]=kk+v>=low&&kk+v<high?(T)s[v*{step}L]:0; }} }}",
    ])  # fmt: skip


def _window_rows(p: ContractionTiling) -> str:
    """C text that packs rows of a window in a program with symbolic sizes, in runs along the innermost K axis.

    The bounds are tested once for each run. Empty if the sizes are fixed or the bounds vary along the run.
    """
    c, w, r, u = p.c, p.c.a.window, p.rows, p.unroll
    if not p.varying or w is None or not c.k.axes or any(b.of(c.k.axes[-1]) for b in w.bounds):
        return ""
    inner, names = c.k.axes[-1], {a: f"f_{a}" for a in c.m.axes}
    texts = outer_texts(c) | names | {a: a for a in c.k.axes}
    split = " ".join(f"const long {names[a]}={t}; (void){names[a]};" for a, t in c.m.split("m").items())
    declare = " ".join(f"long {a}={t};" for a, t in c.k.split("k0").items())
    step = ""
    for a, e in zip(c.k.axes[:-1], c.k.extents[:-1], strict=True):
        step = f"if(++{a}=={ctext(e)}) {{ {a}=0; {step} }}" if step else f"++{a};"
    along, kind = ctext(w.position.of(inner)), C_TYPES[w.tensor.dtype]
    fill = "0" if w.fill is None else var_text(w.fill)
    inside = "&&".join(f"{form(b, texts)}>=0" for b in w.bounds)

    def copied(value: str, several: str) -> list[str]:
        if u == 1:
            return [f"     T *d=q+kk*{r}L+l; for(long y=0;y<len;y++,d+={r}) *d={value};"]
        one = f"q[((kk+y)/{u}*{r}+l)*{u}+(kk+y)%{u}]={value};"
        return [
            f"     long y=0; for(;y<len&&(kk+y)%{u};y++) {one}",
            f"     for(T *d=q+((kk+y)/{u}*{r}+l)*{u};y+{u}<=len;y+={u},d+={r * u}) {several}",
            f"     for(;y<len;y++) {one}",
        ]

    each = f"for(long v=0;v<{u};v++) d[v]="
    whole = w.position.of(inner) == 1 and w.tensor.dtype == c.acc
    found = f"__builtin_memcpy(d,s+y,{u * p.item});" if whole else f"{each}(T)s[(y+v)*{along}];"
    lines = [
        f"  for(long l=0;l<n;l++) {{ const long m=i0+l; (void)m; {split} {declare}",
        f"   for(long kk=0;kk<kc;) {{ const long len=tw::imin(kc-kk,{ctext(c.k.extents[-1])}-{inner});",
        f"    if({inside or 'true'}) {{",
        f"     const {kind} *s=(const {kind}*){tensor_pointer(c, w.tensor.name)}+({form(w.position, texts)});",
        *copied(f"(T)s[y*{along}]", found),
        "    } else {",
        *copied(f"(T){fill}", f"{each}(T){fill};"),
        f"    }} kk+=len; {inner}=0; {step} }} }}\n",
    ]
    return "\n".join(lines)


def pack_b(p: ContractionTiling) -> str:
    """C function that packs column blocks ``[cb, ce)`` of B, ``kc`` steps from ``k0`` on, into ``q``."""
    width = p.width
    head = (
        "TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, T *TW_RESTRICT q) {\n"
        " (void)o;\n" + sizes(p) + outer_names(p)
    )
    blocks = p.column_blocks
    columns = f"const long j0={blocks.start('cb')}*{p.lanes}L, n=tw::imin({width}L,{p.c.n.size_text}-j0);"
    begin = f" for(;cb<ce;cb++) {{ {columns}\n"
    end = f"\n  q+=kc*{width}L; }} }}"
    s = p.c.b_side
    if s is not None and s.along == 1:
        return head + _rows(p, s.k, columns)
    if s is not None:
        base = f" const T *base={operand_pointer(p, 'b')}+k0*{ctext(s.k)};\n"
        return head + base + begin + _transpose(p, s.along, s.k) + end
    gathered = _gathered_rows(p, columns)
    if gathered:
        return head + gathered
    runs = _runs(p)
    body = runs if runs is not None else _general(p, "b", f"q[kk*{width}+l]")
    return head + begin + f"  for(long l=n;l<{width};l++) for(long kk=0;kk<kc;kk++) q[kk*{width}+l]=0;\n" + body + end


def _rows(p: ContractionTiling, k: int, columns: str) -> str:
    """C text that packs a B with N innermost: a few rows at a time across all panels.

    The rows are then read in memory order, which prefetchers follow. Down a single panel of a wide B, every row would
    be on another page.
    """
    width, lanes = p.width, p.lanes
    whole = " ".join(f"tw::store(d+{v * lanes},tw::load<V>(s+{v * lanes}));" for v in range(p.vectors))
    part = " ".join(
        f"tw::store(d+{v * lanes},tw::load_n<V>(s+{v * lanes},tw::imax(0,n-{v * lanes})));" for v in range(p.vectors)
    )
    each, step = f"for(long v=0;v<{ROWS_AT_A_TIME};v++)", f"d+={width}; s+={ctext(k)};"
    return "\n".join([
        f" const T *base={operand_pointer(p, 'b')}+k0*{ctext(k)};",
        f" const long first=cb; for(long k=0;k<kc;k+={ROWS_AT_A_TIME}) {{ const long rows=kc-k; T *e=q+k*{width};",
        f"  for(cb=first;cb<ce;cb++,e+=kc*{width}L) {{ {columns}",
        f"   const T *s=base+k*{ctext(k)}+j0; T *d=e;",
        f"   if(n=={width}&&rows>={ROWS_AT_A_TIME}) {each} {{ {whole} {step} }}",
        f"   else {each} if(v<rows) {{ {part} {step} }} }} }} }}",
    ])  # fmt: skip


def _gathered_rows(p: ContractionTiling, columns: str) -> str:
    """C text that packs a B with a valid length along K, with N innermost and rows at any address; else empty."""
    c, load = p.c, p.c.b.value
    if c.b.valid_length is None or len(c.n.axes) != 1 or load.op != "load" or load.dtype != c.acc:
        return ""
    (along,), (inner,) = c.k.axes, c.n.axes
    if flat_step(load.args, c.program.tensors[str(load.value)].strides, inner) != 1:
        return ""
    read = scalar_read(p, load, {**axis_texts(p, n="0"), along: "(k0+k)", inner: "0"})
    stores = [
        " ".join(f"tw::store(d+{v},{value.format(v)});" for v in range(0, p.width, p.lanes))
        for value in ("tw::load<V>(s+j0+{})", "tw::load_n<V>(s+j0+{0},tw::imax(0,n-{0}))")
    ]
    return "\n".join([
        f" const long first=cb; for(long k=0;k<kc;k++) {{ T *d=q+k*{p.width}; const T *s=&{read};",
        f"  for(cb=first;cb<ce;cb++,d+=kc*{p.width}L) {{ {columns}",
        f"   if(n=={p.width}) {{ {stores[0]} }} else {{ {stores[1]} }} }} }} }}",
    ])  # fmt: skip


def _transpose(p: ContractionTiling, along: int, k: int) -> str:
    """C text that packs a B with K innermost: squares of 4 by 4 are transposed in registers."""
    width, step = p.width, ctext(along)
    lines = [
        f"  const T *s=base+j0*{step};",
        "  long l=0;",
        f"  for(;l+4<=n;l+=4) {{ const T *s0=s+l*{step},*s1=s0+{step},*s2=s1+{step},*s3=s2+{step}; T *d=q+l;",
        "   long kk=0;",
    ]
    if k == 1:
        lines.append(f"   for(;kk+4<=kc;kk+=4,d+={4 * width}) turn4(s0+kk,s1+kk,s2+kk,s3+kk,d);")
    each = " ".join(f"d[{i}]=s{i}[kk*{ctext(k)}];" for i in range(4))
    lines.append(f"   for(;kk<kc;kk++,d+={width}) {{ {each} }} }}")
    lines.append(f"  for(;l<n;l++) for(long kk=0;kk<kc;kk++) q[kk*{width}+l]=s[l*{step}+kk*{ctext(k)}];")
    lines.append(f"  for(;l<{width};l++) for(long kk=0;kk<kc;kk++) q[kk*{width}+l]=0;\n")
    return "\n".join(lines)


def helpers(p: ContractionTiling) -> str:
    """C functions that the packing functions call."""
    s = p.c.b_side
    if not p.pack_b or s is None or s.along == 1 or s.k != 1:
        return ""
    w = p.width
    return f"""typedef tw::vec<T,4> V4;
TW_INLINE void turn4(const T *s0,const T *s1,const T *s2,const T *s3,T *d) {{
 const V4 a=tw::load<V4>(s0),b=tw::load<V4>(s1),c=tw::load<V4>(s2),e=tw::load<V4>(s3);
 const V4 ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const V4 ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::store(d,__builtin_shufflevector(ab,ce,0,1,4,5)); tw::store(d+{w},__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::store(d+{2 * w},__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::store(d+{3 * w},__builtin_shufflevector(AB,CE,2,3,6,7));
}}"""


def _k_names(p: ContractionTiling, where: Linear | None = None) -> tuple[str, str]:
    """Declarations of the K axes at ``k0``, and the statement that advances them by one step.

    ``where``: a position whose pointer, ``at``, the statement advances too.
    """
    declare = " ".join(f"long {a}={t};" for a, t in p.c.k.split("k0").items())
    step = ""
    for a, e in zip(p.c.k.axes, p.c.k.extents, strict=True):
        by = where.of(a) if where else 0
        moved, back = (f"at+={ctext(by)}; ", f"at-={ctext(by * e)}; ") if by else ("", "")
        step = f"{moved}if(++{a}=={ctext(e)}) {{ {a}=0; {back}{step} }}" if step else f"{moved}++{a};"
    return declare, step


def _general(p: ContractionTiling, which: str, place: str) -> str:
    """C text that packs any value, element by element."""
    operand = p.c.a if which == "a" else p.c.b
    base = "i0" if which == "a" else "j0"
    axes = axis_texts(p, m="m", n="m")
    axes.update({a: a for a in p.c.k.axes})
    group = p.c.m if which == "a" else p.c.n
    fused = {a: f"f_{a}" for a in group.axes}
    declare_f = " ".join(f"const long f_{a}={t};" for a, t in group.split("m").items())
    axes.update(fused)
    text = scalar_text(p, operand.value, axes)
    declare, step = _k_names(p)
    return (
        f"  for(long l=0;l<n;l++) {{ const long m={base}+l; (void)m; {declare_f} {declare}\n"
        f"   for(long kk=0;kk<kc;kk++) {{ {place}=(T)({text}); {step} }} }}\n"
    )


# --------------------------------------------------------------------------- runs (im2col)


def _runs(p: ContractionTiling) -> str | None:
    """C text that packs runs of columns of B along one N axis, clipped by the padding; ``None`` if it cannot be.

    The axis is the innermost one. If a short innermost axis selects parts, the axis around it is taken, and all parts
    of a position count as one column.
    """
    w, choices, axes = p.c.b.window, p.c.b.choices, p.c.n.axes
    if w is not None:
        choices = Choices(None, None, (((1.0, w),),))
    if choices is None or any(x.tensor.dtype != p.c.acc for row in choices.parts for _, x in row):
        return None
    if choices.chosen is not None and (choices.chosen != axes[-1] or len(axes) < 2):
        return None
    inner, times = axes[-1 - (choices.chosen is not None)], _times(len(choices.parts[0]))
    extent = p.c.stage.ranges[inner]
    # The address is advanced step by step: computing it at each step takes as long as copying a short run.
    walked = choices.parts[0][0][1].position if choices.step is None else None
    declare, step = _k_names(p, walked)
    split = " ".join(f"long n_{a}={t};" for a, t in p.c.n.split("f").items() if a != choices.chosen)
    tensors = [tensor_pointer(p.c, row[0][1].tensor.name) for row in choices.parts]
    sources = [f"const T *src=(const T*){t};" for t in tensors]
    one = len(set(tensors)) == 1
    lines = [
        f"  for(long l=0;l<n;) {{ const long f=j0+l; {split} {declare}",
        f"   const long len=tw::imin({'(n-l)/' + times[1:] if times else 'n-l'},{ctext(extent)}-n_{inner});",
        f"   T *d=q+l;{' ' + sources[0] if one else ''}",
        *([f"   const T *at={_source(p, choices.parts[0])};"] if walked else []),
        "   for(long kk=0;kk<kc;kk++) { long lo=0,hi=len;",
    ]
    if choices.step is None:
        lines += _run(p, choices.parts[0], inner, "at" if walked else "")
    else:
        for at, row in enumerate(choices.parts):
            start = f"    if({choices.step}=={at}L) {{ {'' if one else sources[at]}"
            lines += [start, *_run(p, row, inner), "    }"]
    lines.append(f"    d+={p.width}; {step} }}\n   l+=len{times}; }}\n")
    return "\n".join(lines)


def _times(count: int) -> str:
    return f"*{count}L" if count > 1 else ""


def _run_texts(p: ContractionTiling) -> dict[str, str]:
    """C text of every axis and atom at a run's first column."""
    return outer_texts(p.c) | {a: a for a in p.c.k.axes} | {a: f"n_{a}" for a in p.c.n.axes}


def _first(parts: Sequence[Part]) -> int:
    """Constant term of the position from which the parts of a column are read.

    In a tensor of whole groups, vectors begin at the first element of a group; else at the first part.
    """
    first = min(x.position.const for _, x in parts)
    return first - (first % len(parts) if _in_groups(parts[0][1], len(parts)) else 0)


def _source(p: ContractionTiling, parts: Sequence[Part]) -> str:
    """C text of the address of a run's first column."""
    return f"src+({form(replace(parts[0][1].position, const=_first(parts)), _run_texts(p))})"


def _run(p: ContractionTiling, parts: Sequence[Part], inner: str, at: str = "") -> list[str]:
    """Statements that copy a run of columns, each of some parts, from ``src`` to ``d``, filled outside the bounds.

    ``at``: a variable with the address of the first column; computed if empty.
    """
    w, count, times = parts[0][1], len(parts), _times(len(parts))
    texts = _run_texts(p)
    where, lines = w.position, list[str]()
    for f in w.bounds:
        # The form at the run's first column, n_<inner>, and its slope along the run.
        lines.append(f"    {clipped(f.of(inner), form(f, texts))}")
    first, grouped = _first(parts), _in_groups(w, count)
    lines += ["    if(lo>hi) lo=hi;", f"    const T *s={at or _source(p, parts)};"]
    if w.bounds:
        fill = "0" if w.fill is None else var_text(w.fill)
        lines += [
            f"    for(long y=0;y<lo{times};y++) d[y]={fill};",
            f"    for(long y=hi{times};y<len{times};y++) d[y]={fill};",
        ]
    offsets, factors = [x.position.const - first for _, x in parts], [by for by, _ in parts]
    step = where.of(inner)
    within = max(offsets) < count and (grouped or sorted(offsets) == list(range(count)))
    if step == count and within and p.lanes % count == 0:
        scale = ""
        if len(set(factors)) > 1:
            values = ",".join(number(x, p.c.acc) for x in factors * (p.lanes // count))
            lines.append(f"    static const T by[L]={{{values}}};")
            scale = "*tw::load<V>(by)"
        elif factors[0] != 1.0:
            scale = f"*tw::splat<V>({number(factors[0], p.c.acc)})"
        order = ",".join(map(str, offsets))
        value = "{}" if offsets == list(range(count)) else f"tw::regrouped<{order}>({{}})"
        end = f"hi{times}"
        loaded, rest = value.format("tw::load<V>(s+y)"), value.format(f"tw::load_n<V>(s+y,{end}-y)")
        lines += [
            f"    long y=lo{times};\n    for(;y+L<={end};y+=L) tw::store(d+y,{loaded}{scale});",
            f"    if(y<{end}) tw::store_n(d+y,{rest}{scale},{end}-y);",
        ]
        return lines
    scales = ["" if by == 1.0 else f"{number(by, p.c.acc)}*" for by in factors]
    places = [(f"+{n}" if n else "", f"+{x}" if x else "") for n, x in enumerate(offsets)]
    each = " ".join(f"d[y{times}{n}]={by}s[y*{ctext(step)}{x}];" for by, (n, x) in zip(scales, places, strict=True))
    lines.append(f"    for(long y=lo;y<hi;y++) {each if count == 1 else f'{{ {each} }}'}")
    return lines


def clipped(slope: int, text: str) -> str:
    """Statement that narrows ``lo`` and ``hi`` to the positions of a run where a linear form is at least 0.

    ``text``: C text of the form at the run's first position.
    """
    if slope == 0:
        return f"if({text}<0) hi=0;"
    if slope > 0:
        return f"{{ const long v={text}; if(v<0) lo=tw::imax(lo,(-v+{slope - 1})/{slope}); }}"
    return f"{{ const long v={text}; hi=v<0?0:tw::imin(hi,v/{-slope}+1); }}"


def _in_groups(w: Window, count: int) -> bool:
    """Whether a tensor consists of groups of ``count`` elements, and the read takes a fixed element of each group."""
    sizes = (*w.tensor.shape[-1:], *w.position.coef.values())
    return not any(isinstance(x, Extent) or x % count for x in sizes)


def _chosen_rows(p: ContractionTiling, place: str) -> str | None:
    """C text that packs rows of an A whose parts (a constant times a read) axes select; ``None`` for other values."""
    choices, c = p.c.a.choices, p.c
    reads = () if choices is None else [x for row in choices.parts for _, x in row]
    if choices is None or any(
        x.tensor.dtype != c.acc or x.bounds or isinstance(x.position.const, Extent) for x in reads
    ):
        return None
    columns = len(choices.parts[0])
    names = {a: f"f_{a}" for a in c.m.axes}
    texts = outer_texts(c) | names
    along = {a: a for a in c.k.axes}
    row = names[choices.chosen] if choices.chosen else "0"
    split = " ".join(f"const long {names[a]}={t}; (void){names[a]};" for a, t in c.m.split("m").items())
    declare, step = _k_names(p)
    lines = [f"  for(long l=0;l<n;l++) {{ const long m=i0+l; {split} {declare}"]
    cases = []
    for s, parts in enumerate(choices.parts):
        first = parts[0][1]
        at, by = (
            ",".join(x) for x in zip(*((f"{w.position.const}L", number(by, c.acc)) for by, w in parts), strict=True)
        )
        lines += [
            f"   static const long at{s}[{columns}]={{{at}}}; static const T by{s}[{columns}]={{{by}}};",
            f"   const T f{s}=by{s}[{row}],*s{s}=(const T*){tensor_pointer(c, first.tensor.name)}"
            f"+at{s}[{row}]+({form(replace(first.position, const=0), texts)});",
        ]
        cases.append(f"f{s}*s{s}[{form(replace(first.position, const=0), along)}]")
    value = cases[-1]
    for s in reversed(range(len(cases) - 1)):
        value = f"{choices.step}=={s}L?{cases[s]}:{value}"
    return "\n".join([*lines, f"   for(long kk=0;kk<kc;kk++) {{ {place}={value}; {step} }} }}\n"])
