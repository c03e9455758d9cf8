"""Valid lengths along K: from a step of K on, B is zero, so tiles stop there. The step is read for each outer position.

A skipped step would add zero times an element of A, which is NaN where the element is not finite. A tile with an
element that is not finite adds the sums of its skipped steps.
"""

from __future__ import annotations

from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import axis_texts, height, scalar_text


def steps(p: ContractionTiling) -> list[str]:
    """Declaration of ``kt``: the valid steps of the block of ``kc`` steps from ``pc`` on. Reads ``o_<axis>``."""
    length = p.c.b.valid_length
    if length is None:
        return []
    text = scalar_text(p, length, axis_texts(p))
    return [f"   const long kt=tw::imin(tw::imax(({text})-pc,0L),kc);"]


def start(p: ContractionTiling, valid: str) -> list[str]:
    """Declaration of ``begun``: the ``mode`` of a tile once the sums of its skipped steps are added."""
    if p.c.b.valid_length is None:
        return []
    return [f"     const long begun=kt<kc?left_out(a,kt,kc,{height(p)},{valid},mode,c):mode;"]


def left_out(p: ContractionTiling) -> str:
    """C function: adds the sums of skipped steps, ``k`` to before ``kc``, to a tile's sums unless A is finite there.

    Returns the tile's new mode.
    """
    if p.c.b.valid_length is None:
        return ""
    r, u, row, step = p.rows, p.unroll, p.m_loops[-1].a, p.k_loops[0].a
    if p.pack_a:
        at, some = f"(v/{u}*{r}+i)*{u}+v%{u}", f"a+k/{u}*{r * u}L,1,((kc+{u - 1})/{u}-k/{u})*{r * u}L,0"
    else:
        # ``finite`` reads along rows or along columns, whichever are contiguous.
        at = f"i*{row}L+v*{step}L"
        some = f"a+k,rows,kc-k,{row}L" if step == 1 else f"a+k*{step}L,kc-k,rows,{step}L"
    looked = f" if(finite({some})) return mode;\n" if p.pack_a or 1 in (row, step) or r == 1 else ""
    return (
        "TW_NOINLINE long left_out(const T *a, long k, long kc, long rows, long cols, long mode, T *c) {\n"
        f"{looked} for(long i=0;i<rows;i++) {{ T s=0; for(long v=k;v<kc;v++) s+=0*a[{at}];\n"
        f"  for(long j=0;j<cols;j++) {{ T *d=c+i*{p.row_step}L+j; *d=mode&1?*d+s:s; }} }}\n"
        " return mode|1; }"
    )
