"""``tilewright explain``: in words, as JSON and as a picture, of runs of every kind."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.examples import DEVICE, SETTINGS, TARGET, example_record
from scripted_ncu import ScriptedNcu
from tilewright.backends import parse_target
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.ncu import Profiler
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.sass import find_disassembler
from tilewright.cli.app import run
from tilewright.core import (
    Candidate,
    Device,
    Failure,
    FailureKind,
    Measurement,
    Proposal,
    Schedule,
    Target,
    TargetUnavailable,
    Task,
    TrialRecord,
)
from tilewright.database import Database
from tilewright.insight.counters import Reader
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import lower, task_space
from tilewright.measure.local_target import find_local_target
from tilewright.tuner.user_kernel import SETTING

OWN = Path(__file__).parents[2] / "examples" / "own_kernel"
HOSTILE = "[red]\x1b[31m\n<b>$x$ [/]"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of as many trials as it takes to tell which knobs matter, of kernels that compile fast."""
    path = tmp_path_factory.mktemp("explain") / "t.db"
    sizes = ("shape=33,40", "dim=1")
    assert run(["tune", "sum", *sizes, "--trials", "20", "--strategy", "random", "--db", str(path), "--json"]) == 0
    return path


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., str]:
    """A database with one run of these trials."""

    def make(
        task: Task, records: list[TrialRecord], device: Device = DEVICE, state: str = "done", **summary: Any
    ) -> str:
        path = str(tmp_path / "made.db")
        with Database.open(path) as db:
            settings = {**SETTINGS, **summary.pop("settings", {})}
            run_id = db.add_run(task, device, "random", 0, max(len(records), 1), settings)
            if records:
                db.add_trials(run_id, records)
            if state != "running":
                db.finish_run(run_id, state, summary)
        return path

    return make


def matmul(m: int, target: Target = TARGET) -> Task:
    return Task(get_operator("matmul").workload(m=m, n=m, k=m), target)


def drawn(task: Task, count: int, least: float = 1e-3) -> list[TrialRecord]:
    rng, space = random.Random(0), task_space(task)
    return [
        TrialRecord(i, Proposal(space.sample(rng), None, "default" if i == 0 else "random"),
                    Measurement(least * (1 + rng.random()), 0.01, 9), created=1.7e9 + i)
        for i in range(count)
    ]  # fmt: skip


