"""Export, import, merge, gc and backup: what travels, what does not, and what a bad file does."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.examples import (
    DEVICE,
    SETTINGS,
    example_artifact,
    example_kernel,
    example_record,
    example_schedule,
    example_task,
)
from tilewright.core import DatabaseError, Proposal, Task, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.database.transfer import (
    backup,
    collect,
    export_best,
    export_file,
    export_lines,
    import_file,
    import_stream,
    merge,
    settle,
    winners,
)

CODE = example_artifact(b"code of the winner")


def tuned(path: Path, runs: int = 1, trials: int = 7, m: int = 8, state: str = "done") -> list[str]:
    """A database of finished runs of one task, the last of which has won it."""
    task = example_task(m)
    ids = []
    with Database.open(path) as db:
        for _ in range(runs):
            ids.append(db.add_run(task, DEVICE, "evolutionary", 7, 64, SETTINGS, {"gcc": "12.2"}))
            db.add_trials(ids[-1], [example_record(i) for i in range(trials)])
            db.finish_run(ids[-1], state, {"seconds": 1.5})
        ranked = [example_kernel(task, i, CODE, ids[-1]) for i in (3, 2)]
        db.set_kernels(task, DEVICE.model, ids[-1], ranked, [CODE])
    return ids


def text(path: Path, **which: Any) -> str:
    with Database.open(path, create=False, readonly=True) as db:
        return "".join(export_lines(db, **which))


def take(path: Path, exported: str) -> Any:
    with Database.open(path) as db:
        return import_stream(db, BytesIO(exported.encode()), "FILE")


def lines_of(exported: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported.splitlines()]


def joined(records: list[dict[str, Any]]) -> str:
    """Records as an export, with the right count in its last line."""
    records = [*records[:-1], {**records[-1], "lines": len(records)}]
    return "".join(json.dumps(r) + "\n" for r in records)


# --------------------------------------------------------------------------- what travels


def test_an_export_comes_back_and_goes_out_the_same(tmp_path: Path) -> None:
    ids = tuned(tmp_path / "a.db", runs=2)
    other = Task(replace(example_task().workload, op="mine"), example_task().target)
    with Database.open(tmp_path / "a.db") as db:
        db.finish_run(db.add_run(other, DEVICE, "random", 0, 8, {}), "failed")
    exported = text(tmp_path / "a.db")
    found = take(tmp_path / "b.db", exported)
    assert (found.new_runs, found.new_trials, found.new_winners, found.conflicts) == (3, 14, 2, [])
    assert text(tmp_path / "b.db") == exported
    with Database.open(tmp_path / "a.db") as a, Database.open(tmp_path / "b.db") as b:
        for run_id in ids:
            assert b.trials(run_id) == a.trials(run_id)
            assert b.run(run_id).settings == a.run(run_id).settings
        assert {(w.run_id, w.rank, w.seconds) for w in winners(b)} == {
            (k.run_id, k.rank, k.seconds) for k in a.kernels()
        }
        assert [k.op for k in {r.task.workload for r in b.runs()}].count("mine") == [
            k.op for k in {r.task.workload for r in a.runs()}
        ].count("mine")


def test_a_winner_is_no_kernel_before_it_is_built_here(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    exported = text(tmp_path / "a.db")
    assert "code of the winner" not in exported
    assert CODE.sha256 not in exported
    take(tmp_path / "b.db", exported)
    with Database.open(tmp_path / "b.db") as db:
        assert db.kernels() == []
        assert db.best(example_task(), DEVICE.model) is None
        assert [w.rank for w in winners(db)] == [1, 2]
        settle(db, winners(db)[0], "failed", "it does not compile")
        settle(db, winners(db)[0], "rebuilt")
        assert winners(db) == []
        assert [w.problem for w in winners(db, states=("failed",))] == ["it does not compile"]
    again = take(tmp_path / "b.db", exported)
    assert (again.new_runs, again.new_trials, again.new_winners) == (0, 0, 0)


def test_a_database_takes_its_own_export_and_stays_as_it_is(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    before = text(tmp_path / "a.db")
    found = take(tmp_path / "a.db", before)
    assert (found.runs, found.new_runs, found.new_trials, found.new_winners) == (1, 0, 0, 0)
    assert text(tmp_path / "a.db") == before


def test_an_export_may_be_of_one_operator_or_run(tmp_path: Path) -> None:
    first, last = tuned(tmp_path / "a.db", runs=2)
    renamed = replace(example_task(16).workload, op="other")
    with Database.open(tmp_path / "a.db") as db:
        db.add_run(Task(renamed, example_task().target), DEVICE, "random", 0, 8, {})
    whole = lines_of(text(tmp_path / "a.db"))
    assert [r["kind"] for r in whole[1:]].count("workload") == 2
    runs = [r["id"] for r in lines_of(text(tmp_path / "a.db", op="matmul"))[1:] if r["kind"] == "run"]
    assert sorted(runs) == sorted([first, last])
    one = lines_of(text(tmp_path / "a.db", runs=[first]))[1:]
    assert [r["kind"] for r in one] == ["target", "workload", "run", *["trial"] * 7, "end"]
    with pytest.raises(UsageError, match="holds no run 'nope'"):
        text(tmp_path / "a.db", runs=["nope"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.tuples(
            st.integers(1, 3),
            st.lists(
                st.tuples(st.integers(0, 60), st.text(max_size=8), st.floats(-1e9, 1e9)),
                max_size=4,
                unique_by=lambda x: x[0],
            ),
            st.sampled_from(["done", "interrupted", "failed"]),
            st.dictionaries(
                st.text(max_size=4), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
            ),
        ),
        max_size=3,
    )
)
def test_export_import_export_is_the_same_text(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, list[tuple[int, str, float]], str, dict[str, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("p")
    with Database.open(folder / "a.db") as db:
        for m, trials, state, summary in runs:
            run_id = db.add_run(example_task(m), DEVICE, "random", 3, 9, {"x": summary})
            records = [
                replace(example_record(n), proposal=Proposal(example_schedule(n), score, origin.replace("\0", "")))
                for n, origin, score in sorted(trials)
            ]
            db.add_trials(run_id, records)
            db.finish_run(run_id, state, summary)
            if trials:
                kernel = example_kernel(example_task(m), trials[0][0], CODE, run_id)
                db.set_kernels(example_task(m), DEVICE.model, run_id, [kernel], [CODE])
    exported = text(folder / "a.db")
    take(folder / "b.db", exported)
    assert text(folder / "b.db") == exported


# --------------------------------------------------------------------------- merging


def test_merging_machines_loses_and_doubles_nothing(tmp_path: Path) -> None:
    expected = set()
    for name in "abc":
        for run_id in tuned(tmp_path / f"{name}.db", runs=2):
            expected |= {(run_id, n) for n in range(7)}
    with Database.open(tmp_path / "all.db") as db:
        for name in "abcab":
            with Database.open(tmp_path / f"{name}.db", readonly=True) as source:
                assert merge(db, source).conflicts == []
        assert {(r.id, t.number) for r in db.runs() for t in db.trials(r.id)} == expected
        assert len(winners(db)) == 6
        with pytest.raises(UsageError, match="the database itself"):
            merge(db, db)


def test_a_run_that_went_on_is_brought_up_to_date_and_never_back(tmp_path: Path) -> None:
    (run_id,) = tuned(tmp_path / "a.db", state="interrupted")
    old = text(tmp_path / "a.db")
    take(tmp_path / "b.db", old)
    with Database.open(tmp_path / "a.db") as db:
        db.add_trials(run_id, [example_record(i) for i in range(7, 10)])
        db.finish_run(run_id, "done", {"seconds": 3.0})
    new = text(tmp_path / "a.db")
    found = take(tmp_path / "b.db", new)
    assert (found.new_runs, found.new_trials) == (0, 3)
    assert text(tmp_path / "b.db") == new
    take(tmp_path / "b.db", old)
    assert text(tmp_path / "b.db") == new


def test_two_that_went_on_with_one_run_are_told_apart(tmp_path: Path) -> None:
    (run_id,) = tuned(tmp_path / "a.db", state="interrupted")
    tuned(tmp_path / "c.db")
    take(tmp_path / "b.db", text(tmp_path / "a.db"))
    with Database.open(tmp_path / "b.db") as db:
        db.add_trials(run_id, [example_record(8)])
    with Database.open(tmp_path / "a.db") as db:
        record = example_record(20)
        db.add_trials(run_id, [example_record(7), TrialRecord(8, record.proposal, record.outcome, created=5.0)])
    before = text(tmp_path / "b.db")
    with Database.open(tmp_path / "b.db") as db, Database.open(tmp_path / "a.db") as source:
        found = merge(db, source)
    assert found.new_trials == 0
    (said,) = found.conflicts
    assert f"run {run_id} holds different trials" in said
    assert "a.db has trial 8" in said.replace("b.db", "a.db")
    assert str(tmp_path / "a.db") in said
    assert str(tmp_path / "b.db") in said
    assert text(tmp_path / "b.db") == before


def test_a_run_in_progress_is_copied_as_interrupted(tmp_path: Path) -> None:
    with Database.open(tmp_path / "a.db") as db:
        run_id = db.add_run(example_task(), DEVICE, "random", 0, 8, {})
        db.add_trials(run_id, [example_record(0)])
    exported = text(tmp_path / "a.db")
    take(tmp_path / "b.db", exported)
    with Database.open(tmp_path / "b.db") as db:
        assert db.run(run_id).state == "interrupted"
    with Database.open(tmp_path / "b.db") as db:
        db.add_trials(run_id, [example_record(1)])
    found = take(tmp_path / "a.db", text(tmp_path / "b.db"))
    assert "still running" in found.conflicts[0]


# --------------------------------------------------------------------------- bad files


def change(kind: str, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    def apply(records: list[dict[str, Any]]) -> None:
        next(r for r in records if r.get("kind") == kind).update(fields)

    return apply


def drop(kind: str) -> Callable[[list[dict[str, Any]]], None]:
    def apply(records: list[dict[str, Any]]) -> None:
        records.remove(next(r for r in records if r.get("kind") == kind))

    return apply


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An export of one run."""
    path = tmp_path_factory.mktemp("whole") / "a.db"
    tuned(path)
    return text(path)


