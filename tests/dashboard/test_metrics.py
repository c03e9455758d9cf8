"""The metrics: what they say of a database and a farm, and that no text can break or flood them."""

from __future__ import annotations

import contextlib
import math
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE, make_hostile
from prometheus_client.parser import text_string_to_metric_families

from harness.examples import example_artifact, example_kernel, example_schedule, example_task
from harness.farm import SimulatedFarm, SleepingMeasurer
from harness.farm_status import FACTS, Saying, a_status, a_worker
from tilewright import __version__
from tilewright.core import (
    DatabaseError,
    Device,
    Failure,
    FailureKind,
    Measurement,
    Proposal,
    TilewrightError,
    TrialRecord,
)
from tilewright.dashboard import farm_source
from tilewright.dashboard import metrics as module
from tilewright.dashboard.farm_source import FarmSource
from tilewright.dashboard.metrics import CONTENT_TYPE, LABEL, WORKERS, Metrics, bounded, farm_metrics
from tilewright.database import Database
from tilewright.database.transfer.garbage import collect
from tilewright.farm.health import WORKER_STATES

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(text: bytes) -> Samples:
    """Every sample by name and labels. No sample may come twice."""
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for s in family.samples:
            key = (s.name, tuple(sorted(s.labels.items())))
            assert key not in found
            found[key] = s.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Database]:
    """A run of four trials, two of them failed; its kernel; and three look-ups that found nothing."""
    task, code = example_task(), example_artifact(b"code")
    with Database.open(tmp_path / "t.db") as db:
        run = db.add_run(task, Device("cpu:0", "a model"), "random", 0, 10, {}, {})
        results = [
            Measurement(1e-3, 0.1, 5), Failure(FailureKind.COMPILE, "x"), Measurement(2e-3, 0.1, 5),
            Failure(FailureKind.TIMEOUT, "y"),
        ]  # fmt: skip
        db.add_trials(
            run, [TrialRecord(n, Proposal(example_schedule(n), 0.5, "random"), r) for n, r in enumerate(results)]
        )
        db.set_kernels(task, "a model", run, [example_kernel(task, 0, code, run)], [code])
        db.finish_run(run, "done", {})
        db.add_miss("matmul", {"m": 1}, task.target.key, 2)
        db.add_miss("matmul", {"m": 2}, task.target.key)
        yield db


def test_what_a_database_holds(stored: Database) -> None:
    found = read(Metrics(stored).text())
    task = example_task()
    assert value(found, "tilewright_up", source="database") == 1
    assert value(found, "tilewright_build_info", version=__version__) == 1
    assert value(found, "tilewright_stored_trials", outcome="ok") == 2
    kinds = {k.value: value(found, "tilewright_stored_trials", outcome=k.value) for k in FailureKind}
    assert kinds == {**dict.fromkeys(kinds, 0), "compile": 1, "timeout": 1}
    assert value(found, "tilewright_runs", state="done") == 1
    assert value(found, "tilewright_runs", state="running") == 0
    assert value(found, "tilewright_kernels") == 1
    assert value(found, "tilewright_stored_misses") == 3
    assert value(found, "tilewright_database_bytes") > 4096
    assert value(found, "tilewright_database_artifact_bytes") > 0
    labels = {
        "operator": task.workload.op, "workload": task.workload.label, "device_model": "a model",
        "target": f"{task.target.name} x{task.target.threads}",
    }  # fmt: skip
    final = example_kernel(task, 0, example_artifact(b"code")).final_seconds
    assert value(found, "tilewright_final_seconds", **labels) == final
    assert value(found, "tilewright_best_seconds", **labels) == final  # its earlier name
    assert "tilewright_farm_workers" not in {name for name, _ in found}


def test_an_empty_database_has_every_series_of_known_labels(tmp_path: Path) -> None:
    with Database.open(tmp_path / "t.db") as db:
        found = read(Metrics(db).text())
    assert value(found, "tilewright_trials_total", outcome="wrong_result") == 0
    assert value(found, "tilewright_misses_total") == 0
    assert "tilewright_final_seconds" not in {name for name, _ in found}


