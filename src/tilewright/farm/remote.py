"""A farm's builders and runners behind the interfaces of a local compiler and a local runner, for tuning runs."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tilewright.backends import CACHES, Backend, Peaks, backend_for
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.toolchain import Compiled, CompileError, Rejected, Toolchain
from tilewright.caching import cached_property
from tilewright.checking.watch import Watch
from tilewright.core import Failure, FailureKind, Measurement, Outcome, Target, Task, digest
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.health import takes_jobs
from tilewright.farm.jobs import item_json, outcome_of, plain, task_json, understood
from tilewright.kernels.codegen.prelude import prelude
from tilewright.measure.measuring import Item, Runner
from tilewright.measure.runner import DeviceLost
from tilewright.measure.timing import SESSIONS, PairedComparison

Job = Future[dict[str, Any]]
HERE = ("source", "no_worker", "lost")
"""Kinds of a builder's error after which this machine's own compiler is tried."""
HOST_BATCH = 8  # kernels in a CPU unit: parsing the prelude costs as much as compiling a kernel
SMALLEST = 2  # fewest items in a job
JOBS_EACH = 2  # jobs for each runner in a batch: a runner need not wait for its next job, and a slow runner takes fewer
TRIES = 3  # attempts of a job whose artifacts the farm loses
NONSENSE = "See with tilewright farm status who measures; what was measured is stored, go on with --resume last"


class FarmToolchain:
    """The farm's builders behind the :class:`~tilewright.backends.toolchain.Toolchain` protocol.

    Builders refuse sources with includes and a user's own kernels. This machine compiles refused sources, and sources
    for which there is no builder, if it can, and stores the code in the farm.
    """

    def __init__(self, farm: Farm, target: Target, cache: ArtifactCache, emulated: bool = False) -> None:
        self.farm = farm
        self.target = target
        self.emulated = emulated
        self.cache = cache
        self.flags: tuple[str, ...] = ()
        self.backend = backend_for(target, emulated)
        self.batch = HOST_BATCH if self.backend.in_process else 1
        self._prelude = prelude(target, emulated)
        self._place, self.version, self.lanes = _builders(farm, self.backend, target)
        self._units: dict[str, tuple[str, tuple[str, ...], float]] = {}
        if not self._place:
            self.version, self.flags, self.batch = self._here.version, self._here.flags, self._here.batch

    @cached_property
    def _here(self) -> Toolchain:
        return self.backend.toolchain(self.target, self.cache)

    def key(self, unit: str) -> str:
        """Cache key of a unit's code: a hash of its text, the target and the builders' compiler."""
        return digest([unit, self.target.key, self.version])

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        """Compiles a unit on a builder; the code stays in the farm until :meth:`fetch`."""
        if self._place:
            reply = self._build(unit, tuple(symbols), deadline)
            error = _error(reply)
            if error is None:
                with _sensible():
                    name = str(reply["sha256"])
                    path = str(self.cache.path(name))
                    self.flags = tuple(str(f) for f in reply["flags"])
                    resources = {str(s): tuple(dict(pairs).items()) for s, pairs in reply["resources"].items()}
                self._units[name] = (unit, tuple(symbols), deadline)
                return Compiled(path, name, bool(reply["cached"]), resources)
            if error["reason"]:
                raise Rejected(error["message"], error["reason"])
            if error["kind"] == "compile":
                raise CompileError(error["message"])
            if error["kind"] not in HERE:
                raise FarmError(f"a builder failed: {error['message']}", error["mend"] or "See tilewright farm status")
        done = self._here.compile(unit, symbols, deadline)
        self.farm.put(Path(done.path).read_bytes())
        return done

    def _build(self, unit: str, symbols: tuple[str, ...], deadline: float) -> dict[str, Any]:
        source = unit.removeprefix(self._prelude + "\n")
        payload = {
            "target": self.target.to_json(), "emulated": self.emulated, "source": source, "symbols": symbols,
            "deadline": deadline,
        }  # fmt: skip
        return self.farm.submit(self._place, plain(payload)).result()

    def fetch(self, sha256: str) -> None:
        """Downloads an artifact's code to its path on this machine."""
        if not self.cache.path(sha256).exists():
            try:
                data = self.farm.get(sha256)
            except FarmError:
                self.restore(sha256)
                data = self.farm.get(sha256)
            self.cache.put(sha256, data)

    def restore(self, sha256: str) -> None:
        """Stores an artifact in the farm again that the farm has dropped."""
        path = self.cache.path(sha256)
        if path.exists():
            self.farm.put(path.read_bytes())
        elif sha256 not in self._units:
            raise FarmError(f"the farm has lost the artifact {sha256}", "Start the run again")
        elif self._build(*self._units[sha256]).get("sha256") != sha256:
            raise FarmError("the builder now compiles other code for the same kernel", "Start the run again")


