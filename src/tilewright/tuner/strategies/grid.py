"""Exhaustive search: every legal schedule once, in lexicographic order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tilewright.core import Proposal, Schedule, TrialRecord
from tilewright.tuner.strategies.base import SpaceStrategy, tried


class GridStrategy(SpaceStrategy):
    """Enumerates the space; ``initial`` schedules come first. Meant for spaces of a few thousand schedules."""

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        seen = tried(history, pending)
        first = self.first(n, seen)
        seen |= set(first)
        rest = islice((s for s in self.space if s not in seen), n - len(first))
        return [*(Proposal(s, None, "default") for s in first), *(Proposal(s, None, "grid") for s in rest)]
