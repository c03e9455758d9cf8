"""The CPU template of attention: one pass over blocks of keys, vectorised along the queries."""

from __future__ import annotations

from tilewright.kernels.families.attention import match
from tilewright.kernels.templates.cpu_attention.geometry import ITEM, plan, takes_ranges
from tilewright.kernels.templates.cpu_attention.kernel import kernel
from tilewright.kernels.templates.cpu_attention.space import default, space
from tilewright.kernels.templates.planned import PlannedTemplate

CPU_ATTENTION = PlannedTemplate(
    name="cpu_attention",
    family="attention",
    version=3,
    refusal="is not an attention",
    find=match,
    refuses=lambda a: (
        "gathers keys or values that lie apart" if any(r.gathered and r.inner != 1 for r in (a.k, a.v)) else ""
    ),
    # If queries fill at most half a vector, other templates compute the attention.
    usable=lambda a, target: 2 * a.queries * ITEM > target.vector_bytes,
    ranges=takes_ranges,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
