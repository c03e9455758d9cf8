"""Cutting a range in intervals: no cut loses less."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import Extent
from tilewright.tuner.portfolio import SampleSizes, portfolio


@st.composite
def timed(draw: st.DrawFn) -> list[dict[int, float]]:
    sizes = sorted(draw(st.sets(st.integers(1, 200), min_size=2, max_size=5)))
    times = st.fixed_dictionaries({n: st.integers(10, 40).map(float) for n in sizes})
    return draw(st.lists(times, min_size=1, max_size=4))


def objective(times: list[dict[int, float]], serves: dict[int, int]) -> float:
    regrets = [times[k][n] / min(t[n] for t in times) - 1 for n, k in serves.items()]
    return max(regrets) + sum(regrets) / len(regrets)


@given(timed(), st.integers(1, 4))
def test_no_cut_loses_less(times: list[dict[int, float]], most: int) -> None:
    found = portfolio(times, most)
    sizes = sorted(times[0])
    assert (found[0].low, found[-1].high) == (sizes[0], sizes[-1])
    assert all(a.high + 1 == b.low for a, b in itertools.pairwise(found))
    assert len(found) <= most
    serves = {n: next(i.kernel for i in found if i.low <= n <= i.high) for n in sizes}
    best = min(
        objective(times, dict(zip(sizes, chosen, strict=True)))
        for chosen in itertools.product(range(len(times)), repeat=len(sizes))
        if 1 + sum(a != b for a, b in itertools.pairwise(chosen)) <= most
    )
    assert objective(times, serves) <= best + 1e-9


def test_what_is_asked_for_often_counts_more() -> None:
    times = [{1: 1.0, 10: 1.0, 100: 1.2}, {1: 1.2, 10: 1.2, 100: 1.0}]
    assert portfolio(times, 1)[0].kernel == 0
    assert portfolio(times, 1, {1: 1, 10: 1, 100: 50})[0].kernel == 1


def test_an_interval_says_what_it_loses() -> None:
    (only,) = portfolio([{1: 1.0, 10: 3.0}, {1: 2.0, 10: 2.0}], 1)
    assert (only.low, only.high, only.kernel, only.worst, only.mean) == (1, 10, 0, 0.5, 0.25)


def test_sizes_that_are_searched_and_compared() -> None:
    places = SampleSizes({"m": Extent(4096, 1, "m")})
    assert list(places.searched) == [1, 4, 16, 64, 256, 1024, 4096]
    assert places.searched[64] == {"m": 64}
    assert set(places.searched) < set(places.samples)
    assert sum(n % 2 for n in places.samples) > len(places.samples) // 2
    assert list(SampleSizes({"m": Extent(6, 5, "m")}).searched) == [5, 6]


def test_sizes_of_two_ranges_grow_together_and_each_alone() -> None:
    places = SampleSizes({"m": Extent(64, 1, "m"), "n": Extent(32, 2, "n")})
    assert list(places.searched.values()) == [{"m": 2, "n": 3}, {"m": 8, "n": 8}, {"m": 32, "n": 20}]  # middles
    assert list(places.fewest.values()) == [*places.searched.values(), {"m": 64, "n": 32}]
    assert list(places.samples.values())[-2:] == [{"m": 64, "n": 2}, {"m": 1, "n": 32}]
    assert places.spans(0, len(places.samples) - 1) == {"m": (1, 64), "n": (2, 32)}
    assert places.label(0) == "m=1 n=2"
