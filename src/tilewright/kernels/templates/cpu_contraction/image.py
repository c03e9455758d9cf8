"""Copying a tensor into a padded image, row by row: what lies beyond its edges is filled."""

from __future__ import annotations

from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.text import no_load, tensor_pointer


def image_rows(p: ContractionTiling) -> int:
    """Rows of the image, each a task of the copy: everything but the innermost padded axis and those inside it."""
    assert p.image is not None
    n = 1
    for s in p.image.shape[: _row_axis(p)]:
        n *= s
    return n


def _row_axis(p: ContractionTiling) -> int:
    image, w = p.image, p.c.a.window
    assert image is not None
    assert w is not None
    changed = [d for d, (low, s, t) in enumerate(zip(image.low, image.shape, w.tensor.shape, strict=True))
               if (low, s) != (0, t)]  # fmt: skip
    return max(changed, default=0)


def image_task(p: ContractionTiling) -> str:
    """The function that copies one row of the image."""
    image, w = p.image, p.c.a.window
    assert image is not None
    assert w is not None
    assert w.fill is not None
    at = _row_axis(p)
    inside = 1
    for s in w.tensor.shape[at + 1 :]:
        inside *= s
    fill = print_expr(w.fill, axis={}, load=no_load, var={}, lanes=None)
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