def test_a_scrape_answers_for_a_while(stored: Database) -> None:
    metrics = Metrics(stored)
    before = metrics.text()
    stored.add_miss("matmul", {"m": 3}, "x")
    assert metrics.text() == before
    metrics.answers.forget("text")
    assert value(read(metrics.text()), "tilewright_stored_misses") == 4


def test_counters_rise_with_what_is_stored_and_never_fall(stored: Database) -> None:
    metrics = Metrics(stored)

    def look() -> Samples:
        metrics.answers.forget("text")
        return read(metrics.text())

    found = look()
    assert value(found, "tilewright_trials_total", outcome="compile") == 0  # what was there before is no rise
    assert value(found, "tilewright_misses_total") == 0
    run = stored.add_run(example_task(), Device("cpu:0", "a model"), "random", 0, 10, {}, {})
    wrong = Failure(FailureKind.WRONG_RESULT, "x")
    stored.add_trials(run, [TrialRecord(n, Proposal(example_schedule(n), 0.5, "random"), wrong) for n in range(3)])
    stored.finish_run(run, "done", {})
    stored.add_miss("matmul", {"m": 1}, example_task().target.key, 4)
    stored.add_miss("matmul", {"m": 9}, example_task().target.key)
    found = look()
    assert value(found, "tilewright_trials_total", outcome="wrong_result") == 3
    assert value(found, "tilewright_trials_total", outcome="ok") == 0
    assert value(found, "tilewright_misses_total") == 5

    assert len(collect(stored, older_than=0.0).runs) == 1  # the other run's kernel is stored
    stored.remove_misses(stored.misses())
    later = look()
    assert value(later, "tilewright_stored_trials", outcome="wrong_result") == 0
    assert value(later, "tilewright_stored_misses") == 0
    assert {k: v for k, v in later.items() if k[0].endswith("_total")} == {
        k: v for k, v in found.items() if k[0].endswith("_total")
    }
    stored.add_miss("matmul", {"m": 1}, example_task().target.key, 2)  # forgotten, and asked for again
    assert value(look(), "tilewright_misses_total") == 7