@pytest.mark.parametrize(
    ("spoil", "line", "cause"),
    [
        (change("target", key="0" * 64), 2, "does not hash to its key"),
        (change("target", data=[]), 2, "data is not an object"),
        (change("target", data={"isa": 3}), 2, "the target is invalid"),
        (change("workload", program="[]"), 3, "does not hash to its key"),
        (change("workload", flops=1 << 80), 3, "flops is out of range"),
        (change("workload", flops="many"), 3, "flops is not a whole number"),
        (change("workload", extra=1), 3, "unknown field 'extra'"),
        (change("run", state="running"), 4, "not 'running'"),
        (change("run", workload_key="x"), 4, "the run's workload did not come before it"),
        (change("run", host="a\0b"), 4, "a character that no database takes"),
        (change("run", host=None), 4, "host is not a text"),
        (change("run", started=True), 4, "started is not a number"),
        (change("trial", number=3), 6, "trial 1 follows trial 3"),
        (change("trial", run_id="other"), 5, "a trial of run 'other'"),
        (change("trial", seconds=1.0), 5, "not its outcome's"),
        (change("trial", schedule={"template": "t"}), 5, "the schedule is invalid"),
        (change("trial", candidate_key="0"), 5, "the trial does not hash to its key"),
        (change("trial", outcome={"failure": "boredom", "message": ""}), 5, "the outcome is invalid"),
        (change("kernel", rank=9), 12, "rank is not within 1 to 3"),
        (change("kernel", data="ELF"), 12, "unknown field 'data'"),
        (change("kernel", seconds=-1), 12, "seconds is not a time"),
        (change("artifact", data="ELF"), 4, "unknown kind 'artifact'"),
        (drop("target"), 3, "the run's target did not come before it"),
        (drop("run"), 4, "a trial stands before any run"),
        (drop("end"), 13, "is missing"),
    ],
)
def test_a_damaged_line_is_named_and_its_run_left_out(
    tmp_path: Path, whole: str, spoil: Callable[[list[dict[str, Any]]], None], line: int, cause: str
) -> None:
    records = lines_of(whole)
    if "unknown kind" in cause:
        records.insert(3, {"kind": "artifact"})
    spoil(records)
    exported = "".join(json.dumps(r) + "\n" for r in records) if cause == "is missing" else joined(records)
    with pytest.raises(DatabaseError, match=cause) as caught:
        take(tmp_path / "b.db", exported)
    assert f"FILE line {line}" in caught.value.message or cause == "is missing"
    with Database.open(tmp_path / "b.db") as db:
        assert db.runs() == []


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "line 1: it is empty"),
        (b"\n", "line 1: it is not a JSON object"),
        (b"\xff\xfe\n", "line 1: it is not a JSON object in UTF-8"),
        (b'{"format":"csv","version":1}\n', "line 1: it is not an export of Tilewright"),
        (b'{"format":"tilewright-export","version":9}\n', "newer Tilewright .format 9"),
        (b'{"format":"tilewright-export","version":1}\n', "line 2: it is cut off"),
        (b'{"format":"tilewright-export","version":1}\n{"kind":"run"', "line 2: it is cut off"),
        (b'{"format":"tilewright-export","version":1}\n' + b"[" * 100_000 + b"\n", "line 2: it is not"),
        (b'{"format":"tilewright-export","version":1}\n{"kind":"run","seed":NaN}\n', "line 2: it is not"),
        (b'{"format":"tilewright-export","version":1}\n{"kind":"end","lines":9}\n', "line 2: the export had 9"),
        (b'{"format":"tilewright-export","version":1}\n{"kind":"end","lines":2}\n{}\n', "line 3: there is more"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, data: bytes, cause: str) -> None:
    with Database.open(tmp_path / "b.db") as db, pytest.raises(DatabaseError, match=cause):
        import_stream(db, BytesIO(data), "FILE")


