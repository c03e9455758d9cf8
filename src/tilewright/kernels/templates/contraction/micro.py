"""The register tile: MR rows by NV vectors of accumulators, one pass over k.

Every accumulator is a variable of its own: GCC keeps arrays of vectors in memory under -O2. Where A is read in
place and K does not fuse there, the loops over K stand in here, around the innermost one; a clipped loop chooses
among copies of that one for the rows that the guard leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.templates.contraction.finite import extreme
from tilewright.kernels.templates.contraction.geometry import ContractionTiling
from tilewright.kernels.templates.contraction.store import Epilogue
from tilewright.kernels.templates.contraction.text import combine_text, no_load


def name(rows: int, vectors: int, masked: bool) -> str:
    return f"mk_{rows}x{vectors}{'t' if masked else ''}"


def masked_variants(p: ContractionTiling) -> bool:
    """Reading B in place needs masked loads in the last block, hence a kernel of its own."""
    return bool(p.tail) and not p.pack_b


def nested(p: ContractionTiling) -> bool:
    """Whether the loops over K stand in the register tile."""
    return len(p.k_walks) > 1


def step_expr(p: ContractionTiling) -> Expr:
    """The combine of one k step: over ``l0`` (accumulator), ``a`` and ``b``."""
    assert p.c.stage.monoid is not None
    return p.c.stage.monoid.combine[0].substitute({"r0": p.c.body})


def variants(p: ContractionTiling) -> list[tuple[int, int, bool]]:
    """The (rows, vectors, masked) tiles that the extents need."""
    columns = p.column_blocks
    last = columns.sizes[-1]
    # Blocks of the last size that are not the last block itself, which alone is masked.
    others = columns.count - 1 - (0 if columns.even else columns.full)
    out = []
    for r in (s * p.lines for s in p.row_blocks.sizes):
        if not masked_variants(p):
            out += [(r, v, False) for v in columns.sizes]
        else:
            out += [(r, v, False) for v in columns.sizes if v != last or others > 0]
            out.append((r, last, True))
    return out


def row_spans(p: ContractionTiling, rows: int) -> list[tuple[int, tuple[int, int]]]:
    """Row ranges of a tile along its innermost loop, with their numbers in the table, the full one first."""
    if p.table is None:
        return [(0, (0, rows // p.lines))]
    used = {
        e
        for blocks in p.table.entries
        for (_, count), trips in zip(p.row_blocks.spans, blocks, strict=True)
        if count * p.lines == rows
        for e in trips
    }
    spans = ((0, (0, rows // p.lines)), *enumerate(p.table.variants[1:], 1))
    return [(n, span) for n, span in spans if n in used and span != (0, 0)]


def micro_kernel(p: ContractionTiling, rows: int, vectors: int, masked: bool, epilogue: Epilogue) -> str:
    """One register tile's function."""
    t = "T"
    out: list[str] = []
    w = out.append
    extra = epilogue.parameters if epilogue.inline else ""
    walk = "const long *kr" if nested(p) else "long kc"
    if p.table:
        walk += ", const unsigned char *spans"
    if extreme(p):
        w("template <bool finite_>")
    w(
        f"TW_NOINLINE void {name(rows, vectors, masked)}({walk}, const {t} *TW_RESTRICT a, "
        f"const {t} *TW_RESTRICT b, {t} *TW_RESTRICT c, long mode, long tail{extra}) {{ (void)mode; (void)tail;"
    )
    if p.prefetch_c and p.c.in_place:
        lines = range(0, vectors * p.lanes, max(1, 64 // p.item))
        for i in range(rows):
            w("".join(f" __builtin_prefetch(c+{p.row_c(i) + x}L,1,3);" for x in lines))
    monoid = p.c.stage.monoid
    assert monoid is not None
    identity = print_expr(monoid.identity[0], axis={}, load=no_load, var={}, lanes=None)
    start = "{}" if identity.strip("()") in ("0.0f", "0.0", "0.f", "0f", "0") else f"tw::splat<V>({identity})"
    for i in range(rows):
        w(" V " + ", ".join(f"c{i}_{j}={start}" for j in range(vectors)) + ";")
    if nested(p):
        _nest(p, rows, vectors, masked, w)
    else:
        _innermost(p, rows, vectors, masked, (0, rows // p.lines), w)
    last = vectors - 1

    def partial(i: int, j: int) -> str:
        at = f"c+{p.row_c(i) + j * p.lanes}L"
        return f"tw::load_n<V>({at},tail)" if j == last and p.tail else f"tw::load<V>({at})"

    tiles = [(i, j) for i in range(rows) for j in range(vectors)]
    masks = bool(p.tail) and p.c.in_place
    if p.c.in_place or p.clip or p.c.b.limit is not None:
        w(" if(mode&1){")
        if masks and not masked:
            w(f"  if(tail=={p.lanes}){{")
        for i, j in tiles:
            read = partial(i, j) if masked and masks else f"tw::load<V>(c+{p.row_c(i) + j * p.lanes}L)"
            w(f"   c{i}_{j}={combine_text(p, read, f'c{i}_{j}')};")
        if masks and not masked:
            w("  } else {")
            for i, j in tiles:
                w(f"   c{i}_{j}={combine_text(p, partial(i, j), f'c{i}_{j}')};")
            w("  }")
        w(" }")
    if epilogue.inline:
        w(" if(mode&2){")
        w(epilogue.registers(rows, vectors, bool(p.tail)))
        w(" }")
    if masks and not masked:
        w(f" if(tail=={p.lanes}){{")
    if not masks or not masked:
        for i, j in tiles:
            w(f"  tw::store(c+{p.row_c(i) + j * p.lanes}L,c{i}_{j});")
    if masks:
        if not masked:
            w(" } else {")
        for i, j in tiles:
            at = f"c+{p.row_c(i) + j * p.lanes}L"
            w(f"  tw::store_n({at},c{i}_{j},tail);" if j == last else f"  tw::store({at},c{i}_{j});")
        if not masked:
            w(" }")
    w("}")
    return "\n".join(out)


def _nest(p: ContractionTiling, rows: int, vectors: int, masked: bool, w: Callable[[str], None]) -> None:
    """The loops over K that do not fuse; ``kr``: the first trip, and one past the last, of all but the innermost."""
    loops = p.k_walks
    w(" const T *a0=a,*b0=b;")
    for d, walk in enumerate(loops[:-1]):
        w(f" for(long k{d}=kr[{2 * d}];k{d}<kr[{2 * d + 1}];k{d}++) {{")
        last = d == len(loops) - 2
        names = ("a", "b") if last else (f"a{d + 1}", f"b{d + 1}")
        declare = "" if last else "const T *"
        comma = "; " if last else ",*"
        w(f"  {declare}{names[0]}=a{d}+k{d}*{walk.a}L{comma}{names[1]}=b{d}+k{d}*{walk.other}L;")
    size = f"long kc={loops[-1].size}L;"
    spans = row_spans(p, rows)
    if p.table is None:
        w(" " + size)
        _innermost(p, rows, vectors, masked, spans[0][1], w)
    else:
        clip = p.clip
        assert clip is not None
        trip = next(d for d, x in enumerate(loops) if clip.axis in x.group.axes)
        w(f" switch(spans[k{trip}]) {{")
        for number, span in spans:
            w(f" case {number}: {{ {size}")
            _innermost(p, rows, vectors, masked, span, w)
            w(" break; }")
        w(" }")
    w(" " + "}" * (len(loops) - 1))


def _rows_meet(p: ContractionTiling) -> bool:
    """Whether a row reads in some step what another row read in an earlier one, for A that is not packed.

    GCC would keep those elements in registers, and spill accumulators for them, unless the pointer looks new.
    """
    row = abs(p.m_walks[-1].a)
    if p.pack_a or row == 0 or p.inner == 1:
        return False
    # In another trip of a clipped loop other rows may be left, which GCC does not see through.
    loops = p.k_walks[-1:] if p.table else p.k_walks
    return any(w.a and math.lcm(row, w.a) < abs(w.a) * w.size for w in loops)


def _innermost(
    p: ContractionTiling, rows: int, vectors: int, masked: bool, span: tuple[int, int], w: Callable[[str], None]
) -> None:
    """``kc`` steps of k for the rows of each line that are in ``span``."""
    step, quick = step_expr(p), extreme(p)
    walk = p.k_walks[-1]
    u = p.unroll
    a_k, b_k = walk.a, walk.other
    a_advance, a_single = (p.rows * u, 1) if p.pack_a else (a_k * u, a_k)
    chosen = [i for i in range(rows) if span[0] <= p.place(i)[1] < span[1]]

    hidden = _rows_meet(p)

    def body(v: int) -> None:
        if hidden:
            w('  __asm__("":"+r"(a));')
        for j in range(vectors):
            at = f"b+{v * b_k + j * p.lanes}L"
            tail = masked and j == vectors - 1
            w(f"  V b{j}={f'tw::load_n<V>({at},tail)' if tail else f'tw::load<V>({at})'}; TW_HOLD(b{j});")
        for i in chosen:
            # A plain scalar lets the compiler choose between a broadcast and a folded operand.
            place = i * u + v if p.pack_a else p.row_a(i) + v * a_k
            w(f"  {{ const V x=tw::splat<V>(a[{place}L]);")
            for j in range(vectors):
                names = {"l0": f"c{i}_{j}", "a": "x", "b": f"b{j}"}
                value = print_expr(step, axis={}, load=no_load, var=names, lanes=p.lanes)
                if quick:
                    term = print_expr(p.c.body, axis={}, load=no_load, var=names, lanes=p.lanes)
                    value = f"finite_?tw::{quick}({names['l0']},{term}):{value}"
                w(f"   c{i}_{j}={value};{f' TW_HOLD(c{i}_{j});' if vectors > 1 else ''}")
            # Of a single vector a broadcast has one use: compilers know best what to do with it.
            w("   TW_KEEP(x); }" if vectors > 1 else "  }")
        w("  " + " ".join(f"TW_KEEP(b{j});" for j in range(vectors)))

    # A remainder of known length is printed out: a second loop over the accumulators makes GCC spill them.
    left = walk.size % u if nested(p) else 0
    if not nested(p) or walk.size >= u:
        w(f" for(;kc>={u};kc-={u}){{")
        for v in range(u):
            w(" {")
            if p.prefetch_b:
                # Some k steps ahead, or the same k of the panel to the right.
                at = (v + p.prefetch_b) * b_k if p.prefetch_b > 0 else v * b_k - p.prefetch_b * p.width
                for x in range(0, vectors * p.lanes, 64 // p.item):
                    w(f"  __builtin_prefetch(b+{at + x}L,0,3);")
            body(v)
            w(" }")
        w(f"  a+={a_advance}L; b+={u * b_k}L; }}")
    for v in range(left):
        w(" {")
        body(v)
        w(" }")
    if u > 1 and not nested(p):
        w(" for(;kc>0;kc--){")
        body(0)
        w(f"  a+={a_single}L; b+={b_k}L; }}")