def test_the_winners_counters_stand_beside_its_bound(
    cli: Any, made: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_nvrtc("sm_90a"), find_disassembler()
    except TargetUnavailable as e:
        pytest.skip(e.message)
    task = matmul(256, archs.target("sm_90a"))
    records = drawn(task, 3)
    best = min(records, key=lambda r: r.outcome.seconds if isinstance(r.outcome, Measurement) else 1.0)
    launches = lower(Candidate(task, best.proposal.schedule)).program.launches
    ncu = ScriptedNcu(tmp_path / "ncu", [x.symbol for x in launches], runs=False)
    reader = Reader(find_local_target("cuda:sm_90a", "emulator"), Profiler(str(ncu.program)))
    monkeypatch.setattr(Reader, "find", lambda _target: reader)
    path = made(task, records, Device("cuda:0", "NVIDIA H200", "nvidia-h200"))
    reply = cli("explain", "last", "--db", path, "--profile")
    assert reply.code == 0, reply.err
    assert f"counters of {launches[0].symbol}" in reply.out
    profile = cli("explain", "last", "--db", path, "--profile", "--json").json["profiles"][0]
    assert (profile["kernel"], profile["cycles"]) == (launches[0].symbol, 401_234)
    assert profile["bound"] > 0


def test_only_cuda_kernels_have_counters(cli: Any, made: Callable[..., str]) -> None:
    task = matmul(64)
    reply = cli("explain", "last", "--db", made(task, drawn(task, 2)), "--profile")
    assert reply.code == 2
    assert reply.err.count("\n") == 1
    assert f"is for {task.target.name}" in reply.err


def test_a_real_run_in_words_and_its_next_command_runs(cli: Any, tuned: Path, tmp_path: Path) -> None:
    path = shutil.copy(tuned, tmp_path / "t.db")
    reply = cli("explain", "--db", path)
    assert reply.code == 0, reply.err
    for word in ("Result", "Search", "Knobs", "the default schedule", "would take", "measured by the run",
                 "20 of 20 trials", "fewer than 50 trials"):  # fmt: skip
        assert word in reply.out
    data = cli("explain", "last", "--db", path, "--json").json
    assert data["progress"]["ended"] == "trials"
    assert {x["key"] for x in data["limits"]["limits"]} >= {"compute", "l1"}
    assert sum(k["share"] for k in data["importance"]["knobs"]) == pytest.approx(1.0)
    assert data["charts"][0]["kind"] == "xy"
    assert data["file"] is None
    commands = [s["command"] for s in data["steps"] if s["command"]]
    resumed = [c for c in commands if "--resume" in c]
    for command in resumed:
        assert command in reply.out
        words = shlex.split(command)[1:]
        words[words.index("--trials") + 1] = "22"
        assert cli(*words, "--json").json["trials"] == 22
    assert cli("explain", data["run"], "--db", path, "--json").json["progress"]["trials"] == (22 if resumed else 20)


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_as_a_picture(cli: Any, tuned: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"why.{suffix}"
    reply = cli("explain", "--db", tuned, "-o", file, "--dark")
    assert reply.code == 0
    assert f"wrote {file}" in reply.err
    assert file.stat().st_size > 1000
    if suffix == "svg":
        text = file.read_text()
        for word in ("Least search time so far", "What bounds the winner", "Which knobs of", "#15191e"):
            assert word in text


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nosuch",), 1, "holds no run"),
        (("-o", "why.html"), 2, "ends in .svg, .png or .pdf"),
        (("-o", "missing/why.svg"), 2, "cannot write"),
    ],
)
def test_mistakes_are_told_in_one_line(
    cli: Any,
    tuned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    if "missing" in arguments[-1]:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    reply = cli("explain", *arguments, "--db", tuned)
    assert reply.code == code
    assert said in reply.err
    assert reply.err.count("\n") == 1
    assert reply.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_run_on_a_gpu_needs_none_here(cli: Any, made: Callable[..., str]) -> None:
    task = matmul(512, parse_target("cuda:sm_90a", allow_foreign=True))
    reply = cli("explain", "--db", made(task, drawn(task, 30, 1e-4), Device("cuda:0", "Example GPU")))
    assert reply.code == 0, reply.err
    assert "as the vendor states it" in reply.out
    assert "Example" not in reply.err


def test_a_run_on_the_emulator_has_no_limits(cli: Any, made: Callable[..., str]) -> None:
    task = matmul(64, parse_target("cuda:sm_90a", allow_foreign=True))
    reply = cli("explain", "--db", made(task, drawn(task, 8), Device("emulator", "emulator")))
    assert reply.code == 0
    assert "times say nothing about a GPU" in reply.out
    assert "vendor" not in reply.out


@pytest.mark.parametrize(
    ("count", "state", "summary", "said"),
    [
        (0, "done", {}, "No trial was measured."),
        (0, "interrupted", {"error": "KeyboardInterrupt: ", "ended": {"why": "stopped"}}, "the run was stopped"),
        (30, "interrupted", {"ended": {"why": "stopped"}}, "the run was stopped"),
        (30, "running", {}, "The run is not over: 30 of 30"),
        (30, "done", {}, "The run is done, after 30 of 30 trials."),
        (30, "failed", {"error": "OSError: x", "ended": {"why": "failed"}}, "the run failed"),
        (30, "done", {"best": "?", "peaks": [1], "kept": "?", "ended": 3}, "What bounds the kernel is not known"),
    ],
)
def test_runs_in_every_state(
    cli: Any, made: Callable[..., str], count: int, state: str, summary: dict[str, Any], said: str
) -> None:
    task = matmul(64)
    path = made(task, drawn(task, count), state=state, **summary)
    reply = cli("explain", "--db", path)
    assert reply.code == 0, reply.err
    assert said in " ".join(reply.out.split())
    assert cli("explain", "--db", path, "--json").json["progress"]["state"] == state


def test_no_measured_trial_and_failures(cli: Any, made: Callable[..., str]) -> None:
    records = [
        TrialRecord(i, Proposal(example_record(i).schedule), Failure(FailureKind.COMPILE, HOSTILE)) for i in range(4)
    ]
    reply = cli("explain", "--db", made(matmul(8), records))
    assert reply.code == 0
    assert "No trial was measured." in reply.out
    assert "The compiler refused" in reply.out
    assert "tilewright show" in reply.out


def test_an_own_kernel_is_explained_without_its_file(cli: Any, made: Callable[..., str]) -> None:
    import tilewright

    knobs = {"BM": range(1, 11), "BN": (8, 16, 32, 64)}
    kernel = tilewright.own_kernel(
        OWN / "dense.cpp", entry="dense", knobs=knobs, reference=f"{OWN / 'reference.py'}:dense"
    )
    task = Task(kernel.operator.workload(m=29, n=50, k=17), TARGET)
    records = []
    for i, (m, n) in enumerate(product(*knobs.values())):
        schedule = Schedule(kernel.name, 1, (("BM", m), ("BN", n)))
        records.append(TrialRecord(i, Proposal(schedule, None, "random"), Measurement(1e-5 * (1 + m), 0.01, 9)))
    path = made(task, records, settings={SETTING: kernel.to_json()}, peaks={"flops": 1e11})
    reply = cli("explain", "--db", path)
    assert reply.code == 0, reply.err
    assert "The kernel's traffic is unknown" in reply.out
    assert "BM" in reply.out
    command = next(line for line in reply.out.splitlines() if "tilewright tune" in line)
    for part in (f"tune {OWN / 'dense.cpp'} m=29 n=50 k=17 --entry dense", "--knob BN=8,16,32,64", "--resume "):
        assert part in command


def test_hostile_names_are_shown_and_not_obeyed(cli: Any, made: Callable[..., str], tmp_path: Path) -> None:
    records = []
    for i in range(60):
        schedule = Schedule(HOSTILE, 1, ((HOSTILE, HOSTILE if i % 2 else "x"), ("k", i)))
        records.append(TrialRecord(i, Proposal(schedule, None, HOSTILE), Measurement(1e-3 * (1 + i % 2), 0.5, 9)))
    task = matmul(8)
    path = made(task, records)
    reply = cli("explain", "--db", path)
    assert reply.code == 0, reply.err
    assert "\x1b" not in reply.out
    assert "\\x1b[31m\\x0a<b>$x$ [/]" in " ".join(reply.out.split())
    pytest.importorskip("matplotlib")
    assert cli("explain", "--db", path, "-o", tmp_path / "why.svg").code == 0
    assert "<b>" not in (tmp_path / "why.svg").read_text()
