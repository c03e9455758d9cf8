"""What every database does, SQLite and PostgreSQL alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.examples import (
    DEVICE,
    SETTINGS,
    TARGET,
    example_artifact,
    example_kernel,
    example_record,
    example_task,
)
from tilewright.core import DatabaseError, Device, Task, UsageError, Value
from tilewright.database import Database, RunFilter
from tilewright.database.process import Process
from tilewright.database.runs import TAGS


class DatabaseContract:
    """What every database does. ``open_database`` opens the same one each time for a folder."""

    def open_database(self, folder: Path) -> Database:
        raise NotImplementedError

    @pytest.fixture
    def db(self, tmp_path: Path) -> Iterator[Database]:
        with self.open_database(tmp_path) as database:
            yield database

    def start(self, db: Database, task: Task | None = None, trials: int = 0) -> str:
        """A run of ``task`` that has ``trials`` trials."""
        run_id = db.add_run(task or example_task(), DEVICE, "evolutionary", 7, 64, SETTINGS, {"gcc": "12.2"})
        db.add_trials(run_id, [example_record(i) for i in range(trials)])
        return run_id

    # ------------------------------------------------------------------- runs and trials

    def test_a_run_comes_back_as_it_was_stored(self, db: Database, tmp_path: Path) -> None:
        task = example_task()
        run_id = self.start(db, task, trials=10)
        with self.open_database(tmp_path) as again:
            run = again.run(run_id)
        assert run.task == task
        assert run.task.workload.label == task.workload.label
        assert (run.device_name, run.device_model) == (DEVICE.name, DEVICE.model)
        assert (run.strategy, run.seed, run.trials_wanted) == ("evolutionary", 7, 64)
        assert (run.settings, run.state, run.finished) == (SETTINGS, "running", None)
        assert run.versions["gcc"] == "12.2"
        assert "python" in run.versions
        assert (run.trials, run.next_number) == (10, 10)
        assert run.failed == {"compile": 1, "resources": 1}
        least = min(r.seconds for r in map(example_record, range(10)) if r.seconds)
        assert run.search_seconds == run.best_seconds == least

    def test_trials_come_back_by_number_failures_too(self, db: Database) -> None:
        run_id = self.start(db)
        records = [example_record(i) for i in range(40)]
        db.add_trials(run_id, records[20:])
        db.add_trials(run_id, records[:20])
        assert db.trials(run_id) == records

    def test_a_run_without_trials(self, db: Database) -> None:
        run_id = self.start(db)
        db.add_trials(run_id, [])
        run = db.run(run_id)
        assert (run.trials, run.next_number, run.failed, run.search_seconds) == (0, 0, {}, None)
        assert db.trials(run_id) == []

    def test_runs_are_listed_newest_first(self, db: Database) -> None:
        ids = [self.start(db) for _ in range(4)]
        listed = db.runs()
        assert {r.id for r in listed} == set(ids)
        assert [r.started for r in listed] == sorted((r.started for r in listed), reverse=True)
        assert [r.id for r in db.runs(limit=2)] == [r.id for r in listed[:2]]
        assert db.run("last") == listed[0]

    def test_unknown_runs_are_refused(self, db: Database) -> None:
        with pytest.raises(UsageError, match="holds no run"):
            db.run("last")
        with pytest.raises(UsageError, match="holds no run 'nope'"):
            db.run("nope")
        with pytest.raises(UsageError, match="holds no run 'nope'"):
            db.add_trials("nope", [example_record(0)])
        with pytest.raises(UsageError, match="holds no run 'nope'"):
            db.finish_run("nope", "done")

    def test_a_batch_is_stored_whole_or_not_at_all(self, db: Database) -> None:
        run_id = self.start(db, trials=3)
        twice = replace(example_record(1), number=5)  # the same candidate under a new number
        with pytest.raises(DatabaseError, match="already holds"):
            db.add_trials(run_id, [example_record(4), twice])
        with pytest.raises(DatabaseError, match="already holds"):
            db.add_trials(run_id, [example_record(8), replace(example_record(9), number=2)])
        assert [r.number for r in db.trials(run_id)] == [0, 1, 2]

    @pytest.mark.parametrize("state", ["done", "interrupted", "failed"])
    def test_a_run_ends(self, db: Database, state: str) -> None:
        run_id = self.start(db)
        db.finish_run(run_id, state, {"seconds": 1.5})
        run = db.run(run_id)
        assert (run.state, run.summary) == (state, {"seconds": 1.5})
        assert run.finished is not None
        assert run.finished >= run.started
        with pytest.raises(UsageError, match="cannot end as"):
            db.finish_run(run_id, "running")

    def test_what_a_run_reports_grows_and_its_note_stays(self, db: Database) -> None:
        run_id = self.start(db)
        db.update_summary(run_id, {"phase": "final", "ended": {"why": "time"}})
        db.set_note(run_id, "50% [slow]", ["b_1", "a.2", "a.2"])
        note = {"text": "50% [slow]", "tags": ["a.2", "b_1"]}
        assert db.run(run_id).summary == {"phase": "final", "ended": {"why": "time"}, "note": note}
        assert db.progress(run_id).phase == "final"
        db.finish_run(run_id, "done", {"best": None, "error": "no"})
        assert db.run(run_id).summary == {"best": None, "error": "no", "note": note}
        db.resume_run(run_id, example_task(), DEVICE, trials=9)
        assert db.run(run_id).summary == {"best": None, "note": note}
        for search, found in (
            ("#a.2", 1),
            ("#b_1 #A.2", 1),
            ("#b", 0),
            ("#b%", 0),
            ("#a_2", 0),
            ("#slow", 0),
            ("#", 0),
        ):
            assert db.count_runs(RunFilter(search=search)) == found, search
        for tags in (["a b"], [""], ["x" * 41], [str(n) for n in range(TAGS + 1)]):
            with pytest.raises(UsageError, match="tag"):
                db.set_note(run_id, "", tags)
        with pytest.raises(UsageError, match="holds no run"):
            db.set_note("none", "", [])

    def test_resume_goes_on_with_the_same_run(self, db: Database) -> None:
        task = example_task()
        run_id = self.start(db, task, trials=5)
        db.finish_run(run_id, "interrupted")
        run = db.resume_run("last", task, DEVICE, trials=100)
        assert (run.id, run.state, run.finished) == (run_id, "running", None)
        assert (run.trials_wanted, run.next_number) == (100, 5)
        db.add_trials(run_id, [example_record(5)])
        assert [r.number for r in db.trials(run_id)] == list(range(6))

    def test_resume_refuses_another_task_or_device(self, db: Database) -> None:
        run_id = self.start(db)
        db.finish_run(run_id, "done")
        with pytest.raises(UsageError, match="tuned matmul m=8 n=16 k=32 on cpu:avx2 with threads=1"):
            db.resume_run(run_id, example_task(m=9), DEVICE, 10)
        with pytest.raises(UsageError, match="another task"):
            db.resume_run(run_id, example_task(target=replace(TARGET, threads=2)), DEVICE, 10)
        with pytest.raises(UsageError, match="was measured on Example CPU 3000"):
            db.resume_run(run_id, example_task(), Device("cpu:0", "Another CPU"), 10)

    def test_a_run_of_an_unseen_process_is_taken_over_on_request_only(
        self, db: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(Process, "current", lambda: Process("another host", 1, "||"))
            run_id = self.start(db, trials=2)
        with pytest.raises(UsageError, match=r"still running .process 1 on another host"):
            db.resume_run(run_id, example_task(), DEVICE, 10)
        assert db.resume_run(run_id, example_task(), DEVICE, 10, take_over=True).next_number == 2
        assert db.run(run_id).host == Process.current().host
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(Process, "current", lambda: Process("another host", 1, "||"))
            with pytest.raises(UsageError, match="still running"):
                db.resume_run(run_id, example_task(), DEVICE, 10)

    def test_trials_that_are_there_already_are_left_alone(self, db: Database) -> None:
        run_id = self.start(db, trials=5)
        again = [replace(example_record(i), build_seconds=9.0) for i in range(3, 7)]
        db.add_trials(run_id, again)
        assert db.trials(run_id) == [example_record(i) for i in range(5)] + again[2:]
        with pytest.raises(DatabaseError, match="already holds"):
            db.add_trials(run_id, [example_record(7), replace(example_record(8), number=6)])
        with pytest.raises(DatabaseError, match="already holds"):
            db.add_trials(run_id, [example_record(7), replace(example_record(8), number=7)])
        assert len(db.trials(run_id)) == 7

    # ------------------------------------------------------------------- history

    def test_history_leaves_out_other_template_versions(self, db: Database) -> None:
        task = example_task()
        run_id = self.start(db, task)
        records = [
            example_record(0, "contraction", 2),
            example_record(1, "contraction", 3),
            example_record(2, "generic", 1),
            example_record(3, "generic", 2),
            example_record(5, "retired", 1),
        ]
        db.add_trials(run_id, records)
        versions = {"contraction": 3, "generic": 1}
        assert list(db.earlier_runs(task, DEVICE.model)) == [(task.workload, records)]
        assert list(db.earlier_runs(task, DEVICE.model, versions=versions)) == [(task.workload, records[1:3])]
        assert list(db.earlier_runs(task, DEVICE.model, versions={})) == []

    def test_earlier_runs_are_of_the_task_then_its_operator_then_others(self, db: Database) -> None:
        task, near = example_task(), example_task(m=3)
        other = replace(task, workload=replace(task.workload, op="softmax", program="[]"))
        runs = [(x, self.start(db, x, trials=4)) for x in (task, other, near, task, near)]
        self.start(db, example_task(target=replace(TARGET, threads=4)), trials=4)
        elsewhere = db.add_run(task, Device("cpu:0", "Another CPU"), "random", 0, 1, {})
        db.add_trials(elsewhere, [example_record(0)])
        expected = [(runs[i][0].workload, db.trials(runs[i][1])) for i in (3, 0, 4, 2, 1)]
        assert list(db.earlier_runs(task, DEVICE.model)) == expected
        assert list(db.earlier_runs(task, DEVICE.model, limit=5)) == expected[:2]
        assert list(db.earlier_runs(task, DEVICE.model, limit=4)) == expected[:1]
        assert list(db.earlier_runs(task, DEVICE.model, exclude_run=runs[3][1])) == expected[1:]
        assert [w for w, _ in db.earlier_runs(other, "Another CPU")] == [task.workload]

    # ------------------------------------------------------------------- kernels

    def test_kernels_and_their_code_come_back(self, db: Database, tmp_path: Path) -> None:
        task = example_task()
        run_id = self.start(db, task)
        codes = [example_artifact(b"\x7fELF one\0"), example_artifact(b"\x7fELF two\0")]
        ranked = [
            example_kernel(task, 1, codes[0]),
            example_kernel(task, 2, codes[0]),
            replace(example_kernel(task, 3, codes[1]), peak_fraction=None, state="stale"),
        ]
        db.set_kernels(task, DEVICE.model, run_id, ranked, codes)
        with self.open_database(tmp_path) as again:
            stored = again.task_kernels(task, DEVICE.model)
            assert all(k.updated > 0 for k in stored)
            assert [replace(k, updated=0.0) for k in stored] == [
                replace(k, rank=i, run_id=run_id) for i, k in enumerate(ranked, 1)
            ]
            assert again.best(task, DEVICE.model) == stored[0]
            assert again.best(task) == stored[0]
            assert [again.artifact(c.sha256) for c in codes] == codes
            assert again.artifact("0" * 64) is None

    def test_kernels_are_replaced_together_and_old_code_goes(self, db: Database) -> None:
        task, other = example_task(), example_task(m=9)
        codes = [example_artifact(bytes([i]) * 50) for i in range(5)]
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, i, codes[i]) for i in range(3)], codes)
        assert db.artifact(codes[3].sha256) is None  # brought, but no kernel's
        db.set_kernels(other, DEVICE.model, None, [example_kernel(other, 0, codes[2])])
        ranked = [example_kernel(task, 3, codes[3]), example_kernel(task, 0, codes[0])]
        db.set_kernels(task, DEVICE.model, None, ranked, codes[3:4])
        assert [k.artifact_sha256 for k in db.task_kernels(task, DEVICE.model)] == [
            codes[3].sha256,
            codes[0].sha256,
        ]
        assert [db.artifact(c.sha256) is not None for c in codes] == [True, False, True, True, False]
        db.set_kernels(task, DEVICE.model, None, [])
        assert db.best(task, DEVICE.model) is None
        assert db.best(other, DEVICE.model) is not None
        assert db.stats().rows["artifact"] == 1

    def test_kernels_without_their_code_are_refused(self, db: Database) -> None:
        task = example_task()
        code, lost = example_artifact(b"here"), example_artifact(b"lost")
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, code)], [code])
        with pytest.raises(UsageError, match="is missing"):
            db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 1, code), example_kernel(task, 2, lost)])
        with pytest.raises(UsageError, match="does not hash"):
            db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 2, lost)], [replace(lost, data=b"swapped")])
        with pytest.raises(UsageError, match="keeps 3 kernels"):
            db.set_kernels(task, DEVICE.model, None, [example_kernel(task, i, code) for i in range(4)])
        assert [k.trial_number for k in db.task_kernels(task, DEVICE.model)] == [0]

    def test_a_kernel_belongs_to_target_and_device_model(self, db: Database) -> None:
        task, threads = example_task(), example_task(target=replace(TARGET, threads=2))
        code = example_artifact(b"code")
        db.set_kernels(task, "Model A", None, [example_kernel(task, 0, code)], [code])
        db.set_kernels(task, "Model B", None, [example_kernel(task, 1, code)])
        assert db.best(threads) is None
        assert db.best(task, "Model C") is None
        found = {model: db.best(task, model) for model in ("Model A", "Model B")}
        assert {m: k.trial_number for m, k in found.items() if k} == {"Model A": 0, "Model B": 1}
        assert db.best(task) == found["Model B"]  # the last one stored

    @pytest.mark.parametrize(
        ("op", "params", "sizes"),
        [
            (None, None, {8, 9}),
            ("matmul", None, {8, 9}),
            ("matmul", {"m": 9}, {9}),
            ("matmul", {"m": 9, "dtype": "float32"}, {9}),
            ("matmul", {"m": 10}, set()),
            ("matmul", {"x": 9}, set()),
            ("softmax", None, set()),
        ],
    )
    def test_kernels_are_found_by_operator_and_parameters(
        self, db: Database, op: str | None, params: dict[str, Value] | None, sizes: set[int]
    ) -> None:
        code = example_artifact(b"code")
        for m in (8, 9):
            task = example_task(m=m)
            db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, code)], [code])
        assert {dict(k.task.workload.params)["m"] for k in db.kernels(op, params)} == sizes

    def test_one_program_under_two_names(self, db: Database) -> None:
        task = example_task()
        mine = replace(
            task.workload,
            op="mine",
            params=(("rows", 8), ("cols", 16), ("depth", 32)),
            defaults=(("depth", 32),),
        )
        renamed = Task(mine, task.target)
        assert renamed.key == task.key
        code = example_artifact(b"code")
        db.set_kernels(task, DEVICE.model, None, [example_kernel(task, 0, code)], [code])
        assert db.kernels("mine") == []
        for _ in range(2):
            self.start(db, renamed)
        assert db.stats().rows["alias"] == 1
        (found,) = db.kernels("mine", {"rows": 8})
        assert found.task == renamed
        assert db.kernels("mine", {"rows": 9}) == []
        (found,) = db.kernels("matmul")
        assert found.task == task

    def test_a_check_updates_its_kernel_only(self, db: Database) -> None:
        task = example_task()
        codes = [example_artifact(b"one"), example_artifact(b"two")]
        ranked = [example_kernel(task, i, codes[i]) for i in range(2)]
        db.set_kernels(task, DEVICE.model, None, ranked, codes)
        first, second = db.task_kernels(task, DEVICE.model)
        assert db.update_kernel(first, state="stale")
        now, same = db.task_kernels(task, DEVICE.model)
        assert (now.seconds, now.state) == (first.seconds, "stale")
        assert same == second
        db.set_kernels(task, DEVICE.model, None, ranked[1:])
        assert not db.update_kernel(first, state="stale")
        (left,) = db.task_kernels(task, DEVICE.model)
        assert left.state == "verified"
        with pytest.raises(UsageError, match="cannot be 'fresh'"):
            db.update_kernel(left, state="fresh")

    # ------------------------------------------------------------------- the rest

    def test_models_replace_older_ones_of_their_kind(self, db: Database) -> None:
        assert db.load_model(TARGET.key, "v1") is None
        db.save_model(TARGET, "v1", b"\0one", 10)
        db.save_model(TARGET, "v2", b"\0other", 5)
        newest = db.save_model(TARGET, "v1", b"\0two", 20)
        model = db.load_model(TARGET.key, "v1")
        assert model is not None
        assert (model.id, model.data, model.trials) == (newest, b"\0two", 20)
        assert db.stats().rows["model"] == 2
        assert db.load_model("0" * 64, "v1") is None

    def test_misses_are_counted(self, db: Database) -> None:
        db.add_miss("matmul", (("m", 8), ("k", 2)), TARGET.key)
        db.add_miss("matmul", {"k": 2, "m": 8}, TARGET.key, count=3)
        db.add_miss("softmax", {"m": 8}, TARGET.key)
        first, second = db.misses()
        assert (first.op, dict(first.params), first.count) == ("matmul", {"m": 8, "k": 2}, 4)
        assert first.first <= first.last
        assert (second.op, second.count) == ("softmax", 1)
        assert db.misses(limit=1) == [first]

    def test_stats_count_rows_and_bytes(self, db: Database) -> None:
        task = example_task()
        run_id = self.start(db, task, trials=6)
        code = example_artifact(b"x" * 1000)
        db.set_kernels(task, DEVICE.model, run_id, [example_kernel(task, 0, code)], [code])
        stats = db.stats()
        assert {name: n for name, n in stats.rows.items() if n} == {
            "artifact": 1,
            "kernel": 1,
            "run": 1,
            "target": 1,
            "trial": 6,
            "workload": 1,
        }
        assert stats.artifact_bytes == 1000
        assert stats.bytes > 1000

    def test_threads_share_a_database(self, db: Database) -> None:
        run_ids = [self.start(db) for _ in range(4)]
        together = threading.Barrier(len(run_ids))

        def fill(run_id: str) -> None:
            together.wait()
            for i in range(20):
                db.add_trials(run_id, [example_record(i)])
                db.trials(run_id)

        with ThreadPoolExecutor(len(run_ids)) as pool:
            list(pool.map(fill, run_ids))
        assert [db.run(run_id).trials for run_id in run_ids] == [20] * 4


class TestSqlite(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(folder / "tuned.db")


@pytest.mark.nightly
class TestSqliteUrl(DatabaseContract):
    def open_database(self, folder: Path) -> Database:
        return Database.open(f"sqlite:///{folder / 'a folder' / 'tuned 100%.db'}")


class TestPostgresql(DatabaseContract):
    """``open_database`` gives one database for each test, whose folder is its own."""

    @pytest.fixture(autouse=True)
    def fresh(self, url: str) -> None:
        self.url = url

    def open_database(self, folder: Path) -> Database:
        return Database.open(self.url)
