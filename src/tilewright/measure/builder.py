"""Candidates into artifacts: lower, put several kernels into a translation unit, compile.

The work is the compiler's, a process of its own, so threads are enough here. Those threads, and with
them the compilers that they start, run at low priority and on the given cores.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Union

from tilewright.backends.cpu.build import build_library, library_key
from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import DEADLINE, CompileError, Compiler, find_compiler
from tilewright.backends.cpu.targets import flags
from tilewright.core import Artifact, Candidate, Failure, FailureKind, IllegalSchedule, Target, TilewrightError, digest
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.templates.base import LoweredKernel

Built = Union[Artifact, Failure]
Lower = Callable[[Candidate], LoweredKernel]
NICE = 10


@dataclass(frozen=True)
class _Unit:
    """One structure to be compiled, and the promise of its artifact."""

    candidate: Candidate
    promise: Future[Built]


class Builder:
    """Compiles candidates for one target. Use it as a context manager.

    ``workers`` compilers run at once, each on up to ``batch`` structures; ``cores`` pins them (all
    allowed cores by default). ``gate`` gives a context that is held while a compiler runs, for callers
    that must not build while they measure (``Gate.building``). ``lower`` prints a candidate's kernel;
    by default its template does.
    """

    def __init__(
        self,
        target: Target,
        *,
        cache: ArtifactCache | None = None,
        workers: int = 1,
        batch: int = 8,
        cores: Sequence[int] | None = None,
        deadline: float = DEADLINE,
        gate: Callable[[], AbstractContextManager[None]] | None = None,
        lower: Lower | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        self.target = target
        self.cache = cache or ArtifactCache()
        self.batch = batch
        self.deadline = deadline
        self.compiler = compiler or find_compiler(target.arch)
        self.flags = flags(target, self.compiler)
        self._prelude = prelude(target)
        self._gate = gate or contextlib.nullcontext
        self._lower = lower or _template_lower()
        self._known: dict[str, Future[Built]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(workers, "build", lambda: _settle(cores))

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
                self._start([u], shared=False)
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
        for start in range(0, len(new), self.batch):
            self._start(new[start : start + self.batch])
        return _gathered(promises, [first.pop(c.binary_key, None) is not None for c in candidates])

    def build(self, candidates: Sequence[Candidate], alone: bool = False) -> list[Built]:
        """``submit`` and wait."""
        return self.submit(candidates, alone).result()

    def close(self) -> None:
        """Wait for running compilers; what has not started fails."""
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ in the pool

    def _start(self, units: list[_Unit], shared: bool = True) -> None:
        job = self._pool.submit(self._work, units, shared)

        def settle(done: Future[None]) -> None:
            error = TilewrightError("the builder was closed") if done.cancelled() else done.exception()
            for u in units:
                if not u.promise.done():
                    with self._lock:
                        self._known.pop(u.candidate.binary_key, None)
                    u.promise.set_exception(error or TilewrightError("not built"))

        job.add_done_callback(settle)

    def _work(self, units: list[_Unit], shared: bool) -> None:
        lowered: list[tuple[_Unit, LoweredKernel]] = []
        for u in units:
            try:
                kernel = self._lower(u.candidate)
            except IllegalSchedule as e:
                u.promise.set_result(Failure(FailureKind.COMPILE, str(e)))
                continue
            found = self._find(kernel) if shared else None
            if found is not None:
                u.promise.set_result(found)
            else:
                lowered.append((u, kernel))
        if lowered:
            self._compile(lowered, shared)

    def _compile(self, group: list[tuple[_Unit, LoweredKernel]], shared: bool) -> None:
        """One translation unit; on an error its halves, until the guilty kernel stands alone."""
        began = time.perf_counter()
        sources = [self._prelude, *(k.source for _, k in group)]
        try:
            with self._gate():
                path, sha256, cached = build_library(sources, self.target, self.compiler, self.cache, self.deadline)
        except CompileError as e:
            if len(group) == 1:
                group[0][0].promise.set_result(Failure(FailureKind.COMPILE, e.message))
                return
            middle = len(group) // 2
            self._compile(group[:middle], shared)
            self._compile(group[middle:], shared)
            return
        seconds = (time.perf_counter() - began) / len(group)
        key = library_key("\n".join(sources), self.target, self.compiler)
        for u, kernel in group:
            if shared:
                self.cache.put(self._index(kernel), key.encode())
            u.promise.set_result(self._artifact(kernel, path, sha256, seconds, cached))

    def _artifact(self, k: LoweredKernel, path: str, sha256: str, seconds: float, cached: bool) -> Artifact:
        return Artifact(
            path, sha256, k.program, self.target, self.compiler.version, self.flags,
            hashlib.sha256(k.source.encode()).hexdigest(), 0.0 if cached else seconds, cached,
        )  # fmt: skip

    # Which library a kernel is in depends on its companions when it was first built: a small entry
    # under the kernel's own key names that library, for later runs with other companions.

    def _index(self, kernel: LoweredKernel) -> str:
        text = hashlib.sha256((self._prelude + kernel.source).encode()).hexdigest()
        return digest(["kernel", kernel.symbol, text, library_key("", self.target, self.compiler)])

    def _find(self, kernel: LoweredKernel) -> Artifact | None:
        entry = self.cache.get(self._index(kernel))
        if entry is None:
            return None
        try:
            path = self.cache.get(Path(entry).read_text())
        except (OSError, UnicodeDecodeError):
            return None
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


def _template_lower() -> Lower:
    from tilewright.kernels.templates import lower

    return lower
