"""Metrics of the database and the farm in Prometheus's text format, cached for a few seconds.

The number of series and the length of every label are bounded; docs/metrics.md lists the metrics. If the database or
the farm cannot be read, only its own metrics are missing, and ``tilewright_up`` tells which source failed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tilewright import __version__
from tilewright.core import FailureKind, Pairs, TilewrightError
from tilewright.dashboard.site import Answers
from tilewright.database.records import RUN_STATES
from tilewright.database.text import visible_text
from tilewright.farm.errors import FarmError
from tilewright.farm.health import WORKER_STATES, worker_state

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tilewright.dashboard.farm_source import FarmSource
    from tilewright.database import Database

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TASKS = 100  # most best kernels with a series, the newest first
WORKERS = 200  # most workers with series, workers in trouble first
PLACES = 100  # most queues with series, the longest first
LABEL = 120  # most characters of a label
_Samples = Union[float, Mapping[str, float], Sequence[tuple[Sequence[str], str, float]]]
"""The samples of a metric: one value; values by the value of its only label; or triples of label values, a key that
identifies their object, and the value."""
_Key = TypeVar("_Key", bound=Hashable)
FRESH = 3.0  # seconds for which a scrape is cached
SIZE_FRESH = 60.0  # seconds for which sizes are cached, because computing them counts all rows
_ROLES = ("runner", "builder")
OUTCOMES = ("ok", *(kind.value for kind in FailureKind))
"""Outcomes of trials that this version knows. Each has a series from the start, so that its first trial is an
increase."""


class Growth(Generic[_Key]):
    """Counts added rows between reads; removed rows do not lower the count."""

    def __init__(self) -> None:
        self._last: Mapping[_Key, int] | None = None

    def since(self, now: Mapping[_Key, int]) -> Mapping[_Key, int]:
        """Number of new rows by key since the last call; empty at the first call. If a key's count has fallen, all of
        its rows count as new."""
        before = now if self._last is None else self._last
        self._last = now
        changed = {key: (count, before.get(key, 0)) for key, count in now.items() if count != before.get(key, 0)}
        return {key: count - known if count > known else count for key, (count, known) in changed.items()}


class Metrics:
    """The metrics of a database, and of a farm if there is one. Any thread may call."""

    def __init__(self, database: Database, farm: FarmSource | None = None) -> None:
        self._database = database
        self._farm = farm
        self.answers = Answers()
        self._new_trials = Growth[tuple[str, str]]()
        self._new_misses = Growth[tuple[str, Pairs, str]]()
        self._trials = Counter[str](dict.fromkeys(OUTCOMES, 0))
        self._misses = 0

    def text(self) -> bytes:
        """The metrics as text of the type ``CONTENT_TYPE``."""
        return self.answers.get("text", FRESH, self._generated)

    def _generated(self) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Snapshot(self._collect()))
        return generate_latest(registry)

    def _collect(self) -> Iterator[Metric]:
        sources: dict[str, Callable[[], list[Metric]]] = {"database": self._of_database}
        if self._farm is not None:
            sources["farm"] = self._of_farm
        up, took = dict.fromkeys(sources, 0), dict.fromkeys(sources, 0.0)
        yield _gauge("build_info", "The dashboard's version; always 1.", {__version__: 1}, "version")
        for name, read in sources.items():
            began = time.perf_counter()
            with suppress(TilewrightError):  # the pages show the error
                found = read()
                up[name] = 1
                yield from found
            took[name] = time.perf_counter() - began
        yield _gauge("up", "Whether this source could be read (1) or not (0).", up, "source")
        yield _gauge("scrape_duration_seconds", "How long reading this source took.", took, "source")

    def _of_database(self) -> list[Metric]:
        database = self._database
        totals = database.totals()
        misses = {(m.op, m.params, m.target_key): m.count for m in database.misses()}
        trials = {(run, status): n for run, counts in database.outcomes().items() for status, n in counts.items()}
        stored = Counter[str](dict.fromkeys(OUTCOMES, 0))
        for (_, status), n in trials.items():
            stored[status] += n
        for (_, status), n in self._new_trials.since(trials).items():
            self._trials[status] += n
        self._misses += sum(self._new_misses.since(misses).values())
        stats = self.answers.get("stats", SIZE_FRESH, database.stats)
        best = []
        for view in database.best_kernels(TASKS):
            kernel, task = view.kernel, view.kernel.task
            target = f"{task.target.name} x{task.target.threads}"
            labels = (task.workload.op, task.workload.label, kernel.device_model, target)
            best.append((labels, task.workload.key, kernel.seconds))
        runs = {state: totals.runs.get(state, 0) for state in RUN_STATES} | dict(totals.runs)
        return [
            _counter("trials", "Trials stored since the dashboard's first look: ok, or the kind of failure.",
                     self._trials, "outcome"),
            _gauge("stored_trials", "Trials that are there: ok, or the kind of failure.", stored, "outcome"),
            _gauge("runs", "Stored runs, by state.", runs, "state"),
            _gauge("workloads", "Workloads that were tuned or looked up.", totals.workloads),
            _gauge("devices", "Device models that runs were on.", totals.devices),
            _gauge("kernels", "Tasks on device models that have a best kernel.", totals.kernels),
            *(_gauge(name, f"Final time of the best kernel of each of the {TASKS} newest tasks{also}.", best,
                     "operator", "workload", "device_model", "target")
              for name, also in (("final_seconds", ""), ("best_seconds", "; earlier name"))),
            _counter("misses", "Look-ups that found no tuned kernel, since the dashboard's first look.", self._misses),
            _gauge("stored_misses", "Look-ups for what is still to be tuned.", sum(misses.values())),
            _gauge("database_bytes", "Size of the database.", stats.bytes),
            _gauge("database_artifact_bytes", "Of that, compiled code.", stats.artifact_bytes),
        ]  # fmt: skip

    def _of_farm(self) -> list[Metric]:
        assert self._farm is not None
        status = self._farm.status()
        try:
            return list(farm_metrics(status))
        except (AttributeError, LookupError, TypeError, ValueError):
            raise FarmError("the farm's status is none") from None


def farm_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """The metrics of a farm's status, from ``Farm.status()``."""
    workers = sorted(status["workers"], key=lambda w: (not w["quarantine"], -w["strikes"], w["name"]))
    counts = {(role, state): 0 for role in _ROLES for state in WORKER_STATES}
    for w in workers:
        pair = (str(w["role"]), worker_state(w))
        counts[pair] = counts.get(pair, 0) + 1
    by_state = [(pair, "", number) for pair, number in counts.items()]
    yield _gauge("farm_workers", "Connected runners and builders, by role and state.", by_state, "role", "state")
    yield from _queues(status["places"])
    for make, name, text, key in (
        (_gauge, "utilisation_ratio", "Share of the time since it connected for which a worker was busy.", "busy"),
        (_gauge, "strikes", "Failures in a row of a worker, counted towards its quarantine.", "strikes"),
        (_gauge, "certificate_expiry_timestamp_seconds", "When a worker's certificate ends.", "expires"),
        (_counter, "jobs", "Jobs that a worker has done.", "done"),
    ):
        found = [((w["name"],), w["name"], w[key]) for w in workers[:WORKERS] if w[key] is not None]
        yield make(f"farm_{name}", f"{text} At most {WORKERS} workers.", found, "worker")
    quarantined = sum(1 for w in workers if w["quarantine"]) + len(status["quarantined_away"])
    yield _gauge("farm_quarantined", "Workers in quarantine, those that are away included.", quarantined)
    clients = sum(1 for c in status["clients"] if c["connected"])
    yield _gauge("farm_clients", "Tuning clients that were heard of lately.", clients)
    yield from _server(status)


