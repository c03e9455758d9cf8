"""Exhaustive search: every legal schedule once, in lexicographic order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tilewright.core import Proposal, Schedule, TrialRecord
from tilewright.cost_model.base import CostModel
from tilewright.search_space import Space
from tilewright.tuner.strategies.base import tried


class GridStrategy:
    """Walks the space; ``initial`` schedules come first. Meant for spaces of a few thousand."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        cost_model: CostModel | None = None,
        initial: Sequence[Schedule] = (),
    ) -> None:
        self.space = space
        self.initial = tuple(initial)

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        seen = tried(history, pending)
        first = [s for s in dict.fromkeys(self.initial) if s not in seen][:n]
        seen |= set(first)
        rest = islice((s for s in self.space if s not in seen), n - len(first))
        return [*(Proposal(s, None, "default") for s in first), *(Proposal(s, None, "grid") for s in rest)]
