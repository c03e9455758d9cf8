"""Optuna's samplers against the contract, and what is particular to each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright.core import Failure, FailureKind, Measurement, Schedule, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.search_space import Choice, Constraint, SearchSpace, Space
from tilewright.testing.strategy import StrategyContract, outcome_of, record, seconds_of, simulate, small_space
from tilewright.tuner.strategies import STRATEGIES, Strategy, get_strategy, optuna_samplers
from tilewright.tuner.strategies.optuna_space import KnobSpace

optuna = pytest.importorskip("optuna")

CHEAP = ("optuna-tpe", "optuna-cmaes", "optuna-qmc", "optuna-random")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the Gaussian process needs torch")


class TestTPE(StrategyContract):
    name = "optuna-tpe"

    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        return get_strategy(self.name)(space, seed=seed, initial=initial)


class TestCMAES(TestTPE):
    name = "optuna-cmaes"


class TestQMC(TestTPE):
    name = "optuna-qmc"


class TestRandomSampler(TestTPE):
    name = "optuna-random"


@needs_torch
@pytest.mark.nightly
class TestGP(TestTPE):
    name = "optuna-gp"
    seeded = False  # it proposes the best by its model, which has no chance in it


@needs_torch
def test_the_gaussian_process_proposes_and_leaves_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for limit in ("GP_FASTEST", "GP_LATEST"):  # so that what it sees is a selection
        monkeypatch.setattr(optuna_samplers, limit, 8)
    threads = torch.get_num_threads()
    space = SearchSpace("line", 1, (Choice("a", tuple(range(40))), Choice("b", (1, 2, 3))))
    drawn = random.Random(0).sample(list(space), 20)
    history = [record(i, s, Measurement(1e-3 * (1 + (float(s.values["a"]) - 30) ** 2), 0.0, 3)) for i, s in enumerate(drawn)]  # fmt: skip
    strategy = get_strategy("optuna-gp")(space, seed=1)
    proposals = strategy.suggest(3, history[:-1], [drawn[-1]])
    assert {p.origin for p in proposals} == {"optuna-gp"}
    assert all(25 <= float(p.schedule.values["a"]) <= 35 for p in proposals[:1])
    assert not {p.schedule for p in proposals} & set(drawn)
    assert proposals == strategy.suggest(3, history[:-1], [drawn[-1]])
    assert torch.get_num_threads() == threads


@cache
def places(which: str) -> int:
    """The sum over three runs of how many schedules are faster than the best that was found."""
    space = small_space()
    ranked = sorted(seconds_of(s) for s in space)
    found = 0
    for seed in range(3):
        trials = simulate(get_strategy(which)(space, seed=seed), [8] * 10)
        best = min(r.seconds for r in trials if r.seconds is not None)
        found += sum(t < best for t in ranked)
    return found


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-cmaes"])
def test_what_learns_finds_faster_schedules_than_what_does_not(name: str) -> None:
    assert places(name) * 3 < places("optuna-random") * 2


@pytest.mark.parametrize("name", CHEAP)
def test_spaces_of_one_choice_and_of_none(name: str) -> None:
    for choice, wanted in (
        (Choice("a", tuple(range(50))), 40),
        (Choice("a", ("x", "y", "z"), ordered=False), 3),
        (Choice("a", (7,)), 1),
    ):
        strategy = get_strategy(name)(SearchSpace("line", 1, (choice,)))
        trials: list[TrialRecord] = []
        for _ in range(5):
            trials += [
                record(len(trials) + i, p.schedule, Measurement(1e-3 * (1 + i), 0.0, 3))
                for i, p in enumerate(strategy.suggest(8, trials, []))
            ]
        assert len({r.schedule for r in trials}) == len(trials) == wanted


@pytest.mark.parametrize("name", ["optuna-tpe", "optuna-cmaes"])
def test_where_everything_fails_is_left(name: str) -> None:
    space = SearchSpace("plane", 1, (Choice("a", tuple(range(30))), Choice("b", tuple(range(30)))))
    strategy = get_strategy(name)(space, seed=2)
    trials: list[TrialRecord] = []
    for _ in range(10):
        for p in strategy.suggest(6, trials, []):
            failure = Failure(FailureKind.CRASH, "no") if float(p.schedule.values["a"]) > 12 else None
            trials.append(record(len(trials), p.schedule, failure or Measurement(1e-3, 0.0, 3)))
    assert sum(r.seconds is not None for r in trials[30:]) >= 24  # of 30; at random it would be 13


def test_the_better_template_is_tried_more() -> None:
    spaces = small_space()
    trials = simulate(get_strategy("optuna-tpe")(spaces, seed=0), [8] * 8)
    # "plain" is half of what is drawn at random, never fast, and has 8 schedules.
    assert sum(r.schedule.template == "blocked" for r in trials[16:]) > 40


def test_a_quasi_random_sequence_goes_on_from_call_to_call() -> None:
    space = SearchSpace("plane", 1, (Choice("a", tuple(range(100))), Choice("b", tuple("abcdefgh"))))
    strategy = get_strategy("optuna-qmc")(space, seed=-5)
    once = [p.schedule for p in strategy.suggest(16, [], [])]
    first = [p.schedule for p in strategy.suggest(8, [], [])]
    rest = strategy.suggest(8, [record(i, s, Measurement(1e-3, 0.0, 3)) for i, s in enumerate(first[:4])], first[4:])
    assert [*first, *(p.schedule for p in rest)] == once
    assert len({float(s.values["a"]) // 25 for s in once[:4]}) == 4  # evenly, as four random ones rarely are


def test_proposals_are_moved_to_the_nearest_legal_schedule() -> None:
    space = SearchSpace(
        "linked",
        1,
        (Choice("a", (1, 2, 4, 8)), Choice("b", (1, 2, 4, 8)), Choice("c", ("x", "y"), ordered=False), Choice("d", (5,))),
        (
            Constraint(("a", "b"), lambda v: v["a"] * v["b"] <= 8, "small"),  # type: ignore[operator]
            Constraint(("a", "c"), lambda v: v["a"] < 8 or v["c"] == "x", "wide ones are x"),  # type: ignore[operator]
        ),
    )  # fmt: skip
    knobs = KnobSpace(space)
    rng = random.Random(0)
    for schedule in space:
        point = knobs.point(schedule)
        assert point is not None
        assert "d" not in point
        assert knobs.nearest(rng, point) == schedule
    assert knobs.nearest(rng, {"a": 2, "b": 3, "c": 1}).values == {"a": 4, "b": 2, "c": "y", "d": 5}
    assert knobs.nearest(rng, {"a": 3, "b": 0, "c": 1}).values == {"a": 8, "b": 1, "c": "x", "d": 5}
    assert knobs.point(Schedule("linked", 0, ())) is None


def test_knobs_are_positions_and_only_where_there_is_a_choice() -> None:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    knobs = KnobSpace(
        SearchSpace("mixed", 1, (Choice("a", (16, 4, 8)), Choice("b", ("x", "y"), ordered=False), Choice("c", (5,))))
    )
    assert knobs.distributions == {"a": IntDistribution(0, 2), "b": CategoricalDistribution((0, 1))}
    assert knobs.point(knobs.space.schedule({"a": 8, "b": "y", "c": 5})) == {"a": 2, "b": 1}


def test_optuna_is_silent_and_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    level = optuna.logging.get_verbosity()
    done = [record(i, s, outcome_of(s)) for i, s in enumerate(list(small_space())[:30])]
    for name in CHEAP:
        get_strategy(name)(small_space()).suggest(4, done, [])
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == level


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_samplers, "find_spec", lambda name: None if name in ("torch", "cmaes") else name)
    for name in ("optuna-tpe", "optuna-qmc", "optuna-random"):
        get_strategy(name)(small_space())
    with pytest.raises(UsageError, match=r"'optuna-cmaes' needs cmaes.*'tilewright\[optuna\]'"):
        get_strategy("optuna-cmaes")(small_space())
    with pytest.raises(UsageError, match=r"'optuna-gp' needs torch.*'tilewright\[optuna\]' torch"):
        get_strategy("optuna-gp")(small_space())
    assert {n for n in STRATEGIES if n.startswith("optuna-")} == {*CHEAP, "optuna-gp"}


def test_a_strategy_without_its_packages_begins_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, db = {"m": 8, "n": 8, "k": 8}, tmp_path / "t.db"
    run = tilewright.tune("matmul", **sizes, trials=1, strategy="optuna-random", cost_model="random", db=db).run
    monkeypatch.setattr(optuna_samplers, "find_spec", lambda name: None)
    again: tuple[dict[str, Any], ...] = ({"strategy": "optuna-gp"}, {"resume": run, "trials": 2})
    for more in again:
        with pytest.raises(UsageError, match="pip install"):
            tilewright.tune("matmul", **sizes, db=db, **more)
    with Database.open(db) as database:
        assert [(r.id, r.state) for r in database.runs()] == [(run, "done")]
