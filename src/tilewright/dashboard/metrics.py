"""Metrics for Prometheus: what is stored and how the farm is, as text, read anew every few seconds.

The number of series is bounded, and so is the length of every label: docs/metrics.md lists them. A database or a farm
that cannot be asked takes away its own metrics alone, and ``tilewright_up`` says which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from tilewright import __version__
from tilewright.core import FailureKind, TilewrightError
from tilewright.dashboard.farm_source import worker_state
from tilewright.database.records import RUN_STATES
from tilewright.database.text import visible_text
from tilewright.farm.errors import FarmError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from tilewright.dashboard.farm_source import FarmSource
    from tilewright.database import Database

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TASKS = 100  # best kernels, the newest
WORKERS = 200  # of a farm, those in trouble first
PLACES = 100  # queues of a farm, the longest first
LABEL = 120  # characters
_Labelled = tuple[Sequence[str], str, float]
"""Labels, what they stand for, and a value."""
FRESH = 3.0  # seconds for which a scrape answers for all
SIZE_FRESH = 60.0  # the same for sizes, for which the database counts its rows
WORKER_STATES = ("idle", "busy", "draining", "quarantined")
_ROLES = ("runner", "builder")


class Metrics:
    """Everything to scrape of one database, and of one farm if there is one. Any thread may ask."""

    def __init__(self, database: Database, farm: FarmSource | None = None) -> None:
        self._database = database
        self._farm = farm
        self._lock = threading.Lock()
        self._text = b""
        self._until = self._size_until = float("-inf")
        self._sizes = (0, 0)

    def text(self) -> bytes:
        """The metrics in Prometheus's text format, of type ``CONTENT_TYPE``."""
        with self._lock:
            if time.monotonic() >= self._until:
                registry = CollectorRegistry(auto_describe=False)
                registry.register(_Snapshot(self._collect()))
                self._text = generate_latest(registry)
                self._until = time.monotonic() + FRESH
            return self._text

    def _collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("tilewright_up", "Whether this source could be read (1) or not (0).", labels=["source"])
        took = GaugeMetricFamily(
            "tilewright_scrape_duration_seconds", "How long reading this source took.", labels=["source"]
        )
        info = GaugeMetricFamily("tilewright_build_info", "The dashboard's version; always 1.", labels=["version"])
        info.add_metric([__version__], 1)
        sources: dict[str, Callable[[], list[Metric]]] = {"database": self._of_database}
        if self._farm is not None:
            sources["farm"] = self._of_farm
        yield info
        for name, read in sources.items():
            began = time.perf_counter()
            try:
                found = read()
            except TilewrightError:  # the pages say what it is
                found = []
            took.add_metric([name], time.perf_counter() - began)
            up.add_metric([name], 1 if found else 0)
            yield from found
        yield up
        yield took

    def _of_database(self) -> list[Metric]:
        database = self._database
        totals, misses = database.totals(), database.misses()
        failed = {kind.value: totals.failed.get(kind.value, 0) for kind in FailureKind} | dict(totals.failed)
        outcomes = {"ok": totals.trials - sum(failed.values()), **failed}
        if time.monotonic() >= self._size_until:
            stats = database.stats()
            self._sizes = (stats.bytes, stats.artifact_bytes)
            self._size_until = time.monotonic() + SIZE_FRESH
        fastest: list[_Labelled] = []
        best = GaugeMetricFamily(
            "tilewright_best_seconds", f"Time of one call of the best kernel of each of the {TASKS} newest tasks.",
            labels=["operator", "workload", "device_model", "target"],
        )  # fmt: skip
        for view in database.best_kernels(TASKS):
            kernel, task = view.kernel, view.kernel.task
            target = f"{task.target.name} x{task.target.threads}"
            labels = (task.workload.op, task.workload.label, kernel.device_model, target)
            fastest.append((labels, task.workload.key, kernel.seconds))
        _add(best, fastest)
        runs = {state: totals.runs.get(state, 0) for state in RUN_STATES} | dict(totals.runs)
        return [
            _gauge("tilewright_trials", "Stored trials: ok, or the kind of failure.", "outcome", outcomes),
            _gauge("tilewright_runs", "Stored runs, by state.", "state", runs),
            _single("tilewright_workloads", "Workloads that were tuned or looked up.", totals.workloads),
            _single("tilewright_devices", "Device models that runs were on.", totals.devices),
            _single("tilewright_kernels", "Tasks on device models that have a best kernel.", totals.kernels),
            best,
            _single("tilewright_misses", "Look-ups that found no tuned kernel.", sum(m.count for m in misses)),
            _single("tilewright_database_bytes", "Size of the database.", self._sizes[0]),
            _single("tilewright_database_artifact_bytes", "Of that, compiled code.", self._sizes[1]),
        ]  # fmt: skip

    def _of_farm(self) -> list[Metric]:
        assert self._farm is not None
        status = self._farm.status()
        try:
            return list(farm_metrics(status))
        except (AttributeError, LookupError, TypeError, ValueError):
            raise FarmError("the farm's status is none") from None


