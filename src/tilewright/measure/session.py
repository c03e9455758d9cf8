"""Serves requests in the child of a CPU device: it loads, checks and times kernels on its own threads."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import statistics
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.backends.cpu.loader import (
    LoadedKernel,
    Memory,
    PreparedCall,
    TurningCall,
    Zone,
    load_path,
    time_rounds,
    watch,
)
from tilewright.core import Failure, FailureKind, Measurement, TilewrightError
from tilewright.measure import timing
from tilewright.measure.messages import At, Compare, KernelFile, Measure, Told
from tilewright.measure.task_session import Loaded, TaskSession, Tell
from tilewright.verifying.buffers import POISON, GuardedArray, alive
from tilewright.verifying.verify import Problem, timing_inputs

WORKSPACES = 8  # guarded workspaces that are kept for reuse
SETTLE = 10e-3  # seconds that a kernel runs on fresh arrays before it is timed: caches, pages, TLB
COLD_FACTOR = 3  # size of the buffer that evicts operands, in last-level caches
COPIES = 64  # largest number of copies of a kernel's constant inputs, which successive calls rotate through
COPIED_FACTOR = 1.5  # largest total size of these copies in last-level caches, rounded up to a copy
COPIED = 128 << 20  # largest total size of these copies in bytes, if the last-level cache is larger


@dataclass(kw_only=True)
class Kernel(Loaded):
    """A loaded candidate. ``call`` and the fields after it are set once the candidate is to be timed."""

    kernel: LoadedKernel
    call: PreparedCall = field(init=False)
    estimate: float = 0.0
    repeats: int = 1
    best: float = 1.0  # of an incumbent: the least ratio of another kernel's time to the incumbent's

    @property
    def turn_seconds(self) -> float:
        """Seconds of a sample in interleaved timing, including the untimed call before it."""
        return self.estimate * (self.repeats + 1)


class Session(TaskSession[Kernel]):
    """State of the child of a CPU device: libraries, workspaces, timing buffers and the incumbent."""

    def __init__(self, settings: Mapping[str, Any], tell: Tell) -> None:
        super().__init__(settings, tell)
        self.threads: int = settings["threads"]
        self.last_level: int = settings["last_level"]
        # A thread's processor time excludes interruptions; for several threads only elapsed time is measurable.
        self.clock = "cpu" if self.threads == 1 else "monotonic"
        self.flush: Memory | None = None
        self.spare: Memory | None = None  # the last trial's copies of constants: new memory would cost page faults
        self.places = 0

    def _reset(self, text: str) -> None:
        super()._reset(text)
        self.buffers: dict[int, list[GuardedArray]] = {}
        self.workspaces: OrderedDict[tuple[str, int], GuardedArray] = OrderedDict()

    # ------------------------------------------------------------------ requests

    def _measure(self, request: Measure) -> None:
        self._adopt(request.incumbent)
        for n, item in request.items:
            self._prepare(item)
            self.tell(At(n))
            self.tell(Told(n, self._try(item, request.pairs)))

    def _compare(self, request: Compare) -> timing.PairedComparison:
        self.tell(At(0))
        # The challenger runs between two copies of the champion, so that a linear drift cancels.
        turns = (request.champion, request.challenger, request.champion)
        known = [self._load(item) for item in turns]
        for k in known:
            self._ready(k)
        align = max(k.kernel.program.align for k in known)
        warm = 1 + int(SETTLE / max(k.turn_seconds for k in known))

        def session(n: int) -> list[tuple[float, float, float]]:
            # Placement of code and arrays decides between kernels of nearly equal speed, so it changes each session.
            self.tell(At(0))  # report progress: a long paired comparison is not a hang
            self.places += 1
            buffers = timing_inputs(self.program, self.verifier, align, self.places)
            with contextlib.ExitStack() as stack:
                copies = [self._load(item, copy=True) for item in turns]
                for k, copy in zip(known, copies, strict=True):
                    stack.callback(copy.code.close)
                    copy.call, copy.repeats = self._call(copy.kernel, buffers, k.call), k.repeats
                self._rounds(copies, warm)
                self.tell(At(0))
                return [(c, a, b) for a, c, b in self._rounds(copies, n)]

        return timing.paired_comparison(session, sum(k.turn_seconds for k in known), request.sessions)

    # ------------------------------------------------------------------ one trial

    def _failure(self, error: Exception) -> Failure | None:
        match error:
            case MemoryError():
                return Failure(FailureKind.RESOURCES, str(error) or "out of memory")
            case OSError():
                kind = FailureKind.RESOURCES if error.errno == errno.ENOMEM else FailureKind.LAUNCH
                return Failure(kind, error.strerror or str(error))
            case TilewrightError():
                kind = FailureKind.RESOURCES if "no memory" in error.message else FailureKind.LAUNCH
                return Failure(kind, error.message)
        return None

    def _load(self, item: KernelFile, copy: bool = False) -> Kernel:
        library = load_path(item.path, item.sha256, copy=True) if copy else self._kept(item, load_path)
        kernel = library.kernel(item.program, item.launch, self.threads)
        return Kernel(key=item.key, code=library, kernel=kernel)

    def _check(self, kernel: Kernel, sets: Sequence[int]) -> Problem | None:
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
            problem = Problem(f"writes outside {strayed[0].name}")
        return problem

    def _workspace(self, purpose: str, size: int) -> GuardedArray:
        """Zeroed guarded memory for the current kernel."""
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
        state = "network" if isinstance(kernel.call, TurningCall) else self._state
        if self.incumbent is None:
            times = self._alone(kernel, pairs)
            return Measurement(statistics.median(times), timing.spread(times), len(times), cache_state=state)
        incumbent = self.incumbent
        paired = timing.compare(
            lambda n: [(a, b) for a, b in self._rounds([kernel, incumbent], n)], kernel.turn_seconds,
            incumbent.turn_seconds, pairs, best=incumbent.best,
        )  # fmt: skip
        incumbent.best = min(incumbent.best, paired.ratio)
        if isinstance(kernel.call, TurningCall):
            self.spare = kernel.call.memory
        return Measurement(
            incumbent.seconds * paired.ratio, timing.spread(paired.ratios), len(paired.times), paired.ratio,
            paired.dropped, state,
        )  # fmt: skip

    def _ready(self, k: Kernel, rough: bool = False) -> None:
        """Bind a kernel to the operands for timing, and estimate the time of a call."""
        align = k.kernel.program.align
        if align not in self.buffers:
            self.buffers[align] = timing_inputs(self.program, self.verifier, align)
        k.call = self._call(k.kernel, self.buffers[align])

        def once(repeats: int) -> float:
            return time_rounds([k.call], 1, repeats, self.clock)[0][0]

        k.estimate, k.repeats = timing.calibrate(once)
        if self.cold:
            k.repeats = 1
        elif not rough:  # the first call was a warm-up; an incumbent's time must be more accurate
            k.estimate = min(k.estimate, once(k.repeats))

    def _call(
        self, kernel: LoadedKernel, buffers: Sequence[GuardedArray], before: PreparedCall | None = None
    ) -> PreparedCall:
        """A call on these operands. If the program's other constants pass through the caches between two calls, calls
        rotate through copies of the kernel's constants. A call ``before`` may lend its copies."""
        pointers = tuple(g.address for g in buffers)
        constants = {n: buffers[n].data.nbytes for n, t in enumerate(self.program.inputs) if t.constant}
        own = sum(constants.values())
        if self.cold or not own or self.constants_passed <= own:
            return kernel.prepare(pointers)
        read = sum({**constants, **{n: size for n, size, *_ in kernel.prepacks}}.values())
        most = math.ceil(min(COPIED_FACTOR * self.last_level, COPIED) / read)
        copies = min(COPIES, most, math.ceil(self.constants_passed / own))
        spare, self.spare = self.spare, None
        same = before if isinstance(before, TurningCall) else None
        return TurningCall(kernel, pointers, copies, constants, spare, same)

    def _flush(self) -> Memory | None:
        if self.cold and self.flush is None:
            self.flush = Memory(COLD_FACTOR * self.last_level)
            ctypes.memset(self.flush.address, 1, self.flush.size)
        return self.flush if self.cold else None

    def _rounds(self, kernels: Sequence[Kernel], n: int) -> list[tuple[float, ...]]:
        """Seconds of a call of each kernel, round by round."""
        times = time_rounds([k.call for k in kernels], n, [k.repeats for k in kernels], self.clock, self._flush())
        return list(zip(*times, strict=True))

    def _alone(self, k: Kernel, samples: int) -> list[float]:
        many = max(timing.FEWEST, min(samples, int(timing.BUDGET / max(k.estimate * k.repeats, 1e-9))))
        return time_rounds([k.call], many, [k.repeats], self.clock, self._flush())[0]

    def _time_incumbent(self, item: KernelFile) -> Kernel:
        k = self._load(item)
        self._ready(k)
        k.own = statistics.median(self._alone(k, 7))
        return k
