"""Checks and times kernels on this machine, in a child process that survives neither crashes nor hangs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.backends import backend_of
from tilewright.backends.channel import ChannelClosed
from tilewright.backends.cores import physical_memory
from tilewright.checking.watch import Watch
from tilewright.core import (
    Candidate,
    Device,
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Pairs,
    Target,
    Task,
    TilewrightError,
    UsageError,
)
from tilewright.installed import installed_version
from tilewright.measure import messages
from tilewright.measure.child import Child, ChildDied
from tilewright.measure.measuring import Item, Runner, at_sizes, checked_points
from tilewright.measure.sandbox import Limits
from tilewright.measure.timing import PAIRS, SESSIONS, PairedComparison
from tilewright.paths import cache_root, text_of

DEADLINE = 10.0  # seconds for checking and timing one kernel
PREPARE_DEADLINE = 300.0  # seconds for inputs and references, which count for no kernel
START_ATTEMPTS = 3
SLOWEST = 300.0  # ratio to the incumbent's time above which a kernel counts as hanging
LEAST_DEADLINE = 3.0
SLOW_FLOPS = 2e9
"""Assumed operations per second of the slowest useful kernel on cores, for a dozen calls; it extends deadlines."""

Found = Callable[[int, Outcome], None]
"""Called with the number of a kernel and its outcome."""


class DeviceLost(TilewrightError):
    """The measuring process does not start, or dies without a kernel that caused it."""

    kind = "device_lost"


class KernelLost(DeviceLost):
    """A kernel timed alone crashes or hangs: the device is not known to be the cause."""

    kind = "kernel_lost"


class LocalRunner(Runner):
    """Checks and times candidates on one device of this machine. Use it as a context manager.

    ``device``: cores (``cpu:0-1``), or a GPU (``cuda:0``, ``emulator:0``). ``driver`` selects a driver if the
    GPU's backend has several (``cupy``, ``pycuda``).
    ``deadline``: largest number of seconds for one kernel in total; on a CPU less if the incumbent's time shows that
    far less is enough. ``cache_state``: ``warm`` (default on a CPU) or ``cold`` (default on a GPU): operands
    evicted before every sample, on a GPU by using another operand set each time.
    ``references``: a folder for reference results that took long (default: in the artifact cache;
    empty: none). ``sandbox``: limit the child further (``sandbox.py``), for kernels of other senders. ``exclusive``:
    returns a context that is held while kernels run, for callers that also build on these cores
    (``BuildLock.measuring``). The child may map at most :func:`memory_limit` bytes beyond its initial memory; a GPU's
    child has no limit, as the driver maps far more than the machine has.
    """

    def __init__(
        self,
        device: Device,
        target: Target,
        *,
        deadline: float = DEADLINE,
        cache_state: str | None = None,
        references: str | Path | None = None,
        sandbox: bool = False,
        exclusive: Callable[[], AbstractContextManager[None]] | None = None,
        command: list[str] | None = None,
        driver: str | None = None,
    ) -> None:
        if cache_state not in (None, "warm", "cold"):
            raise UsageError(f"unknown cache state {cache_state!r}", "Use warm or cold")
        self.backend = backend_of(device.name)
        given = self.backend.settings(device, memory_limit())
        self.device = device
        self.target = target
        self.deadline = deadline
        self.cores: list[int] = given["cores"]
        self._exclusive = exclusive or contextlib.nullcontext
        self._command = command
        self._settings: dict[str, Any] = {
            **given,
            "backend": self.backend.name,
            "driver": driver,
            "threads": target.threads,
            "cache_state": cache_state or given["cache_state"],
            "last_level": target.l3_bytes,
            "references": str(cache_root() / "references" if references is None else references),
            "sandbox": sandbox,
        }
        self._executor = ThreadPoolExecutor(1, "measure")
        self._child: Child | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._reference_times: dict[str, float] = {}
        self._environments: dict[str, Pairs] = {}
        folder = self._settings["references"]
        self._watch = Watch(Path(folder) if folder else None, strict=self.backend.emulated)

    # ------------------------------------------------------------------ the interface

    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]:
        """Check and time ``items``; outcomes are in their order. Batches run one after another.

        ``incumbent``: the kernel that items are timed against; by default the first correct kernel.
        ``pairs``: largest number of paired samples of each item.
        """
        one, sized = at_sizes(task, [*items, *([incumbent] if incumbent else [])])
        champion = sized.pop() if incumbent else None
        return self._executor.submit(self._batch, one, sized, champion, pairs)

    def verify(self, task: Task, item: Item) -> Failure | None:
        """Check one kernel on every input set. Returns ``None`` if it is correct.

        A kernel of ranges is checked at :func:`~tilewright.measure.measuring.checked_points`: on every input set
        at the ends and between, on one set at other sizes.
        On the emulator and on processors a kernel of the user's own also runs under sanitizers.
        """
        if not task.workload.ranges:
            return self._verify(task, item)
        thoroughly, others = checked_points(item[0])
        for n, sizes in enumerate([*(s for s in thoroughly if s not in others), *others]):
            one, (sized,) = at_sizes(task, [item], sizes)
            problem = self._verify(one, sized, None if sizes in thoroughly else n)
            if problem is not None:
                shown = " ".join(f"{name}={size}" for name, size in sizes.items())
                return Failure(problem.kind, f"{shown}: {problem.message}")
        return None

    def _verify(self, task: Task, item: Item, turn: int | None = None) -> Failure | None:
        """Check one kernel of one size on every input set, or on set number ``turn`` alone."""
        request = messages.Verify(program=task.workload.program, item=messages.KernelFile.of(item), turn=turn)
        reply = self._executor.submit(self._alone, task, request).result()
        problem = reply if isinstance(reply, Failure) else reply.failure
        if problem is not None:
            return problem
        watched = (self.backend.emulated or self.backend.in_process) and turn is None
        return self._watch.problem(item[0]) if watched else None

    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int = SESSIONS) -> PairedComparison:
        """Time two kernels against each other, interleaved, in ``sessions`` sessions with fresh placements.

        Raises ``KernelLost`` if one of the kernels crashes or hangs, ``DeviceLost``.
        """
        task, (challenger, champion) = at_sizes(task, (challenger, champion))
        request = messages.Compare(
            program=task.workload.program, constants_passed=task.constants_passed,
            challenger=messages.KernelFile.of(challenger), champion=messages.KernelFile.of(champion), sessions=sessions,
        )  # fmt: skip
        reply = self._executor.submit(self._alone, task, request).result()
        if isinstance(reply, Failure):
            kind = DeviceLost if reply.kind is FailureKind.DEVICE_LOST else KernelLost
            raise kind(f"the final could not be timed: {reply.message}")
        assert reply.comparison is not None
        return reply.comparison

    def set_reference_time(self, candidate: Candidate, seconds: float) -> None:
        """Set the reference time of a kernel that was timed elsewhere: as the incumbent it counts as this fast."""
        self._reference_times[candidate.key] = seconds

    def close(self) -> None:
        """End the child, also during a batch (whose outcomes become ``DEVICE_LOST``)."""
        with self._lock:
            self._closed.set()
            child = self._child
        if child is not None:
            child.kill()
        self._executor.submit(self._discard).result()
        self._executor.shutdown(cancel_futures=True)

    @property
    def child_pid(self) -> int | None:
        """Process id of the child, while it runs."""
        child = self._child
        return child.pid if child else None

    def limits(self) -> Limits:
        """Limits of the child: ``True`` for each limit, or why it does not hold; starts the child.

        Raises ``DeviceLost`` if the child does not start.
        """
        return self._executor.submit(lambda: self._ensure().limits).result()

    # ------------------------------------------------------------------ in the measuring thread

    def _batch(self, task: Task, items: list[Item], incumbent: Item | None, pairs: int | None) -> list[Outcome]:
        done: dict[int, Outcome] = {}
        retried: set[int] = set()
        suspect: int | None = None
        unexplained = 0
        while len(done) < len(items):
            todo = [n for n in range(len(items)) if n not in done] if suspect is None else [suspect]
            suspect = None
            incumbent = incumbent or _first_good(items, done)
            request = messages.Measure(
                program=task.workload.program, constants_passed=task.constants_passed, pairs=pairs or PAIRS,
                items=tuple((n, messages.KernelFile.of(items[n])) for n in todo),
                incumbent=incumbent and messages.KernelFile.of(incumbent, self._reference_times.get(incumbent[0].key)),
            )  # fmt: skip
            try:
                self._exchange(request, self._limit(task, incumbent), done.__setitem__)
            except _Died as e:
                if e.item is not None and (e.item in retried or not e.excusable):
                    done[e.item] = e.failure
                elif e.item is not None:
                    # An earlier wrong kernel may have corrupted the child's memory, or another process killed the
                    # child: the kernel counts as the cause only if a fresh child dies too.
                    suspect = e.item
                    retried.add(e.item)
                else:
                    if e.incumbent:
                        incumbent = None
                    unexplained += 1
                    if unexplained >= START_ATTEMPTS:
                        done |= {n: Failure(FailureKind.DEVICE_LOST, e.failure.message) for n in todo if n not in done}
            except DeviceLost as e:
                rest = [n for n in range(len(items)) if n not in done]
                done |= {n: Failure(FailureKind.DEVICE_LOST, e.message) for n in rest}
        return [self._described(items[n], done[n]) for n in range(len(items))]

    def _alone(self, task: Task, request: messages.Request) -> messages.Done | Failure:
        """Serve one request about one or two kernels. Returns its end, or the failure that killed the child."""
        for last in (False, True):
            try:
                return self._exchange(request, self._longest(task))
            except _Died as e:
                if last or not e.excusable:
                    return e.failure
            except DeviceLost as e:
                return Failure(FailureKind.DEVICE_LOST, e.message)
        raise AssertionError("unreachable")

    def _exchange(
        self, request: messages.Request, limit: float, found: Found = lambda _item, _outcome: None
    ) -> messages.Done:
        """Send a request and follow it to its end. Raises ``_Died``, ``DeviceLost``."""
        with self._exclusive():
            child = self._ensure()
            item: int | None = None
            incumbent = False
            end = time.monotonic() + PREPARE_DEADLINE
            try:
                messages.send(child.channel, request)
                while True:
                    match messages.receive(child.channel, max(0.0, end - time.monotonic())):
                        case messages.At(item, incumbent):
                            end = time.monotonic() + (PREPARE_DEADLINE if item is None else limit)
                        case messages.Told(number, outcome):
                            child.tainted |= isinstance(outcome, Failure)
                            item = None
                            found(number, outcome)
                            end = time.monotonic() + limit
                        case messages.Error(message):
                            raise TilewrightError(f"kernels of this task cannot be checked: {message}")
                        case messages.Done() as done:
                            if done.leaving:  # the child's device is in a bad state
                                self._discard()
                            return done
            except TimeoutError:
                self._discard()
                failure = Failure(FailureKind.TIMEOUT, f"no result within {limit:.3g} s")
                raise _Died(failure, item, incumbent, excusable=False) from None
            except ChannelClosed:
                died = child.bury()
                self._forget()
                excusable = child.tainted or died.signal == "SIGKILL"
                raise _Died(_death(died), item, incumbent, excusable) from None

    def _ensure(self) -> Child:
        if self._closed.is_set():
            raise DeviceLost("the runner is closed")
        for attempt in range(START_ATTEMPTS):
            if self._child is not None:
                break
            try:
                child = Child(self._settings, self._command)
            except ChildDied as e:
                if attempt == START_ATTEMPTS - 1:
                    limit = self._settings["memory"]
                    within = f" within its memory limit of {limit:,} bytes" if limit else ""
                    raise DeviceLost(f"the measuring process does not start{within}: {e}") from e
                continue
            with self._lock:
                self._child = child
                if self._closed.is_set():
                    child.kill()
        assert self._child is not None
        return self._child

    def _forget(self) -> None:
        with self._lock:
            self._child = None

    def _discard(self) -> None:
        child = self._child
        self._forget()
        if child is not None:
            child.close()

    def _longest(self, task: Task) -> float:
        """Largest number of seconds for any kernel of a task in total."""
        return self.deadline if not self.backend.in_process else self.deadline + task.workload.flops / SLOW_FLOPS

    def _limit(self, task: Task, incumbent: Item | None) -> float:
        longest = self._longest(task)
        if not self.backend.in_process:  # copying and checking the data takes far longer than the kernel
            return longest
        seconds = self._reference_times.get(incumbent[0].key) if incumbent else None
        return longest if seconds is None else min(longest, max(LEAST_DEADLINE, SLOWEST * seconds))

    def _described(self, item: Item, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Measurement):
            return outcome
        self._reference_times[item[0].key] = outcome.seconds
        # The child has added the facts that only it knows: the driver, the clocks.
        facts = {**dict(self._environment(item[1].compiler)), **dict(outcome.environment)}
        return replace(outcome, environment=tuple(facts.items()))

    def _environment(self, compiler: str) -> Pairs:
        if compiler not in self._environments:
            core = self.cores[0] if self.cores else None
            self._environments[compiler] = circumstances(self.device, core, compiler)
        return self._environments[compiler]


@dataclass(eq=False)
class _Died(Exception):
    """The child died or was killed: at which item, or at the incumbent. ``excusable``: another kernel may be the
    cause."""

    failure: Failure
    item: int | None
    incumbent: bool
    excusable: bool


def _death(died: ChildDied) -> Failure:
    if died.signal == "SIGKILL":
        return Failure(FailureKind.RESOURCES, "killed by SIGKILL twice: out of memory?")
    return Failure(FailureKind.CRASH, str(died))


def _first_good(items: Sequence[Item], done: Mapping[int, Outcome]) -> Item | None:
    return next((items[n] for n in sorted(done) if isinstance(done[n], Measurement)), None)


def circumstances(device: Device, core: int | None, compiler: str) -> Pairs:
    """Facts stored with a measurement: device model, compiler, versions, and a core's clock governor and frequency if
    known. On a GPU the child adds the driver's facts and the clocks."""
    facts: list[tuple[str, str | float]] = [
        ("device", device.model),
        ("compiler", compiler),
        ("tilewright", installed_version("tilewright") or "source"),
        ("numpy", installed_version("numpy") or ""),
    ]
    clock = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq")
    if core is not None and (governor := text_of(clock / "scaling_governor").strip()):
        facts.append(("governor", governor))
    if core is not None and (khz := text_of(clock / "scaling_cur_freq").strip()).isdigit():
        facts.append(("mhz", round(int(khz) / 1000)))
    return tuple(facts)


def memory_limit() -> int:
    """Three quarters of the machine's memory, at least 2 GiB, in bytes; 0 if the machine's memory is unknown."""
    total = physical_memory()
    return max(2 << 30, total * 3 // 4) if total else 0
