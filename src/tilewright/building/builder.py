"""Compiles candidates into artifacts: lowers them, joins several kernels into a translation unit, and compiles it.

A compiler is a process of its own, so threads are enough here. These threads and the compilers that they start run at
low priority and on the given cores. A :class:`~tilewright.backends.toolchain.Toolchain` compiles.
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
    """Counts of the static gate: refused kernels by reason.

    ``seen`` kernels reached the gate; ``before`` were refused by their launches, ``after`` by the compiler's resource
    report; ``compiled`` went to the compiler or were in its cache. ``gate_seconds`` and ``compile_seconds`` are summed
    over the workers.
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
    """One structure to compile, and the future of its artifact."""

    candidate: Candidate
    promise: Future[Built]


@dataclass(frozen=True)
class _Job:
    """Structures to compile together. ``shared``: later builds may use the library too."""

    units: list[_Unit]
    shared: bool


class Builder(Closing):
    """Compiles candidates for one target. Use it as a context manager.

    ``workers`` compilers run at once, each on up to ``batch`` structures (by default the compiler's batch size);
    ``cores`` pins the compilers (by default to all allowed cores). Each of the ``spare`` cores runs one more compiler,
    but only during :meth:`wait` and while ``lock`` says that no measurement uses those cores. ``lower`` prints a
    candidate's kernel (default: its template). ``toolchain`` compiles (default: the target's; with ``emulated`` the
    toolchain of the emulator). ``fetch`` copies an artifact, by its hash, to its path on this machine, for compilers
    that leave it elsewhere. Kernels for a GPU pass the static gate first. A kernel that cannot run there is a failure
    of kind ``RESOURCES`` and is never compiled (:meth:`gate_counts`). ``lanes``: number of compilers that may run at
    once.
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
        # Each job is announced to both pools; the pool that comes second finds the job gone.
        self._workers = ThreadPoolExecutor(workers, "build", lambda: _settle(cores)) if workers else None
        self._spare = ThreadPoolExecutor(len(spare), "build", lambda: _settle(spare)) if spare else None
        self.lanes = workers + len(spare)

    # ------------------------------------------------------------------ the interface

    def submit(self, candidates: Sequence[Candidate], alone: bool = False) -> Future[list[Built]]:
        """Start to build. The result has an artifact or a failure for each candidate, in order.

        Candidates of one structure share a library, now and later. With ``alone`` each candidate gets a library
        without other kernels, in the form that is stored. The future raises ``TilewrightError`` if no kernel
        can be built: no disk space, or a compiler that does not start.
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
        """Return the result of ``submit``. Spare cores build too until it is ready."""
        with self.waiting():
            return builds.result()

    def waiting(self) -> AbstractContextManager[None]:
        """A context for callers that wait for builds while nothing is measured: spare cores build too."""
        return self._building.wanted()

    def fetch(self, artifact: Artifact) -> None:
        """Fetch an artifact's code to its path."""
        if self._fetch is not None:
            self._fetch(artifact.sha256)

    def gate_counts(self) -> GateCounts:
        """Counts of the static gate so far (all zero for a target without a gate)."""
        with self._lock:
            c = self._counts
            return replace(
                c, before=c.before.copy(), after=c.after.copy(), gate_seconds=round(c.gate_seconds, 6),
                compile_seconds=round(c.compile_seconds, 6),
            )  # fmt: skip

    def close(self) -> None:
        """Wait for running compilers; jobs that have not started fail."""
        while self._jobs:
            with contextlib.suppress(IndexError):  # a worker took the job first
                self._fail(self._jobs.popleft().units, TilewrightError("the builder was closed"))
        with self._building.wanted():  # releases workers that wait for the lock
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
        """Run the next job, if one is left once nothing is measured."""
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
        """Set an exception for units without a result."""
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
        """Check a kernel's launches at the static gate, before compilation."""
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
        """Compile one translation unit; on an error its halves, until the faulty kernel is alone."""
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
        """Failure kind of a kernel for a compiler's error; ``None`` if no kernel caused the error."""
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

    # The library of a kernel depends on the kernels that were first built with it. The cache also has that library
    # under each kernel's own key, for later runs with other combinations. A compiler that takes kernels one by one
    # needs no such key, and recomputes their resources.

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
    """All results in order; a candidate that another candidate's build served has a build time of 0."""
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
    """Give this thread and the processes that it starts low priority and their cores."""
    if sys.platform != "linux":  # on other systems both settings apply to the whole process
        return
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)


def _template_bug(candidate: Candidate, error: Exception) -> str:
    """One line with the template, the exception and its place in the code."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"bug in template {candidate.schedule.template!r}: {what} ({Path(at.filename).name}, line {at.lineno})"
