"""Which groups of a graph have channels last: the choice whose kernels and moves take the least time together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.graph.channels import Channels
from tilewright.graph.groups import Group

Seconds = Callable[[Group], float | None]
"""The measured seconds of a group's kernel; ``None`` where there is none."""

MOST_STATES = 1 << 12
"""States that are followed; beyond, the cheapest. A value that is read later lies in one of three ways."""
NO_KERNEL = 1.0
"""Seconds for a group whose only kernel is for the other layout: something slower would compute it."""

FIRST, LAST, BOTH = range(3)
"""How a value lies: with channels first, last, or moved into the other as well."""


@dataclass(frozen=True, eq=False)
class _Path:
    """What was chosen so far, newest last."""

    seconds: float
    before: _Path | None = None
    added: tuple[Group, ...] = ()

    def then(self, seconds: float, *added: Group) -> _Path:
        return _Path(self.seconds + seconds, self, added)

    def groups(self) -> tuple[Group, ...]:
        out: list[Group] = []
        path: _Path | None = self
        while path is not None:
            out += reversed(path.added)
            path = path.before
        return tuple(reversed(out))


def cheapest(channels: Channels, seconds: Seconds) -> tuple[Group, ...]:
    """The groups, each in its cheaper layout, and the moves that they need, in an order that can run.

    A dynamic programme over the groups in order; its state is how the values lie that are read later.
    """

    def measured(group: Group) -> float | None:
        return 0.0 if group.workload is None else seconds(group)

    graph = channels.graph
    reads = {g.output: [v for v in dict.fromkeys(g.inputs) if v in channels.to_last] for g in channels.groups}
    until = {v: k for k, g in enumerate(channels.groups) for v in reads[g.output]}
    until |= {v: len(channels.groups) for v in channels.to_last if v in graph.outputs}
    start = tuple((s.name, FIRST) for s in graph.inputs if s.name in until)
    states: dict[tuple[tuple[str, int], ...], _Path] = {start: _Path(0.0)}
    for number, group in enumerate(channels.groups):
        found: dict[tuple[tuple[str, int], ...], _Path] = {}
        for state, path in states.items():
            lies = dict(state)
            for choice, wants_last in ((group, False), (channels.last.get(group.output), True)):
                cost = math.inf if choice is None else _cost(channels, group, wants_last, measured)
                if choice is None or cost == math.inf:
                    continue
                after, so_far = _moved(channels, lies, path, reads[group.output], wants_last, measured)
                if so_far is None:
                    continue
                made = so_far.then(cost, choice)
                for name in group.outputs:
                    if name in channels.to_last:
                        after[name] = LAST if wants_last else FIRST
                kept = tuple((n, at) for n, at in after.items() if until.get(n, -1) > number)
                if kept not in found or made.seconds < found[kept].seconds:
                    found[kept] = made
        states = dict(sorted(found.items(), key=lambda item: item[1].seconds)[:MOST_STATES])
    ends = (
        _moved(channels, dict(s), p, [v for v in graph.outputs if v in channels.to_last], False, measured)[1]
        for s, p in states.items()
    )
    best = min((e for e in ends if e is not None), key=lambda p: p.seconds)
    return best.groups()


def _cost(channels: Channels, group: Group, last: bool, measured: Seconds) -> float:
    """Seconds of a group in one layout. What has no kernel at all stays with channels first."""
    other = channels.last.get(group.output)
    own = measured(other if last and other is not None else group)
    if own is not None:
        return own
    alternative = None if other is None else measured(group if last else other)
    if alternative is not None:
        return math.inf if last else NO_KERNEL
    return math.inf if last else 0.0


def _moved(
    channels: Channels, lies: Mapping[str, int], path: _Path, reads: list[str], last: bool, measured: Seconds
) -> tuple[dict[str, int], _Path | None]:
    """The values to read in one layout, moved where they lie in the other; no path where a move has no kernel."""
    after = dict(lies)
    for name in reads:
        at = after.get(name, FIRST)
        if at == BOTH or (at == LAST) == last:
            continue
        move = (channels.to_last if last else channels.to_first)[name]
        cost = measured(move)
        if cost is None:
            return after, None
        path = path.then(cost, move)
        after[name] = BOTH
    return after, path


__all__ = ["cheapest"]
