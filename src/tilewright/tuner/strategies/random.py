"""Random search: uniform over the legal schedules, without repeats."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tilewright.core import Proposal, Schedule, TrialRecord
from tilewright.search_space import Space
from tilewright.tuner.strategies.base import SpaceStrategy, derived_rng, tried

PATIENCE = 50
"""Draws per wanted schedule before a nearly exhausted space is walked instead."""


def fresh(
    space: Space, rng: random.Random, n: int, seen: set[Schedule],
    sample: Callable[[random.Random], Schedule] | None = None,
) -> list[Schedule]:  # fmt: skip
    """Up to ``n`` different random members of ``space`` outside ``seen``; fewer if it has no more. ``sample`` draws one
    (default: the space does), while it draws others than those."""
    out: dict[Schedule, None] = {}
    for draw in (space.sample,) if sample is None else (sample, space.sample):
        for _ in range(PATIENCE * n):
            if len(out) == n:
                return list(out)
            schedule = draw(rng)
            if schedule not in seen:
                out[schedule] = None
    if len(out) < n:
        # Draws keep hitting what is known, so what is left is few enough to list.
        rest = [s for s in space if s not in seen and s not in out]
        rng.shuffle(rest)
        out.update(dict.fromkeys(rest[: n - len(out)]))
    return list(out)


class RandomStrategy(SpaceStrategy):
    """Uniform proposals; ``initial`` schedules come first."""

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        rng = derived_rng(self.seed, history, pending)
        seen = tried(history, pending)
        first = self.first(n, seen)
        rest = fresh(self.space, rng, n - len(first), seen | set(first))
        return [*(Proposal(s, None, "default") for s in first), *(Proposal(s, None, "random") for s in rest)]
