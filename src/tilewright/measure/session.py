"""What the child of a CPU device does with requests: it loads, checks and times kernels on its own threads."""

from __future__ import annotations

import ctypes
import errno
import statistics
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.backends.cpu.loader import (
    LaunchError,
    LoadedKernel,
    LoadedLibrary,
    LoadError,
    Memory,
    PreparedCall,
    load_path,
    time_rounds,
)
from tilewright.core import Failure, FailureKind, LaunchProgram, Measurement, Outcome, TilewrightError
from tilewright.measure import timing
from tilewright.measure.buffers import GuardedArray
from tilewright.measure.task_session import DRIFT, TaskSession, Tell
from tilewright.measure.verify import ALL_SETS, FEW_SETS, timing_inputs

LIBRARIES = 48  # kept loaded
WORKSPACES = 4  # guarded ones, kept for reuse
SETTLE = 10e-3  # seconds for which a kernel runs on fresh arrays before it counts: caches, pages, TLB
SLOW = 0.1  # seconds of a pair from which a duel gives a sign of life before each
COLD_FACTOR = 3  # last-level caches walked to evict operands


@dataclass
class Kernel:
    """A loaded candidate, ready to be timed."""

    key: str
    kernel: LoadedKernel
    call: PreparedCall
    estimate: float = 0.0
    repeats: int = 1
    seconds: float = 0.0  # its anchor: the time on which the results of others are based

    @property
    def sample_seconds(self) -> float:
        return self.estimate * self.repeats