def farm_metrics(status: Mapping[str, Any]) -> Iterator[Metric]:
    """What ``Farm.status()`` says, as metrics."""
    workers = sorted(status["workers"], key=lambda w: (not w["quarantine"], -w["strikes"], w["name"]))
    counts = {(role, state): 0 for role in _ROLES for state in WORKER_STATES}
    for w in workers:
        pair = (str(w["role"]), worker_state(w))
        counts[pair] = counts.get(pair, 0) + 1
    there = GaugeMetricFamily(
        "tilewright_farm_workers", "Connected runners and builders, by role and state.", labels=["role", "state"]
    )
    _add(there, ((pair, "", number) for pair, number in counts.items()))
    yield there
    yield from _queues(status["places"])
    shown = workers[:WORKERS]
    for name, text, key in (
        ("utilisation_ratio", "Share of the time since it connected for which a worker was busy.", "busy"),
        ("strikes", "Failures in a row of a worker, counted towards its quarantine.", "strikes"),
        ("certificate_expiry_timestamp_seconds", "When a worker's certificate ends.", "expires"),
    ):
        gauge = GaugeMetricFamily(f"tilewright_farm_{name}", f"{text} At most {WORKERS} workers.", labels=["worker"])
        _add(gauge, (((w["name"],), w["name"], w[key]) for w in shown if w[key] is not None))
        yield gauge
    done = CounterMetricFamily(
        "tilewright_farm_jobs", f"Jobs that a worker has done. At most {WORKERS} workers.", labels=["worker"]
    )
    _add(done, (((w["name"],), w["name"], w["done"]) for w in shown))
    yield done
    quarantined = sum(1 for w in workers if w["quarantine"]) + len(status["quarantined_away"])
    yield _single("tilewright_farm_quarantined", "Workers in quarantine, those that are away included.", quarantined)
    clients = sum(1 for c in status["clients"] if c["connected"])
    yield _single("tilewright_farm_clients", "Tuning clients that were heard of lately.", clients)
    yield from _server(status)


def _server(status: Mapping[str, Any]) -> Iterator[Metric]:
    """What the server that answered says of itself: in a cluster another one may answer the next time."""
    facts = status["server"]
    server = str(facts.get("server_name") or "") if facts.get("cluster") else ""
    if facts.get("engine"):
        info = GaugeMetricFamily(
            "tilewright_farm_server_info", "The server's program and version; always 1.", labels=["server", "engine"]
        )
        _add(info, [((server, str(facts["engine"])), "", 1)])
        yield info
    cpu = facts.get("cpu")
    for kind, name, text, value in (
        (GaugeMetricFamily, "uptime_seconds", "How long the farm has been running.", status["uptime"]),
        (CounterMetricFamily, "refused", "Peers that the farm turned down.", status["refused"]),
        (GaugeMetricFamily, "server_storing", "Whether jobs and results are stored (1) or not (0).",
            0 if status["trouble"] else 1),
        (GaugeMetricFamily, "server_connections", "Connections of peers.", facts.get("connections")),
        (GaugeMetricFamily, "server_cpu_ratio", "Processor time that the server takes, 1 for a whole core.",
            None if cpu is None else cpu / 100),
        (GaugeMetricFamily, "server_memory_bytes", "Memory that the server takes.", facts.get("mem")),
        (GaugeMetricFamily, "server_stored_messages", "Messages stored.", facts.get("messages")),
        (GaugeMetricFamily, "server_stored_bytes", "Their size.", facts.get("storage")),
        (GaugeMetricFamily, "server_storage_limit_bytes", "What may be stored.", facts.get("limit")),
        (GaugeMetricFamily, "server_peers", "Servers of the cluster, itself included.", facts.get("peers")),
        (CounterMetricFamily, "server_slow_consumers", "Connections that were cut because their peer read too slowly.",
            facts.get("slow_consumers")),
    ):  # fmt: skip
        if value is not None:
            metric = kind(f"tilewright_farm_{name}", text, labels=["server"])
            _add(metric, [((server,), "", float(value))])
            yield metric
    for name, text, key in (
        ("messages", "Messages that peers sent (in) and got (out).", "msgs"),
        ("bytes", "The size of these messages.", "bytes"),
    ):
        directions = [(d, facts.get(f"{d}_{key}")) for d in ("in", "out")]
        metric = CounterMetricFamily(f"tilewright_farm_server_{name}", text, labels=["server", "direction"])
        _add(metric, [((server, d), "", float(n)) for d, n in directions if n is not None])
        yield metric


def _queues(places: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "tilewright_farm_queue", "Jobs of each device class or compiler, waiting or in a worker's hand.",
        labels=["place", "state"],
    )  # fmt: skip
    workers = GaugeMetricFamily(
        "tilewright_farm_queue_workers", "Workers that serve each device class or compiler.", labels=["place"]
    )
    longest = sorted(places.items(), key=lambda p: (-p[1]["waiting"], -p[1]["in_hand"], p[0]))[:PLACES]
    _add(jobs, (((n, state), n, p[state]) for n, p in longest for state in ("waiting", "in_hand")))
    _add(workers, (((n,), n, p["workers"]) for n, p in longest))
    yield jobs
    yield workers


# --------------------------------------------------------------------------- samples


class _Snapshot(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _single(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(name, text, labels=[label])
    _add(metric, (((value,), value, count) for value, count in values.items()))
    return metric


def _add(metric: GaugeMetricFamily | CounterMetricFamily, samples: Iterable[_Labelled]) -> None:
    """Add samples. No two get the same labels: a scrape would be void."""
    seen: set[tuple[str, ...]] = set()
    for texts, key, value in samples:
        labels = tuple(map(bounded, texts))
        if labels in seen:
            mark = sha256("\0".join((key, *texts)).encode("utf-8", "replace")).hexdigest()[:8]
            labels = (*labels[:-1], f"{labels[-1][: LABEL - 9]}#{mark}")
        if labels not in seen:
            seen.add(labels)
            metric.add_metric(labels, value)


def bounded(text: str) -> str:
    """A label's value: nothing invisible, at most ``LABEL`` characters. A longer one ends with a part of its hash."""
    shown = visible_text(text[: LABEL + 1])
    if len(shown) <= LABEL:
        return shown
    return f"{shown[: LABEL - 9]}#{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
