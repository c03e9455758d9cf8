"""Random search: uniform over the legal schedules, without repeats."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tilewright.core import Proposal, Schedule, TrialRecord
from tilewright.search_space import Space
from tilewright.tuner.strategies.base import SpaceStrategy, derived_rng, tried

PATIENCE = 50
"""Number of draws per requested schedule before a nearly exhausted space is enumerated instead."""


def fresh(
    space: Space, rng: random.Random, n: int, seen: set[Schedule],
    sample: Callable[[random.Random], Schedule] | None = None,
) -> list[Schedule]:  # fmt: skip
    """Up to ``n`` different random schedules of ``space`` outside ``seen``; fewer if the space has no more. ``sample``
    draws a schedule (default: ``space.sample``, which also takes over if ``sample`` finds too few)."""
    out: dict[Schedule, None] = {}
    for draw in (space.sample,) if sample is None else (sample, space.sample):
        for _ in range(PATIENCE * n):
            if len(out) == n:
                return list(out)
            schedule = draw(rng)
            if schedule not in seen:
                out[schedule] = None
    if len(out) < n:
        # Most draws are known schedules, so the space has few unknown ones left, and listing them is cheap.
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
