"""What is decided about timing on a device: how many samples, launches and operand sets."""

from __future__ import annotations

import pytest

from tilewright.measure import gpu_timing as t


@pytest.mark.parametrize("seconds", [1e-7, 1e-6, 5e-6, 20e-6, 100e-6])
@pytest.mark.parametrize("launches", [1, 2, 3])
def test_short_kernels_share_their_events(seconds: float, launches: int) -> None:
    p = t.plan(seconds, launches=launches)
    assert p.calls > 1
    assert p.calls * seconds >= t.SAMPLE or p.queued > t.MOST_LAUNCHES // 2 - launches
    # No launch takes less than a microsecond.
    assert seconds < 1e-6 * launches or p.calls * seconds >= t.SAMPLE
    assert 2 * p.queued <= t.MOST_LAUNCHES  # one queue holds a round of two kernels


@pytest.mark.parametrize("seconds", [300e-6, 1e-3, 0.5])
def test_longer_kernels_have_events_of_their_own(seconds: float) -> None:
    assert t.plan(seconds).calls == 1


def test_kernels_of_many_launches_leave_room_in_the_queue() -> None:
    assert t.plan(1e-6, launches=1000).calls == 1


@pytest.mark.parametrize("sets", [1, 7, 25, 256])
def test_graphs_of_short_kernels_take_whole_turns_of_the_operands(sets: int) -> None:
    for seconds in (1e-6, 2e-6, 7e-6, 30e-6):
        calls = t.captured(seconds, sets)
        if calls:
            assert calls % sets == 0
            assert calls <= t.MOST_CAPTURED
            assert t.SAMPLE <= calls * seconds <= t.LONGEST_REPLAY
            p = t.replays(seconds, calls)
            assert (p.calls, p.queued) == (calls, 2)
            assert 3 <= p.samples <= t.SAMPLES
            assert p.samples * calls * seconds >= min(1, p.samples / 3) * 3 * t.SAMPLE
    assert t.captured(2e-6, sets)


def test_kernels_are_launched_one_by_one_where_a_graph_saves_nothing() -> None:
    assert t.captured(200e-6, 1) == 0  # one call is a sample
    assert t.captured(100e-6, 25) == 0  # a turn of the operands takes longer than all samples
    assert t.captured(2e-6, 25, launches=100) == 0


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
