"""Host time of a trial, stage by stage: in a GPU's measuring child, and in the process that tunes.

    python benchmarks/trial_cost.py --check
    python benchmarks/trial_cost.py --device cuda:0

On the emulator's driver (the default) launches, fills and copies within the device do nothing, and events give the time
that a kernel is said to take, so what is timed, on the thread's CPU clock, is what the host does around a trial. What a
real driver takes for the same calls it does not show; on a GPU the same stages are timed on the wall's clock, with all
that the host waits for. One kernel is loaded, checked on three input sets and timed again and again, as a trial with
a binary of its own is; compiling is no part of it.

The tuning process proposes, prints and stores as ever, and learns from made-up times; compilers and the device answer
at once. ``building`` is what its other threads do: they print kernels and look after compilers.

``--check`` exits with 1 where a trial takes more than 15 milliseconds of host time in both together, or where its
results were not judged on the device.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilewright.backends import backend_of
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda.health import GpuFacts, Guard, Health
from tilewright.backends.toolchain import Compiled
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Measurement, Outcome, Task, digest
from tilewright.cost_model import FeatureExtractor, xgb
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import task_space, templates_for
from tilewright.measure.gpu_session import GpuSession
from tilewright.measure.local_target import find_local_target
from tilewright.measure.measuring import Item
from tilewright.measure.messages import KernelFile, Measure, Told
from tilewright.paths import cache_root
from tilewright.serialization import Json
from tilewright.tuner import Observer, TuneSettings
from tilewright.tuner.api import begin
from tilewright.tuner.tuning import Tools, Tuning

PROMISE = 15e-3  # seconds of the host
KERNELS = {1024: 8e-6, 4096: 0.2e-3}
"""Sizes of a bfloat16 product, and the seconds that its kernel is said to take."""


class Stages:
    """Exclusive time by stage: what a stage calls that is a stage of its own does not count for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self._since = 0.0
        self._stack = ["rest"]

    def begin(self) -> None:
        self.seconds.clear()
        self._since = self.clock()

    def end(self) -> dict[str, float]:
        self._turn()
        return dict(self.seconds)

    def _turn(self) -> None:
        now = self.clock()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Count the calls of a method for a stage."""
        inner: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._stack.append(stage)
            try:
                return inner(*args, **kwargs)
            finally:
                self._turn()
                self._stack.pop()

        setattr(owner, name, counted)


class Mark:
    """An event of a device whose kernels take a given time: how many launches came before it."""

    def __init__(self, device: Idle) -> None:
        self.device = device
        self.at = 0

    def record(self) -> None:
        self.at = self.device.launches


class Idle:
    """Makes the emulated device one that does its work in no time, and says that each launch took ``seconds``."""

    def __init__(self, context: Any, seconds: float) -> None:
        self.launches = 0
        context.launch = self._launch
        context.fill = context.copy = lambda *_: None
        context.capture = self._captured
        context.event = lambda: Mark(self)
        context.elapsed = lambda start, stop: (stop.at - start.at) * seconds

    def _launch(self, *_: Any) -> None:
        self.launches += 1

    def _captured(self, work: Callable[[], None]) -> Replayed:
        before = self.launches
        work()
        held, self.launches = self.launches - before, before
        return Replayed(self, held)


@dataclass(frozen=True)
class Replayed:
    """A graph of such a device."""

    device: Idle
    launches: int

    def launch(self) -> None:
        self.device.launches += self.launches


def measured(size: int, device: str, trials: int) -> dict[str, Any]:
    """Seconds of each stage of a trial, the median of ``trials``."""
    backend = backend_of(device)
    target, where = backend.place("auto", device, 1)
    task = Task(get_operator("matmul").workload(m=size, n=size, k=size, dtype="bfloat16"), target)
    candidate = Candidate(task, templates_for(task)[0].default(task))
    with Builder(target, emulated=backend.emulated) as builder:
        (artifact,) = builder.build([candidate])
    if not isinstance(artifact, Artifact):
        raise SystemExit(f"the kernel does not build: {artifact}")
    settings = {
        **backend.settings(where, 0), "backend": backend.name, "driver": None,
        "references": str(cache_root() / "references"),
    }  # fmt: skip
    told: list[Json] = []
    session = GpuSession(settings, told.append, _guard() if backend.emulated else None)
    request = Measure(program=task.workload.program, items=((0, KernelFile.of((candidate, artifact))),), pairs=15)
    if backend.emulated:
        Idle(session.context, KERNELS.get(size, 1e-4))
    session.handle(request)  # inputs, references and operand sets, once a task
    stages = Stages(time.thread_time if backend.emulated else time.perf_counter)
    assert session.device is not None
    for owner, names, stage in (
        (session, ("_load",), "load"),
        (session, ("_check_set",), "launch"),
        (session.checks, ("place",), "inputs"),
        (session.kept, ("get",), "inputs"),
        (session.device, ("right", "same", "intact"), "compare"),
        (session.device, ("_filled",), "guard zones"),
        (session, ("_clocks",), "clocks and health"),
        (session.guard, ("begin", "end"), "clocks and health"),
        (session, ("_time",), "timing"),
        (session, ("_bind", "_capture"), "operands and graphs"),
        (session.context, ("synchronize",), "the device"),
    ):
        for name in names:
            if owner is not None:
                stages.wrap(owner, name, stage)
    rows = []
    for _ in range(trials):
        session.code.clear()  # as if it were another binary
        session.passed.clear()  # all three sets
        told.clear()
        stages.begin()
        session.handle(request)
        rows.append(stages.end())
    outcome = next(m.outcome for m in told if isinstance(m, Told))
    facts = dict(outcome.environment) if isinstance(outcome, Measurement) else {}
    names = sorted({n for r in rows for n in r})
    return {
        "size": size, "device": device, "trials": trials, "checked_on": facts.get("checked_on", str(outcome)),
        "seconds": {n: statistics.median(r.get(n, 0.0) for r in rows) for n in names},
        "trial": statistics.median(sum(r.values()) for r in rows),
    }  # fmt: skip


class Prompt:
    """A compiler and a device that answer at once: what they compile is empty, and times are made up."""

    version, flags, emulated, batch = "none", (), False, 1

    def key(self, unit: str) -> str:
        return digest([unit])

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        return Compiled("", self.key(unit), False)

    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]:
        future: Future[list[Outcome]] = Future()
        times = [1e-5 * random.Random(c.schedule.key).lognormvariate(0.5, 0.3) for c, _ in items]
        future.set_result([Measurement(t, 0.01, 5, verify_seconds=4e-3, measure_seconds=6e-3) for t in times])
        return future


def tuning(size: int, trials: int) -> dict[str, Any]:
    """Seconds of each stage of a trial in the process that tunes, the mean of ``trials``."""
    place = find_local_target("cuda:sm_90a", "emulator")
    task = Task(get_operator("matmul").workload(m=size, n=size, k=size, dtype="bfloat16"), place.target)
    prompt: Any = Prompt()
    with TemporaryDirectory() as folder, Database.open(str(Path(folder) / "trials.db")) as database:
        run = begin(database, task, place.device, TuneSettings(trials))
        with Builder(place.target, toolchain=prompt, cache=ArtifactCache(Path(folder) / "cache")) as builder:
            session = Tuning(database, run, Tools(place, builder, prompt), Observer()).session
            _ = session.strategy.space.size, task_space(task).live  # type: ignore[attr-defined]
            stages = Stages(time.thread_time)
            stages.wrap(session.strategy, "suggest", "proposing")
            stages.wrap(xgb, "train", "fitting")
            stages.wrap(FeatureExtractor, "_row", "features")
            stages.wrap(database, "add_trials", "database")
            whole = time.process_time()
            stages.begin()
            session.search()
            seconds = stages.end()
            seconds["building"] = time.process_time() - whole - sum(seconds.values())
    made = len(session.history)
    return {"size": size, "trials": made, "seconds": {n: s / made for n, s in seconds.items()}}


def _guard() -> Guard:
    """A guard whose device answers at once."""
    health = Health(GpuFacts("GPU-0", "0000:01:00.0", "emulator", reasons=(), ecc_uncorrected=0))
    return Guard(lambda: health, ())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="emulator:0")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(KERNELS))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--tuned", type=int, default=296, help="trials of the process that tunes")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    broken = False
    results = []
    for size in args.sizes:
        found = measured(size, args.device, args.trials)
        results.append(found)
        print(f"matmul {size}^3 bfloat16 on {args.device}: {1e3 * found['trial']:.2f} ms a trial")
        for name, seconds in sorted(found["seconds"].items(), key=lambda x: -x[1]):
            print(f"  {name:<18} {1e3 * seconds:8.3f} ms")
        print(f"  results judged on: {found['checked_on']}")
        found["tuning"] = tuning(size, args.tuned)
        beside = sum(found["tuning"]["seconds"].values())
        print(f"  in the process that tunes, {found['tuning']['trials']} trials: {1e3 * beside:.2f} ms a trial")
        for name, seconds in sorted(found["tuning"]["seconds"].items(), key=lambda x: -x[1]):
            print(f"  {name:<18} {1e3 * seconds:8.3f} ms")
        broken |= found["checked_on"] != "device" or found["trial"] + beside > PROMISE
    if args.out:
        with open(args.out, "w") as f:
            json.dump(results, f, indent=1)
    return int(args.check and broken)


if __name__ == "__main__":
    sys.exit(main())
