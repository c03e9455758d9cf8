"""What pages and metrics read, against slow sums over ``Database.runs`` and ``Database.trials``."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from harness import million
from harness.examples import (
    DEVICE,
    TARGET,
    example_artifact,
    example_kernel,
    example_record,
    example_schedule,
    example_task,
)
from postgres import Server
from tilewright.core import Failure, FailureKind, Measurement, Proposal, Task, TrialRecord, UsageError
from tilewright.database import Database, RunFilter, TrialPoint, schema
from tilewright.database.location import locate
from tilewright.database.process import Process
from tilewright.database.views import LATELY, RUN_ORDERS

SCHEMAS = Path(__file__).parent / "schemas"
MODELS = (DEVICE.model, "Another CPU 5")
SIZES = (0, 1, 7, 60, 60, 0, 23, 41, 12, 5, 30, 9)
INDEX = "ix_trial_run_id_status_seconds_number"


def tasks() -> list[Task]:
    """Two of one operator, its twin for more threads, one of another operator, and the first under another name."""
    first = example_task()
    other = replace(example_task(m=10).workload, op="softmax")
    mine = replace(first.workload, op="mine", params=(("rows", 8),), defaults=())
    many = replace(TARGET, threads=8)
    return [first, example_task(m=9), example_task(target=many), Task(other, TARGET), Task(mine, TARGET)]


def records(rng: random.Random, count: int, gaps: bool) -> list[TrialRecord]:
    """Trials of every kind in any order, with equal times, and with ``gaps`` not of every number."""
    numbers = rng.sample(range(3 * count), count) if gaps else rng.sample(range(count), count)
    found = []
    for number in numbers:
        outcome: Measurement | Failure = Measurement(rng.choice((1, 2, 3, rng.random())) * 1e-3, 0.02, 15)
        if rng.random() < 0.3:
            outcome = Failure(rng.choice(list(FailureKind)), f"trial {number} failed")
        prediction = None if rng.random() < 0.3 else rng.choice((0.5, 1.0, rng.random()))
        schedule = example_schedule(number, rng.choice(("contraction", "generic")))
        origin = "default" if number == 0 else "mutation"
        found.append(TrialRecord(number, Proposal(schedule, prediction, origin), outcome, 0.1, 1.7e9 + rng.random()))
    return found


def fill(db: Database, seed: int = 0) -> None:
    """Runs in every state, of live, dead and unseen processes; some tasks with kernels."""
    rng = random.Random(seed)
    elsewhere = Process("another host", 1, "||")
    here = Process.current()
    dead = replace(here, token="an earlier boot||")
    for i, count in enumerate(SIZES):
        task = tasks()[i % 5]
        device = replace(DEVICE, model=rng.choice(MODELS))
        with pytest.MonkeyPatch.context() as patch:
            owner = (here, dead, elsewhere)[i % 3]
            patch.setattr(Process, "current", lambda owner=owner: owner)
            run_id = db.add_run(task, device, rng.choice(("random", "evolutionary")), 0, count, {})
        found = records(rng, count, gaps=i % 4 == 3)
        db.add_trials(run_id, found[: count // 2])
        db.add_trials(run_id, found[count // 2 :])
        state = ("running", "done", "failed", "interrupted")[i % 4]
        if state != "running":
            db.finish_run(run_id, state)
        if i % 3:
            code = example_artifact(bytes([i]))
            kernels = [replace(example_kernel(task, n, code), task=task) for n in range(2)]
            db.set_kernels(task, device.model, run_id, kernels, [code])
    lone, code = example_task(m=77), example_artifact(b"came without a run")
    db.set_kernels(lone, DEVICE.model, None, [example_kernel(lone, 0, code)], [code])


def point(run_id: str, r: TrialRecord) -> TrialPoint:
    failed = isinstance(r.outcome, Failure)
    return TrialPoint(
        run_id, r.number, r.schedule.template, r.outcome.kind.value if isinstance(r.outcome, Failure) else "ok",
        r.seconds, None if failed else 0.02, r.proposal.prediction, r.proposal.origin, r.created,
    )  # fmt: skip


def improvements(trials: Sequence[TrialRecord]) -> set[int]:
    best, found = float("inf"), set()
    for r in trials:
        if r.seconds is not None and r.seconds < best:
            best = r.seconds
            found.add(r.number)
    return found


def by(trials: Sequence[TrialRecord], order: str, descending: bool) -> list[TrialRecord]:
    def value(r: TrialRecord) -> float | None:
        return r.proposal.prediction if order == "prediction" else getattr(r, order)

    known = sorted((r for r in trials if value(r) is not None), key=lambda r: r.number, reverse=descending)
    known.sort(key=lambda r: value(r) or 0.0, reverse=descending)
    return known + sorted((r for r in trials if value(r) is None), key=lambda r: r.number)


@pytest.fixture(
    scope="module", params=["file", "older file", "server", pytest.param("older server", marks=pytest.mark.nightly)]
)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One database for all tests of a kind, open for reading; an older one is of the schema before."""
    older = request.param.startswith("older")
    back = (f"DROP INDEX {INDEX}", "UPDATE alembic_version SET version_num = '0002'") if older else ()
    if request.param.endswith("server"):
        server: Server = request.getfixturevalue("server")
        name = server.create(request.getfixturevalue("ready"))
        where = server.url(name)
    else:
        where = str(tmp_path_factory.mktemp("views") / "tuned.db")
    with Database.open(where) as db:
        fill(db, seed=len(request.param))
    for statement in back:
        if request.param.endswith("server"):
            server.sql(statement, name)
        else:
            with closing(sqlite3.connect(where)) as connection, connection:
                connection.execute(statement)
    with Database.open(where, readonly=True) as db:
        yield db


