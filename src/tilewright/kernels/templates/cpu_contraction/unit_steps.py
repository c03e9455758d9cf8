"""The micro kernel of dot products of units: how units are read, interleaved and multiplied.

A unit fills one 4-byte lane of the instruction: ``group`` consecutive k of one row of A or column of B. Where B is read
in place and its bytes are shifted by 128, B is the unsigned factor instead of A.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.extent import ctext
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cpu_contraction import unit_packing
from tilewright.kernels.templates.cpu_contraction.geometry import LINE
from tilewright.kernels.templates.cpu_contraction.kinds import U8S8, functions
from tilewright.kernels.templates.cpu_contraction.steps import Steps
from tilewright.kernels.templates.cpu_contraction.text import C_TYPES

ROW_SUMS = """\
TW_INLINE int row_sum(const void *row,long units) { const signed char *a=(const signed char*)row;
 V t={}; const W high=tw::splat<W>((int)0x80808080);
 for(;units>=L;units-=L,a+=4*L) t=dot4(t,high,tw::get<W>((const int*)a));
 int s=tw::hsum(t);
 for(long i=0;i<4*units;i++) s+=128*a[i];
 return s; }
TW_INLINE int row_sum_rest(const void *row) {
 int s=0; for(long i=0;i<$rest;i++) s+=128*((const signed char*)row)[i]; return s; }
"""
"""C functions that return 128 times the sum of a row of A, for a B shifted by 128: of whole units, and of the rest."""


@dataclass(frozen=True)
class UnitSteps(Steps):
    """C text of one step of K whose operands are units."""

    vector = "W"

    @property
    def _in_place(self) -> bool:
        """Whether bytes of B are shifted as they are read in place."""
        return self.p.shifted and not self.p.pack_b

    def types(self) -> str:
        return f"{super().types()}\n{functions(self.p.c, self.p.kind, self.p.target.vector_bytes)}"

    def copies(self) -> list[str]:
        p = self.p
        parts = [unit_packing.helpers(p)]
        if p.rest:
            parts.append(
                "TW_INLINE int last_unit(const void *p) { int v=0; "
                f"__builtin_memcpy(&v,p,{p.rest * p.kind.bytes}); return v; }}"
            )
        if p.a == "rows":
            parts += [unit_packing.row(p, "a"), unit_packing.pack_a(p)]
        if p.pack_b:
            parts += [unit_packing.row(p, "b"), unit_packing.pack_b(p)]
        elif p.shifted:
            parts.append(ROW_SUMS.replace("$rest", str(p.rest)))
        return parts

    def before(self, rows: int) -> list[str]:
        if not self.p.shifted:
            return []
        lines = [" const W high=tw::splat<W>((int)0x80808080);"]
        if self._in_place:
            p, step = self.p, self.p.k_loops[0].a
            for i in range(rows):
                row, units, rest = f"a+{ctext(p.row_a(i))}", "kc", ""
                if p.rest:
                    units = "kc-(mode>>2&1)"
                    rest = f"+(mode&4?row_sum_rest({row}+(kc-1)*{step}):0)"
                lines.append(f" const V first{i}=tw::splat<V>(-(row_sum({row},{units}){rest}));")
        return lines

    def first(self, i: int, j: int) -> str:
        if self._in_place:
            return f"first{i}"
        if not self.p.shifted:
            return "{}"
        return f"mode&8?(V)tw::get<W>((const int*)b-{self.p.width}+{j * self.p.lanes}):V{{}}"

    def element(self, at: str, last: bool) -> str:
        unit = "last_unit" if last and self.p.a == "direct" else "unit"
        shift = "^high" if self.p.shifted and self.p.pack_b else ""
        return f"tw::splat<W>({unit}(a+{at})){shift}"

    def columns(self, v: int, j: int, tail: bool, last: bool) -> str:
        p = self.p
        if p.pack_b:
            at = f"b+{v * p.width + j * p.lanes}L"
            return f"(W)tw::load<V>((const {self._half}*)({at}))" if p.half_b else f"tw::get<W>((const int*)({at}))"
        parts = []
        for g in range(p.rest if last else p.group):
            at = f"b+{ctext((v * p.group + g) * self._b_row + j * p.lanes)}"
            read = "bytes16" if p.kind == U8S8 else "as_unit"
            part = f"{read}_n({at},tail)" if tail else f"{read}({at})"
            parts.append(f"{part}<<{g * 8 * p.kind.bytes}" if g and p.kind != U8S8 else part)
        if p.kind == U8S8:
            return f"weave_bytes({','.join(parts + ['Q{}'] * (p.group - len(parts)))}){'^high' if p.shifted else ''}"
        return f"({'|'.join(parts)})"

    @property
    def _b_row(self) -> int:
        """Elements between rows of a B that is read in place."""
        found = self.p.c.b_side
        assert found is not None
        return found.k

    @property
    def _half(self) -> str:
        return C_TYPES[self.p.c.b.dtype or ""]

    def added(self, i: int, j: int) -> str:
        return f"dot4(c{i}_{j},b{j},x)" if self._in_place else f"step(c{i}_{j},x,b{j})"

    def ahead(self, v: int, vectors: int) -> list[int]:
        p = self.p
        if p.pack_b or not p.prefetch_b:
            return super().ahead(v, vectors)
        # Cache lines to the right, in every row of the unit.
        line = LINE // ITEMSIZE[p.c.b.dtype or ""]
        rows = range(v * p.group, (v + 1) * p.group)
        return [r * self._b_row + p.prefetch_b * line + at for r in rows for at in range(0, vectors * p.lanes, line)]