def _server(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Metrics of the server that answered; in a cluster another server may answer the next time."""
    facts = status["server"]
    server = str(facts.get("server_name") or "") if facts.get("cluster") else ""
    if facts.get("engine"):
        engine = [((server, str(facts["engine"])), "", 1)]
        yield _gauge("farm_server_info", "The server's program and version; always 1.", engine, "server", "engine")
    cpu = facts.get("cpu")
    for make, name, text, value in (
        (_gauge, "uptime_seconds", "How long the farm has been running.", status["uptime"]),
        (_counter, "refused", "Peers that the farm turned down.", status["refused"]),
        (_gauge, "server_storing", "Whether jobs and results are stored (1) or not (0).",
            0 if status["trouble"] else 1),
        (_gauge, "server_connections", "Connections of peers.", facts.get("connections")),
        (_gauge, "server_cpu_ratio", "Processor time that the server takes, 1 for a whole core.",
            None if cpu is None else cpu / 100),
        (_gauge, "server_memory_bytes", "Memory that the server takes.", facts.get("mem")),
        (_gauge, "server_stored_messages", "Messages stored.", facts.get("messages")),
        (_gauge, "server_stored_bytes", "Their size.", facts.get("storage")),
        (_gauge, "server_storage_limit_bytes", "What may be stored.", facts.get("limit")),
        (_gauge, "server_peers", "Servers of the cluster, itself included.", facts.get("peers")),
        (_counter, "server_slow_consumers", "Connections that were cut because their peer read too slowly.",
            facts.get("slow_consumers")),
    ):  # fmt: skip
        if value is not None:
            yield make(f"farm_{name}", text, {server: float(value)}, "server")
    for name, text, key in (
        ("messages", "Messages that peers sent (in) and got (out).", "msgs"),
        ("bytes", "The size of these messages.", "bytes"),
    ):
        directions = [(d, facts.get(f"{d}_{key}")) for d in ("in", "out")]
        counted = [((server, d), "", float(n)) for d, n in directions if n is not None]
        yield _counter(f"farm_server_{name}", text, counted, "server", "direction")


def _queues(places: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    longest = sorted(places.items(), key=lambda p: (-p[1]["waiting"], -p[1]["in_hand"], p[0]))[:PLACES]
    jobs = [((n, state), n, p[state]) for n, p in longest for state in ("waiting", "in_hand")]
    workers = {n: p["workers"] for n, p in longest}
    yield _gauge(
        "farm_queue", "Jobs of each device class or compiler, waiting or in a worker's hand.", jobs, "place", "state"
    )
    yield _gauge("farm_queue_workers", "Workers that serve each device class or compiler.", workers, "place")


# --------------------------------------------------------------------------- samples


class _Snapshot(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _family(kind: Callable[..., Metric], name: str, text: str, samples: _Samples, *labels: str) -> Metric:
    """Builds a metric of samples. Labels are made unique, because duplicates would make the scrape invalid."""
    metric: Any = kind(f"tilewright_{name}", text, labels=labels)
    if isinstance(samples, Mapping):
        samples = [((label,), label, value) for label, value in samples.items()]
    elif not isinstance(samples, Sequence):
        samples = [((), "", samples)]
    seen: set[tuple[str, ...]] = set()
    for texts, key, value in samples:
        shown = tuple(map(bounded, texts))
        if shown in seen:
            mark = sha256("\0".join((key, *texts)).encode("utf-8", "replace")).hexdigest()[:8]
            shown = (*shown[:-1], f"{shown[-1][: LABEL - 9]}#{mark}")
        if shown not in seen:
            seen.add(shown)
            metric.add_metric(shown, value)
    return metric  # type: ignore[no-any-return]


_gauge = partial(_family, GaugeMetricFamily)
_counter = partial(_family, CounterMetricFamily)


def bounded(text: str) -> str:
    """A label's value without invisible characters and of at most ``LABEL`` characters. A longer text is cut and ends
    with a part of its hash."""
    shown = visible_text(text[: LABEL + 1])
    if len(shown) <= LABEL:
        return shown
    return f"{shown[: LABEL - 9]}#{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