def test_what_came_before_the_damage_is_stored_run_by_run(tmp_path: Path) -> None:
    first, last = sorted(tuned(tmp_path / "a.db", runs=2))
    lines = text(tmp_path / "a.db").splitlines(keepends=True)
    with pytest.raises(DatabaseError, match="cut off"):
        take(tmp_path / "b.db", "".join(lines[:-4]) + lines[-4][:30])
    with Database.open(tmp_path / "b.db") as db:
        assert [(r.id, r.trials) for r in db.runs()] in ([(first, 7)], [(last, 7)])


def test_a_run_larger_than_memory_would_hold_goes_through_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.database.transfer.importer._IN_MEMORY", 100)
    monkeypatch.setattr("tilewright.database.transfer.importer._PAGE", 3)
    monkeypatch.setattr("tilewright.database.transfer.export._PAGE", 4)
    tuned(tmp_path / "a.db", trials=11)
    exported = text(tmp_path / "a.db")
    assert take(tmp_path / "b.db", exported).new_trials == 11
    assert take(tmp_path / "b.db", exported).new_trials == 0
    assert text(tmp_path / "b.db") == exported


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    (tmp_path / "notes.txt").write_text("mine")
    with Database.open(tmp_path / "a.db") as db:
        with pytest.raises(DatabaseError, match=r"nothing\.jsonl"):
            import_file(db, tmp_path / "nothing.jsonl")
        with pytest.raises(UsageError, match="not an export"):
            export_file(db, tmp_path / "notes.txt")
        with pytest.raises(UsageError, match="no folder"):
            export_file(db, tmp_path / "no" / "x.jsonl")
        with pytest.raises(UsageError, match="not a regular file"):
            export_file(db, tmp_path)
        with pytest.raises(UsageError, match="not a database"):
            export_best(db, tmp_path / "notes.txt")
        with pytest.raises(UsageError, match=r"holds trials|in use"):
            export_best(db, tmp_path / "a.db")
        with pytest.raises(UsageError, match="the database itself"):
            backup(db, tmp_path / "a.db", force=True)
    with Database.open(tmp_path / "a.db", readonly=True) as db, pytest.raises(DatabaseError, match="reading only"):
        import_stream(db, BytesIO(text(tmp_path / "a.db").encode()), "FILE")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_export_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db", trials=60)
    there = tmp_path / "x.jsonl"
    with Database.open(tmp_path / "a.db") as db:
        export_file(db, there)
        before = there.read_bytes()
        assert stat.S_IMODE(there.stat().st_mode) == 0o600

        def stop(runs: int, trials: int) -> None:
            if trials == 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            export_file(db, there, progress=stop)
    assert there.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "x.jsonl"]


