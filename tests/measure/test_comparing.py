"""Which of several forms is kept, from times that a test gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.measure import comparing

ROUNDS = 12


def samples(**seconds: Sequence[float] | float) -> dict[str, list[float]]:
    return {n: [s] * ROUNDS if isinstance(s, float) else list(s) for n, s in seconds.items()}


def test_the_form_with_the_best_median_of_paired_ratios_is_kept_and_of_equals_the_first() -> None:
    drifting = [1.0 + r for r in range(ROUNDS)]
    faster = [0.9 * s for s in drifting[:7]] + [2 * s for s in drifting[7:]]
    assert comparing.compared(samples(ours=1.1, theirs=1.0)).kept == "theirs"
    assert comparing.compared(samples(ours=drifting, theirs=faster)).kept == "theirs"
    assert comparing.compared(samples(ours=1.0, theirs=1.0)).kept == "ours"
    found = comparing.compared(samples(ours=3.0, theirs=2.0, fewer=1.0))
    assert (found.kept, found.seconds, set(found.ratios)) == ("fewer", 1.0, {"ours", "theirs"})
    assert found.ratios["ours"] == (3.0, 3.0, 3.0)
    assert str(replace(found, ratios={"theirs": (2.0, 1.9, 2.1)})) == (
        "fewer: 1 s a call, 2.000x faster than theirs (1.900x to 2.100x)"
    )


def test_forms_take_turns_until_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    now, turns = [0.0], []

    def form(name: str, seconds: float) -> Any:
        def run() -> None:
            now[0] += seconds
            turns.append(name)

        return run

    monkeypatch.setattr(comparing.time, "perf_counter", lambda: now[0])
    slow = {"a": form("a", 0.25), "b": form("b", 0.125)}
    assert comparing.in_turns(slow) == {"a": [0.25] * 8, "b": [0.125] * 8}
    assert turns[4:16:2] == turns[5:16:2] == ["a", "b", "b", "a", "a", "b"]  # the first call of a turn is not timed
    assert comparing.in_turns(slow, budget=7.5) == {"a": [0.25] * 10, "b": [0.125] * 10}
    assert comparing.in_turns(slow, rounds=2) == {"a": [0.25] * 2, "b": [0.125] * 2}
    turns.clear()
    found = comparing.in_turns({"a": form("a", 2.0**-11), "b": form("b", 2.0**-10)})
    assert {n: len(s) for n, s in found.items()} == {"a": comparing.MOST_ROUNDS, "b": comparing.MOST_ROUNDS}
    assert (turns.count("a"), turns.count("b")) == (2 + 4 * 61, 2 + 3 * 61)


def test_a_turn_of_several_threads_begins_when_others_have_stopped_looking_for_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, worked, until = [0.0], [0.0], [0.0]
    beside: list[bool] = []

    def sleep(seconds: float) -> None:
        worked[0] += max(0.0, min(seconds, until[0] - now[0]))  # of the pool's threads
        now[0] += seconds

    def theirs() -> None:
        now[0] += 1e-3
        until[0] = now[0] + 0.035

    def ours() -> None:
        beside.append(now[0] < until[0])
        now[0] += 1e-3

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep, process_time=lambda: worked[0])
    monkeypatch.setattr(comparing, "time", clock)
    forms = {"theirs": theirs, "ours": ours}
    for threads, waits in ((1, False), (2, True)):
        beside.clear()
        comparing.in_turns(forms, rounds=2, fewest=2, sample=1e-9, clock=lambda: now[0], threads=threads)
        assert any(beside[2:]) != waits, "the first two calls are before any turn"


def test_a_turn_ends_when_its_calls_have_ended_on_their_device() -> None:
    now, queued = [0.0], [0]

    def call() -> None:
        queued[0] += 1

    def wait() -> None:
        now[0] += queued[0] * 0.25
        queued[0] = 0

    assert comparing.in_turns({"a": call}, rounds=2, clock=lambda: now[0], wait=wait) == {"a": [0.25] * 2}
