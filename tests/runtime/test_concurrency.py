"""Threads, forks, and the end of the interpreter."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Maker, random, wait

from tilewright.backends import cores
from tilewright.runtime import Library

pytestmark = pytest.mark.filterwarnings("ignore::tilewright.MissedKernelWarning")  # test_missed.py

THREADS = 16


def together(work: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """``work(i)`` in ``count`` threads that start at once; the first error is raised."""
    gate = threading.Barrier(count)

    def one(i: int) -> Any:
        gate.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.fixture
def pooled(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Kernels for two threads, also where there is one core; 16x8x4 releases the GIL."""
    maker.matmul(4, 4, 4, "tw_t_mm_pool", threads=2)
    maker.matmul(16, 8, 4, "tw_t_mm_pool", threads=2, seconds=1e-3)
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    return Library(maker.path)


def test_many_threads_call_one_plan(library: Library) -> None:
    """The kernel sleeps with its data in the workspace: two calls sharing one would mix them up."""
    plan = library.plan("scale", n=64)
    x = [random(64, seed=i) for i in range(THREADS)]
    factor = [np.array(i + 1, np.float32) for i in range(THREADS)]

    def work(i: int) -> None:
        for _ in range(20):
            np.testing.assert_allclose(plan(x[i], factor[i]), x[i] * (i + 1), rtol=1e-6)

    together(work)
    assert library.stats().tiers["exact"] == THREADS * 20


def test_long_kernels_let_other_threads_run(maker: Maker) -> None:
    maker.add(wait.workload(n=2), "tw_t_wait", seconds=1e-3)
    library = Library(maker.path)
    x, out = np.zeros(2, np.float32), np.zeros(1, np.float32)
    caller = threading.Thread(target=lambda: library.wait(x, out=out))
    caller.start()
    x[0] = 5
    caller.join()
    assert out[0] == 5


def test_many_threads_meet_new_shapes(library: Library) -> None:
    arrays = {(m, k, n): (random(m, k), random(k, n)) for m in (3, 4) for k in (4, 7) for n in (4, 5)}

    def work(i: int) -> None:
        shapes = list(arrays)
        for step in range(60):
            a, b = arrays[shapes[(i + step) % len(shapes)]]
            np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(library.matmul(a[::-1], b), a[::-1] @ b, rtol=1e-4, atol=1e-5)

    together(work)
    stats = library.stats()
    assert stats.calls == THREADS * 120
    assert sum(stats.reasons.values()) == stats.tiers["fallback"]


def test_many_threads_make_plans(library: Library) -> None:
    plans = together(lambda i: library.plan("matmul", m=3, n=5, k=7))
    assert len({id(p) for p in plans}) == 1


def test_counts_from_many_threads_are_exact(library: Library) -> None:
    a, b = random(4, 4), random(4, 4)
    plan = library.plan("matmul", m=4, n=4, k=4)

    def work(i: int) -> None:
        for _ in range(500):
            plan(a, b)
            library.matmul(a, b)
            library.matmul(a.T, b)

    together(work)
    stats = library.stats()
    assert stats.tiers["exact"] == THREADS * 1000
    assert stats.reasons == {"strides": THREADS * 500}


def test_arrays_dropped_by_another_thread_stay_until_the_end(library: Library) -> None:
    plan = library.plan("scale", n=64)
    two = np.array(2, np.float32)
    held: list[Any] = [None]

    def work() -> None:
        for i in range(50):
            x = random(64, seed=i)
            held[0] = x
            want = x * 2
            caller = threading.Thread(target=lambda x=x, want=want: np.testing.assert_allclose(plan(x, two), want))
            del x
            caller.start()
            held[0] = None
            gc.collect(0)
            caller.join()

    work()


def test_pool_kernels_from_many_threads(pooled: Library) -> None:
    plans = [pooled.plan("matmul", m=4, n=4, k=4), pooled.plan("matmul", m=16, n=8, k=4)]
    data = [(random(4, 4), random(4, 4)), (random(16, 4), random(4, 8))]

    def work(i: int) -> None:
        for step in range(100):
            (a, b), plan = data[(i + step) % 2], plans[(i + step) % 2]
            np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-4, atol=1e-5)

    together(work)


