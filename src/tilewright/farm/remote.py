"""What a tuning run uses in place of a local compiler and a local runner: the farm's."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from tilewright.backends.cpu.cache import ArtifactCache
from tilewright.backends.cpu.compiler import CompileError
from tilewright.core import (
    Failure,
    FailureKind,
    Measurement,
    Outcome,
    Target,
    Task,
    TilewrightError,
    digest,
    outcome_from_json,
)
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.runner import item_json, plain, task_json
from tilewright.kernels.codegen.prelude import prelude
from tilewright.measure.measuring import Peaks
from tilewright.measure.runner import DeviceLost, Item
from tilewright.measure.timing import Duel
from tilewright.measure.toolchain import CPU_BATCH, Compiled, CompiledLibrary, Toolchain, toolchain_for

HERE = ("source", "no_worker", "lost")
"""Why a build was not done by a builder, where this machine's own compiler is tried."""
SMALLEST = 2  # items a job at least, where there are as many
COUNT_SECONDS = 1.0  # for which the number of runners is taken to stay
JOBS_EACH = 2  # jobs a runner in one batch: the second starts where the first ends, and a slow runner takes fewer


class RefusedByGate(TilewrightError):
    """A kernel that asks for more than its device has; ``reason`` as the static gate gives it."""

    kind = "resources"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class FarmToolchain:
    """The farm's builders behind the :class:`~tilewright.measure.toolchain.Toolchain` protocol.

    What they refuse (sources with includes, a kernel of the user's own) and what no builder compiles is compiled
    here and brought to the farm, if this machine can.
    """

    def __init__(self, farm: Farm, target: Target, cache: ArtifactCache, emulated: bool = False) -> None:
        self.farm = farm
        self.target = target
        self.emulated = emulated
        self.cache = cache
        self._place, self.version, self.lanes = _builders(farm, target, emulated)
        self.flags: tuple[str, ...] = ()
        self._prelude = prelude(target, emulated=True) if emulated else prelude(target)
        self._own: Toolchain | None = None
        self._units: dict[str, tuple[str, tuple[str, ...], float]] = {}
        self._lock = threading.Lock()
        if not self._place:
            self.version = self._here().version
            self.flags = tuple(self._here().flags)
        self.batch = self._here().batch if not self._place else (CPU_BATCH if target.kind == "cpu" else 1)

    def key(self, unit: str) -> str:
        """What a unit's code depends on: its text, the target and the builders' compiler."""
        return digest([unit, self.target.key, self.version])

    def compile(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        """Compile on a builder; the code stays in the farm until :meth:`fetch`."""
        if not self._place:
            return self._compile_here(unit, symbols, deadline)
        reply = self._send(unit, tuple(symbols), deadline)
        error = _error(reply)
        if error is not None:
            kind, said = error["kind"], error["message"]
            if kind in HERE:
                return self._compile_here(unit, symbols, deadline)
            if error["reason"]:
                raise RefusedByGate(said, error["reason"])
            if kind == "compile":
                raise CompileError(said)
            raise FarmError(f"a builder failed: {said}", error["mend"] or "See tilewright farm status")
        with _understood():
            name = str(reply["sha256"])
            self.flags = tuple(str(f) for f in reply["flags"])
            resources = {str(s): tuple(dict(pairs).items()) for s, pairs in reply["resources"].items()}
        with self._lock:
            self._units[name] = (unit, tuple(symbols), deadline)
        return CompiledLibrary(str(self._path(name)), name, bool(reply["cached"]), resources)

    def _send(self, unit: str, symbols: tuple[str, ...], deadline: float) -> dict[str, Any]:
        source = unit.removeprefix(self._prelude + "\n")
        payload = {
            "target": plain(self.target.to_json()), "emulated": self.emulated, "source": source,
            "symbols": list(symbols), "deadline": deadline,
        }  # fmt: skip
        return self.farm.submit(self._place, payload).result()

    def fetch(self, sha256: str) -> None:
        """Bring an artifact's code to its path on this machine."""
        path = self._path(sha256)
        if not path.exists():
            try:
                data = self.farm.get(sha256)
            except FarmError:
                self.restore(sha256)
                data = self.farm.get(sha256)
            self.cache.put(sha256, data)

    def restore(self, sha256: str) -> None:
        """Have the farm hold an artifact again that it has dropped."""
        with self._lock:
            unit = self._units.get(sha256)
        path = self._path(sha256)
        if path.exists():
            self.farm.put(path.read_bytes())
        elif unit is not None:
            reply = self._send(*unit)
            if reply.get("sha256") != sha256:
                raise FarmError("the builder no longer makes the same code", "Start the run again")
        else:
            raise FarmError(f"the farm has lost the artifact {sha256}", "Start the run again")

    def _path(self, sha256: str) -> Path:
        return self.cache.path(sha256)

    def _here(self) -> Toolchain:
        if self._own is None:
            self._own = toolchain_for(self.target, self.cache, self.emulated)
        return self._own

    def _compile_here(self, unit: str, symbols: Sequence[str], deadline: float) -> Compiled:
        done = self._here().compile(unit, symbols, deadline)
        self.farm.put(Path(done.path).read_bytes())
        return CompiledLibrary(done.path, done.sha256, done.cached, done.resources)


def _builders(farm: Farm, target: Target, emulated: bool) -> tuple[str, str, int]:
    """The queue of builders for a target, their compiler's version, and how many they build at once."""
    kind = "emulator" if emulated else target.kind
    start = f"build:{kind}:{target.arch}:"
    found: dict[str, tuple[str, int]] = {}
    for w in farm.status()["workers"]:
        if w["role"] != "builder" or w["draining"] or w["quarantine"]:
            continue
        for place in w["places"]:
            if place.startswith(start):
                version, lanes = found.get(place, (str(w["offers"].get(place, "")), 0))
                found[place] = (version, lanes + int(w["lanes"]))
    if not found:
        return "", "", 1
    place = max(sorted(found), key=lambda p: found[p][1])
    return place, *found[place]


class FarmRunner:
    """Runners of one device class, behind the interface of a local runner.

    A batch is spread over them. Times of different runners compare because each is paired with the same incumbent
    on its own device.
    """

    def __init__(self, farm: Farm, device_class: str, restore: Callable[[str], None]) -> None:
        self.farm = farm
        self.device_class = device_class
        self._restore = restore
        self._executor = ThreadPoolExecutor(2, "farm-batch")
        self._anchors: dict[str, float] = {}
        self._closed = threading.Event()
        self._open: set[Future[dict[str, Any]]] = set()
        self._lock = threading.Lock()
        self._counted = (0.0, 1)

    # ------------------------------------------------------------------ the interface

    def submit(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> Future[list[Outcome]]:
        """Check and time ``items`` on the farm; outcomes in their order, as ``LocalRunner.submit``."""
        return self._executor.submit(self._batch, task, list(items), incumbent, pairs)

    def run(
        self, task: Task, items: Sequence[Item], incumbent: Item | None = None, pairs: int | None = None
    ) -> list[Outcome]:
        """``submit`` and wait."""
        return self.submit(task, items, incumbent, pairs).result()

    def verify(self, task: Task, item: Item) -> Failure | None:
        """Check one kernel on every input set; ``None`` when it is right."""
        reply = self._ask(task, {"do": "verify", "items": [item_json(item)]}, [item])
        error = _error(reply)
        if error is not None:
            return Failure(FailureKind.DEVICE_LOST, error["message"])
        with _understood():
            found = _outcome(reply["failure"]) if reply["failure"] else None
        return found if isinstance(found, Failure) else None

    def duel(self, task: Task, challenger: Item, champion: Item, pairs: int = 31) -> Duel:
        """Time two kernels against each other on one device. Raises ``DeviceLost``."""
        both = [challenger, champion]
        reply = self._ask(task, {"do": "duel", "items": [item_json(i) for i in both], "pairs": pairs}, both)
        error = _error(reply)
        if error is not None:
            raise DeviceLost(error["message"])
        with _understood():
            d = reply["duel"]
            return Duel(
                float(d["ratio"]), float(d["low"]), float(d["high"]), int(d["wins"]), int(d["pairs"]),
                seconds=(float(d["seconds"][0]), float(d["seconds"][1])),
            )  # fmt: skip

    def peaks(self, task: Task) -> Peaks:
        """What a device of the class reaches at most, if it can tell."""
        reply = self._ask(task, {"do": "peak", "items": []}, [])
        found = [reply.get(name) for name in ("peak", "bandwidth")]
        return Peaks(*(float(v) if isinstance(v, int | float) else None for v in found))

    def close(self) -> None:
        """Take back what has not begun."""
        self._closed.set()
        with self._lock:
            left = list(self._open)
        for f in left:
            f.cancel()
        self._executor.shutdown(cancel_futures=True)

    def __enter__(self) -> FarmRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ one batch

    def _batch(self, task: Task, items: list[Item], incumbent: Item | None, pairs: int | None) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(items)
        first = 0
        while incumbent is None and first < len(items):
            # Until a kernel is right there is nothing to pair with, and times of two devices do not compare.
            outcomes[first] = self._measured(task, [items[first]], None, pairs)[0]
            if isinstance(outcomes[first], Measurement):
                incumbent = items[first]
            first += 1
        rest = list(range(first, len(items)))
        runners = self._runners()
        jobs_wanted = 1 if runners == 1 else JOBS_EACH * runners  # alone, nobody takes what a slow one leaves
        size = max(SMALLEST, math.ceil(len(rest) / jobs_wanted))
        groups = [rest[n : n + size] for n in range(0, len(rest), size)]
        jobs = [
            (
                g,
                self._start(
                    task,
                    self._payload([items[n] for n in g], incumbent, pairs),
                    self._codes([items[n] for n in g], incumbent),
                ),
            )
            for g in groups
        ]
        for group, job in jobs:
            part = [items[n] for n in group]
            found = self._taken(task, part, incumbent, pairs, job)
            for n, outcome in zip(group, found, strict=True):
                outcomes[n] = outcome
        return [o for o in outcomes if o is not None]

    def _measured(self, task: Task, items: list[Item], incumbent: Item | None, pairs: int | None) -> list[Outcome]:
        job = self._start(task, self._payload(items, incumbent, pairs), self._codes(items, incumbent))
        return self._taken(task, items, incumbent, pairs, job)

    def _payload(self, items: Sequence[Item], incumbent: Item | None, pairs: int | None) -> dict[str, Any]:
        payload: dict[str, Any] = {"do": "measure", "items": [item_json(i) for i in items], "pairs": pairs}
        if incumbent is not None and incumbent[0].key in self._anchors:
            payload |= {"incumbent": item_json(incumbent), "anchor": self._anchors[incumbent[0].key]}
        return payload

    def _codes(self, items: Sequence[Item], incumbent: Item | None) -> list[str]:
        return [a.sha256 for _, a in (*items, *([incumbent] if incumbent else []))]

    def _taken(
        self, task: Task, items: list[Item], incumbent: Item | None, pairs: int | None, job: Future[dict[str, Any]]
    ) -> list[Outcome]:
        """A job's outcomes. One that cost several runners is done again item by item, to find the guilty one."""
        reply = self._reply(task, self._payload(items, incumbent, pairs), self._codes(items, incumbent), job)
        error = _error(reply)
        if error is not None:
            if error["kind"] == "no_worker":
                raise FarmError(error["message"], "Start a runner of that class, then go on with --resume last")
            if len(items) > 1 and error["kind"] == "lost":
                return [self._measured(task, [i], incumbent, pairs)[0] for i in items]
            return [Failure(FailureKind.DEVICE_LOST, error["message"])] * len(items)
        with _understood():
            outcomes = [_outcome(o) for o in reply["outcomes"]]
        if len(outcomes) != len(items):
            raise FarmError(f"a runner sent {len(outcomes)} outcomes for {len(items)} kernels", NONSENSE)
        if len(items) > 1:  # a device that fails in the middle says nothing about the kernels that were left
            for n, outcome in enumerate(outcomes):
                if isinstance(outcome, Failure) and outcome.kind is FailureKind.DEVICE_LOST:
                    outcomes[n] = self._measured(task, [items[n]], incumbent, pairs)[0]
        for (candidate, _), outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, Measurement):
                self._anchors[candidate.key] = outcome.seconds
        return outcomes

    def _ask(self, task: Task, payload: dict[str, Any], items: Sequence[Item]) -> dict[str, Any]:
        codes = [a.sha256 for _, a in items]
        return self._reply(task, payload, codes, self._start(task, payload, codes))

    def _start(self, task: Task, payload: dict[str, Any], codes: Sequence[str]) -> Future[dict[str, Any]]:
        job = self.farm.submit(self.device_class, {**payload, "task": task_json(task)}, sorted(set(codes)))
        with self._lock:
            self._open.add(job)
        job.add_done_callback(self._over)
        if self._closed.is_set():
            job.cancel()
        return job

    def _over(self, job: Future[dict[str, Any]]) -> None:
        with self._lock:
            self._open.discard(job)

    def _reply(
        self, task: Task, payload: dict[str, Any], codes: Sequence[str], job: Future[dict[str, Any]]
    ) -> dict[str, Any]:
        """A job's result; artifacts that the farm has lost are brought again."""
        for _ in range(3):
            reply = job.result()
            if "missing" not in reply:
                return reply
            with _understood():
                missing = [str(n) for n in reply["missing"]]
            for name in missing:
                if name in codes:
                    self._restore(name)
            job = self._start(task, payload, codes)
        raise FarmError("the farm keeps losing artifacts", "Give its scheduler more room (--state)")

    def _runners(self) -> int:
        """How many runners there are now; asked for now and then."""
        then, count = self._counted
        if time.monotonic() - then > COUNT_SECONDS:
            count = max(1, len(self.farm.devices().get(self.device_class, ())))
            self._counted = (time.monotonic(), count)
        return count


NONSENSE = "See with tilewright farm status who measures; what was measured is stored, go on with --resume last"


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Around reading what a runner sent, which may be anything. Raises ``FarmError``."""
    try:
        yield
    except TilewrightError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as e:
        raise FarmError(f"a worker sent a result that is none ({type(e).__name__}: {e})"[:300], NONSENSE) from None


def _error(reply: Mapping[str, Any]) -> dict[str, str] | None:
    """The error in a reply as texts; a missing one is empty. Raises ``FarmError`` for something else in its place."""
    error = reply.get("error")
    if error is None:
        return None
    with _understood():
        return {n: str(error.get(n) or "")[:4000] for n in ("kind", "message", "mend", "reason")}


def _outcome(data: Any) -> Outcome:
    """What a runner says of a kernel. Raises what :func:`_understood` takes for nonsense."""
    found = outcome_from_json(data)
    if isinstance(found, Failure):
        return Failure(found.kind, str(found.message)[:2000])
    for value, least in ((found.seconds, 1e-12), (found.spread, 0.0), (found.samples, 0), (found.verify_seconds, 0.0),
                         (found.measure_seconds, 0.0)):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
            raise ValueError("a measurement with impossible numbers")
    if found.ratio is not None and not 0.0 <= float(found.ratio) < math.inf:
        raise ValueError("an impossible ratio")
    if not isinstance(found.cache_state, str) or not isinstance(found.dropped, bool):
        raise TypeError("a measurement with fields of other types")
    return found