def _export_on_a_full_disk(folder: Path) -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Database.open(folder / "a.db", readonly=True) as db:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        for write in (export_file, export_best):
            with pytest.raises(DatabaseError, match=str(folder / "x")):
                write(db, folder / "x")
    os._exit(7)


def test_a_full_disk_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db", trials=60)
    process = multiprocessing.get_context("spawn").Process(target=_export_on_a_full_disk, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 7
    assert [p.name for p in tmp_path.iterdir() if "x" in p.name] == []


# --------------------------------------------------------------------------- kernels to serve, backups


def test_best_kernels_go_to_a_file_of_their_own(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    served = tmp_path / "serve.db"
    with Database.open(tmp_path / "a.db") as db:
        for _ in range(2):  # the second replaces the first
            assert export_best(db, served) == 1
        assert export_best(db, served, op="matmul") == 1
        with pytest.raises(UsageError, match="no verified kernel of softmax"):
            export_best(db, served, op="softmax")
        want = db.best(example_task(), DEVICE.model)
    assert stat.S_IMODE(served.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(("serve", "."))) == ["serve.db"]
    with Database.open(served, readonly=True) as db:
        (kernel,) = db.kernels()
        assert kernel == want
        code = db.artifact(kernel.artifact_sha256)
        assert code is not None
        assert code.data == CODE.data
        assert db.stats().rows["trial"] == 0


def test_stale_kernels_are_not_given_to_be_served(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    with Database.open(tmp_path / "a.db") as db:
        for kernel in db.kernels():
            db.update_kernel(kernel, state="stale")
        with pytest.raises(UsageError, match="no verified kernel"):
            export_best(db, tmp_path / "serve.db")
    assert not (tmp_path / "serve.db").exists()


def _write_on(path: Path, ready: Any, stop: Any) -> None:
    with Database.open(path) as db:
        run_id = db.add_run(example_task(32), DEVICE, "random", 0, 9999, {})
        number = 0
        while not stop.is_set():
            db.add_trials(run_id, [example_record(number + i) for i in range(4)])
            number += 4
            ready.set()


def test_a_backup_under_load_is_consistent_and_restores(tmp_path: Path) -> None:
    (run_id,) = tuned(tmp_path / "a.db")
    spawn = multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    writer = spawn.Process(target=_write_on, args=(tmp_path / "a.db", ready, stop))
    writer.start()
    try:
        assert ready.wait(30)
        with Database.open(tmp_path / "a.db", readonly=True) as db:
            size = backup(db, tmp_path / "copy.db")
            with pytest.raises(UsageError, match="exists already"):
                backup(db, tmp_path / "copy.db")
            assert backup(db, tmp_path / "copy.db", force=True) >= size > 0
    finally:
        stop.set()
        writer.join()
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    # Restored as docs/database.md says: nobody has it open, its log is gone, the copy takes its place.
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"a.db{suffix}").unlink(missing_ok=True)
    os.replace(tmp_path / "copy.db", tmp_path / "a.db")
    with Database.open(tmp_path / "a.db") as db:
        assert len(db.trials(run_id)) == 7
        (loaded,) = [r for r in db.runs() if r.id != run_id]
        assert loaded.trials > 0
        assert loaded.trials % 4 == 0  # whole batches
        assert db.artifact(CODE.sha256) is not None


def test_a_log_beside_the_destination_is_never_played_into_it(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    tuned(tmp_path / "b.db")
    with (
        Database.open(tmp_path / "a.db") as db,
        Database.open(tmp_path / "b.db") as other,
    ):
        other.add_miss("x", {}, "t")
        with pytest.raises(UsageError, match="in use"):
            backup(db, tmp_path / "b.db", force=True)


# --------------------------------------------------------------------------- removing


def test_gc_never_touches_what_is_served(tmp_path: Path) -> None:
    ids = tuned(tmp_path / "a.db", runs=3)
    tuned(tmp_path / "a.db", runs=2, m=16)
    with Database.open(tmp_path / "a.db") as db:
        db.finish_run(db.add_run(Task(replace(example_task(64).workload, op="gone"), example_task().target), DEVICE, "random", 0, 8, {}), "done")  # fmt: skip
        kernels = db.kernels()
        would = collect(db, keep_runs=0, dry_run=True)
        assert len(db.runs()) == 6
        did = collect(db, keep_runs=0)
        assert did == would
        assert (len(did.runs), did.trials, did.workloads, did.kept) == (4, 21, 1, {"a kernel stems from it": 2})
        assert db.kernels() == kernels
        assert {r.id for r in db.runs()} == {k.run_id for k in kernels}
        assert db.run(ids[-1]).trials == 7
        assert all(db.artifact(k.artifact_sha256) for k in kernels)
        assert collect(db, keep_runs=0).runs == ()


def test_gc_by_number_and_age_and_without_either(tmp_path: Path) -> None:
    ids = tuned(tmp_path / "a.db", runs=4)
    with Database.open(tmp_path / "a.db") as db:
        assert collect(db).runs == ()
        assert collect(db, older_than=1.0).runs == ()
        assert set(collect(db, older_than=0.0, dry_run=True).runs) == set(ids[:-1])
        freed = collect(db, keep_runs=3)
        assert len(freed.runs) + sum(freed.kept.values()) == 1
        assert freed.artifacts == 0


def test_gc_keeps_runs_that_go_on_and_winners_to_be_built(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    take(tmp_path / "b.db", text(tmp_path / "a.db"))
    with Database.open(tmp_path / "b.db") as db:
        db.add_run(example_task(), DEVICE, "random", 0, 8, {})
        kept = collect(db, keep_runs=0).kept
        assert kept == {"still running": 1, "its winners are not built here yet": 1}
        for w in winners(db):
            settle(db, w, "rebuilt")
        assert len(collect(db, keep_runs=0).runs) == 1


def test_gc_removes_code_that_a_crash_left_behind(tmp_path: Path) -> None:
    tuned(tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as raw:
        raw.execute("PRAGMA foreign_keys=OFF")
        raw.execute("DELETE FROM kernel")
    raw.close()
    with Database.open(tmp_path / "a.db") as db:
        freed = collect(db)
        assert (freed.artifacts, freed.code_bytes) == (1, len(CODE.data))
        assert db.stats().artifact_bytes == 0