@pytest.fixture(scope="module")
def stored(filled: Database) -> dict[str, list[TrialRecord]]:
    """The trials of every run."""
    return {run.id: filled.trials(run.id) for run in filled.runs()}


def test_totals_count_runs_trials_failures_kernels_and_devices(filled: Database) -> None:
    runs, found = filled.runs(), filled.totals()
    assert found.runs == Counter(r.state for r in runs)
    assert found.trials == sum(r.trials for r in runs)
    assert found.failed == sum((Counter(r.failed) for r in runs), Counter())
    assert list(found.failed) == sorted(found.failed)
    rows = filled.stats().rows
    assert (found.kernels, found.workloads) == (sum(k.rank == 1 for k in filled.kernels()), rows["workload"])
    assert found.devices == len({r.device_model for r in runs})


def test_outcomes_by_run(filled: Database) -> None:
    found = filled.outcomes()
    for r in filled.runs():
        counts = Counter(found.pop(r.id, {}))
        assert (counts.total(), {k: n for k, n in counts.items() if k != "ok"}) == (r.trials, dict(r.failed))
    assert found == {}


@pytest.mark.parametrize("state", [None, "running", "interrupted", "failed"])
def test_runs_by_filter_and_page(filled: Database, state: str | None) -> None:
    runs = filled.runs()
    key = tasks()[0].workload.key
    ops: Any = ((None, None), ("matmul", {t.workload.key for t in tasks()[:3]}), ("mine", {key}), ("no", {}))
    for i, (op, keys) in enumerate(ops):
        for j, model in enumerate((None, *MODELS)):
            workload = (None, key)[(i + j) % 2]  # each value with each of the others
            expected = [
                r
                for r in runs
                if state in (None, r.state)
                and (keys is None or r.task.workload.key in keys)
                and model in (None, r.device_model)
                and workload in (None, r.task.workload.key)
            ]
            where = RunFilter(op, state, model, workload)
            assert filled.count_runs(where) == len(expected)
            assert filled.list_runs(where, 100) == expected
            assert filled.list_runs(where, 2, 1) == expected[1:3]
    random_ones = [r for r in runs if r.strategy == "random" and state in (None, r.state)]
    assert filled.list_runs(RunFilter(state=state, strategy="random"), 100) == random_ones
    assert filled.list_runs(limit=100) == runs


