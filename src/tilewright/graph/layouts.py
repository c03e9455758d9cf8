"""Chooses the layout of each group: the set of channels-last groups whose kernels and moves take the least total
time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.graph.channels import CHANNELS_LAST, Channels
from tilewright.graph.groups import Group

Seconds = Callable[[Group], float | None]
"""Returns the measured seconds of a group's kernel, or ``None`` for a group without a measured kernel."""

MOST_STATES = 1 << 12
"""Largest number of states that the dynamic programme keeps, cheapest first. Each live value is in one of four
states."""
NO_KERNEL = 1.0
"""Seconds charged for a group without a kernel in its layout, but with one for the opposite layout: a slower
implementation would compute it."""

FIRST, LAST, BOTH, NOWHERE = range(4)
"""State of a value: channels first, channels last, or both after a move. ``NOWHERE``: its only reader computes it."""


@dataclass(frozen=True, eq=False)
class _Path:
    """The groups chosen so far, newest last, as a linked list."""

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
    """The groups, each in its cheaper layout, and the moves that they need, in execution order.

    A dynamic programme over the groups in order; its state is the layout of each value that a later group reads.
    """

    def measured(group: Group) -> float | None:
        return 0.0 if group.workload is None or group.family == "view" else seconds(group)

    graph, followed = channels.graph, {*channels.to_last, *channels.joined}

    def reads(group: Group) -> list[tuple[str, bool]]:
        """The values with two layouts that a group reads: original name, and whether the group reads channels last."""
        own = ((v.removesuffix(CHANNELS_LAST), v.endswith(CHANNELS_LAST)) for v in group.inputs)
        return [v for v in dict.fromkeys(own) if v[0] in followed]

    choices = {g.output: [(g, False)] for g in channels.groups}
    for output, group in channels.last.items():
        choices[output].append((group, True))
    until = {v: k for k, g in enumerate(channels.groups) for choice, _ in choices[g.output] for v, _ in reads(choice)}
    until |= {v: len(channels.groups) for v in channels.to_last if v in graph.outputs}
    start = tuple((s.name, FIRST) for s in graph.inputs if s.name in until)
    states: dict[tuple[tuple[str, int], ...], _Path] = {start: _Path(0.0)}
    for number, group in enumerate(channels.groups):
        found: dict[tuple[tuple[str, int], ...], _Path] = {}
        for state, path in states.items():
            lies = dict(state)
            made: list[tuple[dict[str, int], _Path]] = []
            for choice, other in choices[group.output]:
                cost = _cost(channels, group, other, measured)
                if cost == math.inf:
                    continue
                after, so_far = _moved(channels, lies, path, reads(choice), measured)
                if so_far is not None:
                    lie = LAST if choice.output.endswith(CHANNELS_LAST) else FIRST
                    after.update((name, lie) for name in group.outputs if name in followed)
                    made.append((after, so_far.then(cost, choice)))
            if group.output in channels.joined:
                made.append(({**lies, group.output: NOWHERE}, path))
            for after, longer in made:
                kept = tuple((n, at) for n, at in after.items() if until.get(n, -1) > number)
                if kept not in found or longer.seconds < found[kept].seconds:
                    found[kept] = longer
        states = dict(sorted(found.items(), key=lambda item: item[1].seconds)[:MOST_STATES])
    ends = (
        _moved(channels, dict(s), p, [(v, False) for v in graph.outputs if v in channels.to_last], measured)[1]
        for s, p in states.items()
    )
    best = min((e for e in ends if e is not None), key=lambda p: p.seconds)
    return best.groups()


def _cost(channels: Channels, group: Group, last: bool, measured: Seconds) -> float:
    """Seconds of a group in one layout. A group without a kernel in either layout keeps channels first."""
    other = channels.last.get(group.output)
    own = measured(other if last and other is not None else group)
    if own is not None:
        return own
    alternative = None if other is None else measured(group if last else other)
    if alternative is not None:
        return math.inf if last else NO_KERNEL
    return math.inf if last else 0.0


def _moved(
    channels: Channels, lies: Mapping[str, int], path: _Path, reads: list[tuple[str, bool]], measured: Seconds
) -> tuple[dict[str, int], _Path | None]:
    """Adds the moves that bring the values to the layouts in which they are read.

    Returns the new states and path; the path is ``None`` where a required move has no kernel.
    """
    after = dict(lies)
    for name, last in reads:
        at = after.get(name, FIRST)
        if at == NOWHERE:
            return after, None
        if at == BOTH or (at == LAST) == last:
            continue
        move = (channels.to_last if last else channels.to_first)[name]
        cost = measured(move)
        if cost is None:
            return after, None
        path = path.then(cost, move)
        after[name] = BOTH
    return after, path