def _builders(farm: Farm, backend: Backend, target: Target) -> tuple[str, str, int]:
    """Returns the place of the builders for a target, their compiler's version, and the number of units that they
    compile at once."""
    start = f"build:{backend.name}:{target.arch}:"
    lanes: Counter[str] = Counter()
    versions: dict[str, str] = {}
    for w in farm.status()["workers"]:
        if w["role"] == "builder" and takes_jobs(w):
            for place in filter(lambda p: p.startswith(start), w["places"]):
                lanes[place] += w["lanes"]
                versions[place] = str(w["offers"].get(place, ""))
    most = max(sorted(lanes), key=lanes.__getitem__, default="")
    return most, versions.get(most, ""), lanes[most] or 1


class FarmRunner(Runner):
    """Runners of one device class, behind the interface of a local runner.

    A batch is spread over the runners. Times from different runners are comparable, because each runner pairs its
    kernels with one incumbent on its own device.
    """

    def __init__(
        self, farm: Farm, device_class: str, restore: Callable[[str], None], watch: Watch | None = None
    ) -> None:
        self.farm = farm
        self.device_class = device_class
        self._watch = watch
        self._restore = restore
        self._executor = ThreadPoolExecutor(2, "farm-batch")
        self._reference_times: dict[str, float] = {}
        self._closed = threading.Event()
        self._open: set[Job] = set()

    # ------------------------------------------------------------------ the interface

    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]:
        """Checks and times ``items`` on the farm; outcomes are in the order of the items, as of
        ``LocalRunner.submit``."""
        return self._executor.submit(self._batch, task, list(items), incumbent, pairs)

    def verify(self, task: Task, item: Item) -> Failure | None:
        """Checks a kernel on every input set; ``None`` if it is correct."""
        reply = self._reply(_payload("verify", task, [item]))
        error = _error(reply)
        if error is not None:
            return Failure(FailureKind.DEVICE_LOST, error["message"])
        with _sensible():
            found = outcome_of(reply["failure"]) if reply["failure"] else None
        if isinstance(found, Failure) or self._watch is None:
            return found if isinstance(found, Failure) else None
        return self._watch.problem(item[0])  # on this machine: workers do not know the user's own kernels

    def compare(self, task: Task, challenger: Item, champion: Item, sessions: int = SESSIONS) -> PairedComparison:
        """Paired comparison of two kernels on one device. Raises ``DeviceLost``."""
        reply = self._reply(_payload("duel", task, [challenger, champion], sessions=sessions))
        error = _error(reply)
        if error is not None:
            raise DeviceLost(error["message"])
        with _sensible():
            return PairedComparison.from_json(reply["duel"])

    def peaks(self, task: Task) -> Peaks:
        """Peak throughput and bandwidths of a device of the class, where known."""
        reply = self._reply(_payload("peak", task, []))
        known = {k: float(v) for k, v in reply.items() if isinstance(v, int | float)}
        return Peaks(known.get("peak"), known.get("bandwidth"), {k: known[k] for k in CACHES if k in known})

    def close(self) -> None:
        """Cancels jobs that have not begun."""
        self._closed.set()
        for job in list(self._open):
            job.cancel()
        self._executor.shutdown(cancel_futures=True)

    # ------------------------------------------------------------------ one batch

    def _batch(self, task: Task, items: list[Item], incumbent: Item | None, pairs: int | None) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while incumbent is None and len(outcomes) < len(items):
            # Until a kernel is correct there is no incumbent to pair with, and times of two devices are not comparable.
            item = items[len(outcomes)]
            outcomes += self._measured(task, [[item]], None, pairs)
            if isinstance(outcomes[-1], Measurement):
                incumbent = item
        rest = items[len(outcomes) :]
        runners = max(1, self.farm.workers(self.device_class))
        parts = 1 if runners == 1 else JOBS_EACH * runners  # splitting balances load between runners only
        size = max(SMALLEST, math.ceil(len(rest) / parts))
        groups = [rest[n : n + size] for n in range(0, len(rest), size)]
        return outcomes + self._measured(task, groups, incumbent, pairs)

    def _measured(
        self, task: Task, groups: Sequence[Sequence[Item]], incumbent: Item | None, pairs: int | None
    ) -> list[Outcome]:
        """Measures each group as a job; returns the outcomes of all items in order.

        If a job's device or runners were lost, its items without an outcome are measured again one by one. So the
        kernel that is the cause is found.
        """
        payload = _payload("measure", task, [], pairs=pairs)
        if incumbent is not None and incumbent[0].key in self._reference_times:
            payload |= {"incumbent": item_json(incumbent), "anchor": self._reference_times[incumbent[0].key]}
        outcomes: list[Outcome] = []
        again: list[int] = []
        replies = self._replies([{**payload, "items": [item_json(i) for i in group]} for group in groups])
        for group, reply in zip(groups, replies, strict=True):
            for (candidate, _), outcome in zip(group, _outcomes(reply, len(group)), strict=True):
                if isinstance(outcome, Measurement):
                    self._reference_times[candidate.key] = outcome.seconds
                elif outcome.kind is FailureKind.DEVICE_LOST and len(group) > 1 and _may_be_innocent(reply):
                    again.append(len(outcomes))
                outcomes.append(outcome)
        if again:
            items = [item for group in groups for item in group]
            for n, outcome in zip(
                again, self._measured(task, [[items[n]] for n in again], incumbent, pairs), strict=True
            ):
                outcomes[n] = outcome
        return outcomes

    # ------------------------------------------------------------------ jobs

    def _start(self, payload: Mapping[str, Any]) -> Job:
        job = self.farm.submit(self.device_class, payload, _needs(payload))
        self._open.add(job)
        job.add_done_callback(self._open.discard)
        if self._closed.is_set():
            job.cancel()
        return job

    def _reply(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return self._replies([payload])[0]

    def _replies(self, payloads: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Submits jobs at once and returns their replies. Stores artifacts again that the farm has lost."""
        replies: dict[int, dict[str, Any]] = {}
        sent = {self._start(payload): n for n, payload in enumerate(payloads)}
        for left in reversed(range(TRIES)):
            lost: dict[Job, int] = {}
            for job in as_completed(sent):
                n, reply = sent[job], job.result()
                if "missing" not in reply:
                    replies[n] = reply
                elif left:
                    with _sensible():
                        missing = {str(name) for name in reply["missing"]}
                    for name in missing.intersection(_needs(payloads[n])):
                        self._restore(name)
                    lost[self._start(payloads[n])] = n
                else:
                    raise FarmError(
                        "the farm keeps losing artifacts",
                        "Give its server more disk space: tilewright farm server --storage GIB",
                    )
            sent = lost
        return [replies[n] for n in range(len(payloads))]


def _outcomes(reply: Mapping[str, Any], count: int) -> list[Outcome]:
    """Reads a runner's outcomes of ``count`` kernels. Raises ``FarmError`` for a malformed reply, or without a
    runner."""
    error = _error(reply)
    if error is None:
        with _sensible():
            outcomes = [outcome_of(o) for o in reply["outcomes"]]
        if len(outcomes) != count:
            raise FarmError(f"a runner sent {len(outcomes)} outcomes for {count} kernels", NONSENSE)
        return outcomes
    if error["kind"] == "no_worker":
        raise FarmError(error["message"], "Start a runner of that class, then continue with --resume last")
    return [Failure(FailureKind.DEVICE_LOST, error["message"])] * count


def _may_be_innocent(reply: Mapping[str, Any]) -> bool:
    """Whether a device was lost during a job with several kernels, so that only one of its kernels may be the cause."""
    error = _error(reply)
    return error is None or error["kind"] == "lost"


def _payload(what: str, task: Task, items: Sequence[Item], **more: Any) -> dict[str, Any]:
    return {"do": what, "task": task_json(task), "items": [item_json(i) for i in items], **more}


def _needs(payload: Mapping[str, Any]) -> list[str]:
    """The SHA-256 of each artifact that a job needs."""
    return sorted({i["sha256"] for i in (*payload["items"], payload.get("incumbent")) if i})


def _sensible() -> AbstractContextManager[None]:
    return understood("a worker sent a malformed result", NONSENSE)


def _error(reply: Mapping[str, Any]) -> dict[str, str] | None:
    """The error in a reply as texts, ``None`` without an error. Missing fields are empty. Raises ``FarmError`` for a
    malformed error."""
    error = reply.get("error")
    if error is None:
        return None
    with _sensible():
        return {n: str(error.get(n) or "")[:4000] for n in ("kind", "message", "mend", "reason")}
