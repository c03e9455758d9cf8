from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from handmade import lower

from harness.caches import with_support
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import CpuToolchain
from tilewright.building.builder import NICE, Builder
from tilewright.building.lock import BuildLock
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    IllegalSchedule,
    Schedule,
    Target,
    Task,
    TilewrightError,
    UsageError,
)
from tilewright.kernels.templates.base import LoweredKernel


def candidate(task: Task, name: str, reps: int = 1) -> Candidate:
    return Candidate(task, Schedule("handmade", 1, (("body", name),), (("reps", reps),)))


@pytest.fixture
def fresh(tmp_path: Path, target: Target) -> ArtifactCache:
    return with_support(tmp_path / "cache", target)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many kernels were in each translation unit that was really compiled."""
    units: list[int] = []
    real = CpuToolchain.compile

    def build(self, unit, symbols, deadline):  # type: ignore[no-untyped-def]
        result = real(self, unit, symbols, deadline)
        units.append(0 if result.cached else len(symbols))
        return result

    monkeypatch.setattr(CpuToolchain, "compile", build)
    return units  # type: ignore[return-value]


def test_results_zip_and_a_broken_kernel_fails_alone(target: Target, task: Task, fresh: ArtifactCache) -> None:
    names = ["good", "slow", "broken", "wrong"]
    with Builder(target, cache=fresh, lower=lower) as b:
        built = b.build([candidate(task, n) for n in names])
    assert [isinstance(x, Failure) for x in built] == [False, False, True, False]
    assert isinstance(built[2], Failure)
    assert built[2].kind is FailureKind.COMPILE
    assert "\n" not in built[2].message
    for name, x in zip(names, built, strict=True):
        if isinstance(x, Artifact):
            assert x.program.launches[0].symbol == candidate(task, name).symbol
            assert Path(x.path).exists()
            assert x.build_seconds > 0


def test_structures_share_units_and_candidates_share_structures(
    target: Target, task: Task, fresh: ArtifactCache, compiled: list[int]
) -> None:
    with Builder(target, cache=fresh, lower=lower, batch=2) as b:
        many = [candidate(task, "argument", n) for n in range(5)]
        built = b.build([*many, candidate(task, "good"), candidate(task, "slow")])
        again = b.build([candidate(task, "good"), candidate(task, "argument", 77)])
    assert compiled == [2, 1]
    assert len({x.sha256 for x in built[:6] if isinstance(x, Artifact)}) == 1
    assert [x.cached for x in built if isinstance(x, Artifact)] == [False] + [True] * 4 + [False] * 2
    assert all(isinstance(x, Artifact) and x.cached and x.build_seconds == 0 for x in again)


def test_a_later_run_finds_kernels_whatever_their_companions_were(
    target: Target, task: Task, fresh: ArtifactCache, compiled: list[int]
) -> None:
    with Builder(target, cache=fresh, lower=lower) as b:
        first = b.build([candidate(task, n) for n in ("good", "slow", "wrong")])
    with Builder(target, cache=ArtifactCache(fresh.root), lower=lower) as b:
        second = b.build([candidate(task, n) for n in ("tail", "slow")])
    assert compiled == [3, 1]
    assert isinstance(first[1], Artifact)
    assert isinstance(second[1], Artifact)
    assert second[1].sha256 == first[1].sha256
    assert second[1].cached


def test_a_library_dropped_from_the_cache_is_built_anew(
    target: Target, task: Task, fresh: ArtifactCache, compiled: list[int]
) -> None:
    with Builder(target, cache=fresh, lower=lower) as b:
        (first,) = b.build([candidate(task, "good")])
    assert isinstance(first, Artifact)
    Path(first.path).unlink()
    with Builder(target, cache=fresh, lower=lower) as b:
        (second,) = b.build([candidate(task, "good")])
    assert compiled == [1, 1]
    assert isinstance(second, Artifact)
    assert Path(second.path).exists()
    assert second.sha256 == first.sha256


def test_alone_means_one_kernel_in_the_library(target: Target, task: Task, fresh: ArtifactCache) -> None:
    with Builder(target, cache=fresh, lower=lower) as b:
        shared = b.build([candidate(task, n) for n in ("good", "slow")])
        (single,) = b.build([candidate(task, "good")], alone=True)
        (same,) = b.build([candidate(task, "good")], alone=True)
        (broken,) = b.build([candidate(task, "broken")], alone=True)
    assert isinstance(single, Artifact)
    assert isinstance(shared[0], Artifact)
    assert single.sha256 != shared[0].sha256
    assert candidate(task, "slow").symbol.encode() not in Path(single.path).read_bytes()
    assert isinstance(same, Artifact)
    assert same.sha256 == single.sha256
    assert isinstance(broken, Failure)


def test_an_illegal_schedule_fails_alone(target: Target, task: Task, fresh: ArtifactCache) -> None:
    def picky(c: Candidate) -> LoweredKernel:
        if c.schedule.values["body"] == "slow":
            raise IllegalSchedule("tile is 3, which does not divide 8")
        return lower(c)

    with Builder(target, cache=fresh, lower=picky) as b:
        built = b.build([candidate(task, "slow"), candidate(task, "good")])
    assert isinstance(built[0], Failure)
    assert "does not divide" in built[0].message
    assert isinstance(built[1], Artifact)


def test_a_bug_in_a_template_fails_its_schedule_alone(target: Target, task: Task, fresh: ArtifactCache) -> None:
    def broken(c: Candidate) -> LoweredKernel:
        if c.schedule.values["body"] == "slow":
            raise ZeroDivisionError("division by zero")
        return lower(c)

    with Builder(target, cache=fresh, lower=broken) as b:
        built = b.build([candidate(task, "slow"), candidate(task, "good")])
    assert isinstance(built[0], Failure)
    assert built[0].kind is FailureKind.COMPILE
    template = candidate(task, "slow").schedule.template
    assert built[0].message.startswith(
        f"bug in template {template!r}: ZeroDivisionError: division by zero (test_builder"
    )
    assert isinstance(built[1], Artifact)


def test_a_refusal_of_the_users_task_reaches_the_caller(target: Target, task: Task, fresh: ArtifactCache) -> None:
    def broken(c: Candidate) -> LoweredKernel:
        raise UsageError("no template is called 'x'")

    with Builder(target, cache=fresh, lower=broken) as b, pytest.raises(UsageError):
        b.build([candidate(task, "good")])


def test_a_compiler_that_takes_too_long(target: Target, task: Task, fresh: ArtifactCache) -> None:
    with Builder(target, cache=fresh, lower=lower, deadline=1e-4) as b:
        (built,) = b.build([candidate(task, "good")])
    assert isinstance(built, Failure)
    assert built.kind is FailureKind.COMPILE
    assert "more than" in built.message


def test_nothing_to_build(target: Target, fresh: ArtifactCache) -> None:
    with Builder(target, cache=fresh, lower=lower) as b:
        assert b.build([]) == []


def test_spare_cores_build_only_while_nothing_is_measured(target: Target, task: Task, fresh: ArtifactCache) -> None:
    lock, spare = BuildLock(), sorted(os.sched_getaffinity(0))[:1]
    with Builder(target, cache=fresh, lower=lower, workers=0, spare=spare, lock=lock) as b:
        with lock.measuring(), lock.wanted():
            future = b.submit([candidate(task, "good")])
            with pytest.raises(TimeoutError):
                future.result(timeout=0.3)
        with pytest.raises(TimeoutError):  # nobody waits for it
            future.result(timeout=0.3)
        assert isinstance(b.wait(future)[0], Artifact)


def test_spare_cores_leave_when_the_builder_is_closed(target: Target, task: Task, fresh: ArtifactCache) -> None:
    spare = sorted(os.sched_getaffinity(0))[:1]
    with Builder(target, cache=fresh, lower=lower, workers=0, spare=spare) as b:
        future = b.submit([candidate(task, "good")])
    with pytest.raises(TilewrightError, match="closed"):
        future.result(timeout=0)


def test_a_batch_is_spread_over_all_builders(target: Target, task: Task, fresh: ArtifactCache) -> None:
    both = threading.Barrier(2, timeout=60)

    def together(c: Candidate) -> LoweredKernel:
        both.wait()
        return lower(c)

    spare = sorted(os.sched_getaffinity(0))[:1]
    with Builder(target, cache=fresh, lower=together, spare=spare) as b:
        built = b.build([candidate(task, "good"), candidate(task, "slow")])
    assert all(isinstance(x, Artifact) for x in built)


def test_closing_fails_what_has_not_started(target: Target, task: Task, fresh: ArtifactCache) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(c: Candidate) -> LoweredKernel:
        entered.set()
        release.wait(20)
        return lower(c)

    b = Builder(target, cache=fresh, lower=slow, batch=1)
    futures = [b.submit([candidate(task, n)]) for n in ("good", "slow")]
    entered.wait(20)
    closing = threading.Thread(target=b.close)
    closing.start()
    with pytest.raises(TilewrightError, match="closed"):
        futures[1].result(timeout=20)
    release.set()
    assert isinstance(futures[0].result(timeout=60)[0], Artifact)
    closing.join(20)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_builds_are_polite(target: Target, task: Task, fresh: ArtifactCache) -> None:
    core = max(os.sched_getaffinity(0))
    seen: list[tuple[set[int], int]] = []

    def spy(c: Candidate) -> LoweredKernel:
        seen.append((os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
        return lower(c)

    before = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    with Builder(target, cache=fresh, lower=spy, cores=[core]) as b:
        b.build([candidate(task, "good")])
    assert seen[0][0] == {core}
    assert seen[0][1] == NICE > 0
    assert (os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)) == before
