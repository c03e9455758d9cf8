"""Copying a tensor into a padded image, row by row; elements beyond the tensor's edges are filled."""

from __future__ import annotations

from math import prod

from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import tensor_pointer, var_text
from tilewright.kernels.templates.cpu_contraction.window import Image


def image_task(p: ContractionTiling, image: Image) -> str:
    """C function of a task that copies one row of the image."""
    w, at = image.window, image.row_axis
    assert w.fill is not None
    inside, fill = prod(w.tensor.shape[at + 1 :]), var_text(w.fill)
    lines = [
        "TW_NOINLINE void copy_row(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;",
        f" T *TW_RESTRICT d=x->image+t*{image.shape[at] * inside}L; bool inside=true; long from=0;",
    ]
    for d in range(at - 1, -1, -1):
        first = f"x->chunk*{p.images}L" if d == 0 and p.chunks > 1 else f"{image.low[d]}L"
        lines.append(f" {{ const long i=t%{image.shape[d]}L+{first}; t/={image.shape[d]}L;")
        lines.append(f"  inside=inside&&i>=0&&i<{w.tensor.shape[d]}L; from+=i*{w.tensor.strides[d]}L; }}")
    low, high = max(0, image.low[at]), min(w.tensor.shape[at], image.low[at] + image.shape[at])
    before = (low - image.low[at]) * inside
    after = (image.low[at] + image.shape[at] - high) * inside
    kept = (high - low) * inside
    lines += [
        f" if(!inside) {{ for(long i=0;i<{image.shape[at] * inside}L;i++) d[i]={fill}; return; }}",
        f" const T *TW_RESTRICT s=(const T*){tensor_pointer(p.c, w.tensor.name)}+from+{low * inside}L;",
        f" for(long i=0;i<{before}L;i++) d[i]={fill};",
        f" __builtin_memcpy(d+{before}L,s,{kept * p.item}L);",
        f" for(long i=0;i<{after}L;i++) d[{before + kept}L+i]={fill};",
        "}",
    ]
    return "\n".join(lines)
