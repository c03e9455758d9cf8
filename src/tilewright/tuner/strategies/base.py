"""The interface of strategies, which choose the schedules to try next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from tilewright.core import Proposal, Schedule, TrialRecord, digest
from tilewright.cost_model.base import CostModel
from tilewright.search_space import Space


class Strategy(Protocol):
    """Proposes schedules of one space."""

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        """Return up to ``n`` legal schedules to try that are neither in ``history`` nor in ``pending``.

        A pure function of the seed, ``history`` (every trial of the run so far, in order) and
        ``pending`` (proposed, without a result yet). It returns fewer than ``n`` only if the space is exhausted.
        """


class SpaceStrategy:
    """Constructor of strategies. ``initial`` schedules are proposed before any other schedule."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        cost_model: CostModel | None = None,
        initial: Sequence[Schedule] = (),
    ) -> None:
        self.space = space
        self.seed = seed
        self.model = cost_model
        self.initial = tuple(initial)

    def first(self, n: int, seen: set[Schedule]) -> list[Schedule]:
        """Up to ``n`` initial schedules that were not tried."""
        return [s for s in dict.fromkeys(self.initial) if s not in seen][:n]


def derived_rng(seed: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> random.Random:
    """A random generator seeded by the seed, the number of trials and the pending schedules alone."""
    return random.Random(digest([seed, len(history), [p.key for p in pending]]))


def tried(history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> set[Schedule]:
    """Schedules that must not be proposed again."""
    return {r.schedule for r in history} | set(pending)