def test_runs_that_are_searched_for(filled: Database) -> None:
    runs = filled.runs()

    def found(search: str) -> list[str]:
        where = RunFilter(search=search)
        listed = [r.id for r in filled.list_runs(where, 100)]
        assert filled.count_runs(where) == len(listed)
        return listed

    assert found("EXAMPLE cpu 30") == [r.id for r in runs if r.device_model == DEVICE.model]
    assert found("softm") == [r.id for r in runs if r.task.workload.op == "softmax"]
    assert found("random m=8") == [
        r.id for r in runs if r.strategy == "random" and dict(r.task.workload.params)["m"] == 8
    ]
    assert found("m=8") != found("m=9") != []
    assert found(runs[3].id[-6:].upper()) == [runs[3].id]
    assert found("bias=false") == [r.id for r in runs]
    for nothing in ("m=", "m=80", "%", "no_such", "'"):
        assert found(nothing) == []


@pytest.mark.parametrize("descending", [False, True])
def test_runs_in_every_order(filled: Database, descending: bool) -> None:
    keys: dict[str, Any] = {
        "started": lambda r: r.started, "device": lambda r: r.device_model, "strategy": lambda r: r.strategy,
        "trials": lambda r: r.trials, "failed": lambda r: sum(r.failed.values()), "best": lambda r: r.best_seconds,
        "rate": lambda r: r.best_seconds and r.task.workload.flops / r.best_seconds, "workload": None,
    }  # fmt: skip
    assert set(keys) == set(RUN_ORDERS)
    runs = filled.runs()
    for order, key in keys.items():
        listed = filled.list_runs(limit=100, order=order, descending=descending)
        assert {r.id for r in listed} == {r.id for r in runs}
        assert filled.list_runs(limit=3, offset=2, order=order, descending=descending) == listed[2:5]
        if key is not None:
            values = [key(r) for r in listed]
            have = [v for v in values if v is not None]
            assert have == sorted(have, reverse=descending), order
            assert values == have + [None] * (len(values) - len(have))
    with pytest.raises(UsageError, match="Use one of"):
        filled.list_runs(order="size")


def test_trials_that_are_searched_for(filled: Database) -> None:
    run = max(filled.runs(), key=lambda r: r.trials)
    trials = filled.trials(run.id)

    def found(search: str, **given: Any) -> list[int]:
        listed = [t.number for t in filled.list_trials(run.id, search=search, limit=1000, **given)]
        assert filled.count_trials(run.id, search=search, **given) == len(listed)
        return listed

    assert found("MUTATION") == [t.number for t in trials if t.proposal.origin == "mutation"]
    assert found("MR=6 unroll=true") == [t.number for t in trials if t.schedule.values["MR"] == 6]
    assert found("pack=a generic") == [t.number for t in trials if t.schedule.template == "generic"]
    failed = next(t for t in trials if isinstance(t.outcome, Failure))
    assert failed.number in found(f"{failed.number} failed")
    assert found("failed", status="ok") == found("MR=66") == found("100%") == []


def test_seconds_between_trials(filled: Database, stored: dict[str, list[TrialRecord]]) -> None:
    for run in filled.runs():
        created = sorted(t.created for t in stored[run.id] if t.number > run.next_number - 1 - LATELY)
        each = filled.progress(run.id).each
        assert filled.progress_of(run) == filled.progress(run.id)
        if len(set(created)) < 2:
            assert each is None
        else:
            later = sum(c > created[0] for c in created)
            assert each == pytest.approx((created[-1] - created[0]) / later)


def test_the_table_of_operators_agrees_with_the_runs(filled: Database) -> None:
    runs, kernels = filled.runs(), [k for k in filled.kernels() if k.rank == 1]
    first, second, _, softmax, _ = (t.workload.key for t in tasks())
    names = {"matmul": {first, second, example_task(m=77).workload.key}, "mine": {first}, "softmax": {softmax}}
    found = filled.operators()
    assert [o.op for o in found] == sorted(names)
    for o in found:
        own = [r for r in runs if r.task.workload.key in names[o.op]]
        assert (o.workloads, o.runs, o.trials) == (len(names[o.op]), len(own), sum(r.trials for r in own))
        assert o.kernels == sum(k.task.workload.key in names[o.op] for k in kernels)
        assert o.last_started == max(r.started for r in own)


