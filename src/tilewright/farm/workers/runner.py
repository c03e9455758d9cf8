"""A runner: serves one device of the farm. It checks and times clients' kernels in a sandboxed child process."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tilewright.backends import Peaks
from tilewright.backends.cache import ArtifactCache
from tilewright.core import Candidate, Failure, FailureKind, Outcome, Target, Task, UsageError
from tilewright.farm.jobs import item_of, outcome_json, plain
from tilewright.farm.link import Endpoint, Say
from tilewright.farm.workers.service import Service
from tilewright.farm.workers.work import Reply
from tilewright.measure.devices import DeviceDescription
from tilewright.measure.local_target import LocalTarget
from tilewright.measure.measuring import Item
from tilewright.measure.runner import LocalRunner
from tilewright.measure.timing import PairedComparison

KEPT = 4  # targets whose measurer, a child process, is kept


class Measurer(Protocol):
    """Interface by which a runner measures: :class:`~tilewright.measure.runner.LocalRunner`, or a fake in tests."""

    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]: ...
    def verify(self, task: Task, item: Item) -> Failure | None: ...
    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int) -> PairedComparison: ...
    def set_reference_time(self, candidate: Candidate, seconds: float) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Bench:
    """A device and the means to measure on it: a measurer for each target, and exclusive use of the device.

    ``limits``: the sandbox's limits that hold for its kernels (``measure/sandbox.py``). Setting ``stop`` ends a wait
    for the device.
    """

    device: DeviceDescription
    measurer: Callable[[Target], Measurer]
    exclusive: Callable[[], AbstractContextManager[object]]
    peaks: Callable[[Task], Peaks]
    limits: Mapping[str, bool | str] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)


def local_bench(place: LocalTarget, device: DeviceDescription) -> Bench:
    """The bench of a device of this machine."""

    def peaks(task: Task) -> Peaks:
        return replace(place, target=replace(place.target, threads=task.target.threads)).peaks(task)

    def measurer(target: Target) -> Measurer:
        if target.kind != place.target.kind or target.arch != place.target.arch:
            raise UsageError(f"this runner measures for {place.target.name}, not for {target.name}")
        if target.threads > device.cores:
            raise UsageError(f"this runner has {device.cores} cores, not {target.threads}", "Use fewer --threads")
        return LocalRunner(place.device, target, sandbox=True)

    first = LocalRunner(place.device, place.target, sandbox=True)
    _step_aside(place, first.cores)
    ready = {place.target.key: first}  # reused: limits() below starts its child, to see which limits hold here
    stop = threading.Event()
    return Bench(
        device, lambda target: ready.pop(target.key, None) or measurer(target),
        lambda: place.lock(lambda _holder: None, stop), peaks, first.limits(), stop,
    )  # fmt: skip


def _step_aside(place: LocalTarget, cores: Sequence[int]) -> None:
    """Keeps this process off the cores that it measures on, if it has other cores. The child pins itself to them."""
    others = set(place.build_cores) - set(cores)
    if others and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, others)


class Runner(Service):
    """Serves one device, one measurement at a time. The next job's artifacts are fetched meanwhile."""

    role = "runner"

    def __init__(
        self, endpoint: Endpoint, name: str, bench: Bench, cache: ArtifactCache, say: Say = lambda _line: None
    ) -> None:
        super().__init__(endpoint, name, cache, say)
        self.bench = bench
        self._measurers: OrderedDict[str, Measurer] = OrderedDict()
        self._at = ""

    def greeting(self) -> dict[str, Any]:
        device = self.bench.device
        return {
            "places": [device.device_class], "device": device.to_json(), "offers": {"limits": dict(self.bench.limits)},
        }  # fmt: skip

    def note(self) -> str:
        return self._at

    def execute(self, payload: Mapping[str, Any], paths: Mapping[str, str]) -> Reply:
        task = Task.from_json(payload["task"])
        measurer = self._measurer(task.target)
        items = [item_of(task, d, paths) for d in payload["items"]]
        incumbent = item_of(task, payload["incumbent"], paths) if payload.get("incumbent") else None
        self._at = f"waiting for {self.bench.device.device}"
        try:
            with self.bench.exclusive():
                self._at = f"{payload['do']} of {task.workload.label}"[:160]
                match payload["do"]:
                    case "measure":
                        if incumbent is not None:
                            measurer.set_reference_time(incumbent[0], float(payload["anchor"]))
                        outcomes = measurer.run(task, items, incumbent, payload.get("pairs"))
                        return _reply({"outcomes": [outcome_json(o) for o in outcomes]}, outcomes)
                    case "verify":
                        failure = measurer.verify(task, items[0])
                        return _reply({"failure": failure and outcome_json(failure)}, [failure])
                    case "duel":
                        found = measurer.compare(task, items[0], items[1], int(payload["sessions"]))
                        return _reply({"duel": found.to_json()})
                    case "peak":
                        peaks = self.bench.peaks(task)
                        return _reply({"peak": peaks.flops, "bandwidth": peaks.bandwidth, **peaks.caches})
                    case other:
                        raise ValueError(f"unknown work {str(other)[:40]!r}")
        finally:
            self._at = ""

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


def _reply(result: Mapping[str, Any], outcomes: Sequence[Outcome | None] = ()) -> Reply:
    """A job's reply. A lost device gets a strike; another device tries the job if it has no other outcome."""
    lost = [o.message for o in outcomes if isinstance(o, Failure) and o.kind is FailureKind.DEVICE_LOST]
    return Reply(plain(result), strike=lost[0] if lost else "", again=bool(lost) and len(lost) == len(outcomes))
