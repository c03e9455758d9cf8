"""The loops of a partition: its segments' nests, in the names of the whole program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import Value
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.partition.space import Member


def nests(members: tuple[Member, ...], values: Mapping[str, Value]) -> tuple[LoopNest, ...]:
    """Every segment's nests in order."""
    return tuple(
        _renamed(nest, m) for m in members for nest in m.template.nests(m.task, m.schedule(values))
    )  # fmt: skip


def _renamed(nest: LoopNest, m: Member) -> LoopNest:
    """With the whole program's tensors; what only the segment knows gets its prefix."""
    s = m.segment
    names = {f"x{n}": name for n, name in enumerate(s.reads)}
    names |= {f"s{n}": name for n, name in enumerate(s.stages)}

    def of(name: str) -> str:
        return names.get(name, m.prefix + name)

    return replace(
        nest,
        name=of(nest.name),
        accesses=tuple(replace(a, tensor=of(a.tensor)) for a in nest.accesses),
        staged=tuple(replace(x, tensor=of(x.tensor)) for x in nest.staged),
    )
