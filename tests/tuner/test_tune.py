"""The tuning loop end to end: real compiler, real child, real database."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core import Failure, Task, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.tuner import Observer, TuneResult, tune

SIZES = {"m": 48, "n": 40, "k": 32}


class Recorder(Observer):
    """Keeps what the run said."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.trials: list[TrialRecord] = []
        self.stages: list[str] = []
        self.run = ""
        self.stop_after = stop_after

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        self.run = run_id

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.trials.append(record)
        if self.stop_after is not None and len(self.trials) >= self.stop_after:
            self.stop_after = None
            raise KeyboardInterrupt

    def stage(self, text: str) -> None:
        self.stages.append(text)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, Recorder, Path]:
    db = tmp_path_factory.mktemp("tune") / "t.db"
    watcher = Recorder()
    return tune("matmul", trials=10, seed=3, db=db, observer=watcher, params=SIZES), watcher, db


class Deaf(Recorder):
    """Ctrl-C comes where Python drops what it raises: in a finaliser, such as those of XGBoost's matrices."""

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        class Matrix:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGINT)

        self.trials.append(record)
        if len(self.trials) == 1:
            Matrix()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_a_finaliser_ends_the_search(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    result = tune("matmul", trials=200, db=tmp_path / "t.db", observer=Deaf(), params=SIZES)
    assert result.interrupted
    assert result.ended == "stopped"
    assert 1 <= result.trials < 20
    assert signal.getsignal(signal.SIGINT) is before


def test_every_trial_is_stored_and_the_best_is_served(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    result, watcher, db = tuned
    assert result.trials == 10 == len(watcher.trials)
    with Database.open(db) as database:
        stored = database.run(result.run)
        trials = database.trials(result.run)
        kernels = database.task_kernels(result.task, stored.device_model)
    assert stored.state == "done"
    assert [t.number for t in trials] == list(range(10))
    assert len({t.schedule.key for t in trials}) == 10
    assert [k.rank for k in kernels] == list(range(1, len(kernels) + 1))
    assert result.best is not None
    assert kernels[0].schedule == result.best.schedule
    rng = np.random.default_rng(0)
    a = rng.standard_normal((48, 32), dtype=np.float32)
    b = rng.standard_normal((32, 40), dtype=np.float32)
    with tilewright.Library(db) as library:
        assert library.explain("matmul", **SIZES).tier == "exact"
        np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_the_curve_only_falls_and_ends_at_the_best_trial(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    result, watcher, _ = tuned
    seconds = [s for _, s in result.curve]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == min(t.seconds for t in watcher.trials if t.seconds is not None)


def test_a_result_is_plain_json(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    data = tuned[0].to_json()
    assert {"workload", "target", "run", "trials", "failed", "seconds", "best", "curve"} <= set(data)
    assert {"seconds", "gflops", "peak_fraction", "template", "schedule"} <= set(data["best"])
    assert 0 < data["best"]["peak_fraction"] < 1.2


def test_the_same_seed_starts_with_the_same_proposals(tuned: tuple[TuneResult, Recorder, Path], tmp_path: Path) -> None:
    again = Recorder()
    tune("matmul", trials=4, seed=3, db=tmp_path / "again.db", observer=again, params=SIZES)
    first = [t.schedule.key for t in tuned[1].trials[:1]]
    assert [t.schedule.key for t in again.trials[:1]] == first


def test_ctrl_c_keeps_what_was_measured_and_resume_goes_on(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    watcher = Recorder(stop_after=2)
    result = tune("matmul", trials=24, db=db, observer=watcher, params=SIZES)
    assert result.interrupted
    assert result.best is not None
    with Database.open(db) as database:
        stored = database.run("last")
        kept = database.trials(stored.id)
    assert stored.state == "interrupted"
    assert len(kept) >= 2
    resumed = tune("matmul", trials=8, db=db, resume="last", params=SIZES)
    assert resumed.run == result.run
    assert resumed.trials == 8
    with Database.open(db) as database:
        assert [t.key for t in (r.schedule for r in database.trials(stored.id)[: len(kept)])] == [
            r.schedule.key for r in kept
        ]


def test_resume_refuses_another_workload(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    result, _, db = tuned
    with pytest.raises(UsageError):
        tune("matmul", resume=result.run, db=db, params={"m": 8, "n": 8, "k": 8})


def test_a_second_run_keeps_or_beats_the_stored_kernel(
    tuned: tuple[TuneResult, Recorder, Path], tmp_path: Path
) -> None:
    result, _, first = tuned
    db = Path(shutil.copy(first, tmp_path))
    again = tune("matmul", trials=4, seed=9, db=db, strategy="random", cost_model="random", params=SIZES)
    assert result.best is not None
    assert again.best is not None
    assert again.kept == (again.best.run == result.run)


def test_operators_of_ones_own_are_tuned_and_served_without_their_source(tmp_path: Path) -> None:
    te = tilewright.te

    @tilewright.operator
    def sqdist(m: int, n: int, k: int) -> te.TensorRef:
        x, y = te.input("x", (m, k)), te.input("y", (n, k))
        return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))

    db = tmp_path / "t.db"
    result = tune(sqdist, trials=4, db=db, m=20, n=33, k=17)
    assert result.best is not None
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((20, 17), dtype=np.float32), rng.standard_normal((33, 17), dtype=np.float32)
    with tilewright.Library(db) as library:
        d = library.plan("sqdist", m=20, n=33, k=17)(x, y)
    np.testing.assert_allclose(d, ((x[:, None] - y[None]) ** 2).sum(-1), rtol=1e-4, atol=1e-5)


def test_a_recurrence_is_checked_and_timed_on_decays_that_it_is_said_to_have(tmp_path: Path) -> None:
    te = tilewright.te

    @tilewright.operator
    def gated(n: int, channels: int) -> te.TensorRef:
        gate, x = te.input("gate", (n, channels), high=0.0), te.input("x", (n, channels))
        linear = te.monoid("linear", (1.0, 0.0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), lambda _, at: at)
        return te.compute((n, channels), lambda t, c: te.scan(linear, t, (te.exp(4.0 * gate[t, c]), x[t, c])))

    assert tune(gated, trials=3, cost_model="random", db=tmp_path / "t.db", n=3000, channels=2).best is not None
    rng = np.random.default_rng(0)
    gate, x = -np.abs(rng.standard_normal((3000, 2), np.float32)), rng.standard_normal((3000, 2), np.float32)
    out, state = tilewright.Library(tmp_path / "t.db").gated(gate, x), np.zeros(2)
    for t in range(3000):
        state = np.exp(4.0 * gate[t].astype(np.float64)) * state + x[t]
        np.testing.assert_allclose(out[t], state, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "params"),
    [
        ("conv2d", {"n": 1, "ci": 5, "h": 9, "w": 9, "co": 7, "kh": 3, "kw": 3, "stride": 2, "padding": 1}),
        pytest.param("softmax", {"shape": "9,37"}, marks=pytest.mark.nightly),
        pytest.param("batch_matmul", {"b": 3, "m": 9, "n": 17, "k": 8, "trans_b": True}, marks=pytest.mark.nightly),
    ],
)
def test_other_operators_tune_correctly(op: str, params: dict[str, object], tmp_path: Path) -> None:
    operator = get_operator(op)
    result = tune(operator, trials=3, db=tmp_path / "t.db", params=params)
    assert result.best is not None
    assert not result.failed
    workload = operator.workload(**params)
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal(s.shape, dtype=np.float32) for s in workload.inputs]
    assert operator.numpy is not None
    with tilewright.Library(tmp_path / "t.db") as library:
        out = library.plan(op, **params)(*inputs)
    np.testing.assert_allclose(out, operator.numpy(*inputs, **dict(workload.params)), rtol=1e-4, atol=1e-4)


def test_a_wrong_kernel_is_a_failure_and_never_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.kernels import templates

    honest = templates.lower

    def sabotage(candidate):  # type: ignore[no-untyped-def]
        lowered = honest(candidate)
        text = lowered.source.replace(f"TW_ENTRY({lowered.symbol})", f"TW_ENTRY(real_{lowered.symbol})")
        assert text != lowered.source
        wrapper = (
            f"\nTW_ENTRY({lowered.symbol})"
            f"\n{{ int r = real_{lowered.symbol}(tensors, args, workspace, env); ((float *)tensors[2])[7] += 1e-2f; return r; }}\n"
        )
        return type(lowered)(lowered.symbol, text + wrapper, lowered.program)

    monkeypatch.setattr(templates, "lower", sabotage)
    result = tune("matmul", trials=4, db=tmp_path / "t.db", params=SIZES)
    assert result.best is None
    assert result.failed == {"wrong_result": 4}
    with Database.open(tmp_path / "t.db") as database:
        assert all(isinstance(t.outcome, Failure) for t in database.trials("last"))
        assert database.kernels() == []
