"""The GPU templates of grouped contractions: a launch that sorts rows by group, and a product's kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.core import Target
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.kernels.families.grouped import Grouped, grouped
from tilewright.kernels.primitives.wgmma import COLUMNS, ROWS
from tilewright.kernels.templates.base import GPUS
from tilewright.kernels.templates.cuda_grouped.estimate import gathered_or_copied, mma_is_faster
from tilewright.kernels.templates.cuda_grouped.match import gathered
from tilewright.kernels.templates.cuda_grouped.plan import (
    GroupedPlan,
    Member,
    Members,
    computing,
    default,
    kernel,
    plan,
    space,
)
from tilewright.kernels.templates.cuda_mma.match import Product, product
from tilewright.kernels.templates.cuda_mma.template import CUDA_MMA
from tilewright.kernels.templates.cuda_simt.template import CUDA_SIMT
from tilewright.kernels.templates.cuda_wgmma.gathering import AHEAD
from tilewright.kernels.templates.cuda_wgmma.geometry import may_gather, most_sums, sharing, stored_by_rows
from tilewright.kernels.templates.cuda_wgmma.match import sorted_rows
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.kernels.templates.planned import PlannedTemplate
from tilewright.search_space import Choice, Constraint, rule


def template(
    name: str, version: int, members: Members, kinds: tuple[str, ...],
    last: Callable[[Grouped, Target], bool] = lambda *_: False,
) -> PlannedTemplate[Grouped, GroupedPlan]:  # fmt: skip
    """A template of grouped contractions, whose product one of ``members`` computes.

    ``version``: counts changes besides the versions of the members' templates, which are added to it.
    """

    def usable(g: Grouped, target: Target) -> bool:
        return computing(members, g, target) is not None

    return PlannedTemplate(
        name=name,
        family="grouped",
        version=version + sum(m.template.version for m in members),
        kinds=kinds,
        refusal="is not a product of rows with matrices that an index chooses",
        find=grouped,
        usable=usable,
        exact=lambda g: all(t.dtype not in FLOAT8 for t in g.program.inputs),
        span=partial(space, members),
        choose=partial(default, members),
        plan=partial(plan, members),
        build=kernel,
        last=last,
    )


WARPS = Member(CUDA_MMA, product)
CUDA_GROUPED = template(
    "cuda_grouped", 2, (WARPS, Member(CUDA_SIMT, lambda text, recognise: recognise(text))), GPUS
)  # fmt: skip

# Persistent blocks loop over tiles that have rows. Tiles of a cluster along m would need to be of one group.
SORTED_ROWS_KNOBS = {"SWAP": (False,), "persistent": (True,), "tail": (False,), "CLUSTER": ("1x1", "1x2", "1x4")}


def _more(p: Product) -> tuple[tuple[Choice, ...], tuple[Constraint, ...]]:
    """The knob ``gather`` and its constraints: whether the kernel gathers rows into the ring, without a prior copy."""
    direct, boxed = may_gather(p), {n for n in COLUMNS if stored_by_rows(p, n)}

    def fits(BM: int, GROUPS: int, BN: int, ping_pong: bool, gather: bool) -> bool:
        return not gather or BM // (ROWS * sharing(GROUPS, ping_pong)) * BN // 2 <= most_sums(GROUPS, gathers=True)

    return (Choice("gather", (False, True) if direct else (False,)),), (
        rule("rows that one block fetches are not shared", lambda gather, CLUSTER: not gather or CLUSTER == "1x1"),
        rule("accumulators leave the group that fetches rows no registers", fits),
        rule("the ring has no slots to fetch rows ahead", lambda gather, STAGES: not gather or STAGES > AHEAD + 1),
        rule(
            "a row of the output does not divide into whole 16-byte chunks",
            lambda store_boxes, BN: not store_boxes or BN in boxed,
        ),
    )


WARP_GROUPS = Member(
    CUDA_WGMMA, lambda text, recognise: sorted_rows(product(text, recognise)), gathered, SORTED_ROWS_KNOBS,
    gathered_or_copied, _more,
)  # fmt: skip
CUDA_GROUPED_WGMMA = template(
    "cuda_grouped_wgmma", 4, (WARP_GROUPS,), ("cuda",), partial(mma_is_faster, (WARP_GROUPS,), (WARPS,))
)
