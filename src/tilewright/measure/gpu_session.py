"""Serves requests in the child of a GPU device: it checks and times kernels through a driver.

Requests and messages are those of ``session.Session``. Results are checked on the device if possible
(``device_checks.py``); the verifier on the host checks results with a possible mistake. After an error that destroys
the device's context, the child reports it and ends; the runner starts another child.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tilewright.backends import get_backend
from tilewright.backends.driver import DeviceError, LaunchError, OutOfMemory
from tilewright.backends.launches import DeviceKernel, Memory, Queue, checked_hash
from tilewright.core import Failure, FailureKind, Measurement, Outcome, Pairs, TilewrightError, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.measure import gpu_timing, timing
from tilewright.measure.check_kernels import check_code
from tilewright.measure.device_checks import DeviceChecks, as_bytes
from tilewright.measure.gpu_buffers import CheckArena, KeptArrays, TimingArena
from tilewright.measure.messages import At, Compare, KernelFile, Measure, Told
from tilewright.measure.task_session import Loaded, TaskSession, Tell
from tilewright.verifying.verify import ALL_SETS, Problem

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Graph, Guard, Module
    from tilewright.verifying.verify import InputSet

ROOM = 0.4  # share of the device's memory for operand sets
KEPT = 0.1  # share of the device's memory for data of the checks, which stays there
DROP = 1.1  # ratio to the incumbent's time above which the first samples are enough: GPU times vary by a few percent
FEW_SAMPLES = 3


@dataclass(kw_only=True)
class GpuKernel(Loaded):
    """A loaded candidate. ``calls``: its launches by the operand set that they use. ``packed``: addresses of each set's
    packed inputs, which lie in its own ``memory``. ``taken``: operands of a call, for each set whose inputs are packed.
    ``captured``: number of calls that are timed as one ``graph``; 0 if they are launched one by one. ``launched``:
    number of launches in its timing so far, warm-up included."""

    code: Module
    kernel: DeviceKernel
    memory: Memory
    calls: dict[int, Queue] = field(default_factory=dict)
    packed: list[dict[int, int]] = field(default_factory=list)
    taken: dict[int, list[Any]] = field(default_factory=dict)
    graph: Graph | None = None
    captured: int = 0
    estimate: float = 0.0
    launched: int = 0
    judged: str = ""  # where its result passed the check: device, or host

    @property
    def launches(self) -> int:
        """Number of launches that a call queues."""
        return len(self.kernel.program.launches) + (self.kernel.zero_fill > 0)

    def plan(self, samples: int = gpu_timing.SAMPLES) -> gpu_timing.Plan:
        """The sampling plan, from the estimated time and the launches of a call."""
        if self.captured:
            return gpu_timing.replays(self.estimate, self.captured, samples)
        return gpu_timing.plan(self.estimate, samples, self.launches)

    def unbind(self) -> None:
        """Drop calls on operands and a workspace that are no longer used for timing."""
        self.calls.clear()
        self.taken.clear()
        self.graph = None


class GpuSession(TaskSession[GpuKernel]):
    """State of one child: the device's context for its lifetime, and the buffers of the current task.

    ``guard``: watches the device during a batch (default: the backend's guard, if it works).
    """

    def __init__(self, settings: Mapping[str, Any], tell: Tell, guard: Guard | None = None) -> None:
        backend = get_backend(settings["backend"])
        self.context: Context = backend.open(settings["device"], settings["driver"])
        self.guard = guard or backend.guard(self.context)
        self.limits = dict(self.context.limits)
        self.rotate_bytes: int = settings["rotate_bytes"] or int(self.limits.get("l2_bytes", 32 << 20))
        self.watch = gpu_timing.Stopwatch(self.context)
        self.checks = CheckArena(self.context)
        self.kept = KeptArrays(self.context, int(KEPT * float(self.limits.get("memory_bytes", 0))))
        code = check_code(backend, self.context)
        self.device = None if code is None else DeviceChecks(self.context, code, self.kept)
        self.place = self.turn = 0
        self.captures = True  # until the driver refuses to capture
        self.arena: TimingArena | None = None
        self.scratch: tuple[int, int] = (0, 0)  # address and size of the workspace for timing
        super().__init__(settings, tell)

    def _reset(self, text: str) -> None:
        super()._reset(text)
        self.since_retimed = 0
        self._forget()
        if self.arena is not None:
            self.arena.close()
            self.arena = None

    # ------------------------------------------------------------------ requests

    def _measure(self, request: Measure) -> None:
        held: dict[int, Outcome] = {}  # until the guard has looked at the device
        reasons: tuple[str, ...] = ()
        for pause in self._tries():
            if self.guard is not None:
                self.tell(At())  # the guard's time counts for no kernel
                self.guard.begin()
            self._adopt(request.incumbent)
            held = self._batch([x for x in request.items if not reasons or x[0] in held], request.pairs)
            if self.guard is None or not held:
                return
            self.tell(At())
            reasons = self.guard.end()
            if reasons:
                self.since_retimed = gpu_timing.RETIME_EVERY  # the incumbent was timed under these conditions too
            if not reasons or self.spoilt or pause is None:
                break
            time.sleep(pause)
        for n, outcome in held.items():
            self._vouch(n, outcome, reasons)

    def _batch(self, items: Sequence[tuple[int, KernelFile]], pairs: int) -> dict[int, Outcome]:
        """Check and time kernels. Returns outcomes that the guard must confirm; reports all others at once."""
        held: dict[int, Outcome] = {}
        for n, item in items:
            self._prepare(item)
            self._prepare_arena()
            self.tell(At(n))
            outcome = self._try(item, pairs)
            if self.guard is not None and (self.spoilt or isinstance(outcome, Measurement)):
                held[n] = outcome
            else:
                self.tell(Told(n, outcome))
            if self.spoilt:
                break
        return held

    def _vouch(self, n: int, outcome: Outcome, reasons: Sequence[str]) -> None:
        """Report an outcome after the guard has looked at the device. ``reasons``: why to distrust the outcome."""
        assert self.guard is not None
        if isinstance(outcome, Measurement):
            if reasons and self.spoilt:
                return  # the next child times the kernel again
            outcome = replace(outcome, environment=(*outcome.environment, *self.guard.facts))
        if reasons and (isinstance(outcome, Measurement) or self.guard.memory_failed):
            outcome = Failure(FailureKind.DEVICE_LOST, f"void: {'; '.join(reasons)}")
        self.tell(Told(n, outcome))

    def _tries(self) -> Sequence[float | None]:
        """Seconds to wait after each void try; ``None`` after the last."""
        return (*(self.guard.pauses if self.guard is not None else ()), None)

    def _compare(self, request: Compare) -> timing.PairedComparison:
        for pause in self._tries():
            if self.guard is None:
                return self._pair(request)
            self.tell(At())
            self.guard.begin()
            reply = self._pair(request)
            self.tell(At())
            reasons = self.guard.end()
            if not reasons:
                return reply
            if pause is None:
                self._end(TilewrightError(f"void: {'; '.join(reasons)}"))
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _pair(self, request: Compare) -> timing.PairedComparison:
        self._prepare_arena()
        self.tell(At(0))
        try:
            # The challenger runs between two copies of the champion, so a linear drift cancels. The second copy is a
            # module of its own.
            turns = [self._load(request.champion), self._load(request.challenger)]
            turns.append(self._load(request.champion, copy=True))
            try:
                for k in turns:
                    self._ready(k)
                    self._estimate(k)
                if not all(k.captured for k in turns):  # events add more overhead to single launches than to graphs
                    for k in turns:
                        k.captured = 0
                plans = [k.plan() for k in turns]

                def session(n: int) -> list[tuple[float, float, float]]:
                    # Placement of operands decides between kernels of nearly equal speed, so it changes each session.
                    self.tell(At(0))  # report progress: a long paired comparison is not a hang
                    self.place += 1
                    for k in turns:
                        k.unbind()
                        self._warm(k)
                    for k in turns:
                        self._bind(k, sum(n * p.calls for p in plans))
                    first, middle, last = self.watch.interleaved([self._launcher(k) for k in turns], plans, n)
                    return list(zip(middle, first, last, strict=True))

                cost = sum(p.calls * k.estimate for k, p in zip(turns, plans, strict=True))
                return timing.paired_comparison(session, cost, request.sessions)
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
        self._retime_incumbent()
        incumbent = self.incumbent
        dropped = incumbent is not None and kernel.estimate > DROP * incumbent.own
        if not dropped:
            times = self._samples(kernel, kernel.plan(min(pairs, gpu_timing.SURE)))
            if timing.spread(times) > gpu_timing.STEADY and len(times) < pairs:
                times += self._samples(kernel, kernel.plan(pairs - len(times)))
        own = statistics.median(times)
        ratio = own / incumbent.own if incumbent is not None else None
        seconds = own if incumbent is None or ratio is None else incumbent.seconds * ratio
        self.since_retimed += 1
        seen: dict[str, Value] = {f"{k}_before": v for k, v in before.items()}
        seen |= {f"{k}_after": v for k, v in self._clocks().items()}
        seen |= {"launches": kernel.launched, "captured": kernel.captured, "checked_on": kernel.judged}
        return Measurement(
            seconds,
            timing.spread(times),
            len(times),
            ratio,
            dropped,
            self._state,
            environment=self._facts(seen),
        )

    def _clocks(self) -> dict[str, float]:
        return {k: round(float(v), 3) for k, v in self.context.clocks().items()}

    def _facts(self, seen: Mapping[str, Value]) -> Pairs:
        known = {k: v for k, v in self.context.facts if k != "device"}  # the runner adds the device's name
        return (*known.items(), *seen.items())

    def _load(self, item: KernelFile, copy: bool = False) -> GpuKernel:
        def load(path: str, sha: str) -> Module:
            data = Path(path).read_bytes()
            checked_hash(data, sha)
            return self.context.load(data)

        code = load(item.path, item.sha256) if copy else self._kept(item, load)
        kernel = DeviceKernel(self.context, code, item.program, item.launch)
        return GpuKernel(key=item.key, code=code, kernel=kernel, memory=Memory(self.context))

    # ------------------------------------------------------------------ checking

    def _prepare(self, item: KernelFile, sets: Sequence[int] = ALL_SETS) -> None:
        super()._prepare(item, sets)
        if self.device is None:
            return
        try:
            for n in sets:
                data, name = self._set(n, item.program.align, item.program.rounding)
                self.device.keep(data.recipe, data.pristine)
                self.device.prepare(name, data, self.program.outputs)
        except DeviceError as e:
            self._end(e)

    def _set(self, n: int, align: int, rounding: float) -> tuple[InputSet, Hashable]:
        """An input set for a launch program, and the name of its expectations."""
        data = self.verifier.input_set(n, align, rounding)
        return data, (data.recipe, rounding)

    def _check(self, kernel: GpuKernel, sets: Sequence[int]) -> Problem | None:
        program = kernel.kernel.program
        for n in sets:
            problem = self._check_set(kernel, *self._set(n, program.align, program.rounding))
            if problem:
                return problem
        return None

    def _check_set(self, kernel: GpuKernel, data: InputSet, name: Hashable) -> Problem | None:
        """Check one input set; the problem, or ``None``. If an earlier kernel has overwritten the data on the device,
        check once more with new data."""
        for last in (False, True):
            run = _CheckedRun(self, kernel, data)
            if self.device is not None and run.right(self.device, name):
                kernel.judged = kernel.judged or "device"
                return None
            kernel.judged = "host"
            problem = run.problem()
            if self.device is not None:
                damaged = not self.device.intact((data.recipe, name))
            else:
                damaged = problem is not None and run.kept  # an assumption: without checks nothing can tell
            if damaged:
                self._forget()
            if last or problem is None or not damaged:
                return problem
        raise AssertionError("unreachable")

    def _forget(self) -> None:
        """Free the data of the checks on the device."""
        if self.device is None:
            self.kept.close()
        else:
            self.device.forget()

    # ------------------------------------------------------------------ timing

    def _ready(self, k: GpuKernel) -> None:
        """Allocate operand sets and a workspace for timing. Raises ``OutOfMemory``."""
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
                self.incumbent.unbind()

    def _prepare_arena(self) -> None:
        """Allocate the operand sets, outside any kernel's time limit: generating large ones takes seconds."""
        if self.arena is None:
            self.tell(At())
            try:
                self.arena = self._make_arena()
            except OutOfMemory:
                return  # reported by the kernel that needs them
            except DeviceError as e:
                self._end(e)

    def _make_arena(self) -> TimingArena:
        values = [as_bytes(v) for v in self.verifier.timing_values()]
        outputs = [math.prod(t.shape) * ITEMSIZE[t.dtype] for t in self.program.outputs]
        total = sum(len(v) for v in values) + sum(outputs)
        room = int(ROOM * float(self.limits.get("memory_bytes", 0)) or total * 4)
        sets = gpu_timing.rotation(total, self.rotate_bytes, room, self.cold)
        while True:
            try:
                return TimingArena(self.context, values, outputs, sets)
            except OutOfMemory:
                if sets == 1:
                    raise
                sets = max(1, sets // 2)

    def _call(self, k: GpuKernel, at: int) -> Queue:
        """The launches of a call on operand set ``at``."""
        assert self.arena is not None
        made = k.calls.get(at)
        if made is None:
            made = k.calls[at] = k.kernel.bind(self._tensors(k, at), self.scratch[0])
        return made

    def _tensors(self, k: GpuKernel, at: int) -> list[Any]:
        """Tensors of operand set ``at``, with constant inputs packed for the kernel."""
        assert self.arena is not None
        k.packed = k.packed or k.memory.packed(k.kernel, self.arena.sets)
        if at not in k.taken:
            k.taken[at] = k.kernel.pack(self.arena.tensors(at, self.place), k.packed[at])
        return k.taken[at]

    def _bind(self, k: GpuKernel, calls: int) -> None:
        """Prepare the launches of the next calls before any is queued: preparing takes longer than launching."""
        assert self.arena is not None
        if not k.captured:
            for n in range(self.turn, self.turn + min(calls, self.arena.sets)):
                self._call(k, n % self.arena.sets)

    def _capture(self, k: GpuKernel) -> None:
        """Capture ``captured`` calls into a graph, if the driver can."""
        assert self.arena is not None
        workspace, taken = self.scratch[0], [self._tensors(k, n) for n in range(min(k.captured, self.arena.sets))]
        call = k.kernel.prepare(len(taken[0]))

        def work() -> None:
            for n in range(k.captured):
                call.point(taken[n % len(taken)], workspace)
                call.queue()

        try:
            k.graph = self.context.capture(work) if self.captures else None
        except (LaunchError, DeviceError) as e:
            if isinstance(e, DeviceError) and e.sticky:
                raise
            # The kernel ran before, so the error means that the driver refuses to capture it.
        if k.graph is None:
            k.captured, self.captures = 0, False

    def _launcher(self, k: GpuKernel) -> gpu_timing.Launch:
        assert self.arena is not None
        sets, graph = self.arena.sets, k.graph

        def launch(count: int) -> None:
            k.launched += k.launches * count
            if graph is not None:
                graph.launch()
                return
            for _ in range(count):
                self._call(k, self.turn % sets)()
                self.turn += 1

        return launch

    def _samples(self, k: GpuKernel, wanted: gpu_timing.Plan) -> list[float]:
        self._bind(k, wanted.samples * wanted.calls)
        return self.watch.samples(self._launcher(k), wanted)

    def _estimate(self, k: GpuKernel) -> list[float]:
        """Estimate a call's time; returns samples without the first one, which also loads code."""
        times = self._samples(k, gpu_timing.Plan(2, 1, k.launches + 1))[1:]
        k.estimate = min(times)
        if k.estimate < gpu_timing.WARM_UP:
            assert self.arena is not None
            k.captured = gpu_timing.captured(k.estimate, self.arena.sets, k.launches)
            self._warm(k)
            times = self._samples(k, k.plan(FEW_SAMPLES))
            k.estimate = min(times)
        return times

    def _warm(self, k: GpuKernel) -> None:
        calls = min(gpu_timing.MOST_WARM, int(gpu_timing.WARM_UP / max(k.estimate, 1e-7)))
        if k.captured and k.graph is None:
            self._capture(k)
        self._bind(k, calls)
        launch, each = self._launcher(k), max(1, k.captured or calls)
        for _ in range(0, calls, each):
            launch(each)
        self.context.synchronize()

    def _time_incumbent(self, item: KernelFile) -> GpuKernel | None:
        try:
            k = self._load(item)
            self._ready(k)
            self._estimate(k)
            k.own = statistics.median(self._samples(k, k.plan()))
        except DeviceError as e:
            self._end(e)
        except (TilewrightError, OSError):
            return None  # the error shows again when the kernel is an item
        self.since_retimed = 0
        return k

    def _retime_incumbent(self) -> None:
        """Time the incumbent again from time to time: clocks change with temperature and power."""
        k = self.incumbent
        if k is None or self.since_retimed < gpu_timing.RETIME_EVERY:
            return
        self._warm(k)
        k.own = statistics.median(self._samples(k, k.plan()))
        self.since_retimed = 0

    def _end(self, error: TilewrightError) -> NoReturn:
        """Exit after an error that no kernel caused; the runner reads the reason from stderr."""
        print(_line(error), file=sys.stderr, flush=True)
        sys.exit(4)


class _CheckedRun:
    """One call on an input set. Its results stay on the device until :meth:`problem` fetches them.

    ``kept``: whether the inputs were on the device before, where any kernel may have overwritten them.
    """

    def __init__(self, session: GpuSession, kernel: GpuKernel, data: InputSet) -> None:
        self.session = s = session
        self.data = data
        count, program = len(data.inputs), kernel.kernel
        sizes = [g.data.size for g in (*data.inputs, *data.outputs)]
        own = {"its workspace": program.workspace}
        own |= {f"its rearranged input number {n}": size for n, size in program.packed.items()}
        # Give device addresses the alignment of the host addresses, so that an input set's placement holds on both.
        leads = [*(p % 256 for p in data.pointers), *(0 for _ in own)]
        self.regions = s.checks.place([*sizes, *own.values()], leads, count)
        self.names = [*(g.name for g in (*data.inputs, *data.outputs)), *own]
        self.inputs, self.outputs = self.regions[:count], self.regions[count : len(sizes)]
        self.kept = self._place_inputs()
        for region, byte in zip(self.outputs, s.verifier.unwritten(data.recipe), strict=True):
            s.context.fill(region.address, byte, region.size)
        scratch, *packed = self.regions[len(sizes) :]
        s.context.fill(scratch.address, 0xFF, scratch.size)
        places = {n: r.address for n, r in zip(program.packed, packed, strict=True)}
        tensors = program.pack([r.address for r in self.regions[: len(sizes)]], places)
        program.bind(tensors, scratch.address if scratch.size else 0)()
        s.context.synchronize()

    def _place_inputs(self) -> bool:
        """Copy or upload the inputs to their buffers. Returns whether they were on the device before."""
        s, name = self.session, self.data.recipe
        known = s.kept.get(name) is not None
        held = s.kept.get(name) or (s.device or s.kept).keep(name, self.data.pristine)
        for n, (region, values) in enumerate(zip(self.inputs, self.data.pristine, strict=True)):
            if held is None:
                s.context.upload(region.address, values)
            else:
                s.context.copy(region.address, held.addresses[n], region.size)
        return known

    def right(self, device: DeviceChecks, name: Hashable) -> bool:
        """Whether the device's checks find no mistake; ``False`` may also mean that they cannot tell."""
        inputs = self.session.kept.get(self.data.recipe)
        return (
            inputs is not None
            and device.right(name, self.outputs, self.regions)
            and device.same(self.inputs, inputs.addresses)
            and device.intact((self.data.recipe, name))
        )

    def problem(self) -> Problem | None:
        """The verifier's one-line problem on the host, or ``None``; copies all results to the host."""
        s, data = self.session, self.data
        for region, output in zip(self.outputs, data.outputs, strict=True):
            s.context.download(region.address, output.data)
        for region, values in zip(self.inputs, data.inputs, strict=True):
            s.context.download(region.address, values.data)
        problem = s.verifier.problem(data)
        outside = self._trespass()
        return Problem(f"writes outside {outside} ({data.recipe.name})") if outside else problem

    def _trespass(self) -> str:
        """Name of the buffer around which bytes changed, or an empty string."""
        pairs, count = list(zip(self.names, self.regions, strict=True)), len(self.inputs)
        for name, region in pairs[count:] + pairs[:count]:  # outputs first: by far the most likely
            if self.session.checks.trespassed(region):
                return name
        return ""


def _line(error: BaseException) -> str:
    lines = (error.message if isinstance(error, TilewrightError) else str(error)).splitlines()
    return str(lines[0]) if lines else ""
