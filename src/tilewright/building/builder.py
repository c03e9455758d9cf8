"""Candidates into artifacts: lower, put several kernels into a translation unit, compile.

The work is the compiler's, a process of its own, so threads are enough here. Those threads, and the compilers that they
start, run at low priority and on the given cores. What compiles is a
:class:`~tilewright.backends.toolchain.Toolchain`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Union

from tilewright.backends import backend_for
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.toolchain import DEADLINE, CompileError, Toolchain
from tilewright.building.lock import BuildLock
from tilewright.closing import Closing
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    IllegalSchedule,
    Pairs,
    Target,
    TilewrightError,
    digest,
)
from tilewright.kernels import templates
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.serialization import Json

Built = Union[Artifact, Failure]
Lower = Callable[[Candidate], LoweredKernel]
NICE = 10


@dataclass
class GateCounts(Json):
    """What the static gate saw and saved: kernels by the reason for which they were refused.

    ``seen`` kernels reached it; ``before`` were refused by their launches, ``after`` by what the compiler
    said; ``compiled`` were given to the compiler or found in its cache. ``gate_seconds`` and
    ``compile_seconds`` are summed over the workers.
    """

    seen: int = 0
    compiled: int = 0
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    gate_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def refused(self) -> int:
        return sum(self.before.values()) + sum(self.after.values())


@dataclass(frozen=True)
class _Unit:
    """One structure to be compiled, and the promise of its artifact."""

    candidate: Candidate
    promise: Future[Built]


@dataclass(frozen=True)
class _Job:
    """Structures to be compiled together. ``shared``: with others, now and later."""

    units: list[_Unit]
    shared: bool


class Builder(Closing):
    """Compiles candidates for one target. Use it as a context manager.

    ``workers`` compilers run at once, each on up to ``batch`` structures (by default as many as suit the
    compiler); ``cores`` pins them (all allowed cores by default). On each of the ``spare`` cores runs one more, but
    only while :meth:`wait` does, and ``lock`` says that nothing is measured there.
    ``lower`` prints a candidate's kernel; by default its template does. ``toolchain`` compiles; by
    default the one of the target, or with ``emulated`` the one whose code runs under the emulator.
    ``fetch`` brings an artifact's code, by its hash, to its path on this machine, where a compiler leaves it elsewhere.
    Kernels for a GPU pass the static gate first: one that cannot run there is a failure of kind
    ``RESOURCES`` and never compiled (:meth:`gate_counts`). ``lanes``: compilers that may run at once.
    """

    def __init__(
        self,
        target: Target,
        *,
        cache: ArtifactCache | None = None,
        workers: int = 1,
        batch: int | None = None,
        cores: Sequence[int] | None = None,
        deadline: float = DEADLINE,
        spare: Sequence[int] = (),
        lock: BuildLock | None = None,
        lower: Lower | None = None,
        toolchain: Toolchain | None = None,
        emulated: bool = False,
        fetch: Callable[[str], None] | None = None,
    ) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.backend = backend_for(target, emulated)
        self.toolchain = toolchain or self.backend.toolchain(target, self.cache)
        self.batch = batch or self.toolchain.batch
        self.deadline = deadline
        self._fetch = fetch
        self._prelude = prelude(target, self.toolchain.emulated)
        self._counts = GateCounts()
        self._lower = lower or templates.lower
        self._known: dict[str, Future[Built]] = {}
        self._lock = threading.Lock()
        self._building = lock or BuildLock()
        self._jobs: deque[_Job] = deque()
        # Each job is announced to both kinds of workers; who comes late finds it gone.
        self._workers = ThreadPoolExecutor(workers, "build", lambda: _settle(cores)) if workers else None
        self._spare = ThreadPoolExecutor(len(spare), "build", lambda: _settle(spare)) if spare else None
        self.lanes = workers + len(spare)

    # ------------------------------------------------------------------ the interface

    def submit(self, candidates: Sequence[Candidate], alone: bool = False) -> Future[list[Built]]:
        """Start building; the result has an artifact or a failure for each candidate, in order.

        Candidates of one structure share a library, now and later; with ``alone`` each gets a library
        that holds no other kernel, as it is stored for good. The future raises
        ``TilewrightError`` when nothing can be built: no disk space, a compiler that does not start.
        """
        if alone:
            units = [_Unit(c, Future()) for c in candidates]
            for u in units:
                self._start(_Job([u], shared=False))
            return _gathered([u.promise for u in units], [True] * len(units))
        new: list[_Unit] = []
        with self._lock:
            promises = []
            for c in candidates:
                promise = self._known.get(c.binary_key)
                if promise is None:
                    promise = self._known[c.binary_key] = Future()
                    new.append(_Unit(c, promise))
                promises.append(promise)
        first = {u.candidate.binary_key: n for n, u in enumerate(new)}
        each = min(self.batch, -(-len(new) // self.lanes))
        for start in range(0, len(new), each or 1):
            self._start(_Job(new[start : start + each], shared=True))
        return _gathered(promises, [first.pop(c.binary_key, None) is not None for c in candidates])

    def build(self, candidates: Sequence[Candidate], alone: bool = False) -> list[Built]:
        """``submit`` and ``wait``."""
        return self.wait(self.submit(candidates, alone))

    def wait(self, builds: Future[list[Built]]) -> list[Built]:
        """The result of ``submit``. Until it is there, spare cores build too."""
        with self.waiting():
            return builds.result()

    def waiting(self) -> AbstractContextManager[None]:
        """Held by who waits for builds while nothing is measured: spare cores build too."""
        return self._building.wanted()

    def fetch(self, artifact: Artifact) -> None:
        """Make sure that an artifact's code is at its path."""
        if self._fetch is not None:
            self._fetch(artifact.sha256)

    def gate_counts(self) -> GateCounts:
        """What the static gate saw and saved so far (all zero where a target has none)."""
        with self._lock:
            c = self._counts
            return replace(
                c, before=c.before.copy(), after=c.after.copy(), gate_seconds=round(c.gate_seconds, 6),
                compile_seconds=round(c.compile_seconds, 6),
            )  # fmt: skip

    def close(self) -> None:
        """Wait for running compilers; what has not started fails."""
        while self._jobs:
            with contextlib.suppress(IndexError):  # a worker was quicker
                self._fail(self._jobs.popleft().units, TilewrightError("the builder was closed"))
        with self._building.wanted():  # lets those go that wait for it
            for pool in self._pools:
                pool.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------ in the pools

    @property
    def _pools(self) -> list[ThreadPoolExecutor]:
        return [p for p in (self._workers, self._spare) if p is not None]

    def _start(self, job: _Job) -> None:
        self._jobs.append(job)
        if self._workers is not None:
            self._workers.submit(self._next)
        if self._spare is not None:
            self._spare.submit(self._next_between)

    def _next_between(self) -> None:
        """The next job, if there still is one when nothing is measured."""
        with self._building.building():
            self._next()

    def _next(self) -> None:
        try:
            job = self._jobs.popleft()
        except IndexError:
            return
        try:
            self._work(job.units, job.shared)
        except BaseException as e:
            self._fail(job.units, e)
        else:
            self._fail(job.units, TilewrightError("not built"))

    def _fail(self, units: list[_Unit], error: BaseException) -> None:
        """Settle what has no result."""
        for u in units:
            if not u.promise.done():
                with self._lock:
                    self._known.pop(u.candidate.binary_key, None)
                u.promise.set_exception(error)

    def _work(self, units: list[_Unit], shared: bool) -> None:
        lowered: list[tuple[_Unit, LoweredKernel]] = []
        for u in units:
            try:
                kernel = self._lower(u.candidate)
            except IllegalSchedule as e:
                u.promise.set_result(Failure(FailureKind.COMPILE, str(e)))
                continue
            except TilewrightError:
                raise
            except Exception as e:  # one schedule that a template cannot print must not end the run
                u.promise.set_result(Failure(FailureKind.COMPILE, _template_bug(u.candidate, e)))
                continue
            refused = self._before(kernel)
            if refused is not None:
                u.promise.set_result(refused)
                continue
            found = self._find(kernel) if shared else None
            if found is not None:
                u.promise.set_result(found)
            else:
                lowered.append((u, kernel))
        together = [x for x in lowered if not x[1].alone]
        for group in ([together] if together else []) + [[x] for x in lowered if x[1].alone]:
            self._compile(group, shared)

    def _before(self, kernel: LoweredKernel) -> Failure | None:
        """The static gate: what shows without compiling."""
        if self.backend.in_process:
            return None
        began = time.perf_counter()
        problem = self.backend.refusal(kernel.program, self.target)
        spent = time.perf_counter() - began
        with self._lock:
            self._counts.seen += 1
            self._counts.gate_seconds += spent
            if problem is not None:
                self._counts.before[str(getattr(problem, "reason", "other"))] += 1
        return None if problem is None else Failure(FailureKind.RESOURCES, problem)

    def _compile(self, group: list[tuple[_Unit, LoweredKernel]], shared: bool) -> None:
        """One translation unit; on an error its halves, until the guilty kernel stands alone."""
        began = time.perf_counter()
        unit = "\n".join([self._prelude, *(k.source for _, k in group)])
        try:
            symbols = [s for _, k in group for s in k.program.symbols]
            done = self.toolchain.compile(unit, symbols, self.deadline)
        except TilewrightError as e:
            kind = self._blame(e, time.perf_counter() - began)
            if kind is None:
                raise
            if len(group) == 1:
                group[0][0].promise.set_result(Failure(kind, e.message))
                return
            middle = len(group) // 2
            self._compile(group[:middle], shared)
            self._compile(group[middle:], shared)
            return
        seconds = (time.perf_counter() - began) / len(group)
        with self._lock:
            self._counts.compiled += len(group)
            self._counts.compile_seconds += seconds * len(group)
        data = Path(done.path).read_bytes() if shared and self._indexed else b""
        for u, kernel in group:
            if data:
                self.cache.put(self._index(kernel), data)
            resources = done.resources.get(kernel.symbol, ())
            u.promise.set_result(self._artifact(kernel, done.path, done.sha256, seconds, done.cached, resources))

    def _blame(self, error: TilewrightError, seconds: float) -> FailureKind | None:
        """What a compiler's error is to its kernel; ``None`` when no kernel is at fault."""
        reason = getattr(error, "reason", None)
        if reason is None:
            return FailureKind.COMPILE if isinstance(error, CompileError) or error.kind == "compile" else None
        with self._lock:
            self._counts.compiled += 1
            self._counts.compile_seconds += seconds
            self._counts.after[str(reason)] += 1
        return FailureKind.RESOURCES

    def _artifact(
        self, k: LoweredKernel, path: str, sha256: str, seconds: float, cached: bool, resources: Pairs = ()
    ) -> Artifact:
        return Artifact(
            path, sha256, k.program, self.target, self.toolchain.version, tuple(self.toolchain.flags),
            hashlib.sha256(k.source.encode()).hexdigest(), 0.0 if cached else seconds, cached, tuple(resources),
        )  # fmt: skip

    # Which library a kernel is in depends on its companions when it was first built: that library is in
    # the cache under each kernel's own key too, for later runs with other companions. A compiler that takes
    # kernels one by one needs none of this, and knows their resources again.

    @property
    def _indexed(self) -> bool:
        return self.toolchain.batch > 1 and self._fetch is None

    def _index(self, kernel: LoweredKernel) -> str:
        text = hashlib.sha256((self._prelude + kernel.source).encode()).hexdigest()
        return digest(["kernel in", kernel.symbol, text, self.toolchain.key("")])

    def _find(self, kernel: LoweredKernel) -> Artifact | None:
        path = self.cache.get(self._index(kernel)) if self._indexed else None
        return None if path is None else self._artifact(kernel, path, Path(path).stem, 0.0, True)


def _gathered(promises: Sequence[Future[Built]], pays: Sequence[bool]) -> Future[list[Built]]:
    """All results in order; a candidate that another one's build served took no time itself."""
    result: Future[list[Built]] = Future()
    left = len(promises)
    lock = threading.Lock()

    def finish() -> None:
        error = next((e for p in promises if (e := p.exception()) is not None), None)
        if error is not None:
            result.set_exception(error)
            return
        built = [p.result() for p in promises]
        result.set_result(
            [
                replace(b, build_seconds=0.0, cached=True) if isinstance(b, Artifact) and not own else b
                for b, own in zip(built, pays, strict=True)
            ]
        )

    def one_done(_: Future[Built]) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            finish()

    if not promises:
        result.set_result([])
    for p in promises:
        p.add_done_callback(one_done)
    return result


def _settle(cores: Sequence[int] | None) -> None:
    """Give this thread, and the processes that it will start, low priority and its cores."""
    if sys.platform != "linux":  # elsewhere both belong to the whole process
        return
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)


def _template_bug(candidate: Candidate, error: Exception) -> str:
    """One line that says which template raised what, and where."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"bug in template {candidate.schedule.template!r}: {what} ({Path(at.filename).name}, line {at.lineno})"