def run_child(work: Callable[[], None], seconds: float = 120) -> int:
    """Exit code of ``work`` in a forked child, which is killed after ``seconds``."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as e:
            os.write(2, f"{type(e).__name__}: {e}\n".encode())
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    pytest.fail("the child hung")


def test_a_library_serves_workers_forked_from_a_parent_with_threads(pooled: Library) -> None:
    """Workers forked from a parent that has used its threads already."""
    plan = pooled.plan("matmul", m=16, n=8, k=4)
    a, b = random(16, 4), random(4, 8)
    want = a @ b

    def serve() -> None:
        for _ in range(50):
            np.testing.assert_allclose(plan(a, b), want, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(pooled.matmul(a, b), want, rtol=1e-4, atol=1e-5)
        small = random(4, 4)  # first looked up in the child
        np.testing.assert_allclose(pooled.matmul(small, small), small @ small, rtol=1e-4, atol=1e-5)
        together(lambda i: np.testing.assert_allclose(plan(a, b), want, rtol=1e-4, atol=1e-5))

    np.testing.assert_allclose(plan(a, b), want, rtol=1e-4, atol=1e-5)
    assert [run_child(serve) for _ in range(4)] == [0] * 4
    serve()  # the parent's own threads are none the worse


def test_a_child_forks_again(pooled: Library) -> None:
    plan = pooled.plan("matmul", m=16, n=8, k=4)
    a, b = random(16, 4), random(4, 8)

    def check() -> None:
        np.testing.assert_allclose(plan(a, b), a @ b, rtol=1e-4, atol=1e-5)

    def child() -> None:
        check()
        assert run_child(check) == 0
        check()

    check()
    assert run_child(child) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_other_threads_are_at_work(pooled: Library) -> None:
    """Whatever another thread holds at that moment, the child must not wait for it."""
    a, b = random(16, 4), random(4, 8)
    stop = threading.Event()

    def busy(i: int) -> None:
        while not stop.is_set():
            pooled.matmul(a, b)
            pooled.matmul(a[::-1], b)
            pooled.plan("matmul", m=16, n=8, k=4)
            Library(pooled.path).plan("matmul", m=4, n=4, k=4)

    def child() -> None:
        for _ in range(5):
            np.testing.assert_allclose(pooled.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(pooled.matmul(a[::-1], b), a[::-1] @ b, rtol=1e-4, atol=1e-5)
            pooled.plan("matmul", m=4, n=4, k=4)
        Library(pooled.path).matmul(a, b)
        pooled.stats()

    pooled.matmul(a, b)
    workers = [threading.Thread(target=busy, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    try:
        assert [run_child(child) for _ in range(8)] == [0] * 8
    finally:
        stop.set()
        for w in workers:
            w.join()


AT_EXIT = """
import atexit, sys, threading
import numpy as np
import tilewright
from tilewright.backends import cores
cores.available_cores = lambda: 2
library = tilewright.Library(sys.argv[1])
a, b = np.ones((16, 4), "f"), np.ones((4, 8), "f")
plan = library.plan("matmul", m=16, n=8, k=4)

class Last:
    def __del__(self, plan=plan, a=a, b=b):
        assert (plan(a, b) == 4).all()
        print("del", flush=True)

last = Last()
sys.last = last
atexit.register(lambda: print("atexit", (plan(a, b) == 4).all(), flush=True))
plan(a, b)
if sys.argv[2] == "daemon":
    def forever():
        while True:
            plan(a, b)
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
if sys.argv[2] == "closed":
    library.close()
    del library
"""


@pytest.mark.parametrize("how", ["plain", "daemon", "closed"])
def test_an_interpreter_ends_while_threads_call(pooled: Library, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_EXIT, pooled.path, how],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "atexit True" in done.stdout


def test_two_libraries_share_one_pool(pooled: Library, filled_database: Path) -> None:
    other = Library(filled_database)
    a, b = random(16, 4), random(4, 8)
    x, y = random(4, 5), random(3, 5)

    def work(i: int) -> None:
        for _ in range(30):
            np.testing.assert_allclose(pooled.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(other.sqdist(x, y), ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-4)

    together(work)
    assert (pooled.stats().calls, other.stats().calls) == (THREADS * 30, THREADS * 30)
