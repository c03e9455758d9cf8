"""Tuning CUDA kernels end to end on the emulator: real templates, real compiler, real child, real database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.backends import EMULATOR
from tilewright.backends.cuda.targets import gpus_or_none
from tilewright.cli.app import run
from tilewright.core import Device, Task, TrialRecord, UsageError
from tilewright.database import Database
from tilewright.measure.local_target import find_local_target
from tilewright.tuner import Observer, TuneResult, tune
from tilewright.tuner.verify import verify

SIZES = {"m": 24, "n": 20, "k": 16}
NO_GPU = pytest.mark.skipif(bool(gpus_or_none()), reason="this machine has a GPU")


class Recorder(Observer):
    """Keeps what the run said."""

    def __init__(self) -> None:
        self.trials: list[TrialRecord] = []
        self.warnings: list[str] = []

    def warning(self, message: str) -> None:
        self.warnings.append(message)

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        self.trials.append(record)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, Recorder, Path]:
    db = tmp_path_factory.mktemp("tune") / "t.db"
    watcher = Recorder()
    result = tune(
        "matmul", trials=6, target="cuda:sm_90a", device="emulator", cost_model="gpu", db=db, observer=watcher,
        params=SIZES,
    )  # fmt: skip
    return result, watcher, db


def test_trials_are_stored_and_a_winner_is_found(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    result, watcher, db = tuned
    assert result.trials == 6 == len(watcher.trials)
    assert result.failed == {}, [t.outcome for t in watcher.trials]
    assert result.best is not None
    assert result.best.peak_fraction is None
    assert result.device_model == EMULATOR
    with Database.open(db) as database:
        stored = database.run(result.run)
        kernels = database.task_kernels(result.task, EMULATOR)
        artifact = database.artifact(kernels[0].artifact_sha256)
    assert stored.state == "done"
    assert kernels[0].schedule == result.best.schedule
    assert artifact is not None
    assert "TW_KERNEL" in artifact.source


def test_the_gate_is_counted(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    gate = tuned[0].to_json()["gate"]
    assert gate["seen"] >= 3
    assert gate["before"] == gate["after"] == {}
    assert gate["gate_seconds"] < 0.05 * gate["compile_seconds"]


def test_a_user_is_told_that_the_times_mean_nothing(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    assert any("say nothing about a GPU" in w for w in tuned[1].warnings)


def test_nothing_serves_it(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    import tilewright

    result, _, db = tuned
    assert result.task.target.kind == "cuda"
    with tilewright.Library(db) as library:
        assert library.explain("matmul", **SIZES).tier != "exact"


def test_best_shows_the_source_on_any_machine(
    tuned: tuple[TuneResult, Recorder, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["matmul", *(f"{k}={v}" for k, v in SIZES.items()), "--target", "cuda:sm_90a", "--db", str(tuned[2])]
    assert run(["best", *words, "--full-source"]) == 0
    source = capsys.readouterr().out
    assert "TW_KERNEL" in source
    assert "emu.h" not in source
    assert run(["best", *words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["device_model"] == EMULATOR
    assert data["target"] == "cuda:sm_90a"


def test_a_stored_winner_is_verified_again_where_that_is_asked_for(tuned: tuple[TuneResult, Recorder, Path]) -> None:
    with Database.open(tuned[2]) as database:
        assert list(verify(database)) == []  # no GPU of that model here
        (again,) = verify(database, device="emulator")
    assert again.problem is None
    assert again.seconds is not None


def test_the_source_of_a_space_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["space", "matmul", "m=64", "n=64", "k=64", "--target", "cuda:sm_90a", "--source"]) == 0
    assert "TW_KERNEL" in capsys.readouterr().out


@NO_GPU
def test_without_a_gpu_tuning_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--target", "cuda"], ["--target", "cuda:sm_80"], ["--device", "cuda:0"]):
        assert run(["tune", "matmul", "m=8", "n=8", "k=8", *words]) == 1
        said = capsys.readouterr().err
        for offer in ("--target cpu", "tilewright check", "a machine with an NVIDIA GPU"):
            assert offer in said


@pytest.mark.parametrize(
    ("target", "device", "text"),
    [
        ("cuda:sm_91", "auto", "sm_91"),
        ("cuda", "cpu:0", "do not run on cpu:0"),
        ("cpu", "cuda:0", "cuda:0"),
        ("cpu", "emulator", "no kernels for cpu"),
        ("cuda", "emulator:3", "emulator:3"),
        ("cuda:", "emulator", "cuda:"),
    ],
)
def test_what_does_not_go_together_is_told(target: str, device: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        find_local_target(target, device)


def test_the_emulator_is_a_device_of_its_own() -> None:
    place = find_local_target("auto", "emulator")
    assert place.target.name == "cuda:sm_90a"
    assert place.device == Device("emulator:0", EMULATOR, EMULATOR)
    assert find_local_target("cuda:sm_80", "emulator").target.variant == "sm_80"


def test_the_stated_peak_is_that_of_the_type() -> None:
    from tilewright.backends import backend_for
    from tilewright.backends.cuda import archs
    from tilewright.kernels.operators import get_operator

    target = archs.target("sm_90a")

    def peak(**more: str) -> float | None:
        return backend_for(target).ceilings(Task(get_operator("matmul").workload(m=8, n=8, k=8, **more), target)).flops

    limit = target.limit
    assert peak() == limit["fp32_flops"]
    assert peak(precision="tf32") == limit["tf32_tensor_flops"]
    assert peak(dtype="bfloat16") == peak(dtype="float16") == limit["fp16_tensor_flops"]
    assert peak(dtype="float64") == limit["fp64_tensor_flops"]
    assert peak(dtype="int8") == limit["int8_tensor_ops"]