class Session(TaskSession):
    """State of the child of a CPU device: libraries, workspaces, timing buffers and the incumbent."""

    def __init__(self, settings: Mapping[str, Any], tell: Tell) -> None:
        super().__init__(settings, tell)
        self.threads: int = settings["threads"]
        self.last_level: int = settings["last_level"]
        # A thread's own processor time leaves out interruptions; several threads have only elapsed time.
        self.clock = "cpu" if self.threads == 1 else "monotonic"
        self.libraries: OrderedDict[str, LoadedLibrary] = OrderedDict()
        self.flush: Memory | None = None

    def _reset(self, text: str) -> None:
        super()._reset(text)
        self.incumbent: Kernel | None = None
        self.buffers: dict[int, list[GuardedArray]] = {}
        self.workspaces: OrderedDict[int, GuardedArray] = OrderedDict()

    # ------------------------------------------------------------------ requests

    def _measure(self, request: Mapping[str, Any]) -> None:
        self._adopt(request["incumbent"])
        for n, item in request["items"]:
            self._prepare(item)
            self.tell({"at": "item", "item": n})
            outcome, kernel = self._guarded(partial(self._trial, item))
            if kernel is not None and self.incumbent is None and isinstance(outcome, Measurement):
                self.incumbent = kernel  # the first of a run: the others are timed against it
                kernel.seconds = outcome.seconds
            self.tell({"item": n, "outcome": outcome.to_json()})

    def _duel(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.tell({"at": "item", "item": 0})
        program, verifier = self.program, self.verifier
        assert program is not None
        assert verifier is not None
        sides = []
        for item in request["items"]:
            k = Kernel(item["key"], kernel := self._load(item), self._timing_call(kernel))
            self._calibrate(k)
            sides.append(k)
        places = 0
        align = max(k.kernel.program.align for k in sides)

        def rounds(n: int) -> list[tuple[float, float]]:
            # Where arrays happen to lie decides between kernels that are about as fast, so they move.
            nonlocal places
            self.tell({"at": "item", "item": 0})  # a long duel is no hang
            buffers = timing_inputs(program, verifier, align, places)
            places += 1
            for k in sides:
                k.call = k.kernel.prepare([g.address for g in buffers])
            self._rounds(sides[0], sides[1], 1 + int(SETTLE / max(k.sample_seconds for k in sides)))
            if sum(k.sample_seconds for k in sides) < SLOW:
                return self._rounds(sides[0], sides[1], n)
            taken = []
            for _ in range(n):
                self.tell({"at": "item", "item": 0})
                taken += self._rounds(sides[0], sides[1], 1)
            return taken

        d = timing.duel(rounds, request["pairs"])
        return {
            "ratio": d.ratio, "low": d.low, "high": min(d.high, 1e300), "wins": d.wins, "pairs": d.pairs,
            "seconds": list(d.seconds),
        }  # fmt: skip

    # ------------------------------------------------------------------ one trial

    def _guarded(self, work: Callable[[], tuple[Outcome, Kernel | None]]) -> tuple[Outcome, Kernel | None]:
        try:
            return work()
        except (LoadError, LaunchError) as e:
            return Failure(FailureKind.LAUNCH, e.message), None
        except MemoryError as e:
            return Failure(FailureKind.RESOURCES, str(e) or "out of memory"), None
        except OSError as e:
            kind = FailureKind.RESOURCES if e.errno == errno.ENOMEM else FailureKind.LAUNCH
            return Failure(kind, e.strerror or str(e)), None
        except TilewrightError as e:
            kind = FailureKind.RESOURCES if "no memory" in e.message else FailureKind.LAUNCH
            return Failure(kind, e.message), None

    def _trial(self, item: Mapping[str, Any]) -> tuple[Outcome, Kernel | None]:
        began = time.perf_counter()
        kernel = self._load(item)
        seen = item["binary"] in self.passed
        problem = self._check(kernel, FEW_SETS if seen else ALL_SETS)
        checked = time.perf_counter()
        if problem:
            return Failure(FailureKind.WRONG_RESULT, problem), None
        self.passed.add(item["binary"])
        candidate = Kernel(item["key"], kernel, self._timing_call(kernel))
        self._calibrate(candidate, rough=True)
        pairs = item.get("pairs", timing.PAIRS)
        if self.incumbent is None:
            times = self._alone(candidate, pairs)
            seconds, noise, ratio, dropped = statistics.median(times), timing.spread(times), None, False
        else:
            incumbent = self.incumbent
            paired = timing.compare(
                lambda n: self._rounds(candidate, incumbent, n),
                candidate.sample_seconds, incumbent.sample_seconds, pairs,
            )  # fmt: skip
            times, ratio, dropped = list(paired.times), paired.ratio, paired.dropped
            seconds, noise = incumbent.seconds * ratio, timing.spread(paired.ratios)
        return Measurement(
            seconds, noise, len(times), ratio, dropped, self._state, checked - began,
            time.perf_counter() - checked,
        ), candidate  # fmt: skip

    def _load(self, item: Mapping[str, Any]) -> LoadedKernel:
        sha = item["sha256"]
        library = self.libraries.pop(sha, None) or load_path(item["path"], sha)
        self.libraries[sha] = library
        while len(self.libraries) > LIBRARIES:
            name, old = next(iter(self.libraries.items()))
            del self.libraries[name]
            if self.incumbent is None or self.incumbent.kernel.library is not old:
                old.close()
        return library.kernel(LaunchProgram.from_json(item["program"]), item["launch"], self.threads)

    def _check(self, kernel: LoadedKernel, sets: Sequence[int]) -> str | None:
        assert self.verifier is not None
        assert self.program is not None
        align = kernel.program.align
        workspace = self._workspace(kernel.workspace_bytes)
        call = kernel.prepare([0] * (len(self.program.inputs) + 1))

        def run(pointers: Sequence[int]) -> None:
            call.use(pointers)
            if workspace is not None:
                workspace.data.fill(0xFF)
                call.call.workspace = workspace.address
            time_rounds([call], 1)

        problem = self.verifier.check(run, sets, align)
        if problem is None and workspace is not None and workspace.trespassed():
            workspace.restore()
            problem = "writes outside its workspace"
        return problem

    def _workspace(self, size: int) -> GuardedArray | None:
        if not size:
            return None
        found = self.workspaces.pop(size, None) or GuardedArray((size,), "uint8", "end", 4096)
        self.workspaces[size] = found
        while len(self.workspaces) > WORKSPACES:
            self.workspaces.popitem(last=False)
        return found

    # ------------------------------------------------------------------ timing

    def _timing_call(self, kernel: LoadedKernel) -> PreparedCall:
        assert self.program is not None
        assert self.verifier is not None
        align = kernel.program.align
        if align not in self.buffers:
            self.buffers[align] = timing_inputs(self.program, self.verifier, align)
        return kernel.prepare([g.address for g in self.buffers[align]])

    def _calibrate(self, k: Kernel, rough: bool = False) -> None:
        def once(repeats: int) -> float:
            return time_rounds([k.call], 1, repeats, self.clock)[0][0]

        k.estimate, k.repeats = timing.calibrate(once)
        if self.cold:
            k.repeats = 1
        elif not rough:  # the first call was a warm-up; what an incumbent is worth must be better known
            k.estimate = min(k.estimate, once(k.repeats))

    def _flush(self) -> Memory | None:
        if self.cold and self.flush is None:
            self.flush = Memory(COLD_FACTOR * self.last_level)
            ctypes.memset(self.flush.address, 1, self.flush.size)
        return self.flush if self.cold else None

    def _rounds(self, a: Kernel, b: Kernel, n: int) -> list[tuple[float, float]]:
        first, second = time_rounds([a.call, b.call], n, [a.repeats, b.repeats], self.clock, self._flush())
        return list(zip(first, second, strict=True))

    def _alone(self, k: Kernel, samples: int) -> list[float]:
        many = max(timing.FEWEST, min(samples, int(timing.BUDGET / max(k.sample_seconds, 1e-9))))
        return time_rounds([k.call], many, [k.repeats], self.clock, self._flush())[0]

    def _adopt(self, item: Mapping[str, Any] | None) -> None:
        """Make a kernel the one that the others are timed against."""
        if item is None:
            self.incumbent = None
            return
        if self.incumbent is not None and self.incumbent.key == item["key"]:
            return
        self.tell({"at": "incumbent"})
        kernel = self._load(item)
        k = Kernel(item["key"], kernel, self._timing_call(kernel))
        self._calibrate(k)
        own = statistics.median(self._alone(k, 7))
        anchor = item.get("seconds")
        # The chain of ratios is steadier than any single timing, until the machine itself changes.
        k.seconds = anchor if anchor and abs(own / anchor - 1) <= DRIFT else own
        self.incumbent = k
