"""The final's ladder: who stands above whom after a paired comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilewright.measure.timing import PairedComparison
from tilewright.tuner.final import Final, Finalist


class Scripted:
    """A runner that gives the comparison it was told, and counts."""

    def __init__(self, paired: PairedComparison) -> None:
        self.paired, self.asked = paired, 0

    def compare(self, task: object, challenger: object, champion: object) -> PairedComparison:
        self.asked += 1
        return self.paired


def finalist(seconds: float | None = 1.0, stored: bool = False) -> Finalist:
    record = None if seconds is None else SimpleNamespace(seconds=seconds)
    return Finalist(cast(Any, None), cast(Any, None), cast(Any, record), cast(Any, "stored" if stored else None))


def places(paired: PairedComparison, other: Finalist, entrant: Finalist) -> tuple[int, int]:
    """Where the entrant stands, and how often it was compared."""
    runner = Scripted(paired)
    final = Final(*(cast(Any, None),) * 5, cast(Any, runner), cast(Any, None))
    ladder = [other]
    final._insert(ladder, entrant)
    return next(n for n, f in enumerate(ladder) if f is entrant), runner.asked


@pytest.mark.parametrize(("ratio", "low", "high", "beats"), [
    (0.90, 0.85, 0.95, True), (0.97, 0.93, 1.01, False), (0.99, 0.98, 1.0, False), (1.10, 1.05, 1.15, False),
])  # fmt: skip
def test_a_stored_champion_yields_to_a_whole_interval_only(ratio: float, low: float, high: float, beats: bool) -> None:
    paired = PairedComparison(ratio, low, high, 5, 10)
    assert places(paired, finalist(None, stored=True), finalist()) == (0 if beats else 1, 1)


def test_trials_of_the_run_are_ranked_by_the_ratio() -> None:
    assert places(PairedComparison(0.97, 0.93, 1.01, 5, 10), finalist(), finalist()) == (0, 1)
    assert places(PairedComparison(1.01, 0.93, 1.03, 5, 10), finalist(), finalist()) == (1, 1)


def test_what_is_clearly_slower_is_not_compared() -> None:
    assert places(PairedComparison(0.5, 0.4, 0.6, 9, 10), finalist(1.0), finalist(2.0)) == (1, 0)
