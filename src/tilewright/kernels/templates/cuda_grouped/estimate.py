"""Choice of a grouped product's kernel, by estimated times of products of equal groups and of copies before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.core import Target, Value
from tilewright.kernels.families.grouped import Grouped
from tilewright.kernels.templates.cuda_grouped.plan import Members, chosen_for, computing
from tilewright.kernels.templates.cuda_mma.default import seconds as mma_seconds
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_wgmma.default import LAUNCH, default
from tilewright.kernels.templates.cuda_wgmma.default import seconds as wgmma_seconds
from tilewright.search_space import Constraint, SearchSpace


def mma_is_faster(groups: Members, warps: Members, g: Grouped, target: Target) -> bool:
    """Whether ``mma.sync`` (``warps``) has the shorter estimated time than wgmma (``groups``)."""
    one, other = computing(groups, g, target), computing(warps, g, target)
    if one is None or other is None:
        return one is None
    (p, values), (q, others) = (chosen_for(member, g, target) for member, _ in (one, other))
    return mma_seconds(q, target, others) < _seconds(p, target, values)


def gathered_or_copied(p: Product, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The wgmma schedule with the shortest estimated time: rows gathered by the kernel, or copied into order before."""
    found = []
    for gather in reversed(within.options["gather"]):
        known = {"gather": gather}
        knobs = tuple(k for k in within.knobs if k.name not in known)
        rest = replace(within, knobs=knobs, constraints=tuple(_given(x, known) for x in within.constraints))
        found.append({**default(p, target, rest, ragged=True), **known})
    return min(found, key=lambda values: _seconds(p, target, values))


def _seconds(p: Product, target: Target, values: Mapping[str, Any]) -> float:
    copied = 2 * p.batch * p.m * p.k * p.instruction.item / float(target.limit["bandwidth"])
    return wgmma_seconds(p, target, values, ragged=True) + (0.0 if values["gather"] else LAUNCH + copied)


def _given(x: Constraint, known: Mapping[str, Value]) -> Constraint:
    """The constraint on the remaining knobs, with the values of ``known`` fixed."""
    reads = tuple(n for n in x.reads if n not in known)
    return replace(x, reads=reads, holds=lambda values: x.holds({**values, **known}))
