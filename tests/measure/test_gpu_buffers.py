"""Memory on a device, through the emulator's driver: guard zones, arenas of operands, and what the stopwatch does."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.backends.driver import OutOfMemory
from tilewright.backends.emulator import driver
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver
from tilewright.measure import gpu_buffers
from tilewright.measure.gpu_buffers import ALIGN, GUARD, CheckArena, KeptArrays, TimingArena
from tilewright.measure.gpu_timing import Plan, Stopwatch


@pytest.fixture
def context() -> Iterator[EmulatorContext]:
    c = EmulatorDriver().open(0)
    yield c
    assert not c.memory_table()  # nothing is left behind


def read(context: EmulatorContext, address: int, size: int) -> np.ndarray:
    out = np.empty(size, np.uint8)
    context.download(address, out)
    return out


def test_buffers_have_guard_zones_and_the_alignment_asked_for(context: EmulatorContext) -> None:
    arena = CheckArena(context)
    regions = arena.place([100, 4096, 12], [0, 4, 252], inputs=2)
    assert [r.address % ALIGN for r in regions] == [0, 4, 252]
    for r, after in zip(regions, [*regions[1:], None], strict=True):
        assert r.address - r.start >= GUARD
        assert r.end - r.address - r.size >= GUARD
        assert after is None or after.start >= r.end
        assert not arena.trespassed(r)
    # Around inputs a stray read gives NaN.
    assert np.isnan(read(context, regions[0].address - 4, 4).view(np.float32)[0])
    arena.close()


@pytest.mark.parametrize("where", ["before", "after", "far before", "far after"])
def test_a_write_outside_shows(context: EmulatorContext, where: str) -> None:
    arena = CheckArena(context)
    inner, other = arena.place([64, 64], [0, 8], inputs=1)
    for r in (inner, other):
        at = {
            "before": r.address - 1, "after": r.address + r.size, "far before": r.start, "far after": r.end - 1,
        }[where]  # fmt: skip
        context.fill(at, 0, 1)
        assert arena.trespassed(r)
    context.fill(inner.address, 0, inner.size)
    arena.place([64], [0], inputs=0)
    arena.close()


def test_places_change_from_call_to_call(context: EmulatorContext) -> None:
    arena = CheckArena(context)
    first = [arena.place([1000], [16], 1)[0].address for _ in range(5)]
    assert len(set(first)) == 5
    big = arena.place([1 << 20], [0], 1)[0]  # it grows
    assert not arena.trespassed(big)
    arena.close()


def test_arrays_are_kept_under_their_names_where_there_is_room(context: EmulatorContext) -> None:
    sets = {n: [np.full(size, value, np.uint8) for size in (300, 7, 0)] for n, value in (("a", 3), ("b", 5), ("c", 9))}
    kept = KeptArrays(context, 2 * 768)  # of 300 and 7 bytes, each rounded up
    held = {name: kept.keep(name, values) for name, values in sets.items()}
    assert held["c"] is None
    assert kept.get("c") is None
    for name in "ab":
        found = kept.get(name)
        assert found is not None
        assert found is held[name]
        assert (found.base % 8, found.size % 8) == (0, 0)
        for at, data in zip(found.addresses, sets[name], strict=True):
            assert at % ALIGN == 0
            assert (read(context, at, len(data)) == data).all()
    kept.close()
    assert kept.get("a") is None
    assert kept.keep("c", sets["c"]) is not None
    kept.close()


@pytest.mark.parametrize("block", [1 << 20, 256])
def test_every_set_and_place_holds_the_tensors_values(
    context: EmulatorContext, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """A place need not begin where the tensor does: its values come in the tensor's order, around and around."""
    monkeypatch.setattr(gpu_buffers, "BLOCK", block)
    a = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)
    b = np.arange(96, dtype=np.uint8)
    arena = TimingArena(context, [a, b], [40], 7)
    seen = set()
    for number in range(9):
        for place in (0, 1, 60):
            pointers = arena.tensors(number, place)
            seen.add(pointers[0])
            assert all(p % ALIGN == 0 for p in pointers)
            for pointer, values in zip(pointers, (a, b), strict=False):
                got = read(context, pointer, len(values))
                offset = (pointer - arena.tensors(0)[0 if values is a else 1]) % len(values)
                assert (got == np.roll(values, -offset)).all()
            assert np.isnan(read(context, pointers[2], 40).view(np.float32)).all()
    assert len(seen) == 7 * 3  # seven sets, three places; sets eight and nine are one and two again
    arena.close()


def test_an_arena_that_does_not_fit_leaves_nothing_behind(context: EmulatorContext) -> None:
    with pytest.raises(OutOfMemory):
        TimingArena(context, [np.zeros(100, np.uint8)], [1 << 50], 4)


def test_kernels_take_turns_and_each_is_called_so_often_a_sample(context: EmulatorContext) -> None:
    calls: list[tuple[str, int]] = []
    watch = Stopwatch(context)
    times = watch.interleaved(
        [lambda n: calls.append(("a", n)), lambda n: calls.append(("b", n))], [Plan(3, 2), Plan(3, 1)], 3
    )
    assert [len(t) for t in times] == [3, 3]
    one = [("a", 2), ("b", 1), ("b", 1), ("a", 2), ("a", 2), ("b", 1)]
    # The host may be taken for late, and the samples taken again; never in part.
    assert calls == one * (len(calls) // len(one))
    assert all(x >= 0 for t in times for x in t)


def test_more_launches_than_a_queue_holds(context: EmulatorContext) -> None:
    calls: list[int] = []
    times = Stopwatch(context).samples(calls.append, Plan(30, 100))
    assert len(times) == 30
    assert calls == [100] * len(calls)
    assert len(calls) >= 30


def test_a_sample_is_the_time_of_one_launch(context: EmulatorContext, monkeypatch: pytest.MonkeyPatch) -> None:
    now, taken = [0.0], iter([5e-3, 15e-3])  # the device's clock, and what the launches of each sample take
    monkeypatch.setattr(driver, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def launch(count: int) -> None:
        assert count == 5
        now[0] += next(taken)

    assert Stopwatch(context).samples(launch, Plan(2, 5)) == pytest.approx([1e-3, 3e-3])
