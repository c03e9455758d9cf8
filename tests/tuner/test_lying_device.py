"""On a device that lies as real ones do, no stored kernel is slower than the default schedule, and gains are found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

import tilewright.tuner.final as module
from harness.lying_device import TARGET, LyingDevice, kernel
from tilewright.core import Task, fastest
from tilewright.kernels.operators import get_operator
from tilewright.tuner.final import Final
from tilewright.tuner.observer import Observer
from tilewright.tuner.session import Limits, Session

TASK = Task(get_operator("matmul").workload(m=2, n=2, k=2), TARGET)
SLOWER = 1.01
"""A kernel that takes so many times as long as the default schedule must never be stored."""

Tune = Callable[[LyingDevice], float]


@pytest.fixture
def tune(monkeypatch: pytest.MonkeyPatch) -> Tune:
    """A run with its final; gives the true seconds of its fastest trial."""
    monkeypatch.setattr(module, "template_version", lambda _database, _stored: 1)
    monkeypatch.setattr(module.StoredArtifact, "read", lambda artifact, source: None)
    monkeypatch.setattr(module.templates, "full_source", lambda candidate: "")
    monkeypatch.setattr(Final, "_stored", lambda self, f, seconds, peak: f.candidate.schedule)

    def go(device: LyingDevice) -> float:
        every = cast(Any, device)
        session = Session(TASK, "run", every, every, every, every, Limits(len(device.true)), Observer())
        session.search()
        best = fastest(session.history)
        assert best is not None
        Final(TASK, kernel(0), "run", "model", every, every, every, Observer()).play(session.history, 8)
        return device.true[int(cast(int, best.schedule.values["n"]))]

    return go


def around(rng: random.Random, low: float, high: float, best: Sequence[float] = ()) -> list[float]:
    """The default schedule at 1, then others, ``best`` anywhere among them."""
    others = [*best, *(rng.uniform(low, high) for _ in range(15 - len(best)))]
    rng.shuffle(others)
    return [1.0, *others]


def test_of_1000_tunes_none_stores_what_is_slower_than_the_default(tune: Tune) -> None:
    rng = random.Random(1)
    fooled = stored = 0
    for seed in range(500):
        device = LyingDevice(around(rng, 1.0, 1.08), seed)
        for _ in range(2):  # the second run finds the first one's kernel stored
            fooled += tune(device) > SLOWER
            stored += device.stored > SLOWER
    assert stored == 0
    assert fooled > 150  # of the fastest trials


def test_what_is_a_tenth_faster_is_found_and_stored(tune: Tune) -> None:
    rng = random.Random(2)
    found = 0
    for seed in range(100):
        device = LyingDevice(around(rng, 0.99, 1.2, best=(0.9,)), seed)
        tune(device)
        found += device.stored == 0.9
    assert found >= 97
