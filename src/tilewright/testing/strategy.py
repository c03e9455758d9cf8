"""The contract of search strategies. Subclass :class:`StrategyContract` and implement ``strategy``."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence

from tilewright.core import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Proposal,
    Schedule,
    TrialRecord,
)
from tilewright.search_space import Choice, Constraint, SearchSpace, Space, UnionSpace
from tilewright.tuner.strategies.base import Strategy

__all__ = ["StrategyContract", "outcome_of", "record", "simulate", "small_space"]


def small_space() -> UnionSpace:
    """A search space of two templates with 1,100 legal schedules, knobs of both halves, and constraints."""
    blocked = SearchSpace(
        "blocked",
        1,
        (
            Choice("rows", (1, 2, 4, 6, 8, 12)),
            Choice("columns", (1, 2, 3, 4)),
            Choice("order", ("ij", "ji"), ordered=False),
            Choice("pack", (False, True)),
            Choice("depth", (16, 32, 64, 128), "launch"),
            Choice("height", (24, 48, 96, 192), "launch"),
        ),
        (
            Constraint(("rows", "columns"), lambda v: v["rows"] * v["columns"] <= 24, "registers"),  # type: ignore[operator]
            Constraint(("depth", "height"), lambda v: v["depth"] * v["height"] <= 8192, "cache"),  # type: ignore[operator]
        ),
    )
    plain = SearchSpace("plain", 1, (Choice("unroll", (1, 2, 4, 8)), Choice("chunk", (64, 256), "launch")))
    return UnionSpace((blocked, plain))


def seconds_of(schedule: Schedule) -> float:
    """A made-up time in seconds with a smooth optimum, interactions and a little roughness."""
    v = schedule.values
    if schedule.template == "plain":
        return 2e-3 / (1 + float(v["unroll"])) + 1e-4
    rows, columns = float(v["rows"]), float(v["columns"])
    time = 1e-4 * (1 + abs(rows * columns - 18) / 6 + 0.3 * (columns - 3) ** 2 / 4)
    time *= 1 + abs(float(v["depth"]) / 64 - 1) * (0.2 if v["pack"] else 0.6)
    time *= 1 + abs(float(v["height"]) / 96 - 1) * 0.1
    time *= 1.15 if v["order"] == "ij" and v["pack"] else 1.0
    rough = int(schedule.key[:6], 16) / 16**6
    return time * (1 + 0.02 * rough)


def outcome_of(schedule: Schedule) -> Outcome:
    """The outcome of a schedule: its made-up time, or a failure in one corner of the space."""
    if schedule.template == "blocked" and schedule.values["rows"] == 12 and schedule.values["depth"] == 128:
        return Failure(FailureKind.CRASH, "made up")
    return Measurement(seconds_of(schedule), 0.01, 5)


def record(number: int, schedule: Schedule, outcome: Outcome | None = None) -> TrialRecord:
    return TrialRecord(number, Proposal(schedule), outcome or outcome_of(schedule))


def simulate(strategy: Strategy, batches: Sequence[int], overlap: bool = True) -> list[TrialRecord]:
    """The trials of a simulated run. ``overlap``: each batch is proposed while the previous batch is measured."""
    history: list[TrialRecord] = []
    pending: list[Schedule] = []
    for n in batches:
        proposals = strategy.suggest(n, history, pending)
        if not overlap:
            pending = [p.schedule for p in proposals]
        history += [record(len(history) + i, s) for i, s in enumerate(pending)]
        pending = [p.schedule for p in proposals] if overlap else []
    return history + [record(len(history) + i, s) for i, s in enumerate(pending)]


class StrategyContract:
    """Tests of a strategy. Subclass as ``class TestMine(StrategyContract)`` in a module, and implement ``strategy``."""

    seeded = True
    """Whether a different seed gives different proposals."""

    def space(self) -> Space:
        return small_space()

    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        raise NotImplementedError("return the strategy under test")

    def history(self, count: int = 40) -> list[TrialRecord]:
        rng = random.Random(9)
        space = self.space()
        drawn = dict.fromkeys(space.sample(rng) for _ in range(4 * count))
        return [record(i, s) for i, s in enumerate(list(drawn)[:count])]

    def trace(self) -> list[str]:
        """Keys of a short run's schedules, for comparison between processes."""
        return [r.schedule.key for r in simulate(self.strategy(self.space(), 3), [8] * 5)]

    # ------------------------------------------------------------------ tests

    def test_proposals_are_legal_new_and_as_many_as_asked(self) -> None:
        space = self.space()
        strategy = self.strategy(space, 0)
        done = self.history()
        for history, pending in (([], []), (done[:5], []), (done[:30], [r.schedule for r in done[30:]])):
            for n in (0, 1, 16):
                proposals = strategy.suggest(n, history, pending)
                proposed = [p.schedule for p in proposals]
                assert len(set(proposed)) == len(proposed) == n
                assert not set(proposed) & ({r.schedule for r in history} | set(pending))
                for p in proposals:
                    space.check(p.schedule)
                    assert p.origin
                    assert p.prediction is None or abs(p.prediction) < float("inf")

    def test_same_inputs_same_proposals(self) -> None:
        done = self.history()
        history, pending = done[:32], [r.schedule for r in done[32:]]
        strategy = self.strategy(self.space(), 5)
        first = strategy.suggest(8, history, pending)
        strategy.suggest(4, done[:10], [])
        strategy.suggest(8, [], pending)
        again = strategy.suggest(8, history, pending)
        fresh = self.strategy(self.space(), 5).suggest(8, history, pending)
        assert first == again == fresh

    def test_inputs_are_left_alone(self) -> None:
        done = self.history(24)
        history, pending = done[:16], [r.schedule for r in done[16:]]
        before = (list(history), list(pending))
        self.strategy(self.space(), 0).suggest(8, history, pending)
        assert (history, pending) == before

    def test_other_processes_agree(self) -> None:
        code = (
            "import importlib, json, sys; m = importlib.import_module(sys.argv[1]); "
            "print(json.dumps(getattr(m, sys.argv[2])().trace()))"
        )
        hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # not this process's own
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, type(self).__module__, type(self).__qualname__]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
        assert json.loads(done.stdout) == self.trace()

    def test_seeds_matter(self) -> None:
        if self.seeded:
            first, second = (self.strategy(self.space(), s).suggest(16, self.history(), []) for s in (1, 2))
            assert {p.schedule for p in first} != {p.schedule for p in second}

    def test_a_run_never_repeats_itself(self) -> None:
        trials = simulate(self.strategy(self.space(), 1), [16, 1, 8, 16, 3, 16])
        assert len({r.schedule for r in trials}) == len(trials) == 60

    def test_an_exhausted_space_gives_fewer(self) -> None:
        space = SearchSpace("tiny", 1, (Choice("a", (1, 2, 3, 4, 5)), Choice("b", (1, 2, 3, 4, 5), "launch")))
        strategy = self.strategy(space, 0)
        trials = [record(i, s, Measurement(1e-3 + 1e-5 * i, 0.0, 3)) for i, s in enumerate(space) if i % 6 != 5]
        pending = [s for i, s in enumerate(space) if i == 5]
        left = {s for i, s in enumerate(space) if i % 6 == 5 and i != 5}
        assert {p.schedule for p in strategy.suggest(16, trials, pending)} == left
        everything = [record(i, s, Measurement(1e-3, 0.0, 3)) for i, s in enumerate(space)]
        assert strategy.suggest(16, everything, []) == []
        assert strategy.suggest(16, [], list(space)) == []

    def test_initial_schedules_come_first_and_once(self) -> None:
        space = self.space()
        rng = random.Random(12)
        wanted = [space.sample(rng) for _ in range(2)]
        strategy = self.strategy(space, 0, initial=(*wanted, wanted[0]))
        proposed = [p.schedule for p in strategy.suggest(8, [], [])]
        assert proposed[:2] == wanted
        assert len(set(proposed)) == 8
        after = strategy.suggest(8, [record(0, wanted[0])], [wanted[1]])
        assert not set(wanted) & {p.schedule for p in after}

    def test_an_initial_schedule_is_not_found_again(self) -> None:
        space = SearchSpace("tiny", 1, (Choice("a", (1, 2, 3, 4, 5)), Choice("b", (1, 2, 3, 4, 5), "launch")))
        everything = list(space)
        for history in ([], [record(i, s, Measurement(1e-3, 0.0, 3)) for i, s in enumerate(everything[1:20])]):
            strategy = self.strategy(space, 0, initial=everything[:1])
            proposed = [p.schedule for p in strategy.suggest(25, history, [])]
            assert proposed[0] == everything[0]
            assert len(set(proposed)) == len(proposed) == 25 - len(history)

    def test_failures_alone_do_not_stop_it(self) -> None:
        failed = [record(i, r.schedule, Failure(FailureKind.COMPILE, "no")) for i, r in enumerate(self.history())]
        assert len(self.strategy(self.space(), 0).suggest(8, failed, [])) == 8

    def test_trials_of_an_older_template_do_not_stop_it(self) -> None:
        old = [
            record(
                i,
                Schedule(r.schedule.template, 0, r.schedule.structure, r.schedule.launch),
                Measurement(1e-9, 0.0, 3),
            )
            for i, r in enumerate(self.history())
        ]
        assert len(self.strategy(self.space(), 0).suggest(8, old, [])) == 8