def test_hostile_text_stays_in_its_label(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    make_hostile(path)
    with Database.open(path, create=False, readonly=True) as db:
        text = Metrics(db).text()
    found = read(text)
    assert value(found, "tilewright_up", source="database") == 1
    ((_, labels),) = [key for key in found if key[0] == "tilewright_final_seconds"]
    assert dict(labels)["operator"] == bounded(HOSTILE)
    assert dict(labels)["device_model"] == bounded(HOSTILE)
    assert not any(c in text.decode() for c in ("\x1b", "\u202e"))


@pytest.mark.parametrize(
    "text",
    ['a"b', "a\\b", "a\nb", 'a"} 1\ntilewright_up{source="database"} 0\n#', "\\", "\\n", "é\u202e\0\ud800", "x" * 500],
)
def test_no_label_breaks_out(text: str) -> None:
    status = a_status([a_worker(text)])
    found = read(exposed(status))
    shown = bounded(text)
    assert value(found, "tilewright_farm_strikes", worker=shown) == 0
    assert len(shown) <= LABEL
    assert shown.isprintable()
    assert [k for k in found if k[0] == "tilewright_up"] == []


def test_long_labels_stay_apart() -> None:
    names = ["w" * 200 + str(n) for n in range(3)]
    assert len({bounded(n) for n in names}) == 3
    found = read(exposed(a_status([a_worker(n) for n in names])))
    assert sum(name == "tilewright_farm_strikes" for name, _ in found) == 3


def test_labels_that_look_the_same_stay_apart() -> None:
    found = read(exposed(a_status([a_worker("a\nb"), a_worker("a\\x0ab")])))
    assert sum(name == "tilewright_farm_strikes" for name, _ in found) == 2


def exposed(status: dict[str, Any]) -> bytes:
    registry = module.CollectorRegistry()
    registry.register(module._Snapshot(farm_metrics(status)))
    return module.generate_latest(registry)


def test_what_a_farm_says() -> None:
    workers = [
        a_worker("idle"), a_worker("busy", running=1), a_worker("leaving", draining=True, role="builder"),
        a_worker("out", quarantine="three failures", strikes=3, expires=1_800_000_000.0),
    ]  # fmt: skip
    found = read(exposed(a_status(workers, {"h200": {"workers": 1, "waiting": 5, "in_hand": 2}})))
    states = {
        (d["role"], d["state"]): v for (n, k), v in found.items() if n == "tilewright_farm_workers" for d in [dict(k)]
    }
    assert {k for k, v in states.items() if v} == {
        ("runner", "idle"), ("runner", "busy"), ("runner", "quarantined"), ("builder", "draining"),
    }  # fmt: skip
    assert len(states) == 2 * len(WORKER_STATES)
    assert value(found, "tilewright_farm_queue", place="h200", state="waiting") == 5
    assert value(found, "tilewright_farm_queue", place="h200", state="in_hand") == 2
    assert value(found, "tilewright_farm_queue_workers", place="h200") == 1
    assert value(found, "tilewright_farm_quarantined") == 2
    assert value(found, "tilewright_farm_strikes", worker="out") == 3
    assert value(found, "tilewright_farm_certificate_expiry_timestamp_seconds", worker="out") == 1_800_000_000
    assert value(found, "tilewright_farm_utilisation_ratio", worker="idle") == 0.25
    assert value(found, "tilewright_farm_jobs_total", worker="idle") == 7
    assert value(found, "tilewright_farm_clients") == 1
    assert value(found, "tilewright_farm_refused_total", server="") == 3


def test_what_a_server_says() -> None:
    found = read(exposed(a_status([])))
    server = {n: v for (n, labels), v in found.items() if dict(labels) == {"server": ""}}
    assert server == {
        "tilewright_farm_uptime_seconds": 12.5, "tilewright_farm_refused_total": 3,
        "tilewright_farm_server_storing": 1, "tilewright_farm_server_connections": 4,
        "tilewright_farm_server_cpu_ratio": 1.5, "tilewright_farm_server_memory_bytes": 30 << 20,
        "tilewright_farm_server_stored_messages": 12, "tilewright_farm_server_stored_bytes": 5 << 20,
        "tilewright_farm_server_storage_limit_bytes": 4 << 30, "tilewright_farm_server_peers": 1,
        "tilewright_farm_server_slow_consumers_total": 2,
    }  # fmt: skip
    assert value(found, "tilewright_farm_server_info", server="", engine="nats-server 2.9.10") == 1
    traffic = {
        (kind, way): value(found, f"tilewright_farm_server_{kind}_total", server="", direction=way)
        for kind in ("messages", "bytes")
        for way in ("in", "out")
    }
    assert traffic == {
        ("messages", "in"): 100, ("messages", "out"): 200, ("bytes", "in"): 1000, ("bytes", "out"): 3000,
    }  # fmt: skip


def test_a_server_that_stores_nothing() -> None:
    found = read(exposed(a_status([], trouble="no room")))
    assert value(found, "tilewright_farm_server_storing", server="") == 0


def test_servers_of_a_cluster_have_series_of_their_own() -> None:
    found = read(exposed(a_status([], server={**FACTS, "cluster": "lab", "server_name": "b", "peers": 3})))
    assert value(found, "tilewright_farm_server_peers", server="b") == 3
    assert value(found, "tilewright_farm_uptime_seconds", server="b") == 12.5


@pytest.mark.parametrize("facts", [{}, {"engine": "nats-server 2.9.10"}, dict.fromkeys(FACTS)])
def test_what_a_server_does_not_say_is_absent(facts: dict[str, Any]) -> None:
    found = read(exposed(a_status([a_worker("w")], server=facts)))
    said = {name for name, _ in found if name.startswith("tilewright_farm_server_")}
    info = {"tilewright_farm_server_info"} if facts.get("engine") else set()
    assert said == {"tilewright_farm_server_storing"} | info
    assert value(found, "tilewright_farm_strikes", worker="w") == 0


def test_the_number_of_series_is_bounded() -> None:
    workers = [a_worker(f"w{n:05}") for n in range(5000)] + [a_worker("zz", quarantine="why")]
    places = {f"p{n}": {"workers": 1, "waiting": n, "in_hand": 0} for n in range(5000)}
    found = read(exposed(a_status(workers, places)))
    shown = {dict(k)["worker"] for n, k in found if n == "tilewright_farm_strikes"}
    assert len(shown) == WORKERS
    assert "zz" in shown
    assert value(found, "tilewright_farm_queue", place="p4999", state="waiting") == 4999
    assert len(found) < 1200
    assert value(found, "tilewright_farm_workers", role="runner", state="idle") == 5000


# --------------------------------------------------------------------------- sources that fail


@pytest.mark.parametrize(
    "answer", [TilewrightError("gone"), {}, {"workers": 3}, None, {"workers": [{}]}, a_status([], server=3)]
)
def test_a_broken_farm_takes_only_its_own_away(stored: Database, answer: Any) -> None:
    found = read(Metrics(stored, Saying(answer)).text())  # type: ignore[arg-type]
    assert value(found, "tilewright_up", source="farm") == 0
    assert value(found, "tilewright_up", source="database") == 1
    assert value(found, "tilewright_kernels") == 1


def test_a_broken_database_takes_only_its_own_away(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with Database.open(path):
        pass
    with Database.open(path, create=False, readonly=True) as db:
        with contextlib.closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("DROP TABLE miss")
        with pytest.raises(DatabaseError):
            db.misses()
        found = read(Metrics(db, Saying(a_status([]))).text())  # type: ignore[arg-type]
    assert value(found, "tilewright_up", source="database") == 0
    assert value(found, "tilewright_up", source="farm") == 1
    assert value(found, "tilewright_farm_clients") == 1


def test_the_type_is_the_one_that_prometheus_knows() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


# --------------------------------------------------------------------------- a real farm


def test_a_farm_is_read_and_read_again(tmp_path: Path, stored: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_source, "WAIT", 60.0)
    monkeypatch.setattr(farm_source, "FRESH", math.inf)
    with SimulatedFarm(tmp_path / "farm", [SleepingMeasurer(), SleepingMeasurer()]) as farm:
        source = FarmSource(farm.address)
        try:
            found = read(Metrics(stored, source).text())
            assert value(found, "tilewright_up", source="farm") == 1
            assert value(found, "tilewright_farm_workers", role="runner", state="idle") == 2
            assert value(found, "tilewright_farm_queue_workers", place="cpu-simulated-1c") == 2
            assert value(found, "tilewright_farm_server_storing", server="") == 1
            assert value(found, "tilewright_farm_server_connections", server="") >= 4  # its keeper, two runners, this
            assert value(found, "tilewright_farm_server_bytes_total", server="", direction="in") > 0
            assert value(found, "tilewright_farm_server_storage_limit_bytes", server="") == 256 << 20
            ((_, info),) = [key for key in found if key[0] == "tilewright_farm_server_info"]
            assert dict(info)["engine"].startswith("nats-server ")
            assert source.status() is source.status()  # the farm is not asked again
        finally:
            source.close()
        source._status_at = float("-inf")
        with pytest.raises(TilewrightError, match="is closed"):
            source.status()


def test_a_farm_that_is_away_says_so_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_source, "FRESH", 0.05)
    monkeypatch.setattr(farm_source, "WAIT", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    source = FarmSource(f"tcp://127.0.0.1:{port}")
    try:
        with pytest.raises(TilewrightError, match="cannot reach"):
            source.status()
        with SimulatedFarm(tmp_path, []) as farm:
            farm.call(farm.hub.stop())  # type: ignore[union-attr]
            farm.call(farm.start_server(port))

            def there() -> bool:
                with contextlib.suppress(TilewrightError):
                    return source.status()["workers"] == []
                return False

            farm.wait_for(there)
    finally:
        source.close()


def test_a_farm_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(farm_source, "WAIT", 0.1)
    silent = socket.create_server(("127.0.0.1", 0))
    source = FarmSource(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
    try:
        with silent:
            for _ in range(2):
                with pytest.raises(TilewrightError, match="has not answered yet"):
                    source.status()
    finally:
        source.close()


@pytest.mark.parametrize("address", ["tls://farm.example.org:8786", "tcp://farm.example.org:8786", "nonsense"])
def test_an_address_that_cannot_be_right_is_refused_at_once(address: str) -> None:
    with pytest.raises(TilewrightError):
        FarmSource(address)
