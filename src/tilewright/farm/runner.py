"""A runner: one device of the farm. It checks and times what clients send, in the isolated child of a local run."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    LaunchProgram,
    Outcome,
    Schedule,
    Target,
    Task,
    UsageError,
    Workload,
)
from tilewright.farm.connect import Door
from tilewright.farm.device import RunnerDevice
from tilewright.farm.service import Reply, Say, Service
from tilewright.measure.measuring import Peaks
from tilewright.measure.places import Place
from tilewright.measure.runner import DeviceLost, Item, LocalRunner, device_cores
from tilewright.measure.timing import Duel

KEPT = 4  # targets whose child is kept ready


class Measurer(Protocol):
    """What a runner measures with: :class:`~tilewright.measure.runner.LocalRunner`, or a stand-in for a device."""

    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]: ...
    def verify(self, task: Task, item: Item) -> Failure | None: ...
    def duel(self, task: Task, challenger: Item, champion: Item, pairs: int = 31) -> Duel: ...
    def anchor(self, candidate: Candidate, seconds: float) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Bench:
    """A device and how to measure on it: a measurer for each target, and exclusive use of the device.

    ``limits``: what bounds the kernels that it runs (``measure/sandbox.py``). ``stop``, once set, ends a wait for the
    device.
    """

    device: RunnerDevice
    measurer: Callable[[Target], Measurer]
    exclusive: Callable[[], contextlib.AbstractContextManager[object]]
    peaks: Callable[[Task], Peaks]
    limits: Mapping[str, bool | str] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)


def local_bench(place: Place, device: RunnerDevice) -> Bench:
    """A device of this machine."""

    def peaks(task: Task) -> Peaks:
        return replace(place, target=replace(place.target, threads=task.target.threads)).peaks(task)

    def measurer(target: Target) -> Measurer:
        if target.kind != place.target.kind or target.arch != place.target.arch:
            raise UsageError(f"this runner measures for {place.target.name}, not for {target.name}")
        if target.threads > device.cores:
            raise UsageError(f"this runner has {device.cores} cores, not {target.threads}", "Use fewer --threads")
        return LocalRunner(place.device, target, driver=place.driver, sandbox=True)

    _step_aside(place)
    first = LocalRunner(place.device, place.target, driver=place.driver, sandbox=True)
    ready = {place.target.key: first}  # its child has been started, to see which limits hold here
    stop = threading.Event()
    return Bench(
        device, lambda target: ready.pop(target.key, None) or measurer(target),
        lambda: place.lock(lambda _holder: None, stop), peaks, first.limits(), stop,
    )  # fmt: skip


def _step_aside(place: Place) -> None:
    """Keep this process off the cores that it measures on, where there are others. The child takes them itself."""
    others = set(place.build_cores) - set(device_cores(place.device) if place.driver is None else ())
    if others and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, others)


class Runner(Service):
    """Serves one device. One measurement at a time; the next job's artifacts are fetched meanwhile."""

    role = "runner"

    def __init__(
        self, door: Door, name: str, bench: Bench, cache: ArtifactCache, say: Say = lambda _line: None
    ) -> None:
        super().__init__(door, name, cache, say)
        self.bench = bench
        self._measurers: OrderedDict[str, Measurer] = OrderedDict()
        self._lock = threading.Lock()
        self._at = ""

    def greeting(self) -> dict[str, Any]:
        device = self.bench.device
        return {
            "places": [device.device_class], "device": device.to_json(), "offers": {"limits": dict(self.bench.limits)},
        }  # fmt: skip

    def note(self) -> str:
        return self._at

    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        task = task_of(payload["task"])
        measurer = self._measurer(task.target)
        what = payload["do"]
        items = [item_of(task, d, paths) for d in payload["items"]]
        self._at = f"waiting for {self.bench.device.device}"
        try:
            with self.bench.exclusive():
                self._at = f"{what} of {task.workload.label}"[:160]
                return self._do(str(what), measurer, task, items, payload, paths)
        finally:
            self._at = ""

    def _do(
        self, what: str, measurer: Measurer, task: Task, items: list[Item], payload: Mapping[str, Any],
        paths: Mapping[str, str],
    ) -> Reply:  # fmt: skip
        if what == "measure":
            incumbent = None
            if payload.get("incumbent"):
                incumbent = item_of(task, payload["incumbent"], paths)
                measurer.anchor(incumbent[0], float(payload["anchor"]))
            outcomes = measurer.run(task, items, incumbent, payload.get("pairs"))
            lost = [o for o in outcomes if isinstance(o, Failure) and o.kind is FailureKind.DEVICE_LOST]
            result = {"outcomes": [plain(o.to_json()) for o in outcomes]}
            return Reply(result, strike=lost[0].message if lost else "", again=len(lost) == len(outcomes))
        if what == "verify":
            failure = measurer.verify(task, items[0])
            lost_one = failure is not None and failure.kind is FailureKind.DEVICE_LOST
            found = None if failure is None else plain(failure.to_json())
            return Reply({"failure": found}, strike=failure.message if failure and lost_one else "", again=lost_one)
        if what == "peak":
            peaks = self.bench.peaks(task)
            return Reply({"peak": peaks.flops, "bandwidth": peaks.bandwidth})
        if what == "duel":
            try:
                duel = measurer.duel(task, items[0], items[1], int(payload["pairs"]))
            except DeviceLost as e:
                return Reply({"error": {"kind": "device_lost", "message": e.message, "mend": ""}}, strike=e.message)
            return Reply({"duel": plain(vars(duel))})
        raise ValueError(f"unknown work {what!r}")

    def _measurer(self, target: Target) -> Measurer:
        found = self._measurers.pop(target.key, None) or self.bench.measurer(target)
        self._measurers[target.key] = found
        while len(self._measurers) > KEPT:
            self._measurers.popitem(last=False)[1].close()
        return found

    async def close(self) -> None:
        self.bench.stop.set()
        await super().close()
        for m in self._measurers.values():
            m.close()
        self._measurers.clear()


# --------------------------------------------------------------------------- what travels


def plain(value: Any) -> Any:
    """A JSON value as messages carry it: numbers that are no Python numbers converted, tuples made lists."""
    return json.loads(json.dumps(value, default=float))


def task_json(task: Task) -> dict[str, Any]:
    """A task as it travels: what measuring needs of the workload, and the target."""
    result: dict[str, Any] = plain(task.to_json())
    return result


def task_of(data: Mapping[str, Any]) -> Task:
    """The task in a message. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for nonsense."""
    return Task(Workload.from_json(data["workload"]), Target.from_json(data["target"]))


def item_json(item: Item) -> dict[str, Any]:
    """A candidate and its artifact, without the code."""
    candidate, artifact = item
    result: dict[str, Any] = plain({
        "schedule": candidate.schedule.to_json(), "sha256": artifact.sha256, "program": artifact.program.to_json(),
        "compiler": artifact.compiler,
    })  # fmt: skip
    return result


def item_of(task: Task, data: Mapping[str, Any], paths: Mapping[str, str]) -> Item:
    """The candidate and artifact in a message, the code among ``paths``."""
    sha256 = str(data["sha256"])
    artifact = Artifact(
        paths[sha256], sha256, LaunchProgram.from_json(data["program"]), task.target, str(data["compiler"]), (), ""
    )
    return Candidate(task, Schedule.from_json(data["schedule"])), artifact
