"""Values that live at the same time lie apart; others share memory."""

from __future__ import annotations

import random

from tilewright.runtime.memory_plan import PAGE, Lifetime, planned


def test_values_of_one_time_lie_apart() -> None:
    draw = random.Random(0)
    for _ in range(50):
        values = []
        for n in range(20):
            first = draw.randrange(20)
            values.append(Lifetime(f"v{n}", draw.randrange(1, 50_000), first, first + draw.randrange(5)))
        align = draw.choice((64, 256))
        offsets, total = planned(values, align)
        for v in values:
            assert offsets[v.name] % align == 0
            assert offsets[v.name] + v.size <= total
            for w in values:
                apart = offsets[v.name] + v.size <= offsets[w.name] or offsets[w.name] + w.size <= offsets[v.name]
                assert v is w or apart or not v.meets(w)


def test_a_chain_needs_two_places() -> None:
    offsets, total = planned([Lifetime(f"v{n}", PAGE, n, n + 1) for n in range(10)])
    assert len(set(offsets.values())) == 2
    assert total < 3 * PAGE


def test_values_of_whole_pages_that_live_together_lie_in_different_sets_of_the_cache() -> None:
    offsets, _ = planned([Lifetime(f"v{n}", 8 * PAGE, 0, 1) for n in range(8)])
    assert len({at % PAGE for at in offsets.values()}) == 8


def test_nothing_needs_nothing() -> None:
    assert planned([]) == ({}, 0)