def test_the_table_of_devices_agrees_with_the_runs(filled: Database) -> None:
    runs, found = filled.runs(), filled.devices()
    assert {(d.device_model, d.target_name) for d in found} == {(r.device_model, r.task.target.name) for r in runs}
    assert [d.last_started for d in found] == sorted((d.last_started for d in found), reverse=True)
    for d in found:
        own = [r for r in runs if r.device_model == d.device_model]
        assert (d.runs, d.trials) == (len(own), sum(r.trials for r in own))
        assert d.last_started == max(r.started for r in own)


def test_tasks_of_an_operator(filled: Database) -> None:
    runs = filled.runs()
    for op in ("matmul", "mine", "softmax"):
        found = filled.operator_workloads(op)
        kernels = {(k.task.key, k.device_model): k for k in filled.kernels(op) if k.rank == 1}
        own = [r for r in runs if filled.count_runs(RunFilter(op, workload_key=r.task.workload.key)) > 0]
        places = {(r.task.key, r.device_model) for r in own} | kernels.keys()
        assert {(x.task.key, x.device_model) for x in found} == places
        assert len(found) == len(places)
        started = [x.last_started or 0.0 for x in found]
        assert started == sorted(started, reverse=True)
        for x in found:
            mine = [r for r in own if (r.task.key, r.device_model) == (x.task.key, x.device_model)]
            assert x.task.workload.op == op
            assert (x.runs, x.trials) == (len(mine), sum(r.trials for r in mine))
            assert x.last_started == max((r.started for r in mine), default=None)
            best = kernels.get((x.task.key, x.device_model))
            assert (x.best and x.best.run_id) == (best and best.run_id)
    assert filled.operator_workloads("nothing") == []


def test_best_kernels_are_the_kernels_of_rank_1(filled: Database) -> None:
    expected = [k for k in filled.kernels() if k.rank == 1]
    found = filled.best_kernels(100)
    assert [v.kernel for v in found] == expected
    assert [v.kernel for v in filled.best_kernels(2)] == expected[:2]
    for v in found:
        trials = filled.trials(v.kernel.run_id) if v.kernel.run_id else []
        default = next((r.seconds for r in trials if r.number == 0 and r.proposal.origin == "default"), None)
        assert v.default_seconds == default
        own = next((r.seconds for r in trials if r.number == v.kernel.trial_number), None)
        assert v.trial_seconds == own
        assert v.speedup == (default / own if default and own else None)
    assert {v.default_seconds is None for v in found} == {True, False}
    key = tasks()[0].workload.key
    assert [v.kernel for v in filled.best_kernels(9, "mine")] == [k for k in expected if k.task.workload.key == key]


def test_trials_by_filter_order_and_page(filled: Database) -> None:
    pages = cycle(((7, 5), (20, 25), (1, 0)))  # so that each comes with each order, up and down
    runs = filled.runs()
    for run in (runs[-4], runs[-3], runs[-1]):  # of 60 trials with gaps, of 7, of none
        trials = filled.trials(run.id)
        for status in (None, "ok", "timeout"):
            for template in (None, "generic"):
                own = [
                    r
                    for r in trials
                    if status in (None, point(run.id, r).status) and template in (None, r.schedule.template)
                ]
                assert filled.count_trials(run.id, status, template) == len(own)
                for order in ("number", "seconds", "prediction", "created"):
                    for down in (False, True):
                        expected = by(own, order, down)
                        for limit, offset in ((500, 0), next(pages)):
                            assert (
                                filled.list_trials(
                                    run.id, status=status, template=template, order=order, descending=down,
                                    limit=limit, offset=offset,
                                )
                                == expected[offset : offset + limit]
                            )  # fmt: skip
        assert filled.fastest(run.id, 5) == by([r for r in trials if r.seconds], "seconds", False)[:5]
        assert all(filled.trial(run.id, r.number) == r for r in trials[:3])


