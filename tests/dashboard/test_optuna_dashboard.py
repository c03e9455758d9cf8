"""Optuna's own dashboard over our database: it shows every run, and changes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna_dashboard")

import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from harness.examples import DEVICE, SETTINGS, example_record, example_task
from tilewright.core import DatabaseError, Failure, FailureKind, Proposal, Schedule, TrialRecord, UsageError
from tilewright.dashboard import optuna_server as optuna_server_module
from tilewright.dashboard import optuna_storage
from tilewright.dashboard.errors import DashboardError
from tilewright.dashboard.optuna_server import LIMITS, OptunaServer, optuna_server, serve_optuna
from tilewright.dashboard.optuna_storage import ReadOnlyStorage
from tilewright.database import Database

Fetch = Callable[..., tuple[int, dict[str, list[str]], bytes]]


def add_run(db: Database, trials: int, m: int = 8) -> str:
    run_id = db.add_run(example_task(m), DEVICE, "optuna-tpe", 7, 64, SETTINGS)
    db.add_trials(run_id, [example_record(i) for i in range(trials)])
    return run_id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of two runs, with 12 trials and none."""
    with Database.open(tmp_path / "a.db") as db:
        for trials in (12, 0):
            db.finish_run(add_run(db, trials, 8 + trials), "done")
    return tmp_path / "a.db"


