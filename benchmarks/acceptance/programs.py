"""Whole programs: forward passes and training steps with tuned kernels, beside PyTorch's own ways to run them.

Each way is made within a time of its own, answers, is compared with the program in float32, and all that were made take
turns. Without a GPU the programs are tiny and run on the processor.
"""

from __future__ import annotations

import copy
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from acceptance.operands import torch_problem
from acceptance.rows import SPOILT, Row, Teller, line_of
from acceptance.world import World
from suite import geomean
from tilewright.measure.comparing import in_turns
from tilewright.measure.timing import median_interval

PASSES = ("forward", "fresh", "training")
OURS = ("tilewright", "tilewright, optimized")
RIVALS = ("eager", "compile", "max-autotune")
READY = 60.0
"""Seconds in which a way has to be ready, beside those that ours tune."""
SLOW = 10.0
"""How much longer it may take on a processor."""
TURNS = 3.0
"""Seconds of turns."""
ROUNDS = 61
TRIALS, FEW = 4, 3
"""On the processor: trials of a program's tasks together, and tasks of a training step."""
SAMPLE = 5e-3
FACTOR, SMALL = 4.0, 0.02
"""How far from float32 an answer may lie: so many times eager's own distance, or this share of the largest number."""

Call = Callable[[], Sequence[Any]]
"""A run of a program: the tensors that it answers."""


def names() -> Iterator[str]:
    """Programs and passes, the most telling first; those behind come as far as the time reaches."""
    from acceptance.modules import PROGRAMS

    for kind in PASSES:
        yield from (f"programs/{n}/{kind}" for n, p in PROGRAMS.items() if p.trained or kind != "training")


