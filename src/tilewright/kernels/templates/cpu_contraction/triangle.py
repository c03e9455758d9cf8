"""Triangular and banded operands A, whose guard leaves a range of K in each row: tiles take only steps of their rows.

A skipped step would add zero times elements of B, which is NaN where an element is not finite. Each block of B is
therefore checked first, and no steps are skipped unless the whole block is finite.
"""

from __future__ import annotations

from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import edge, height, tile_row


def guards(p: ContractionTiling) -> tuple[Linear, ...]:
    """The guards of A, over its one M axis and one K axis, whose excluded steps tiles skip; else empty."""
    c, w = p.c, p.c.a.window
    if p.a != "pack" or p.b == "prepack" or c.b.valid_length is not None or p.varying:
        return ()
    if w is None or w.fill is None or w.fill.value != 0 or not c.is_product:
        return ()
    if len(p.k_loops) > 1 or p.chunks > 1 or p.lines > 1 or len(c.m.axes) != 1:
        return ()
    wide = [a for a, n in zip(c.k.axes, c.k.extents, strict=True) if n > 1]
    if len(wide) != 1 or not all(b.of(wide[0]) and set(b.coef) <= {wide[0], c.m.axes[0]} for b in w.bounds):
        return ()
    return w.bounds


def checked(p: ContractionTiling, first: str, last: str) -> list[str]:
    """Declaration of ``skips``: whether column blocks ``first`` to before ``last`` of B are finite in ``kc`` steps from
    ``pc`` on."""
    if not guards(p):
        return []
    if p.b == "pack":
        return [f"   const bool skips=finite(pb,1,({last}-{first})*kc*{p.width}L,0);"]
    step = p.k_loops[0].other
    columns = p.column_blocks
    low, high = (f"({columns.start(x)})*{p.lanes}L" for x in (first, last))
    count = f"tw::imin({high},{p.c.n.size}L)-{low}"
    return [f"   const bool skips=finite(B+{low}+pc*{step}L,kc,{count},{step}L);"]


def along(p: ContractionTiling) -> str:
    """The K axis of the guards."""
    return next(a for a, n in zip(p.c.k.axes, p.c.k.extents, strict=True) if n > 1)


def narrowed(p: ContractionTiling, first: str, last: str, start: str) -> list[str]:
    """Statements that narrow ``low`` and ``high`` to the steps of rows ``first`` to ``last``, from ``start``."""
    (m,), out = p.c.m.axes, []
    for b in guards(p):
        slope, row = b.of(along(p)), b.of(m)
        # ``v`` is the guard at step 0 in the row with the most steps.
        out.append(f"      {{ const long v={b.const}L+{row}L*{last if row > 0 else first};")
        end, narrower = ("low", "imax") if slope > 0 else ("high", "imin")
        out.append(f"       {end}=tw::{narrower}({end},({edge(slope)})-{start}); }}")
    return out


def steps(p: ContractionTiling) -> list[str]:
    """Declaration of ``kt``, the number of a tile's steps in a block; moves ``a`` and ``b`` to the first step."""
    if not guards(p):
        return []
    u = p.unroll
    rows = f"const long i0={tile_row(p)}, i1=i0+{height(p)}-1; (void)i0; (void)i1;"
    out = [f"     long kt=kc; if(skips) {{ {rows} long low=0, high=kc;", *narrowed(p, "i0", "i1", "pc")]
    if u > 1:
        out.append(f"      low=low/{u}*{u};")  # packed rows hold ``unroll`` steps side by side
    out.append(f"      kt=tw::imax(0,high-low); if(kt) {{ a+=low*{p.rows}L; b+=low*{p.k_loops[0].other}L; }} }}")
    return out
