"""What the child of a CPU device does with requests: it loads, checks and times kernels on its own threads."""

from __future__ import annotations

import ctypes
import errno
import statistics
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.backends.cpu.loader import (
    LaunchError,
    LoadedKernel,
    LoadError,
    Memory,
    PreparedCall,
    Zone,
    load_path,
    time_rounds,
    watch,
)
from tilewright.core import Failure, FailureKind, LaunchProgram, Measurement, TilewrightError
from tilewright.measure import timing
from tilewright.measure.task_session import Loaded, TaskSession, Tell
from tilewright.verifying.buffers import POISON, GuardedArray, alive
from tilewright.verifying.verify import timing_inputs

WORKSPACES = 8  # guarded ones, kept for reuse
SETTLE = 10e-3  # seconds for which a kernel runs on fresh arrays before it counts: caches, pages, TLB
SLOW = 0.1  # seconds of a pair from which a paired comparison gives a sign of life before each
COLD_FACTOR = 3  # last-level caches walked to evict operands


@dataclass(kw_only=True)
class Kernel(Loaded):
    """A loaded candidate. ``call``, on the operands for timing, and what follows it: once it is to be timed."""

    kernel: LoadedKernel
    call: PreparedCall = field(init=False)
    estimate: float = 0.0
    repeats: int = 1
    best: float = 1.0  # of an incumbent: the least ratio of another kernel's time to its own

    @property
    def sample_seconds(self) -> float:
        return self.estimate * self.repeats


class Session(TaskSession[Kernel]):
    """State of the child of a CPU device: libraries, workspaces, timing buffers and the incumbent."""

    def __init__(self, settings: Mapping[str, Any], tell: Tell) -> None:
        super().__init__(settings, tell)
        self.threads: int = settings["threads"]
        self.last_level: int = settings["last_level"]
        # A thread's own processor time leaves out interruptions; several threads have only elapsed time.
        self.clock = "cpu" if self.threads == 1 else "monotonic"
        self.flush: Memory | None = None

    def _reset(self, text: str) -> None:
        super()._reset(text)
        self.buffers: dict[int, list[GuardedArray]] = {}
        self.workspaces: OrderedDict[tuple[str, int], GuardedArray] = OrderedDict()

    # ------------------------------------------------------------------ requests

    def _measure(self, request: Mapping[str, Any]) -> None:
        self._adopt(request["incumbent"])
        for n, item in request["items"]:
            self._prepare(item)
            self.tell({"at": "item", "item": n})
            self.tell({"item": n, "outcome": self._try(item).to_json()})

    def _compare(self, request: Mapping[str, Any]) -> timing.PairedComparison:
        self.tell({"at": "item", "item": 0})
        program, verifier = self.program, self.verifier
        assert program is not None
        assert verifier is not None
        sides = [self._load(item) for item in request["items"]]
        for k in sides:
            self._ready(k)
        places = 0
        align = max(k.kernel.program.align for k in sides)

        def rounds(n: int) -> list[tuple[float, float]]:
            # Where arrays happen to lie decides between kernels that are about as fast, so they move.
            nonlocal places
            self.tell({"at": "item", "item": 0})  # a long paired comparison is no hang
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

        return timing.paired_comparison(rounds, request["pairs"])

    # ------------------------------------------------------------------ one trial

    def _failure(self, error: Exception) -> Failure | None:
        match error:
            case LoadError() | LaunchError():
                return Failure(FailureKind.LAUNCH, error.message)
            case MemoryError():
                return Failure(FailureKind.RESOURCES, str(error) or "out of memory")
            case OSError():
                kind = FailureKind.RESOURCES if error.errno == errno.ENOMEM else FailureKind.LAUNCH
                return Failure(kind, error.strerror or str(error))
            case TilewrightError():
                kind = FailureKind.RESOURCES if "no memory" in error.message else FailureKind.LAUNCH
                return Failure(kind, error.message)
        return None

    def _load(self, item: Mapping[str, Any]) -> Kernel:
        library = self._kept(item, load_path)
        kernel = library.kernel(LaunchProgram.from_json(item["program"]), item["launch"], self.threads)
        return Kernel(key=item["key"], code=library, kernel=kernel)

    def _check(self, kernel: Kernel, sets: Sequence[int]) -> str | None:
        assert self.verifier is not None
        assert self.program is not None
        align = kernel.kernel.program.align
        own: dict[str, GuardedArray] = {}

        def allocate(purpose: str, size: int) -> GuardedArray:
            own[purpose] = self._workspace(purpose, size)
            watch([Zone(g.name.encode(), g.zone[0], g.address, g.data.size, g.zone[1]) for g in alive()])
            return own[purpose]

        call = kernel.kernel.prepare([0] * (len(self.program.inputs) + len(self.program.outputs)), allocate)

        def run(pointers: Sequence[int]) -> None:
            own["workspace"].data.fill(POISON)
            call.use(pointers)
            time_rounds([call], 1)

        problem = self.verifier.check(run, sets, align, kernel.kernel.program.rounding)
        strayed = [memory for memory in own.values() if memory.trespassed()]
        for memory in strayed:
            memory.restore()
        if problem is None and strayed:
            problem = f"writes outside {strayed[0].name}"
        return problem

    def _workspace(self, purpose: str, size: int) -> GuardedArray:
        """Zeroed memory of the kernel at hand."""
        key = purpose, size
        found = self.workspaces.pop(key, None) or GuardedArray((size,), "uint8", "end", 4096, name=f"its {purpose}")
        self.workspaces[key] = found
        found.data.fill(0)
        while len(self.workspaces) > WORKSPACES:
            self.workspaces.popitem(last=False)
        return found

    # ------------------------------------------------------------------ timing

    def _time(self, kernel: Kernel, pairs: int) -> Measurement:
        self._ready(kernel, rough=True)
        if self.incumbent is None:
            times = self._alone(kernel, pairs)
            return Measurement(statistics.median(times), timing.spread(times), len(times), cache_state=self._state)
        incumbent = self.incumbent
        paired = timing.compare(
            lambda n: self._rounds(kernel, incumbent, n), kernel.sample_seconds, incumbent.sample_seconds, pairs,
            best=incumbent.best,
        )  # fmt: skip
        incumbent.best = min(incumbent.best, paired.ratio)
        return Measurement(
            incumbent.seconds * paired.ratio, timing.spread(paired.ratios), len(paired.times), paired.ratio,
            paired.dropped, self._state,
        )  # fmt: skip

    def _ready(self, k: Kernel, rough: bool = False) -> None:
        """Put a kernel on the operands for timing, and see about how long a call takes."""
        assert self.program is not None
        assert self.verifier is not None
        align = k.kernel.program.align
        if align not in self.buffers:
            self.buffers[align] = timing_inputs(self.program, self.verifier, align)
        k.call = k.kernel.prepare([g.address for g in self.buffers[align]])

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

    def _time_incumbent(self, item: Mapping[str, Any]) -> Kernel:
        k = self._load(item)
        self._ready(k)
        k.own = statistics.median(self._alone(k, 7))
        return k