@dataclass(frozen=True, eq=False)
class Subject:
    """A program on the device in bfloat16. ``tune``: seconds that each of ours may tune, ``db`` where that is kept."""

    module: Any
    example: tuple[Any, ...]
    training: bool
    device: str
    db: Path
    tune: float

    def run(self, module: Any) -> Call:
        """A call of a form of the module, which ends when the device has."""
        import torch

        wait = torch.cuda.synchronize if self.device == "cuda" else _nothing

        def forward() -> Sequence[Any]:
            with torch.no_grad():
                answer = module(*self.example)
            wait()
            return [answer]

        parameters = list(self.module.parameters())
        target = self.target

        def step() -> Sequence[Any]:
            for p in parameters:
                p.grad = None
            loss = (module(*self.example).float() - target).square().mean()
            loss.backward()
            wait()
            return [loss.detach(), *(parameters[n].grad for n in (0, len(parameters) // 2, -1))]

        return step if self.training else forward

    @property
    def patience(self) -> float:
        """Seconds in which a way has to be ready."""
        return READY if self.device == "cuda" else SLOW * READY

    @cached_property
    def target(self) -> Any:
        """What a training step has the program answer."""
        import torch

        with torch.no_grad():
            like = self.module(*self.example)
        same = torch.Generator(self.device).manual_seed(1)
        return torch.randn(like.shape, device=self.device, generator=same)

    @property
    def settings(self) -> dict[str, Any]:
        """How tasks are tuned: for so many seconds on the GPU, in a few trials on the processor."""
        if self.device == "cuda":
            return {"device": "cuda:0", "time_budget": self.tune}
        return {"target": "cpu", "trials": TRIALS, "cost_model": "random"}


def measured(world: World, tell: Teller, name: str, folder: Path, tune: float, known: Sequence[Row]) -> None:
    """The rows of one pass of one program."""
    problem = torch_problem(world)
    if problem is not None:
        tell.row(name, "skipped", message=problem)
        return
    _, program, kind = name.split("/")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    if kind == "fresh":
        with tell.unit(f"{name}/first"):
            _fresh(tell, f"{name}/first", subject(world, program, False, folder, tune))
        return
    with tell.unit(f"{name}/beside"), tell.trusted() if world.emulated else nullcontext():
        _beside(tell, name, subject(world, program, kind == "training", folder, tune), known)


def subject(world: World, name: str, training: bool, folder: Path, tune: float) -> Subject:
    """A program, made as in every run."""
    import torch

    from acceptance.modules import PROGRAMS

    device = "cpu" if world.emulated else "cuda"
    program = PROGRAMS[name]
    torch.manual_seed(0)
    module, example = program.make(world.emulated)
    module = module.to(device, torch.bfloat16).train(training)
    moved = tuple(t.to(device, torch.bfloat16) if t.is_floating_point() else t.to(device) for t in example)
    if program.image and (device == "cuda" or not training):  # a processor's backward pass crashes in 2.13
        module = module.to(memory_format=torch.channels_last)
        moved = tuple(t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in moved)
    return Subject(module, moved, training, device, folder / f"{name}.db", tune)


# --------------------------------------------------------------------------- the ways to run it


def _ways(one: Subject) -> Mapping[str, Callable[[], Call]]:
    """What makes each way, rivals that are soon ready first."""
    import torch

    every: dict[str, Callable[[], Call]] = {
        "eager": lambda: one.run(one.module),
        "compile": lambda: one.run(torch.compile(one.module)),
        "tilewright, optimized": partial(_optimized, one),
        "tilewright": partial(_compiled, one),
        "max-autotune": lambda: one.run(torch.compile(one.module, mode="max-autotune")),
    }
    return {way: make for way, make in every.items() if not (one.training and make is every["tilewright, optimized"])}


def _optimized(one: Subject) -> Call:
    from tilewright.torch import optimize

    return one.run(optimize(one.module, one.example, db=one.db, **one.settings))


def _compiled(one: Subject) -> Call:
    """``torch.compile`` with CUDA graphs and our kernels: of the tasks that the module asks for, tuned before."""
    import torch

    import tilewright.torch
    from tilewright.kernels.anonymous import from_program
    from tilewright.runtime import Library
    from tilewright.tuner.many import TuneTask, tune_many

    if one.training:
        asked = _asked(one)[: None if one.device == "cuda" else FEW]
        tasks = [TuneTask(from_program(w.op, w.program), {"dtype": dict(w.params)["dtype"]}) for w in asked]
        if tasks:
            tune_many(tasks, db=one.db, resume=True, **one.settings)
    tilewright.torch.use(Library(one.db, missing_ok=True, watch=False))
    mode = "reduce-overhead" if one.device == "cuda" else None
    return one.run(torch.compile(one.module, backend="tilewright", mode=mode))


def _asked(one: Subject) -> list[Any]:
    """The workloads, of fixed sizes, that kernels could compute of a training step, forwards and backwards."""
    import torch

    from tilewright.torch.backend import Rest, compiled

    found: dict[str, Any] = {}

    def find(workload: Any, *_: Any) -> None:
        if not workload.ranges:
            found[workload.key] = workload

    def backend(graph: Any, inputs: Sequence[Any]) -> Any:
        return compiled(graph, inputs, find, Rest("eager"))

    one.run(torch.compile(one.module, backend=backend))()
    return list(found.values())


# --------------------------------------------------------------------------- rows


def _beside(tell: Teller, name: str, one: Subject, known: Sequence[Row]) -> None:
    """A row for each way as soon as it answers, and one of all that answer right, in turns."""
    before = {r["id"]: r for r in known}
    want = _wide(one)
    own = _distance(one.run(one.module)(), want)
    calls: dict[str, Call] = {}
    for way, make in _ways(one).items():
        row = f"{name}/{way}"
        if before.get(row, {"state": "measured"})["state"] not in ("measured", "skipped"):
            continue  # it died, hung or was wrong before
        tell.at(row)
        call = _ready(tell, row, make, one.patience + (one.tune if way in OURS else 0.0), way in OURS)
        if call is not None and _right(tell, row, call, want, own):
            calls[way] = call
    tell.at(f"{name}/beside")
    ours, rivals = [w for w in OURS if w in calls], [w for w in RIVALS if w in calls]
    if not ours or not rivals:
        tell.row(f"{name}/beside", "skipped", message=f"there are {', '.join(calls) or 'no'} ways to compare")
        return
    samples = in_turns(calls, rounds=ROUNDS, budget=TURNS, sample=SAMPLE)
    seconds = {way: statistics.median(s) for way, s in samples.items()}
    best, rival = (min(ways, key=lambda w: seconds[w]) for ways in (ours, rivals))
    each = [b / a for a, b in zip(samples[best], samples[rival], strict=True)]
    low, high = median_interval(each)
    speedup = statistics.median(each)
    ms = {way: 1e3 * s for way, s in seconds.items()}
    said = f"{best} {ms[best]:.3f} ms, {rival} {ms[rival]:.3f} ms: {speedup:.3f} ({low:.3f} to {high:.3f})"
    tell.row(
        f"{name}/beside", "measured", summary=said, ms=ms, best=best, fastest=rival, speedup=speedup, low=low, high=high
    )  # fmt: skip


def _ready(tell: Teller, row: str, make: Callable[[], Call], seconds: float, ours: bool) -> Call | None:
    """A way that has run once, or no way and a row that says why. Ends the child where the time is over: what compiled
    was interrupted, and the next child goes on without it."""
    began = time.monotonic()
    try:
        with _within(seconds):
            call = make()
            call()
            return call
    except (Exception, Late) as e:  # whatever a library raises
        late = time.monotonic() - began >= seconds
        said = f"not ready within {seconds:.0f} s" if late else line_of(e)
        if tell.wants(row):
            tell.row(row, "failed" if ours and not late else "refused", message=said)
        if late:
            sys.exit(SPOILT)
        return None


def _right(tell: Teller, row: str, call: Call, want: Sequence[Any], own: float) -> bool:
    """Whether a way answers right, told in a row of its own with its time alone."""
    off = _distance(call(), want)
    right = off <= max(FACTOR * own, SMALL)
    if tell.wants(row):
        [samples] = in_turns({row: call}, rounds=9, budget=0.5, sample=SAMPLE).values()
        ms = 1e3 * statistics.median(samples)
        said = f"{ms:.3f} ms, off by {off:.2g} of the largest number (eager: {own:.2g})"
        tell.row(row, "measured" if right else "wrong_result", summary=said, ms=ms, off=off, eager_off=own)
    return right


def _wide(one: Subject) -> Sequence[Any]:
    """What the program answers in float32."""
    import torch

    def wide(t: Any) -> Any:
        return t.float() if t.is_floating_point() else t

    exact = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        module = copy.deepcopy(one.module).float()
        other = Subject(module, tuple(map(wide, one.example)), one.training, one.device, one.db, one.tune)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return [t.detach().clone() for t in other.run(module)()]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = exact


def _distance(got: Sequence[Any], want: Sequence[Any]) -> float:
    """The largest difference of two answers, as a share of the largest number of its tensor; NaN is far."""
    shares = [
        float((a.float() - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in zip(got, want, strict=True)
    ]
    return max(math.inf if math.isnan(s) else s for s in shares)


def summary(rows: Sequence[Row]) -> str:
    """By pass the geometric mean of how much faster ours is than the fastest rival, and the least."""
    lines = []
    for kind in PASSES:
        found = {r["id"].split("/")[1]: r["speedup"] for r in rows if "speedup" in r and f"/{kind}/" in r["id"]}
        if found:
            least = min(found, key=lambda n: found[n])
            lines.append(
                f"{kind}: {geomean(list(found.values())):.2f} of the fastest rival over {len(found)} programs, "
                f"the least {found[least]:.2f} ({least})"
            )
    return "\n".join(lines)


def _fresh(tell: Teller, row: str, one: Subject) -> None:
    """Seconds from the module on the device to its first answer, in a process that has compiled nothing."""
    import torch

    import tilewright.torch
    from tilewright.runtime import Library

    if not one.db.exists():
        tell.row(row, "skipped", message="nothing was tuned for it")
        return
    one.run(torch.nn.Identity())  # PyTorch and the device are there
    began = time.monotonic()
    tilewright.torch.use(Library(one.db, watch=False))
    one.run(torch.compile(one.module, backend="tilewright"))()
    seconds = time.monotonic() - began
    served = dict(tilewright.torch.library().stats().to_json())
    tell.row(row, "measured", summary=f"first answer after {seconds:.2f} s", seconds=seconds, served=served)


class Late(BaseException):
    """The time of a way is over. No error, so that nothing goes on behind it."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Ends what runs in this thread by :class:`Late` once the seconds are over."""

    def over(_signal: int, _frame: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _nothing() -> None:
    """The processor is done when a call returns."""
