"""The shipped strategies against the contract, and what is particular to each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import pytest

from tilewright.core import Failure, FailureKind, Measurement, Schedule, TrialRecord, UsageError
from tilewright.cost_model import FeatureExtractor
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.search_space import Choice, SearchSpace, Space, UnionSpace
from tilewright.testing.cost_model import example_features, example_footprint, example_task
from tilewright.testing.strategy import StrategyContract, record, seconds_of, simulate, small_space
from tilewright.tuner.strategies import STRATEGIES, Strategy, evolutionary, get_strategy
from tilewright.tuner.strategies.evolutionary import (
    PER_STRUCTURE,
    REUSED,
    STRUCTURES,
    EvolutionaryStrategy,
    diverse,
    structure_of,
)
from tilewright.tuner.strategies.grid import GridStrategy
from tilewright.tuner.strategies.random import RandomStrategy, fresh


class TestRandom(StrategyContract):
    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        return RandomStrategy(space, seed=seed, initial=initial)


class TestGrid(StrategyContract):
    seeded = False

    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        return GridStrategy(space, seed=seed, initial=initial)


class TestEvolutionaryWithoutModel(StrategyContract):
    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        return EvolutionaryStrategy(space, seed=seed, initial=initial)


class TestEvolutionary(StrategyContract):
    def strategy(self, space: Space, seed: int, initial: Sequence[Schedule] = ()) -> Strategy:
        return learned(space, seed, initial)


def learned(space: Space, seed: int, initial: Sequence[Schedule] = ()) -> EvolutionaryStrategy:
    task = example_task()
    features = FeatureExtractor(task, space=space, analyse=example_footprint)
    # The shipped model knows nothing of a made-up footprint.
    model = XGBoostCostModel(task, seed=seed, features=features, untrained=True)
    return EvolutionaryStrategy(space, seed=seed, cost_model=model, initial=initial)


def test_grid_walks_the_space_in_order() -> None:
    space = small_space()
    trials = simulate(GridStrategy(space), [50] * 4)
    assert [r.schedule for r in trials] == list(space)[:200]


def test_random_covers_a_small_space_evenly() -> None:
    space = small_space().spaces[1]
    strategies = [RandomStrategy(space, seed=s) for s in range(400)]
    counts = Counter(s.suggest(1, [], [])[0].schedule for s in strategies)
    assert set(counts) == set(space)
    assert max(counts.values()) < 100


def test_a_template_whose_schedules_were_all_tried_has_no_other_ones_schedules_walked() -> None:
    few = SearchSpace("few", 1, (Choice("a", (1, 2)),))
    many = SearchSpace("many", 1, tuple(Choice(f"k{n}", tuple(range(10))) for n in range(12)))
    both = UnionSpace((few, many))  # a walk through all of it takes years
    drawn = fresh(both, random.Random(0), 8, set(few), few.sample)
    assert [s.template for s in drawn] == ["many"] * 8


def test_evolution_draws_more_schedules_of_the_template_whose_trials_are_among_the_fastest() -> None:
    space = small_space()
    history = [record(n, s) for n, s in enumerate(space.sample(random.Random(n)) for n in range(60))]
    fastest = sorted((r for r in history if r.seconds), key=lambda r: r.seconds or 0.0)[:15]
    assert Counter(r.schedule.template for r in fastest) == {"blocked": 12, "plain": 3}
    draw = EvolutionaryStrategy(space, seed=0)._draw(history)
    drawn = Counter(draw(random.Random(n)).template for n in range(200))
    assert drawn["blocked"] > 150


def test_names_lead_to_factories() -> None:
    for name in STRATEGIES:
        if name == "optuna-gp" and find_spec("torch") is None:
            continue  # the one strategy that needs it
        assert get_strategy(name)(small_space(), seed=1).suggest(2, [], [])
    with pytest.raises(UsageError, match=r"unknown strategy 'annealing'.*evolutionary, random, grid"):
        get_strategy("annealing")


def test_evolution_starts_with_the_default_and_tells_where_proposals_come_from() -> None:
    space = small_space()
    default = next(iter(space))
    strategy = learned(space, 0, [default])
    first = strategy.suggest(16, [], [])
    assert first[0].schedule == default
    assert first[0].origin == "default"
    assert all(p.prediction is None for p in first)  # scores on no scale yet
    trials = simulate(strategy, [16, 16, 16])
    later = strategy.suggest(16, trials, [])
    assert all(p.prediction is not None for p in later)
    origins = Counter(p.origin for p in later)
    assert {"mutation", "crossover"} & set(origins)
    assert 1 <= origins["random"] <= 3


@pytest.mark.parametrize("right", [0, 1])
def test_evolution_breeds_from_few_parents(right: int) -> None:
    """From one, near which it looks, and from random schedules where nothing ran."""
    space = small_space()
    drawn = RandomStrategy(space, seed=3).suggest(12, [], [])
    failed = Failure(FailureKind.CRASH, "made up")
    history = [
        record(n, p.schedule, Measurement(1e-3, 0.01, 5) if n < right else failed) for n, p in enumerate(drawn)
    ]  # fmt: skip
    strategy = EvolutionaryStrategy(space, seed=1)
    proposals = strategy.suggest(16, history, [])
    bred = [p.schedule for p in proposals if p.origin in ("mutation", "crossover")]
    assert len(proposals) == 16
    assert len(bred) >= 4
    if right:
        parent = history[0].schedule
        shared = [sum(s.values.get(k) == v for k, v in parent.values.items()) for s in bred]
        assert max(shared) == len(parent.values) - 1
        assert sum(shared) / len(shared) > len(parent.values) / 2


def test_evolution_tries_what_it_has_neglected() -> None:
    space = small_space()
    same = [s for s in space if s.values.get("order") == "ij" and not s.values["pack"]]
    tried = random.Random(5).sample(same, 24)
    history = [record(n, s, Measurement(1e-3 + n * 1e-6, 0.01, 5)) for n, s in enumerate(tried)]
    for seed in range(5):
        proposals = EvolutionaryStrategy(space, seed=seed).suggest(16, history, [])
        blind = [p.schedule.values for p in proposals if p.origin == "random"]
        assert blind
        assert all((v["order"], v["pack"]) == ("ji", True) for v in blind if "order" in v)
    assert any("order" in v for v in blind)


@pytest.mark.parametrize(("gain", "leaves"), [(1e-4, True), (1e-2, False)])
def test_evolution_leaves_its_fastest_where_it_gains_next_to_nothing(gain: float, leaves: bool) -> None:
    drawn = RandomStrategy(small_space(), seed=1).suggest(evolutionary.STALL + 2, [], [])
    history = [record(n, p.schedule, Measurement(1e-3 * (1 - gain) ** n, 0.01, 5)) for n, p in enumerate(drawn)]
    assert evolutionary._stalled(history) == leaves


def test_evolution_spreads_over_structures_and_shares_them() -> None:
    space = small_space()
    trials = simulate(learned(space, 4), [16] * 7)
    batches = [trials[i : i + 16] for i in range(0, len(trials), 16)]
    for batch in batches:
        per = Counter(structure_of(r.schedule) for r in batch)
        assert len(per) >= len(batch) / STRUCTURES
        assert max(per.values()) <= PER_STRUCTURE + 2  # the random share is not counted
    shared = len({structure_of(r.schedule) for r in trials})
    assert len(trials) / STRUCTURES <= shared < len(trials)


def test_diverse_reserves_places_for_new_structures() -> None:
    def make(structure: int, launch: int) -> Schedule:
        return Schedule("t", 1, (("s", structure),), (("l", launch),))

    ranked = [(make(s, i), -float(10 * s + i)) for s in range(10) for i in range(10)]
    old = [make(0, 90 + i) for i in range(20)]
    picked = diverse(ranked, 9, old)
    counts = Counter(structure_of(s) for s, _ in picked)
    # 29 trials need 10 structures and one is known, so all nine are new.
    assert len(picked) == len(counts) == 9
    assert structure_of(make(0, 0)) not in counts
    plenty = diverse(ranked, 9, [make(s, 99) for s in range(10)])
    assert [s for s, _ in plenty[:4]] == [make(0, i) for i in range(4)]
    assert len({structure_of(s) for s, _ in plenty}) == 3
    # Where there is one structure only, places are not left empty.
    assert len(diverse(ranked[:10], 9, old)) == 9


def test_diverse_reserves_places_for_binaries_that_the_run_has() -> None:
    def make(structure: int, launch: int) -> Schedule:
        return Schedule("t", 1, (("s", structure),), (("l", launch),))

    old = [make(0, 0), make(1, 0)]
    ranked = [(make(s, 1), -float(s)) for s in (5, 6, 7, 8, 0, 1, 9)]
    assert [s.values["s"] for s, _ in diverse(ranked, 4, old)] == [5, 6, 7, 8]
    assert [s.values["s"] for s, _ in diverse(ranked, 4, old, reused=2)] == [5, 6, 0, 1]
    assert [s.values["s"] for s, _ in diverse(ranked[:4], 4, old, reused=2)] == [5, 6, 7, 8]  # there are none


def test_evolution_shares_more_binaries_where_building_is_what_takes_long() -> None:
    def structures(build_seconds: float) -> int:
        strategy = EvolutionaryStrategy(small_space(), seed=1)
        history: list[TrialRecord] = []
        for _ in range(16):
            for p in strategy.suggest(4, history, []):
                measured = Measurement(seconds_of(p.schedule), 0.01, 5, verify_seconds=5e-3, measure_seconds=5e-3)
                history.append(TrialRecord(len(history), p, measured, build_seconds))
        return len({structure_of(r.schedule) for r in history})

    assert structures(0.3) <= (1 - REUSED) * 64 + 2  # those of the random share come on top
    assert structures(0.3) < structures(0.1)


def test_evolution_finds_the_optimum_of_a_small_space_where_random_search_does_not() -> None:
    space = small_space()
    order = sorted(s.key for s in space)
    assert len(order) == space.size
    ranked = sorted(seconds_of(s) for s in space if not failing(s))
    places: dict[str, list[int]] = {"evolutionary": [], "random": []}
    for seed in range(5):
        for name, strategy in (("evolutionary", learned(space, seed)), ("random", RandomStrategy(space, seed=seed))):
            trials = simulate(strategy, [16] * 5)
            best = min(r.seconds for r in trials if r.seconds is not None)
            places[name].append(sum(t < best for t in ranked))
    assert sorted(places["evolutionary"])[2] <= 1
    assert sum(places["evolutionary"]) * 3 < sum(places["random"])


def failing(schedule: Schedule) -> bool:
    return record(0, schedule).seconds is None


def test_hundreds_are_screened_and_a_shortlist_is_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    space = small_space()
    asked: dict[str, list[int]] = {"predict": [], "screen": []}
    model = XGBoostCostModel(example_task(), features=example_features(example_task()))
    for name, sizes in asked.items():
        answer = getattr(model, name)

        def counting(
            schedules: Sequence[Schedule], sizes: list[int] = sizes, answer: Callable[..., object] = answer
        ) -> object:
            sizes.append(len(schedules))
            return answer(schedules)

        monkeypatch.setattr(model, name, counting)
    rng = random.Random(0)
    history = [record(i, s) for i, s in enumerate(dict.fromkeys(space.sample(rng) for _ in range(40)))]
    EvolutionaryStrategy(space, cost_model=model).suggest(8, history, [])
    most = 8 * (evolutionary.GENERATIONS * evolutionary.OFFSPRING + evolutionary.IMMIGRANTS)
    assert 8 * evolutionary.IMMIGRANTS < max(asked["screen"]) <= most
    assert sum(asked["predict"]) <= 8 * (evolutionary.SHORTLIST + 1)
