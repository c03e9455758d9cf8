"""Whether products by warp groups are worth their launches: the defaults' own estimates, compared."""

from __future__ import annotations

from tilewright.core import Target
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.templates.cuda_grouped.plan import Members, chosen_for, computing
from tilewright.kernels.templates.cuda_mma.default import seconds as by_warps
from tilewright.kernels.templates.cuda_wgmma.default import LAUNCH
from tilewright.kernels.templates.cuda_wgmma.default import seconds as by_groups


def faster_by_warps(groups: Members, warps: Members, g: Grouped, target: Target) -> bool:
    """Whether instructions of one warp (``warps``), which read rows where they lie, are estimated to be faster."""
    one, other = computing(groups, g, target), computing(warps, g, target)
    if one is None or other is None:
        return one is None
    (p, values), (q, others) = (chosen_for(member, g, target) for member, _ in (one, other))
    copying = 0.0 if values["gather"] else LAUNCH + 2 * one[1].a.packed_bytes / float(target.limit["bandwidth"])
    return by_warps(q, target, others) < by_groups(p, target, values) + copying
