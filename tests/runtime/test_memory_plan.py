"""Values that live at the same time lie apart; others share memory."""

from __future__ import annotations

import random

from tilewright.runtime.memory_plan import ALIGN, Lifetime, planned


def test_values_of_one_time_lie_apart() -> None:
    draw = random.Random(0)
    for _ in range(50):
        values = []
        for n in range(20):
            first = draw.randrange(20)
            values.append(Lifetime(f"v{n}", draw.randrange(1, 50_000), first, first + draw.randrange(5)))
        offsets, total = planned(values)
        for v in values:
            assert offsets[v.name] % ALIGN == 0
            assert offsets[v.name] + v.size <= total
            for w in values:
                apart = offsets[v.name] + v.size <= offsets[w.name] or offsets[w.name] + w.size <= offsets[v.name]
                assert v is w or apart or not v.meets(w)


def test_a_chain_needs_two_places() -> None:
    _, total = planned([Lifetime(f"v{n}", ALIGN, n, n + 1) for n in range(10)])
    assert total == 2 * ALIGN


def test_nothing_needs_nothing() -> None:
    assert planned([]) == ({}, 0)
