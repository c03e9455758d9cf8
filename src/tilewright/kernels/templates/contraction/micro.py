"""The register tile: MR rows by NV vectors of accumulators, one pass over k.

Every accumulator is a variable of its own: GCC keeps arrays of vectors in memory under -O2.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.expr import Expr
from tilewright.kernels.templates.contraction.geometry import Plan
from tilewright.kernels.templates.contraction.store import Epilogue, combine_text, no_load


def name(rows: int, vectors: int, masked: bool) -> str:
    return f"mk_{rows}x{vectors}{'t' if masked else ''}"


def masked_variants(p: Plan) -> bool:
    """Reading B in place needs masked loads in the last block, hence a kernel of its own."""
    return bool(p.tail) and not p.pack_b


def step_expr(p: Plan) -> Expr:
    """The combine of one k step: over ``l0`` (accumulator), ``a`` and ``b``."""
    assert p.c.stage.monoid is not None
    return p.c.stage.monoid.combine[0].substitute({"r0": p.c.body})


def variants(p: Plan) -> list[tuple[int, int, bool]]:
    """The (rows, vectors, masked) tiles that the extents need."""
    columns = p.column_blocks
    last = columns.sizes[-1]
    # Blocks of the last size that are not the last block itself, which alone is masked.
    others = columns.count - 1 - (0 if columns.even else columns.full)
    out = []
    for r in p.row_blocks.sizes:
        if not masked_variants(p):
            out += [(r, v, False) for v in columns.sizes]
        else:
            out += [(r, v, False) for v in columns.sizes if v != last or others > 0]
            out.append((r, last, True))
    return out


def micro_kernel(p: Plan, rows: int, vectors: int, masked: bool, epilogue: Epilogue) -> str:
    """One register tile's function."""
    t = "T"
    out: list[str] = []
    w = out.append
    extra = epilogue.parameters if epilogue.inline else ""
    w(
        f"TW_NOINLINE void {name(rows, vectors, masked)}(long kc, const {t} *TW_RESTRICT a, "
        f"const {t} *TW_RESTRICT b, {t} *TW_RESTRICT c, long mode, long tail{extra}) {{ (void)mode; (void)tail;"
    )
    if p.prefetch_c and p.c.in_place:
        lines = range(0, vectors * p.lanes, max(1, 64 // p.item))
        for i in range(rows):
            w("".join(f" __builtin_prefetch(c+{i * p.ldc + x}L,1,3);" for x in lines))
    monoid = p.c.stage.monoid
    assert monoid is not None
    identity = print_expr(monoid.identity[0], axis={}, load=no_load, var={}, lanes=None)
    start = "{}" if identity.strip("()") in ("0.0f", "0.0", "0.f", "0f", "0") else f"tw::splat<V>({identity})"
    for i in range(rows):
        w(" V " + ", ".join(f"c{i}_{j}={start}" for j in range(vectors)) + ";")
    _loops(p, rows, vectors, masked, w)
    last = vectors - 1

    def partial(i: int, j: int) -> str:
        at = f"c+{i * p.ldc + j * p.lanes}L"
        return f"tw::load_n<V>({at},tail)" if j == last and p.tail else f"tw::load<V>({at})"

    tiles = [(i, j) for i in range(rows) for j in range(vectors)]
    if p.c.in_place:
        w(" if(mode&1){")
        if p.tail and not masked:
            w(f"  if(tail=={p.lanes}){{")
        for i, j in tiles:
            at = f"c+{i * p.ldc + j * p.lanes}L"
            read = partial(i, j) if masked else f"tw::load<V>({at})"
            w(f"   c{i}_{j}={combine_text(p, read, f'c{i}_{j}')};")
        if p.tail and not masked:
            w("  } else {")
            for i, j in tiles:
                w(f"   c{i}_{j}={combine_text(p, partial(i, j), f'c{i}_{j}')};")
            w("  }")
        w(" }")
    if epilogue.inline:
        w(" if(mode&2){")
        w(epilogue.registers(rows, vectors, bool(p.tail)))
        w(" }")
    masked_store = bool(p.tail) and p.c.in_place
    if masked_store and not masked:
        w(f" if(tail=={p.lanes}){{")
    if not masked_store or not masked:
        for i, j in tiles:
            w(f"  tw::store(c+{i * p.ldc + j * p.lanes}L,c{i}_{j});")
    if masked_store:
        if not masked:
            w(" } else {")
        for i, j in tiles:
            at = f"c+{i * p.ldc + j * p.lanes}L"
            w(f"  tw::store_n({at},c{i}_{j},tail);" if j == last else f"  tw::store({at},c{i}_{j});")
        if not masked:
            w(" }")
    w("}")
    return "\n".join(out)


def _loops(p: Plan, rows: int, vectors: int, masked: bool, w: Callable[[str], None]) -> None:
    step = step_expr(p)
    a_side, b_side = p.a_side, p.b_side
    if p.pack_a:
        a_row, a_k, a_advance, a_single = p.unroll, 1, p.rows * p.unroll, 1
    else:
        assert a_side is not None
        a_row, a_k, a_advance, a_single = a_side.along, a_side.k, a_side.k * p.unroll, a_side.k
    if p.pack_b:
        b_k = p.width
    else:
        assert b_side is not None
        b_k = b_side.k

    def body(u: int) -> None:
        for j in range(vectors):
            at = f"b+{u * b_k + j * p.lanes}L"
            tail = masked and j == vectors - 1
            w(f"  V b{j}={f'tw::load_n<V>({at},tail)' if tail else f'tw::load<V>({at})'};")
        for i in range(rows):
            # A plain scalar lets the compiler choose between a broadcast and a folded operand.
            w(f"  {{ const V x=tw::splat<V>(a[{i * a_row + u * a_k}L]);")
            for j in range(vectors):
                names = {"l0": f"c{i}_{j}", "a": "x", "b": f"b{j}"}
                w(f"   c{i}_{j}={print_expr(step, axis={}, load=no_load, var=names, lanes=p.lanes)};")
            w("  }")

    w(f" for(;kc>={p.unroll};kc-={p.unroll}){{")
    for u in range(p.unroll):
        w(" {")
        if p.prefetch_b:
            # Some k steps ahead, or the same k of the panel to the right.
            at = (u + p.prefetch_b) * b_k if p.prefetch_b > 0 else u * b_k - p.prefetch_b * p.width
            for x in range(0, vectors * p.lanes, 64 // p.item):
                w(f"  __builtin_prefetch(b+{at + x}L,0,3);")
        body(u)
        w(" }")
    w(f"  a+={a_advance}L; b+={p.unroll * b_k}L; }}")
    if p.unroll > 1:
        w(" for(;kc>0;kc--){")
        body(0)
        w(f"  a+={a_single}L; b+={b_k}L; }}")
