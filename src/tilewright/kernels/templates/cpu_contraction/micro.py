"""The register tile: MR rows by NV vectors of accumulators, one pass over k.

Every accumulator is a variable of its own: GCC keeps arrays of vectors in memory under -O2. Where A is read in place
and its K axes do not fuse, the register tile also contains the outer loops over K. A clipped loop then selects a copy
of the innermost loop for the row range that the guard leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.extent import Extent, ctext
from tilewright.kernels.templates.cpu_contraction.finite import extreme
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.steps import Steps
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.kernels.templates.cpu_contraction.text import combine_text, sizes
from tilewright.kernels.templates.cpu_contraction.window import Cuts

Place = Callable[[int], str]
"""C text of the address of an element of a row, given the element's index."""


def name(rows: int, vectors: int, masked: bool) -> str:
    return f"mk_{rows}x{vectors}{'t' if masked else ''}"


def masked_variants(p: ContractionTiling) -> bool:
    """Whether the last column block needs a register tile of its own, with masked loads of a B read in place."""
    return p.ragged and not p.pack_b


def nested(p: ContractionTiling) -> bool:
    """Whether the register tile contains several loops over K."""
    return len(p.k_loops) > 1


def variants(p: ContractionTiling) -> list[tuple[int, int, bool]]:
    """The shapes (rows, vectors, masked) of register tiles that the extents need."""
    columns = p.column_blocks
    if p.c.n.varying:
        ends = (False, True) if masked_variants(p) else (False,)
        return [(r * p.lines, v, t) for r in p.row_blocks.sizes for v in columns.sizes for t in ends]
    last = columns.sizes[-1]
    # Number of blocks that have the last block's size and precede it: only the last block is masked.
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
    """Numbers and row ranges in the table for a tile, along the innermost loop over M; the full range comes first."""
    if p.table is None:
        return [(0, (0, rows // p.lines))]
    if isinstance(p.table, Cuts):
        found = ((p.table.number(low, cut), (low, rows - cut)) for low, cut in p.table.pairs)
        return [(n, span) for n, span in found if span[0] < span[1]]
    used = {
        e
        for blocks in p.table.entries
        for (_, count), trips in zip(p.row_blocks.spans, blocks, strict=True)
        if count * p.lines == rows
        for e in trips
    }
    spans = ((0, (0, rows // p.lines)), *enumerate(p.table.variants[1:], 1))
    return [(n, span) for n, span in spans if n in used and span != (0, 0)]


def micro_kernel(steps: Steps, rows: int, vectors: int, masked: bool, epilogue: Epilogue) -> str:
    """The C function of one register tile."""
    p = steps.p
    out: list[str] = []
    w = out.append
    trips = "const long *kr" if nested(p) else "long kc"
    if p.table:
        trips += ", const unsigned char *spans"
    if p.takes_sizes:
        trips += ", const Ctx *x"
    if extreme(p):
        w("template <bool finite_>")
    w(
        f"TW_NOINLINE void {name(rows, vectors, masked)}({trips}, const {p.a_type} *TW_RESTRICT a, "
        f"const {p.b_type} *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail{epilogue.registers_take}) "
        "{ (void)mode; (void)tail;"
    )
    if p.takes_sizes:
        w(sizes(p))
    if p.prefetch_c and p.c.in_place:
        lines = range(0, vectors * p.lanes, max(1, 64 // p.item))
        _rows(p, rows, lambda i, at: ["".join(f" __builtin_prefetch({at(x)},1,3);" for x in lines)], w)
    for line in steps.before(rows):
        w(line)
    for i in range(rows):
        w(" V " + ", ".join(f"c{i}_{j}={steps.first(i, j)}" for j in range(vectors)) + ";")
    if nested(p):
        _nest(steps, rows, vectors, masked, w)
    else:
        _innermost(steps, rows, vectors, masked, (0, rows // p.lines), w)
    last = vectors - 1
    masks = p.ragged and p.c.in_place

    def added(i: int, at: Place, masked: bool) -> list[str]:
        """Statements that combine the sums of a row with the stored sums."""
        reads = [
            f"tw::load_n<V>({at(j * p.lanes)},tail)" if masked and j == last else f"tw::load<V>({at(j * p.lanes)})"
            for j in range(vectors)
        ]
        return [f"   c{i}_{j}={combine_text(p, read, f'c{i}_{j}')};" for j, read in enumerate(reads)]

    def stored(i: int, at: Place, masked: bool) -> list[str]:
        return [
            f"  tw::store_n({at(j * p.lanes)},c{i}_{j},tail);"
            if masked and j == last
            else f"  tw::store({at(j * p.lanes)},c{i}_{j});"
            for j in range(vectors)
        ]

    def both(statements: Callable[[int, Place, bool], list[str]], indent: str) -> None:
        """Prints statements of every row, in two versions if only the call knows whether the last vector is whole."""
        either = masks and not masked
        if either:
            w(f"{indent}if(tail=={p.lanes}){{")
        _rows(p, rows, lambda i, at: statements(i, at, masks and masked), w)
        if either:
            w(f"{indent}}} else {{")
            _rows(p, rows, lambda i, at: statements(i, at, True), w)
            w(f"{indent}}}")

    if p.resumes:
        w(" if(mode&1){")
        both(added, "  ")
        w(" }")
    if epilogue.inline:
        w(" if(mode&2){")
        w(epilogue.registers(rows, vectors, p.ragged))
        w(" }")
    both(stored, " ")
    w("}")
    return "\n".join(out)


def _rows(p: ContractionTiling, rows: int, texts: Callable[[int, Place], list[str]], w: Callable[[str], None]) -> None:
    """Prints statements of every row. ``texts``: a row's statements, given C text of the addresses of its sums."""
    steps = [p.row_c(i + 1) - p.row_c(i) for i in range(rows - 1)]
    if not any(isinstance(s, Extent) for s in steps):
        for i in range(rows):
            start = p.row_c(i)
            for line in texts(i, lambda x, start=start: f"c+{start + x}L"):  # type: ignore[misc]
                w(line)
        return
    # The assembly hides the pointer's value at each row. Else GCC keeps the addresses of all rows, and spills sums.
    w("  { T *q=c;")
    for i in range(rows):
        for line in texts(i, lambda x: f"q+{x}L"):
            w(line)
        if i < rows - 1:
            w(f'  q+={ctext(steps[i])}; __asm__("":"+r"(q));')
    w("  }")


def _nest(steps: Steps, rows: int, vectors: int, masked: bool, w: Callable[[str], None]) -> None:
    """Prints the loops over K. ``kr``: first trip, and one past the last, of each loop around the innermost one."""
    p = steps.p
    loops = p.k_loops
    w(" const T *a0=a,*b0=b;")
    for d, loop in enumerate(loops[:-1]):
        w(f" for(long k{d}=kr[{2 * d}];k{d}<kr[{2 * d + 1}];k{d}++) {{")
        last = d == len(loops) - 2
        names = ("a", "b") if last else (f"a{d + 1}", f"b{d + 1}")
        declare = "" if last else "const T *"
        comma = "; " if last else ",*"
        w(f"  {declare}{names[0]}=a{d}+k{d}*{ctext(loop.a)}{comma}{names[1]}=b{d}+k{d}*{ctext(loop.other)};")
    size = f"long kc={loops[-1].size}L;"
    spans = row_spans(p, rows)
    if p.table is None:
        w(" " + size)
        _innermost(steps, rows, vectors, masked, spans[0][1], w)
    else:
        clip = p.clip
        assert clip is not None
        trip = next(d for d, x in enumerate(loops) if clip.axis in x.group.axes)
        w(f" switch(spans[k{trip}]) {{")
        for number, span in spans:
            w(f" case {number}: {{ {size}")
            _innermost(steps, rows, vectors, masked, span, w)
            w(" break; }")
        w(" }")
    w(" " + "}" * (len(loops) - 1))


def _rows_meet(p: ContractionTiling) -> bool:
    """Whether a row reads an element in some step that another row read in an earlier step, for A that is not packed.

    GCC would keep these elements in registers, and spill accumulators, unless the pointer's value is hidden.
    """
    row = abs(p.m_loops[-1].a)
    if p.pack_a or row == 0 or p.inner == 1:
        return False
    # Trips of a clipped loop may compute different rows, so GCC reuses elements within the innermost loop only.
    loops = p.k_loops[-1:] if p.table else p.k_loops
    return any(w.a and math.lcm(row, w.a) < abs(w.a) * w.size for w in loops)


def _innermost(
    steps: Steps, rows: int, vectors: int, masked: bool, span: tuple[int, int], w: Callable[[str], None]
) -> None:
    """Prints ``kc`` steps of k for the rows of each line that are in ``span``."""
    p = steps.p
    loop = p.k_loops[-1]
    u = p.unroll
    a_k, b_k = loop.a, loop.other
    a_advance, a_single = (p.rows * u, 1) if p.pack_a else (a_k * u, a_k)
    chosen = [i for i in range(rows) if span[0] <= p.place(i)[1] < span[1]]

    hidden = _rows_meet(p)

    def body(v: int, last: bool = False) -> None:
        if hidden:
            w('  __asm__("":"+r"(a));')
        for j in range(vectors):
            tail = masked and j == vectors - 1
            w(f"  {steps.vector} b{j}={steps.columns(v, j, tail, last)}; TW_HOLD(b{j});")
        for i in chosen:
            place = ctext(i * u + v if p.pack_a else p.row_a(i) + v * a_k)
            w(f"  {{ const {steps.vector} x={steps.element(place, last)};")
            for j in range(vectors):
                w(f"   c{i}_{j}={steps.added(i, j)};{f' TW_HOLD(c{i}_{j});' if vectors > 1 else ''}")
            # With a single vector the broadcast has one use, and compilers choose best how to load it.
            w("   TW_KEEP(x); }" if vectors > 1 else "  }")
        w("  " + " ".join(f"TW_KEEP(b{j});" for j in range(vectors)))

    # A remainder of constant length is unrolled: a second loop over the accumulators makes GCC spill them.
    left = loop.size % u if nested(p) else 0
    if p.rest:
        w(" if(mode&4) kc--;")
    if not nested(p) or loop.size >= u:
        w(f" for(;kc>={u};kc-={u}){{")
        for v in range(u):
            w(" {")
            for at in steps.ahead(v, vectors):
                w(f"  __builtin_prefetch(b+{ctext(at)},0,3);")
            body(v)
            w(" }")
        w(f"  a+={ctext(a_advance)}; b+={ctext(u * b_k)}; }}")
    for v in range(left):
        w(" {")
        body(v)
        w(" }")
    if u > 1 and not nested(p):
        w(" for(;kc>0;kc--){")
        body(0)
        w(f"  a+={ctext(a_single)}; b+={ctext(b_k)}; }}")
    if p.rest:
        w(" if(mode&4) {")
        body(0, last=True)
        w(" }")