@pytest.mark.parametrize("limit", [1, 20, 59, 1000])
def test_thinning_keeps_what_matters(filled: Database, stored: dict[str, list[TrialRecord]], limit: int) -> None:
    for run in filled.runs():
        trials = stored[run.id]
        points = {r.number: point(run.id, r) for r in trials}
        found = filled.points(run.id, limit)
        assert all(points[p.number] == p for p in found)
        assert [p.number for p in found] == sorted({p.number for p in found})
        assert improvements(trials) <= {p.number for p in found}
        assert len(found) <= limit + len(improvements(trials))
        if len(trials) <= limit:
            assert len(found) == len(trials)
        elif run.next_number == len(trials):  # no gaps
            assert len(found) >= limit
            gaps = [b.number - a.number for a, b in pairwise(found)]
            assert max(gaps, default=0) <= -(-len(trials) // limit)
        sample = filled.sample_trials(run.id, limit)
        assert [r for r in trials if r.number in {s.number for s in sample}] == sample
        assert len(sample) <= limit
        fastest = filled.fastest(run.id, 1)
        assert fastest == [r for r in sample if r in fastest]
        if len(trials) <= limit:
            assert sample == trials


@pytest.mark.parametrize("limit", [1, 40, 1000])
def test_trials_of_an_operator(filled: Database, stored: dict[str, list[TrialRecord]], limit: int) -> None:
    for op in ("matmul", "mine", "softmax", "nothing"):
        for model in (None, MODELS[0]):
            runs = filled.list_runs(RunFilter(op, device_model=model), 100)
            every = {run.id: stored[run.id] for run in runs}
            found = filled.operator_trials(op, limit, model)
            assert len(found) <= limit
            place = [(list(every).index(x.run_id), x.trial.number) for x in found]
            assert place == sorted(set(place))
            task = {run.id: run.task for run in runs}
            for x in found:
                assert x.trial in every[x.run_id]
                assert (x.workload_key, x.target_key) == (
                    task[x.run_id].workload.key,
                    task[x.run_id].target.key,
                )
            fastest = [(run.id, r.number) for run in runs for r in filled.fastest(run.id, 1)]
            chosen = {(x.run_id, x.trial.number) for x in found}
            assert set(fastest[: limit // 2]) <= chosen or sum(map(len, every.values())) <= limit
            if sum(run.next_number for run in runs) <= limit:
                assert [x.trial for x in found] == [r for trials in every.values() for r in trials]
            elif all(run.next_number == run.trials for run in runs):
                assert len(found) >= limit - min(len(fastest), limit // 2)


def test_progress_of_a_run_agrees_with_its_trials(filled: Database) -> None:
    for _ in range(2):  # the second time, from what it remembers
        for run in filled.runs():
            found = filled.progress(run.id)
            assert (found.state, found.trials, found.last_number) == (run.state, run.trials, run.next_number - 1)
            assert (found.search_seconds, found.finished) == (run.search_seconds, run.finished)


def test_what_is_not_there(filled: Database) -> None:
    run_id = filled.runs()[-1].id
    with pytest.raises(UsageError, match="holds no trial 4711 of run"):
        filled.trial(run_id, 4711)
    with pytest.raises(UsageError, match="holds no run 'nope'"):
        filled.progress("nope")
    with pytest.raises(UsageError, match="cannot be listed by 'size'"):
        filled.list_trials(run_id, order="size")  # type: ignore[arg-type]
    for found in (filled.points("nope"), filled.sample_trials("nope"), filled.list_trials("nope")):
        assert found == []
    assert filled.count_trials("nope") == 0


@pytest.fixture(params=["file", "server"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of this test's own."""
    return str(request.getfixturevalue("url")) if request.param == "server" else str(tmp_path / "tuned.db")


def views(db: Database, run_id: str) -> dict[str, Any]:
    """Every view once."""
    return {
        "totals": db.totals(),
        "runs": (db.count_runs(), db.count_runs(RunFilter(state="running")), db.list_runs()),
        "summaries": (db.operators(), db.devices(), db.operator_workloads("matmul"), db.best_kernels()),
        "trials": [db.list_trials(run_id, order=o) for o in ("number", "seconds", "prediction", "created")],
        "few": (db.points(run_id, 3), db.fastest(run_id), db.sample_trials(run_id, 3)),
        "operator": (db.operator_trials("matmul", 5), db.count_trials(run_id, "ok")),
    }


def test_an_empty_database(where: str) -> None:
    with Database.open(where) as db:
        assert db.totals().runs == {}
        assert db.totals().trials == db.totals().kernels == db.totals().devices == 0
        found = views(db, "none")
        assert found["summaries"] == ([], [], [], [])
        assert found["runs"] == (0, 0, [])
        assert found["operator"] == ([], 0)


def test_progress_of_a_run_that_goes_on(where: str) -> None:
    """Trials that come late, in any order, and a run that was removed and came back shorter."""
    with Database.open(where) as db, Database.open(where, readonly=True) as reader:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 40, {})
        found = reader.progress(run_id)
        assert (found.state, found.trials, found.last_number, found.search_seconds) == ("running", 0, -1, None)
        stored = 0
        for numbers in (range(4), range(4, 9), range(12, 16), (10, 20), (9, 11), range(16, 20)):
            db.add_trials(run_id, [example_record(n) for n in numbers])
            stored += len(numbers)
            for _ in range(2):
                found = reader.progress(run_id)
                run = db.run(run_id)
                assert (
                    (found.trials, found.last_number)
                    == (stored, run.next_number - 1)
                    == (run.trials, found.last_number)
                )
                assert found.search_seconds == run.search_seconds
        db.finish_run(run_id, "done")
        assert reader.progress(run_id).finished == db.run(run_id).finished

        def shorter(c: Connection) -> None:
            c.execute(schema.trial.delete().where(schema.trial.c.number.in_([5, 20])))

        db._write(shorter)
        found = reader.progress(run_id)
        assert (found.trials, found.last_number) == (19, 19)


@pytest.mark.parametrize("revision", schema.REVISIONS)
def test_released_files_are_viewed_as_they_are(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "tuned.db"
    shutil.copy(SCHEMAS / f"{revision}.db", path)
    before = path.read_bytes()
    with Database.open(path, readonly=True) as db:
        run = db.runs()[-1]
        found = views(db, run.id)
        assert found["totals"].trials == 12
        assert found["totals"].failed == run.failed
        assert found["summaries"][2][0].best == db.best(example_task(), DEVICE.model)
        assert found["summaries"][3][0].default_seconds is None  # no trial of it is a default
        assert db.progress(run.id).trials == 12
    assert path.read_bytes() == before


def test_no_view_reads_every_whole_row(tmp_path: Path) -> None:
    """Each plan goes through the trials by an index, and through all of them by an index that holds what it needs."""
    with Database.open(tmp_path / "tuned.db") as db:
        fill(db)
        asked: list[tuple[str, Any]] = []

        @event.listens_for(db._transactions.engine, "before_cursor_execute")
        def _note(_c: Any, _cursor: Any, statement: str, given: Any, *_: Any) -> None:
            asked.append((statement, given))

        run_id = max(db.runs(), key=lambda r: r.trials).id
        views(db, run_id)
        db.progress(run_id)
    plans = []
    with closing(sqlite3.connect(tmp_path / "tuned.db")) as connection:
        for statement, given in asked:
            if statement.startswith("SELECT"):
                plans += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
    assert any(INDEX in line for line in plans)
    assert [line for line in plans if line.startswith("SCAN trial") and "COVERING" not in line] == []
    everything = [line for line in plans if line.startswith("SCAN trial")]
    assert len(everything) == 1, everything  # the count of all trials


def test_a_large_database_looks_like_a_real_one(where: str) -> None:
    made = million.fill(where, runs=6, trials=30, long_run=400, seed=5)
    with Database.open(where) as db:
        runs = db.runs()
        assert [r.id for r in reversed(runs)] == [*made.runs, made.long_run]
        assert [r.trials for r in reversed(runs)] == [30] * 6 + [400]
        assert runs[0].state == "running"
        for run in runs:
            trials = db.trials(run.id)
            assert [r.number for r in trials] == list(range(run.trials))
            assert len({r.schedule for r in trials}) == run.trials
            assert [r.proposal.origin == "default" for r in trials] == [True] + [False] * (run.trials - 1)
            db.add_trials(run.id, trials[:9])  # the same, key by key
        assert len(db.totals().failed) > 3
        for view in db.best_kernels():
            assert view.speedup is not None
            code = db.artifact(view.kernel.artifact_sha256)
            assert code is not None
            assert view.kernel.program.launches[0].symbol in code.source
        assert {r.workload_key for r in db.operator_trials(runs[0].task.workload.op)} >= {runs[0].task.workload.key}
    with pytest.raises(ValueError, match="schedules"):
        million.fill(where, runs=0, long_run=10**15)
    assert locate(where).text
