"""What is decided about timing on a device: how many samples, launches and operand sets."""

from __future__ import annotations

import pytest

from tilewright.measure import gpu_timing as t


@pytest.mark.parametrize("seconds", [1e-7, 1e-6, 5e-6, 19e-6])
def test_short_kernels_share_their_events(seconds: float) -> None:
    p = t.plan(seconds)
    assert p.launches > 1
    assert p.launches * seconds >= t.SAMPLE or p.launches * (p.samples + 1) > t.MOST_LAUNCHES - p.samples - 1
    assert p.samples * (p.launches + 1) <= t.MOST_LAUNCHES + p.samples  # one queue holds them


@pytest.mark.parametrize("seconds", [20e-6, 1e-3, 0.5])
def test_longer_kernels_have_events_of_their_own(seconds: float) -> None:
    assert t.plan(seconds).launches == 1


def test_samples_keep_to_the_budget_but_are_never_fewer_than_three() -> None:
    assert t.plan(1e-3).samples == 15
    assert t.plan(5e-3).samples == 6
    assert t.plan(1.0).samples == 3
    assert t.plan(1.0, 2).samples == 2
    assert t.plan(1e-3, 40).samples == 30


def test_operand_sets_are_three_times_the_cache() -> None:
    room = 1 << 40
    assert t.rotation(96 << 20, 60 << 20, room) == 2
    assert t.rotation(60 << 20, 60 << 20, room) == 3
    assert t.rotation(400 << 20, 60 << 20, room) == 1
    assert t.rotation(1 << 10, 60 << 20, room) == t.MOST_SETS
    assert t.rotation(60 << 20, 60 << 20, 130 << 20) == 2
    assert t.rotation(60 << 20, 60 << 20, 1) == 1
    assert t.rotation(1 << 10, 60 << 20, room, rotate=False) == 1
