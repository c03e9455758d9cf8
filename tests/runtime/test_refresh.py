"""Kernels that are tuned while a library is open."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random

from harness.waiting import until
from tilewright.core import UsageError
from tilewright.database import Database
from tilewright.runtime import Library
from tilewright.runtime.resolve import Resolver
from tilewright.runtime.watching import EVERY, Watcher

A, B = random(4, 4), random(4, 4, seed=1)
WANT = A.astype(np.float64) @ B


def answers(library: Library) -> int:
    """How many times the product a call gives: kernels that are wrong on purpose tell themselves apart."""
    c = library.matmul(A, B)
    for times in (1, 2):
        if np.allclose(c, times * WANT, rtol=1e-4, atol=1e-5):
            return times
    return 0


def test_a_new_kernel_is_served_after_refresh(maker: Maker, either: str) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path, watch=False)
    plan = library.plan("matmul", m=4, n=4, k=4)
    assert answers(library) == 1
    kept = library.matmul
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    assert answers(library) == 1
    library.refresh()
    assert answers(library) == 2
    np.testing.assert_allclose(kept(A, B), 2 * WANT, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plan(A, B), WANT, rtol=1e-4, atol=1e-5)  # a plan stays what it is
    library.close()
    with pytest.raises(UsageError, match="closed"):
        library.refresh()


def test_a_changed_database_is_noticed_without_a_message(maker: Maker) -> None:
    maker.matmul(3, 5, 7)
    library = Library(maker.path)
    assert answers(library) == 1
    assert library.stats().tiers["fallback"] == 1
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    until(lambda: answers(library) == 2)
    assert EVERY < 0.9


def test_a_file_that_comes_later(maker: Maker, tmp_path: Path) -> None:
    library = Library(tmp_path / "later.db", missing_ok=True)
    assert answers(library) == 1
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    os.rename(maker.path, tmp_path / "later.db")
    until(lambda: answers(library) == 2)


def test_nothing_is_looked_up_anew_while_kernels_stay(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path, watch=False)
    assert answers(library) == 1
    renewed: list[str] = []
    monkeypatch.setattr(library, "refresh", lambda: renewed.append("once"))
    library._look()
    with Database.open(maker.path) as database:
        database.add_miss("matmul", {"m": 1}, "x")
    library._look()
    assert renewed == []
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    library._look()
    library._look()
    assert renewed == ["once"]


def test_the_earlier_name_of_refresh_still_works_and_warns(maker: Maker) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path, watch=False)
    assert answers(library) == 1
    with pytest.warns(DeprecationWarning, match="Library.look is called refresh"):
        look = library.look
    look()
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    look()
    assert answers(library) == 2
    assert "look" not in dir(library)


def test_a_kernel_that_cannot_be_loaded_replaces_nothing(maker: Maker, caplog: pytest.LogCaptureFixture) -> None:
    maker.matmul(4, 4, 4)
    maker.matmul(3, 5, 7)
    library = Library(maker.path, watch=False)
    assert answers(library) == 1
    maker.matmul(4, 4, 4, "tw_t_nothing_of_that_name")
    with caplog.at_level(logging.WARNING, "tilewright.runtime"):
        library.refresh()
    assert "matmul is still answered by its earlier kernels: the kernel of matmul" in caplog.text
    assert answers(library) == 1
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    library.refresh()
    assert answers(library) == 2


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns fifty times as often as else: more happens between two of their steps, and nobody waits long."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(usual / 50)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("many_switches")
def test_every_call_is_answered_by_one_kernel(maker: Maker) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path, watch=False)
    over = threading.Event()
    seen: list[int] = []

    def call() -> None:
        while not over.is_set():
            seen.append(answers(library))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        for name, times in 5 * [("tw_t_mm_twice", 2), ("tw_t_mm", 1)]:
            maker.matmul(4, 4, 4, name)
            library.refresh()
            before = len(seen)
            until(lambda before=before, times=times: times in seen[before:])
    finally:
        over.set()
        for t in threads:
            t.join()
    assert set(seen) == {1, 2}


def test_threads_that_ask_first_at_once_get_one_method(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh renews the method that the library has: another thread's own would answer with the old kernel for ever."""
    maker.matmul(4, 4, 4)
    library = Library(maker.path, watch=False)
    makes, together = Resolver.builtins, threading.Barrier(3)

    def slowly(self: Resolver, op: str) -> Any:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.1)  # for as long as another thread may come here beside this one
        return makes(self, op)

    monkeypatch.setattr(Resolver, "builtins", slowly)
    with ThreadPoolExecutor(3) as pool:
        methods = [f.result() for f in [pool.submit(lambda: library.matmul) for _ in range(3)]]
    assert all(m is library.matmul for m in methods)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_notices_too(maker: Maker) -> None:
    maker.matmul(4, 4, 4)
    library = Library(maker.path)
    assert answers(library) == 1
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.write(write, b"x")
            until(lambda: answers(library) == 2)
            code = 0
        finally:
            os._exit(code)
    os.read(read, 1)
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_watcher_keeps_nothing_alive_and_ends_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.watching.EVERY", 0.01)

    class Counted:
        looks = 0

        def _look(self) -> None:
            self.looks += 1

    watcher, held = Watcher(), [Counted()]
    watcher.add(held[0])
    until(lambda: held[0].looks > 2)
    gone = weakref.ref(held.pop())
    until(lambda: gc.collect() >= 0 and gone() is None)
    until(lambda: watcher._thread is None)
    two = Counted()
    watcher.add(two)
    until(lambda: two.looks > 0)
