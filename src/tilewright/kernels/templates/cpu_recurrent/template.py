"""The CPU template of recurrent layers: one kernel computes all steps and packs the weights once."""

from __future__ import annotations

from tilewright.extent import Extent
from tilewright.kernels.families.recurrence import Recurrent, recurrent
from tilewright.kernels.templates.cpu_recurrent.kernel import kernel
from tilewright.kernels.templates.cpu_recurrent.space import default, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate


def refusal(r: Recurrent) -> str:
    """Why this template cannot compute a layer; empty if it can."""
    return "" if r.passes and r.passes[0].component is not None else "multiplies no state in its first product"


def takes_ranges(r: Recurrent) -> bool:
    """Whether only the numbers of steps and rows are symbolic."""
    states, _, _, features = r.sizes
    return not isinstance(states, Extent) and not isinstance(features, Extent)


CPU_RECURRENT = PlannedTemplate(
    name="cpu_recurrent",
    family="recurrent",
    version=1,
    refusal="is not a recurrent layer",
    find=recurrent,
    refuses=refusal,
    ranges=takes_ranges,
    any_sizes=True,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
