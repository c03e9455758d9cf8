"""What a strategy is: it decides which schedules to try next."""

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
        """Up to ``n`` legal schedules to try, none of them in ``history`` or ``pending``.

        A pure function of the seed, ``history`` (every trial of the run so far, in order) and
        ``pending`` (proposed, without a result yet); fewer than ``n`` only when the space is exhausted.
        """


class SpaceStrategy:
    """What a strategy is made with. ``initial`` schedules are proposed before all others."""

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
        """Up to ``n`` of the initial schedules, those that were not tried."""
        return [s for s in dict.fromkeys(self.initial) if s not in seen][:n]


def derived_rng(seed: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> random.Random:
    """Random numbers that depend on the seed and on how far the run is, and on nothing else."""
    return random.Random(digest([seed, len(history), [p.key for p in pending]]))


def tried(history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> set[Schedule]:
    """What must not be proposed again."""
    return {r.schedule for r in history} | set(pending)
