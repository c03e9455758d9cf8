"""The CPU template of recurrent layers: every step in one kernel, the weights packed once."""

from __future__ import annotations

from tilewright.kernels.families.recurrence import Recurrent, recurrent
from tilewright.kernels.templates.cpu_recurrent.kernel import kernel
from tilewright.kernels.templates.cpu_recurrent.space import default, plan, space
from tilewright.kernels.templates.planned import PlannedTemplate


def refusal(r: Recurrent) -> str:
    """Why this template leaves a layer to others; empty where it does not."""
    return "" if r.passes and r.passes[0].component is not None else "multiplies no state in its first product"


CPU_RECURRENT = PlannedTemplate(
    name="cpu_recurrent",
    family="recurrent",
    version=1,
    refusal="is not a recurrent layer",
    find=recurrent,
    refuses=refusal,
    span=space,
    choose=default,
    plan=plan,
    build=lambda p, *_: kernel(p),
)
