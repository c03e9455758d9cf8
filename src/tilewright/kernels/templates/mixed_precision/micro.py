"""The register tile: MR rows by NV vectors of sums, one pass over units of k.

Every accumulator is a variable of its own: GCC keeps arrays of vectors in memory under -O2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.kernels.templates.mixed_precision.geometry import LINE, DotTiling
from tilewright.kernels.templates.mixed_precision.kinds import U8S8, UNIT
from tilewright.kernels.templates.mixed_precision.match import STORED
from tilewright.kernels.templates.mixed_precision.store import Epilogue


def name(rows: int, vectors: int, masked: bool) -> str:
    return f"mk_{rows}x{vectors}{'t' if masked else ''}"


def masked_variants(p: DotTiling) -> bool:
    """Reading B in place needs masked reads in the last block, hence a kernel of its own."""
    return p.in_place_b and p.tail < p.lanes


def variants(p: DotTiling) -> list[tuple[int, int, bool]]:
    """The (rows, vectors, masked) tiles that the extents need."""
    last = p.column_blocks.sizes[-1]
    plain = [(r, v, False) for r in p.row_blocks.sizes for v in p.column_blocks.sizes]
    return plain + ([(r, last, True) for r in p.row_blocks.sizes] if masked_variants(p) else [])


def micro_kernel(p: DotTiling, rows: int, vectors: int, masked: bool, epilogue: Epilogue) -> str:
    """One tile: ``units`` units of A at ``a`` times a panel at ``b``.

    ``mode``: 1, add the sums at ``c`` (rows ``ldc`` apart); 2, finish the sums, instead of storing
    them at ``c``; 4, the end of k. ``tail``: columns in the last vector. ``left``: units that are left out behind,
    where B has a limit.
    """
    tiles = [(i, j) for i in range(rows) for j in range(vectors)]
    tile = _Tile(p, rows, vectors, masked)
    out: list[str] = []
    w = out.append
    w(
        f"TW_NOINLINE void {name(rows, vectors, masked)}(const Ctx *x,long units,const char *a,const char *b,S *c,"
        f"long ldc,long mode,long tail,long o,long m,long n{', long left' if p.c.b.limit is not None else ''}) "
        "{ (void)x; (void)o; (void)m; (void)n; (void)ldc;"
    )
    tile.start(w)
    w(f" for(;units>={p.unroll};units-={p.unroll}) {{")
    for u in range(p.unroll):
        tile.step(w, u)
    w(f"  a+={p.unroll * UNIT}; b+={p.unroll * tile.advance}L; }}")
    if p.unroll > 1:
        w(" for(;units>0;units--) {")
        tile.step(w, 0)
        w(f"  a+={UNIT}; b+={tile.advance}L; }}")
    if p.rest:
        w(" if(mode&4) {")
        tile.step(w, 0, last=True)
        w(" }")
    last = vectors - 1
    w(" if(mode&1) {")
    for i, j in tiles:
        at = f"c+{i}*ldc+{j * p.lanes}"
        w(f"  c{i}_{j}+={f'tw::load_n<V>({at},tail)' if j == last else f'tw::load<V>({at})'};")
    w(" }\n if(mode&2) {\n  " + epilogue.pointers())
    if epilogue.cheap:
        for i, j in tiles:
            if j < last:
                w("  " + epilogue.call(f"c{i}_{j}", f"{i}", f"{j * p.lanes}", ""))
        w("  if(tail==L) {")
        for i in range(rows):
            w("   " + epilogue.call(f"c{i}_{last}", f"{i}", f"{last * p.lanes}", ""))
        w("  } else {")
        for i in range(rows):
            w("   " + epilogue.call(f"c{i}_{last}", f"{i}", f"{last * p.lanes}", "tail"))
        w("  }")
    else:
        w(f"  alignas(64) S sums[{rows * vectors}*L];")
        for i, j in tiles:
            w(f"  tw::put<V>(sums+{i * vectors + j}*L,c{i}_{j});")
        w(f"  for(long i=0;i<{rows};i++) for(long j=0;j<{vectors};j++) {{")
        w(f"   const V v=tw::get<V>(sums+(i*{vectors}+j)*L);")
        whole, some = epilogue.call("v", "i", "j*L", ""), epilogue.call("v", "i", "j*L", "tail")
        w(f"   if(j<{last} || tail==L) {whole} else {some} }}")
    w("  return; }")
    for i, j in tiles:
        at = f"c+{i}*ldc+{j * p.lanes}"
        w(f" tw::store_n({at},c{i}_{j},tail);" if j == last else f" tw::store({at},c{i}_{j});")
    w("}\n")
    return "\n".join(out)


@dataclass(frozen=True)
class _Tile:
    """Prints the parts of a tile that differ with how the sides are read."""

    p: DotTiling
    rows: int
    vectors: int
    masked: bool

    @property
    def advance(self) -> int:
        """Bytes from one unit of B to the next."""
        p = self.p
        return p.kind.group * p.b_row if p.in_place_b else self.vectors * p.b_vector

    def start(self, w: Callable[[str], None]) -> None:
        """The sums' first values. B takes A's place as the unsigned factor where it is read in place."""
        p = self.p
        for i in range(self.rows):
            names = [f"c{i}_{j}" for j in range(self.vectors)]
            if p.c.b.limit is not None:
                w(f" const V first{i}=tw::splat<V>(left_out(a+{i * p.a_step}L+units*{UNIT},left));")
                values = [f"first{i}"] * self.vectors
            elif not p.shifted:
                values = ["{}"] * self.vectors
            elif p.in_place_b:
                rest = f"+(mode&4?row_sum_rest(a+{i * p.a_step}L+units*{UNIT}):0)" if p.rest else ""
                w(f" const V first{i}=tw::splat<V>(-(row_sum(a+{i * p.a_step}L,units){rest}));")
                values = [f"first{i}"] * self.vectors
            else:
                values = [f"(V)tw::get<W>((const int*)b+{j * p.lanes})" for j in range(self.vectors)]
            w(" V " + ",".join(f"{n}={v}" for n, v in zip(names, values, strict=True)) + ";")
        if p.shifted:
            w(" const W high=tw::splat<W>((int)0x80808080);")
            if not p.in_place_b:
                w(f" b+={self.vectors * p.vector_bytes}L;")

    def step(self, w: Callable[[str], None], u: int, last: bool = False) -> None:
        """One unit of every row times one of every column; ``last``: the one that is not whole."""
        p = self.p
        shift_a, shift_b = ("", "^high") if p.in_place_b else ("^high", "")
        if not p.shifted:
            shift_a = shift_b = ""
        w("  {")
        for ahead in self._prefetches(u):
            w(f"   __builtin_prefetch(b+{ahead}L,0,3);")
        for j in range(self.vectors):
            w(f"   const W b{j}={self._b(u, j, last)}{shift_b};")
        for i in range(self.rows):
            at = f"a+{i * p.a_step + u * UNIT}L"
            unit = f"last({at})" if last and not p.pack_a else f"unit({at})"
            w(f"   {{ const W y=tw::splat<W>({unit}){shift_a};")
            swap = p.shifted and p.in_place_b
            steps = (
                f"c{i}_{j}=dot4(c{i}_{j},b{j},y);" if swap else f"c{i}_{j}=step(c{i}_{j},y,b{j});"
                for j in range(self.vectors)
            )
            w("    " + " ".join(steps) + " }")
        w("  }")

    def _prefetches(self, u: int) -> list[int]:
        """Byte positions fetched ahead: further units of a panel, or columns to the right in place."""
        p = self.p
        if not p.prefetch:
            return []
        if not p.in_place_b:
            step = self.vectors * p.b_vector
            return [(u + p.prefetch) * step + at for at in range(0, step, LINE)]
        width = self.vectors * p.lanes * p.b_item
        rows = range(u * p.kind.group, (u + 1) * p.kind.group)
        return [r * p.b_row + p.prefetch * LINE + at for r in rows for at in range(0, width, LINE)]

    def _b(self, u: int, j: int, last: bool) -> str:
        """The unit of B at vector ``j``."""
        p = self.p
        if not p.in_place_b:
            at = f"b+{u * self.advance + j * p.b_vector}L"
            return f"(W)tw::load<V>((const {p.half_type}*)({at}))" if p.half_b else f"tw::get<W>((const int*)({at}))"
        source = STORED[p.c.b.dtype or ""]
        some = self.masked and j == self.vectors - 1
        parts = []
        for g in range(p.rest if last else p.kind.group):
            at = f"(const {source}*)(b+{(u * p.kind.group + g) * p.b_row}L)+{j * p.lanes}"
            if p.kind == U8S8:
                parts.append(f"bytes16_n({at},tail)" if some else f"bytes16({at})")
                continue
            read = f"as_unit_n({at},tail)" if some else f"as_unit({at})"
            parts.append(f"{read}<<{g * 8 * p.kind.bytes}" if g else read)
        if p.kind == U8S8:
            return f"weave_bytes({','.join(parts + ['Q{}'] * (p.kind.group - len(parts)))})"
        return f"({'|'.join(parts)})"


def row_sums(p: DotTiling) -> str:
    """128 times the sum of a row of A, for a B that is shifted by 128: of whole units, and of the rest."""
    return f"""TW_INLINE int row_sum(const char *a,long units) {{
 V t={{}}; const W high=tw::splat<W>((int)0x80808080);
 for(;units>=L;units-=L,a+=4*L) t=dot4(t,high,tw::get<W>((const int*)a));
 int s=tw::hsum(t);
 for(long i=0;i<4*units;i++) s+=128*((const signed char*)a)[i];
 return s; }}
TW_INLINE int row_sum_rest(const char *a) {{
 int s=0; for(long i=0;i<{p.rest};i++) s+=128*((const signed char*)a)[i]; return s; }}
"""


def left_out(p: DotTiling) -> str:
    """``left_out(a, n)``: what ``n`` elements of a packed row of A add that B has no values for, 0 or NaN."""
    if p.c.b.limit is None:
        return ""
    return """TW_INLINE float left_out(const char *a,long n) {
 const float *s=(const float*)a; V t={}; float r=0;
 for(;n>=L;n-=L,s+=L) t+=tw::load<V>(s)*tw::splat<V>(0);
 for(;n>0;n--,s++) r+=0**s;
 return r+tw::hsum(t); }
"""


def last_unit(p: DotTiling) -> str:
    """``last(p)``: the unit at the end of a row of A, which is not whole."""
    size = p.rest * p.kind.bytes
    return f"TW_INLINE int last(const char *p) {{ int v=0; __builtin_memcpy(&v,p,{size}); return v; }}\n"
