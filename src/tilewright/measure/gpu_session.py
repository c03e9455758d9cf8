"""What the child of a GPU device does with requests: it checks and times kernels there, through a driver.

Requests and messages are those of ``session.Session``. After an error that spoils the device's context
the child says so and ends; the runner starts another one.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tilewright.backends import get_backend
from tilewright.backends.driver import DeviceError, OutOfMemory
from tilewright.backends.launches import DeviceKernel, Queue, checked_hash
from tilewright.core import (
    Failure,
    FailureKind,
    LaunchProgram,
    Measurement,
    Outcome,
    Pairs,
    TilewrightError,
)
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.measure import timing
from tilewright.measure.gpu_buffers import CheckArena, KeptInputs, Region, TimingArena
from tilewright.measure.gpu_timing import ANCHOR_EVERY, SAMPLES, WARM_UP, Plan, Stopwatch, middle, plan, rotation
from tilewright.measure.task_session import Loaded, TaskSession, Tell
from tilewright.verifying.inputs import Recipe

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Guard, Module
    from tilewright.verifying.verify import InputSet

ROOM = 0.4  # share of the device's memory for operand sets
KEPT = 0.1  # and for the inputs of checks, which stay there
LARGE = 256 << 20  # bytes of inputs from which only the first set is read back
DROP = 1.5  # times the incumbent's, from which the first samples are enough
FEW_SAMPLES = 3

Bytes = npt.NDArray[np.uint8]


@dataclass(kw_only=True)
class GpuKernel(Loaded):
    """A loaded candidate; ``calls`` are its launches on the sets it has met, ``launched`` how many launches timing it
    has taken so far, those that only warm up included."""

    code: Module
    kernel: DeviceKernel
    calls: dict[int, Queue] = field(default_factory=dict)
    estimate: float = 0.0
    launched: int = 0

    @property
    def launches(self) -> int:
        """Launches that a call queues."""
        return len(self.kernel.program.launches) + (self.kernel.zero_fill > 0)

    def plan(self, samples: int = SAMPLES) -> Plan:
        """How to sample it, by its estimate and by what a call queues."""
        return plan(self.estimate, samples, self.launches)


class GpuSession(TaskSession[GpuKernel]):
    """State of one child: the device's context for good, buffers of the task until another one comes.

    ``guard``: what looks at the device around a batch (default: its backend's, where that works).
    """

    def __init__(self, settings: Mapping[str, Any], tell: Tell, guard: Guard | None = None) -> None:
        backend = get_backend(settings["backend"])
        self.context: Context = backend.open(settings["device"], settings["driver"])
        self.guard = guard or backend.guard(self.context)
        self.limits = dict(self.context.limits)
        self.rotate_bytes: int = settings["rotate_bytes"] or int(self.limits.get("l2_bytes", 32 << 20))
        self.watch = Stopwatch(self.context)
        self.checks = CheckArena(self.context)
        self.inputs = KeptInputs(self.context, int(KEPT * float(self.limits.get("memory_bytes", 0))))
        self.place = 0
        self.arena: TimingArena | None = None
        self.scratch: tuple[int, int] = (0, 0)  # address and size of the workspace for timing
        super().__init__(settings, tell)

    def _reset(self, text: str) -> None:
        super()._reset(text)
        self.since_anchor = 0
        self.inputs.close()
        if self.arena is not None:
            self.arena.close()
            self.arena = None

    # ------------------------------------------------------------------ requests

    def _measure(self, request: Mapping[str, Any]) -> None:
        todo = request["items"]
        held: dict[int, Outcome] = {}  # until the device has been looked at
        reasons: tuple[str, ...] = ()
        for pause in self._tries():
            if self.guard is not None:
                self.tell({"at": "prepare"})  # looking at the device is no kernel's doing
                self.guard.begin()
            self._adopt(request["incumbent"])
            held = self._batch([(n, item) for n, item in todo if not reasons or n in held])
            if self.guard is None or not held:
                return
            self.tell({"at": "prepare"})
            reasons = self.guard.end()
            if reasons:
                self.since_anchor = ANCHOR_EVERY  # the incumbent was timed under the same conditions
            if not reasons or self.spoilt or pause is None:
                break
            time.sleep(pause)
        for n, outcome in held.items():
            self._vouch(n, outcome, reasons)

    def _batch(self, items: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[int, Outcome]:
        """Check and time kernels. What a guard has to vouch for is given back; everything else is told at once."""
        held: dict[int, Outcome] = {}
        for n, item in items:
            self._prepare(item)
            self._prepare_arena()
            self.tell({"at": "item", "item": n})
            outcome = self._try(item)
            if self.guard is not None and (self.spoilt or isinstance(outcome, Measurement)):
                held[n] = outcome
            else:
                self.tell({"item": n, "outcome": outcome.to_json()})
            if self.spoilt:
                break
        return held

    def _vouch(self, n: int, outcome: Outcome, reasons: Sequence[str]) -> None:
        """Tell an outcome after a look at the device, which gave ``reasons`` to distrust it."""
        assert self.guard is not None
        if isinstance(outcome, Measurement):
            if reasons and self.spoilt:
                return  # the next child times it again
            outcome = replace(outcome, environment=(*outcome.environment, *self.guard.facts))
        if reasons and (isinstance(outcome, Measurement) or self.guard.memory_failed):
            outcome = Failure(FailureKind.DEVICE_LOST, f"void: {'; '.join(reasons)}")
        self.tell({"item": n, "outcome": outcome.to_json()})

    def _tries(self) -> Sequence[float | None]:
        """Seconds to wait after each try that was void; ``None`` after the last."""
        return (*(self.guard.pauses if self.guard is not None else ()), None)

    def _compare(self, request: Mapping[str, Any]) -> timing.PairedComparison:
        for pause in self._tries():
            if self.guard is None:
                return self._pair(request)
            self.tell({"at": "prepare"})
            self.guard.begin()
            reply = self._pair(request)
            self.tell({"at": "prepare"})
            reasons = self.guard.end()
            if not reasons:
                return reply
            if pause is None:
                self._end(TilewrightError(f"void: {'; '.join(reasons)}"))
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _pair(self, request: Mapping[str, Any]) -> timing.PairedComparison:
        self._prepare_arena()
        self.tell({"at": "item", "item": 0})
        try:
            challenger, champion = request["items"]
            # The challenger in the middle: a drift that is even cancels. The champion's second copy is a second module.
            turns = [self._load(champion), self._load(challenger), self._load(champion, copy=True)]
            try:
                for k in turns:
                    self._ready(k)
                    self._estimate(k)
                plans = [k.plan() for k in turns]

                def session(n: int) -> list[tuple[float, float, float]]:
                    # Where operands happen to lie decides between kernels that are about as fast, so they move.
                    self.tell({"at": "item", "item": 0})  # a long paired comparison is no hang
                    self.place += 1
                    for k in turns:
                        k.calls.clear()
                        self._warm(k)
                    first, middle, last = self.watch.interleaved([self._launcher(k) for k in turns], plans, n)
                    return list(zip(middle, first, last, strict=True))

                cost = sum(p.calls * k.estimate for k, p in zip(turns, plans, strict=True))
                return timing.paired_comparison(session, cost, request["sessions"])
            finally:
                turns[-1].code.close()
        except DeviceError as e:
            self._end(e)

    # ------------------------------------------------------------------ one trial

    def _failure(self, error: Exception) -> Failure | None:
        match error:
            case DeviceError():
                self.spoilt = error.sticky
                return Failure(FailureKind.CRASH if error.sticky else FailureKind.LAUNCH, _line(error))
            case OutOfMemory() | MemoryError():
                return Failure(FailureKind.RESOURCES, _line(error) or "out of memory")
            case TilewrightError() | OSError():
                return Failure(FailureKind.LAUNCH, _line(error))
        return None

    def _time(self, kernel: GpuKernel, pairs: int) -> Measurement:
        self.place += 1
        before = self._clocks()
        self._ready(kernel)
        times = self._estimate(kernel)
        self._renew_anchor()
        incumbent = self.incumbent
        dropped = incumbent is not None and kernel.estimate > DROP * incumbent.own
        if not dropped:
            times = self.watch.samples(self._launcher(kernel), kernel.plan(pairs))
        own = middle(times)
        ratio = own / incumbent.own if incumbent is not None else None
        seconds = own if incumbent is None or ratio is None else incumbent.seconds * ratio
        self.since_anchor += 1
        clocks = {f"{k}_{w}": v for w, at in (("before", before), ("after", self._clocks())) for k, v in at.items()}
        return Measurement(
            seconds,
            timing.spread(times),
            len(times),
            ratio,
            dropped,
            self._state,
            environment=self._facts({**clocks, "launches": kernel.launched}),
        )

    def _clocks(self) -> dict[str, float]:
        return {k: round(float(v), 3) for k, v in self.context.clocks().items()}

    def _facts(self, seen: Mapping[str, float]) -> Pairs:
        known = {k: v for k, v in self.context.facts if k != "device"}  # the runner names the device
        return (*known.items(), *seen.items())

    def _load(self, item: Mapping[str, Any], copy: bool = False) -> GpuKernel:
        def load(path: str, sha: str) -> Module:
            data = Path(path).read_bytes()
            checked_hash(data, sha)
            return self.context.load(data)

        code = load(item["path"], item["sha256"]) if copy else self._kept(item, load)
        kernel = DeviceKernel(self.context, code, LaunchProgram.from_json(item["program"]), item["launch"])
        return GpuKernel(key=item["key"], code=code, kernel=kernel)

    # ------------------------------------------------------------------ checking

    def _check(self, kernel: GpuKernel, sets: Sequence[int]) -> str | None:
        assert self.verifier is not None
        for n in sets:
            data = self.verifier.input_set(n, kernel.kernel.program.align, kernel.kernel.program.rounding)
            problem, kept = self._check_set(kernel, data, n == sets[0])
            if problem and kept:  # an earlier kernel may have written over what lay on the device: once more, with new
                self.inputs.close()
                problem, _ = self._check_set(kernel, data, n == sets[0])
            if problem:
                return problem
        return None

    def _check_set(self, kernel: GpuKernel, data: InputSet, first: bool) -> tuple[str | None, bool]:
        """What is wrong on one input set, and whether that lay on the device."""
        assert self.verifier is not None
        run = _CheckedRun(self, kernel, data.recipe, first)
        problem = self.verifier.check_set(run, data)
        return f"writes outside {run.outside} ({data.recipe.name})" if run.outside else problem, run.kept

    # ------------------------------------------------------------------ timing

    def _ready(self, k: GpuKernel) -> None:
        """Operand sets and a workspace for timing. Raises ``OutOfMemory``."""
        if self.arena is None:
            self.arena = self._make_arena()
        need = k.kernel.workspace
        address, size = self.scratch
        if need > size:
            if size:
                self.context.free(address)
                self.scratch = (0, 0)
            self.scratch = (self.context.allocate(need), need)
            if self.incumbent is not None:
                self.incumbent.calls.clear()

    def _prepare_arena(self) -> None:
        """The operand sets, for which no kernel is to blame: drawing large ones takes seconds."""
        if self.arena is None:
            self.tell({"at": "prepare"})
            try:
                self.arena = self._make_arena()
            except OutOfMemory:
                return  # told where it is needed
            except DeviceError as e:
                self._end(e)

    def _make_arena(self) -> TimingArena:
        assert self.program is not None
        assert self.verifier is not None
        values = [_bytes(v) for v in self.verifier.timing_values()]
        outputs = [math.prod(t.shape) * ITEMSIZE[t.dtype] for t in self.program.outputs]
        total = sum(len(v) for v in values) + sum(outputs)
        room = int(ROOM * float(self.limits.get("memory_bytes", 0)) or total * 4)
        sets = rotation(total, self.rotate_bytes, room, self.cold)
        while True:
            try:
                return TimingArena(self.context, values, outputs, sets)
            except OutOfMemory:
                if sets == 1:
                    raise
                sets = max(1, sets // 2)

    def _launcher(self, k: GpuKernel) -> Callable[[int], None]:
        assert self.arena is not None
        arena, place, workspace = self.arena, self.place, self.scratch[0]

        def launch(n: int) -> None:
            k.launched += k.launches
            number = n % arena.sets
            call = k.calls.get(number)
            if call is None:
                call = k.calls[number] = k.kernel.bind(arena.tensors(number, place), workspace)
            call()

        return launch

    def _estimate(self, k: GpuKernel) -> list[float]:
        """About how long a call takes, and the samples that say so: not the first, which also loads code."""
        launch = self._launcher(k)
        times = self.watch.samples(launch, Plan(2, 1))[1:]
        k.estimate = min(times)
        if k.estimate < WARM_UP:
            self._warm(k)
            times = self.watch.samples(launch, k.plan(FEW_SAMPLES))
            k.estimate = min(times)
        return times

    def _warm(self, k: GpuKernel) -> None:
        launch = self._launcher(k)
        for n in range(min(64, int(WARM_UP / max(k.estimate, 1e-7)))):
            launch(n)
        self.context.synchronize()

    def _time_incumbent(self, item: Mapping[str, Any]) -> GpuKernel | None:
        try:
            k = self._load(item)
            self._ready(k)
            self._estimate(k)
            k.own = middle(self.watch.samples(self._launcher(k), k.plan()))
        except DeviceError as e:
            self._end(e)
        except (TilewrightError, OSError):
            return None  # it fails elsewhere too, where it is an item
        self.since_anchor = 0
        return k

    def _renew_anchor(self) -> None:
        """Time the incumbent again from time to time: clocks move with temperature and power."""
        k = self.incumbent
        if k is None or self.since_anchor < ANCHOR_EVERY:
            return
        self._warm(k)
        k.own = middle(self.watch.samples(self._launcher(k), k.plan()))
        self.since_anchor = 0

    def _end(self, error: TilewrightError) -> NoReturn:
        """Leave after an error for which there is no item to blame; the runner reads why."""
        print(_line(error), file=sys.stderr, flush=True)
        sys.exit(4)


class _CheckedRun:
    """One call for the verifier: buffers to the device, launches, and everything back.

    ``outside`` names the buffer around which bytes changed; ``kept``: the inputs lay on the device.
    """

    def __init__(self, session: GpuSession, kernel: GpuKernel, recipe: Recipe, first: bool) -> None:
        self.session = session
        self.kernel = kernel
        self.recipe = recipe
        self.first = first
        self.outside = ""
        self.kept = False

    def __call__(self, pointers: Sequence[int]) -> None:
        s, k = self.session, self.kernel
        assert s.program is not None
        tensors, count = (*s.program.inputs, *s.program.outputs), len(s.program.inputs)
        sizes = [math.prod(t.shape) * ITEMSIZE[t.dtype] for t in tensors]
        host = [_at(p, size) for p, size in zip(pointers, sizes, strict=True)]
        inputs, outputs = host[:count], host[count:]
        workspace = k.kernel.workspace
        # Host and device addresses are equally aligned, so that a set's placement means the same there.
        leads = [*(p % 256 for p in pointers), 0]
        regions = s.checks.place([*sizes, workspace], leads, count)
        self.kept = s.inputs.place(self.recipe, inputs, [r.address for r in regions[:count]])
        results, scratch = regions[count:-1], regions[-1]
        for region, output in zip(results, outputs, strict=True):
            if output.size:
                s.context.fill(region.address, int(output[0]), region.size)  # poisoned by the verifier, byte for byte
        if workspace:
            s.context.fill(scratch.address, 0xFF, workspace)
        k.kernel.bind([r.address for r in regions[:-1]], scratch.address if workspace else 0)()
        s.context.synchronize()
        for region, output in zip(results, outputs, strict=True):
            s.context.download(region.address, output)
        if self.first or sum(sizes) <= LARGE:
            for region, data in zip(regions, inputs, strict=False):
                back = np.empty(region.size, np.uint8)
                s.context.download(region.address, back)
                if not np.array_equal(back, data):
                    data[:] = back  # so that the verifier sees it
        self.outside = self._trespass(regions, count)

    def _trespass(self, regions: Sequence[Region], inputs: int) -> str:
        outputs = len(regions) - inputs - 1
        results = ["the output"] if outputs == 1 else [f"output number {n}" for n in range(outputs)]
        names = [*(f"input number {n}" for n in range(inputs)), *results, "its workspace"]
        pairs = list(zip(names, regions, strict=True))
        for name, region in pairs[inputs:] + pairs[:inputs]:  # the output first: the likeliest by far
            if self.session.checks.trespassed(region):
                return name
        return ""


def _at(address: int, size: int) -> Bytes:
    """The host's memory as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _bytes(values: npt.NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _line(error: BaseException) -> str:
    lines = (error.message if isinstance(error, TilewrightError) else str(error)).splitlines()
    return str(lines[0]) if lines else ""