@pytest.fixture
def server(path: Path) -> Iterator[OptunaServer]:
    with optuna_server(path) as it:
        thread = threading.Thread(target=it.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield it
        it.shutdown()
        thread.join()


@pytest.fixture
def fetch(server: OptunaServer) -> Fetch:
    """Status, headers and body of a request; ``host`` is the header."""

    def ask(
        target: str, method: str = "GET", host: str | None = None, body: Any = None
    ) -> tuple[int, dict[str, list[str]], bytes]:
        client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        headers = {"Host": f"127.0.0.1:{server.server_port}" if host is None else host}
        client.request(method, target, None if body is None else json.dumps(body), headers)
        answer = client.getresponse()
        found = answer.status, {k.lower(): answer.headers.get_all(k) or [] for k in answer.headers}, answer.read()
        client.close()
        return found

    return ask


# --------------------------------------------------------------------------- the storage


def test_a_run_is_a_study_and_its_trials_are_trials(path: Path) -> None:
    with Database.open(path, readonly=True) as db:
        first = db.runs()[-1]
        records = db.trials(first.id)
        studies = [optuna.load_study(study_name=name, storage=ReadOnlyStorage(db)) for name in study_names(db)]
        study = next(s for s in studies if s.trials)
        assert study.user_attrs["strategy"] == "optuna-tpe"
        assert study.user_attrs["device"] == DEVICE.model
        for trial, record in zip(study.trials, records, strict=True):
            assert trial.number == record.number
            assert trial.params == dict(record.schedule.values)
            assert trial.user_attrs["origin"] == record.proposal.origin
            assert trial.user_attrs.get("predicted") == record.proposal.prediction
            assert trial.duration is not None
            if isinstance(record.outcome, Failure):
                assert (trial.state, trial.values) == (TrialState.FAIL, None)
                assert trial.user_attrs["status"] == record.outcome.kind.value
                assert trial.user_attrs["message"].startswith(f"trial {record.number}: ")
                assert "\x1b" not in trial.user_attrs["message"]
            else:
                assert (trial.state, trial.value) == (TrialState.COMPLETE, record.seconds)
        best = min((r for r in records if r.seconds is not None), key=lambda r: r.seconds or 0)
        assert study.best_trial.number == best.number
        assert study.best_params == dict(best.schedule.values)
        empty = next(s for s in studies if not s.trials)
        with pytest.raises(ValueError, match="No trials are completed"):
            _ = empty.best_trial


def study_names(db: Database) -> list[str]:
    return [s.study_name for s in ReadOnlyStorage(db).get_all_studies()]


def test_a_parameter_has_the_range_of_its_run(path: Path) -> None:
    with Database.open(path, readonly=True) as db:
        trial = ReadOnlyStorage(db).get_all_trials(0)[0]
        assert trial.distributions == {
            "MR": IntDistribution(6, 7),
            "pack": CategoricalDistribution(("a",)),
            "unroll": CategoricalDistribution((True,)),
            "KC": IntDistribution(64, 75),
        }


def test_templates_are_told_apart_and_hostile_texts_are_plain(tmp_path: Path) -> None:
    def record(number: int, template: str, value: str) -> TrialRecord:
        failure = Failure(FailureKind.CRASH, '=HYPERLINK("http://example.org")')
        return TrialRecord(number, Proposal(Schedule(template, 1, (("kind", value),))), failure, 0.0, 1.7e9)

    with Database.open(tmp_path / "a.db") as db:
        run_id = db.add_run(example_task(), DEVICE, "grid", 0, 2, SETTINGS)
        db.add_trials(run_id, [record(0, "one", "@SUM(A1)"), record(1, "two", "b\x1b[31m")])
        first, second = ReadOnlyStorage(db).get_all_trials(0)
        assert first.params == {"template": "one", "kind": "'@SUM(A1)"}
        assert second.params == {"template": "two", "kind": "b\\x1b[31m"}
        assert first.user_attrs["message"].startswith("'=")


def test_new_runs_and_trials_appear_and_numbers_stay(path: Path) -> None:
    with Database.open(path) as db:
        storage = ReadOnlyStorage(db)
        before = {s.study_name: s._study_id for s in storage.get_all_studies()}
        assert sorted(before.values()) == [0, 1]
        run_id = add_run(db, 3)
        after = {s.study_name: s._study_id for s in storage.get_all_studies()}
        [new] = after.keys() - before.keys()
        assert before == {name: after[name] for name in before}
        assert after[new] == storage.get_study_id_from_name(new) == 2
        trials = storage.get_all_trials(2, deepcopy=False)
        assert storage.get_all_trials(2, deepcopy=False)[0] is trials[0]
        db.add_trials(run_id, [example_record(i) for i in range(3, 6)])
        assert [t.number for t in storage.get_all_trials(2)] == list(range(6))
        assert storage.get_n_trials(2, TrialState.FAIL) == 1
        identifier = storage.get_trial_id_from_study_id_trial_number(2, 4)
        assert storage.get_trial(identifier).number == 4
        for missing in (
            lambda: storage.get_trial(identifier + 100),
            lambda: storage.get_all_trials(9),
            lambda: storage.get_study_id_from_name("no"),
            lambda: storage.get_trial_id_from_study_id_trial_number(2, 6),
        ):
            with pytest.raises(KeyError):
                missing()


def test_the_list_of_many_studies_reads_no_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Database.open(tmp_path / "a.db") as db:
        for _ in range(60):
            add_run(db, 2)
        storage = ReadOnlyStorage(db)
        for name in ("trials", "sample_trials", "list_trials"):
            monkeypatch.setattr(db, name, None)
        assert [s._study_id for s in storage.get_all_studies()] == list(range(60))
        # Asked for again, as the dashboard does for every page of a study, it reads no run either.
        for name in ("runs", "list_runs"):
            monkeypatch.setattr(db, name, None)
        assert len(storage.get_all_studies()) == 60


def test_a_long_run_is_thinned_and_keeps_its_best(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_storage, "SHOWN", 6)
    monkeypatch.setattr(optuna_storage, "KEPT", 1)
    with Database.open(path) as db:
        storage = ReadOnlyStorage(db)
        trials = storage.get_all_trials(0)
        assert len(trials) <= 6
        assert storage.get_best_trial(0).number == 11
        assert storage.get_all_trials(1) == []
        assert storage._trials.cache_info().currsize == 1


def test_every_write_is_refused(path: Path) -> None:
    writes = [n for n in dir(BaseStorage) if re.match("(create|delete|set)_", n)]
    assert len(writes) >= 10
    with Database.open(path) as db:
        storage = ReadOnlyStorage(db)
        for name in writes:
            with pytest.raises(DatabaseError, match="never written"):
                getattr(storage, name)(0)
        study = optuna.load_study(study_name=study_names(db)[0], storage=storage)
        with pytest.raises(DatabaseError, match="never written"):
            study.ask()


# --------------------------------------------------------------------------- the server


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # of its own importances, on optuna 4
def test_the_dashboard_shows_runs_and_trials(fetch: Fetch) -> None:
    status, headers, body = fetch("/api/studies")
    assert status == 200
    studies = json.loads(body)["study_summaries"]
    assert [s["study_id"] for s in studies] == [0, 1]
    assert "matmul m=20" in studies[0]["study_name"]
    detail = json.loads(fetch("/api/studies/0")[2])
    assert len(detail["trials"]) == 12
    assert [t["state"] for t in detail["trials"]].count("Fail") == 2
    assert detail["best_trials"][0]["number"] == 11
    assert {p["name"] for p in detail["union_search_space"]} == {"MR", "pack", "unroll", "KC"}
    assert fetch("/api/studies/0/param_importances")[0] == 200
    assert fetch("/api/studies/7")[0] == 404
    assert fetch("/csv/0")[2].count(b"\n") == 13
    status, headers, body = fetch("/dashboard")
    assert status == 200
    assert b"<html" in body
    policies = headers["content-security-policy"]
    assert any("default-src 'self'" in p for p in policies)
    assert any("frame-ancestors 'none'" in p for p in policies)
    assert headers["x-content-type-options"] == ["nosniff"]
    assert fetch("/", "HEAD")[0] == 302
    script = re.search(rb'src="(/static/[^"]+\.js)"', body)
    assert script
    assert fetch(script[1].decode())[0] == 200


def test_nothing_is_written(path: Path, fetch: Fetch) -> None:
    before = hashlib.sha256(path.read_bytes()).digest()
    for method, target, body in (
        ("POST", "/api/studies", {"study_name": "new", "directions": ["minimize"]}),
        ("DELETE", "/api/studies/0", None),
        ("POST", "/api/studies/0/rename", {"study_name": "other"}),
        ("PUT", "/api/studies/0/note", {"version": 1, "body": "x" * 200_000}),
        ("POST", "/api/trials/0/tell", {"state": "Fail"}),
        ("POST", "/api/trials/0/user-attrs", {"user_attrs": {"a": 1}}),
        ("PUT", "/api/studies/0/0/note", {"version": 1, "body": "x"}),
        ("PATCH", "/api/studies", {}),
        ("OPTIONS", "/api/studies", None),
        ("TRACE", "/dashboard", None),
        ("get", "/api/studies", None),
    ):
        status, headers, _ = fetch(target, method, body=body)
        assert (status, headers["allow"]) == (405, ["GET, HEAD"]), (method, target)
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert len(json.loads(fetch("/api/studies")[2])["study_summaries"]) == 2


def test_only_names_of_this_machine_are_answered(server: OptunaServer, fetch: Fetch) -> None:
    port = server.server_port
    for good in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert fetch("/api/studies", host=good)[0] == 200
    for bad in (
        "evil.example", f"evil.example:{port}", "localhost", f"localhost:{port + 1}", f"localhost.evil.example:{port}",
        f"127.0.0.1.evil.example:{port}", f"10.0.0.1:{port}", f"localhost:{port},evil.example", f"x@localhost:{port}", "",
    ):  # fmt: skip
        status, _, body = fetch("/api/studies", host=bad)
        assert (status, b"matmul" in body) == (421, False), bad
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /api/studies HTTP/1.0\r\n\r\n")
        assert b" 421 " in client.makefile("rb").readline()


def test_a_client_that_hangs_up_is_no_news(
    server: OptunaServer, fetch: Fetch, capfd: pytest.CaptureFixture[str]
) -> None:
    for part in (b"", b"GE", b"GET /api/studies HTTP/1.1\r\nHost:", b"\x16\x03\x01\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(part)
    assert fetch("/api/meta")[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"])
def test_connections_that_send_no_whole_request_make_room(server: OptunaServer, fetch: Fetch, begin: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(LIMITS.connections + 8):
            raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
            raw.sendall(begin)
        assert fetch("/api/meta")[0] == 200
        assert len(server.listener.connections()) <= LIMITS.connections


def test_a_request_has_to_arrive_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_server_module, "LIMITS", dataclasses.replace(LIMITS, request_seconds=0.2))
    with optuna_server(path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        for begin in (b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as raw:
                raw.sendall(begin)
                with contextlib.suppress(ConnectionResetError):
                    while raw.recv(65536):
                        pass
        server.shutdown()
        thread.join()


def test_other_hosts_a_taken_port_and_a_missing_database_are_told(path: Path, server: OptunaServer) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", ""):
        with pytest.raises(UsageError, match="no login"):
            serve_optuna(path, host, 0)
    with pytest.raises(DashboardError, match=r"cannot listen on 127\.0\.0\.1"):
        serve_optuna(path, "127.0.0.1", server.server_port)
    with pytest.raises(DatabaseError):
        serve_optuna(path.with_name("missing.db"), "127.0.0.1", 0)
    assert not path.with_name("missing.db").exists()


def test_a_missing_package_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.dashboard.optuna_server.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"tilewright\[optuna\]"):
        serve_optuna(path, "127.0.0.1", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(path: Path, number: int) -> None:
    command = [
        sys.executable, "-c",
        "import signal, sys\n"
        "from tilewright.dashboard.optuna_server import serve_optuna\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "serve_optuna(sys.argv[1], 'localhost', 0, lambda url: print(url, flush=True))\n"
        "print('ended')",
        str(path),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://localhost:\d+/", url)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "ended\n", "")
