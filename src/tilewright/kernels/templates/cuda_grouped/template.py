"""The GPU templates of grouped contractions: rows sorted by group, and a product's kernel over tiles of one group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.core import Target
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.families.grouped import Grouped, grouped
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda_grouped.estimate import faster_by_warps
from tilewright.kernels.templates.cuda_grouped.match import gathered
from tilewright.kernels.templates.cuda_grouped.plan import (
    GroupedPlan,
    Member,
    Members,
    computing,
    default,
    plan,
    space,
)
from tilewright.kernels.templates.cuda_mma.match import product
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.kernels.templates.cuda_simt.template import CUDA_SIMT
from tilewright.kernels.templates.cuda_wgmma.default import default as by_estimate
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling
from tilewright.kernels.templates.cuda_wgmma.match import sorted_rows
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.kernels.templates.planned import PlannedTemplate


def _gather(p: WgmmaTiling) -> tuple[LoopNest, ...]:
    return (p.gathered.nest(),) if p.gathered is not None else ()


def template(
    name: str, version: int, members: Members, kinds: tuple[str, ...],
    last: Callable[[Grouped, Target], bool] = lambda *_: False,
) -> PlannedTemplate[Grouped, GroupedPlan]:  # fmt: skip
    """The template of that name, whose product one of ``members`` computes.

    ``version`` counts changes beside those of the members' own versions.
    """

    def usable(g: Grouped, target: Target) -> bool:
        return computing(members, g, target) is not None

    return PlannedTemplate(
        name=name,
        family="grouped",
        version=version + sum(m.template.version for m in members),
        kinds=kinds,
        refusal="is no product of rows with matrices that an index chooses",
        find=grouped,
        usable=usable,
        exact=lambda g: all(t.dtype not in FLOAT8 for t in g.program.inputs),
        span=partial(space, members),
        choose=partial(default, members),
        plan=partial(plan, members),
        describe=lambda p, _: p.nests(),
        measures=lambda p, *_: p.static(),
        print=lambda p, symbol: p.kernel(symbol),
        last=last,
    )


WARPS = Member(CUDA_MMA, product)
CUDA_GROUPED = template(
    "cuda_grouped", 1, (WARPS, Member(CUDA_SIMT, lambda text, recognise: recognise(text))), GPUS
)  # fmt: skip

# Blocks walk over a list of tiles, those without rows last. Tiles of a cluster along m would have to be of one group;
# groups that take turns count on all tiles; rows of a tile are no box of the output.
ROWS_APART = {
    "SWAP": (False,), "persistent": (True,), "ping_pong": (False,), "tail": (False,), "store_boxes": (False,),
    "CLUSTER": ("1x1", "1x2", "1x4"),
}  # fmt: skip

WARP_GROUPS = Member(
    CUDA_WGMMA, lambda text, recognise: sorted_rows(product(text, recognise)), gathered, ROWS_APART, _gather,
    partial(by_estimate, ragged=True),
)  # fmt: skip
CUDA_GROUPED_WGMMA = template(
    "cuda_grouped_wgmma", 2, (WARP_GROUPS,), ("cuda",), partial(faster_by_warps, (WARP_GROUPS,), (WARPS,))
)
