"""The acceptance command on the emulator's driver, and what becomes of it when something fails.

What they find on a GPU is not for tests. Kernels that crash, hang or are wrong are real ones.
"""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from harness.caches import with_runtime
from harness.waiting import until
from spoilt_kernels import spoil
from tilewright.backends import Peaks
from tilewright.backends.cuda import archs
from tilewright.building.prepared import CACHE, read
from tilewright.cli.app import run as tilewright
from tilewright.core import Task, TilewrightError
from tilewright.kernels.primitives.conformance import cases
from tilewright.kernels.templates import TEMPLATES, default_schedule

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPT = BENCHMARKS / "gpu_acceptance.py"
sys.path.insert(0, str(BENCHMARKS))

import gpu_acceptance  # noqa: E402
from acceptance import comparing, light, rivals, rows, shapes, timing  # noqa: E402
from acceptance.children import Children, Job  # noqa: E402

MATMUL = "light/matmul m=64 n=48 k=40 dtype=bfloat16"
SIZES = ("m=64", "n=48", "k=40", "--dtype", "bfloat16")
FOLDER = light.slug(MATMUL.partition("/")[2])


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """An environment without PyTorch, whether or not it is installed."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    path = os.pathsep.join([str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def rent(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, command: str = "rent"
) -> subprocess.CompletedProcess[str]:
    """The command in this process; what it does, children of it do, and these are the script's."""
    argv = [command, "--out", str(folder), "--driver", "emulator", *words]
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with patch.dict(os.environ, env or {}), redirect_stdout(out), redirect_stderr(err):
            code = gpu_acceptance.main(argv)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return rows.read(folder / gpu_acceptance.FILE)


def states(folder: Path) -> dict[str, str]:
    return {r["id"]: r["state"] for r in read_rows(folder)}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small product's default and the three best, for the emulator."""
    folder = tmp_path_factory.mktemp("prepared")
    with_runtime(folder / FOLDER / CACHE, shared_library=True)
    words = ["prepare", "matmul", *SIZES, "--device", "emulator", "--out", str(folder / FOLDER), "--keep", "3"]
    assert tilewright([*words, "--pool", "6", "--verify", "0"]) == 0
    return folder


# --------------------------------------------------------------------------- smoke, and what changed


def test_primitives_and_templates_are_checked_in_children(tmp_path: Path) -> None:
    only = "conformance/sync,odd/matmul m=127"
    done = rent(tmp_path, "--only", only)
    assert done.returncode == 0, done.stdout + done.stderr
    found = states(tmp_path)
    assert found["conformance/sync/block"] == "same"
    assert {k.split("/")[2] for k, v in found.items() if v == "right"} == {"cuda_mma", "cuda_simt"}
    before = (tmp_path / gpu_acceptance.FILE).read_bytes()
    again = rent(tmp_path, "--only", only)
    assert again.returncode == 0
    assert (tmp_path / gpu_acceptance.FILE).read_bytes() == before


@pytest.mark.nightly
def test_everything_that_must_be_right_on_a_gpu_is_right_here(tmp_path: Path) -> None:
    done = rent(tmp_path, "--only", "conformance,odd", "--minutes", "100")
    assert done.returncode == 0, done.stdout + done.stderr
    found = read_rows(tmp_path)
    assert sum(r["state"] == "same" for r in found) == len(cases())
    assert {r["template"] for r in found if r["state"] == "right"} == {
        n for n, t in TEMPLATES.items() if "cuda" in t.kinds and n != "own"
    }


SANITIZER = """#!{python}
import subprocess, sys
print("========= COMPUTE-SANITIZER", flush=True)
command = sys.argv[sys.argv.index({python!r}):]
process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
for line in process.stdout:
    if '"id"' in line and "cuda_simt" in line and "memcheck" in sys.argv:
        print("========= Invalid __global__ read of size 4 bytes", flush=True)
    print(line, end="", flush=True)
print("========= ERROR SUMMARY: 0 errors", flush=True)
sys.exit(process.wait())
"""


def test_one_process_a_tool_of_the_sanitizer(tmp_path: Path) -> None:
    """Its findings stand in the row of the kernel that ran when it wrote them."""
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(SANITIZER.format(python=sys.executable))
    tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = rent(tmp_path, "--only", "sanitizer/memcheck", "--compare", env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {r["id"]: r for r in read_rows(tmp_path)}
    assert found.pop("sanitizer/memcheck")["state"] == "done"
    assert {r["template"] for r in found.values()} >= {"cuda_mma", "cuda_simt", "cuda_attention", "cuda_rows"}
    for row in found.values():
        simt = row["template"] == "cuda_simt"
        assert row["state"] == ("errors" if simt else "clean")
        assert row.get("findings") == (["Invalid __global__ read of size 4 bytes"] if simt else None)


def test_a_sequence_of_kernels_is_served_without_a_framework(tmp_path: Path) -> None:
    done = rent(tmp_path, "--only", "serving/sequence")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(states(tmp_path).values()) == ["right"] * 4 + ["done"]


def test_programs_need_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else found(name, *a))
    done = rent(tmp_path, command="programs")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "skipped" in done.stdout
    [row] = rows.read(tmp_path / "programs.jsonl")
    assert (row["id"], row["message"]) == ("programs", "PyTorch is not installed")


def test_what_is_missing_is_a_row_that_is_tried_again(tmp_path: Path) -> None:
    """No sanitizer, no compiler: each is told, and the rest goes on."""
    env = {**os.environ, "PATH": os.defpath, "CXX": "/nowhere/c++", "TILEWRIGHT_CACHE": str(tmp_path / "cache")}
    only = "conformance/sync,conformance/convert,sanitizer/memcheck"
    done = rent(tmp_path, "--only", only, "--compare", str(tmp_path / "no rows"), env=env)  # every template is new
    assert done.returncode == 3, done.stdout + done.stderr
    found = {r["id"]: r for r in read_rows(tmp_path)}
    assert {r["state"] for r in found.values()} == {"skipped"}
    assert found["sanitizer/memcheck"]["message"] == "compute-sanitizer is not installed"
    assert "/nowhere/c++" in found["conformance/sync"]["message"]
    again = rent(tmp_path, "--only", "conformance/sync")
    assert states(tmp_path)["conformance/sync/block"] == "same", again.stdout + again.stderr


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), "rent", "--out", str(tmp_path), "--driver", "pycuda"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if "nothing was run" not in done.stderr:
        pytest.skip("there is a GPU here")
    assert done.returncode == 3


# --------------------------------------------------------------------------- light


def test_schedules_are_checked_and_timed(tmp_path: Path, prepared: Path, alone: dict[str, str]) -> None:
    words = ("--prepared", str(prepared), "--only", MATMUL, "--schedules", "3")
    # Nothing is compiled where all is prepared, and no PyTorch is no reason not to check.
    env = {**alone, "CXX": "/nowhere/c++"}
    done = rent(tmp_path, *words, env=env)
    assert done.returncode == 3, done.stdout + done.stderr
    found = {r["id"]: r for r in read_rows(tmp_path)}
    assert found[f"{MATMUL}/libraries"]["message"] == "PyTorch is not installed"
    measured = [r for r in found.values() if r["state"] == "measured"]
    loaded = read(prepared / FOLDER)
    assert {r["id"].rpartition("/")[2] for r in measured} == {c.schedule.key[:12] for c, _ in loaded.items}
    assert measured[0]["schedule"] == default_schedule(loaded.task).to_json()
    assert all(r["us"] > 0 and r["checked"] == "the reference" and r["device"] == "emulator" for r in measured)


def test_triton_is_told_to_be_missing(tmp_path: Path) -> None:
    done = rent(tmp_path, "--only", "triton/")
    assert done.returncode == 3
    found = read_rows(tmp_path)
    assert {r["id"].split()[0] for r in found} == {"triton/matmul"}
    assert {(r["state"], r["message"]) for r in found} == {("skipped", "Triton needs a GPU")}


def test_what_fails_costs_its_own_row(tmp_path: Path, prepared: Path, alone: dict[str, str]) -> None:
    """One kernel writes where it may not, one leaves a block unwritten; the third is right."""
    spoilt = spoil(prepared, tmp_path / "spoilt")
    done = rent(tmp_path, "--prepared", str(spoilt), "--only", MATMUL, env=alone)
    assert done.returncode == 1, done.stdout + done.stderr
    kernels = [r for r in read_rows(tmp_path) if "schedule" in r]
    found = {r["state"]: r for r in kernels}
    assert set(found) == {"crash", "wrong_result", "measured"}
    assert "SIGSEGV" in found["crash"]["message"]


def test_another_architecture_is_told_and_prepared_here(tmp_path: Path, alone: dict[str, str]) -> None:
    words = [
        "prepare",
        "matmul",
        *SIZES,
        "--device",
        "emulator",
        "--target",
        "cuda:sm_80",
        "--keep",
        "1",
        "--pool",
        "1",
    ]
    with_runtime(tmp_path / "old" / FOLDER / CACHE, shared_library=True)
    assert tilewright([*words, "--verify", "0", "--out", str(tmp_path / "old" / FOLDER)]) == 0
    words = ["--prepared", str(tmp_path / "old"), "--only", MATMUL, "--schedules", "1"]
    rent(tmp_path, *words, env=alone)
    found = {r["id"]: r for r in read_rows(tmp_path)}
    said = found[f"{MATMUL}/prepared"]["message"]
    assert "was prepared for cuda:sm_80 on the emulator: prepared here for cuda:sm_90a" in said
    assert sum(r["state"] == "measured" for r in found.values()) == 2  # the default and the best
    assert len(list((tmp_path / "scratch" / "prepared").glob("*/prepared.json"))) == 1


def test_the_deadline_ends_it_and_the_next_run_goes_on(
    tmp_path: Path, prepared: Path, alone: dict[str, str]
) -> None:  # fmt: skip
    words = ("--prepared", str(prepared), "--only", MATMUL)
    began = time.monotonic()
    done = rent(tmp_path, *words, "--minutes", "0.005", env=alone)
    assert time.monotonic() - began < 20
    assert done.returncode == 3
    assert f"not done: {MATMUL}" in done.stdout
    [row] = read_rows(tmp_path)
    assert (row["state"], row["message"]) == ("skipped", "the time was over")
    (tmp_path / gpu_acceptance.FILE).unlink()
    rent(tmp_path, *words, env=alone)
    path = tmp_path / gpu_acceptance.FILE
    whole = path.read_bytes()
    found = states(tmp_path)
    # A crash in the middle of a line, and one that left garbage: both rows are found again, and no other.
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", *lines[2:-1], lines[-1][:-9]]))
    rent(tmp_path, *words, env=alone)
    assert states(tmp_path) == found
    assert path.read_bytes().splitlines(keepends=True)[2 : len(lines) - 1] == lines[2:-1]


# --------------------------------------------------------------------------- tune


def test_a_shape_is_tuned_for_some_seconds(tmp_path: Path, prepared: Path, alone: dict[str, str]) -> None:
    done = rent(tmp_path, "--prepared", str(prepared), "--only", "tune/matmul", "--each", "0.1", env=alone)
    assert done.returncode == 3, done.stdout + done.stderr  # there is nothing to compare with
    rows = read_rows(tmp_path)
    [found] = [r for r in rows if r["state"] == "found"]
    assert found["trials"] >= 3
    [trials] = [r["templates"] for r in rows if r["id"].endswith("/trials")]
    assert 3 <= sum(len(t["timed"]) for t in trials.values()) <= found["trials"]
    assert all(len(x) == len(t["knobs"]) + 1 and x[-1] > 0 for t in trials.values() for x in t["timed"])
    assert found["ended"] == "stopped"
    assert (tmp_path / "scratch" / "tuned.db").exists()


# --------------------------------------------------------------------------- children

CHILD = """
import json, os, signal, sys, threading
done = {{json.loads(x)["id"] for x in open({path!r})}} if os.path.exists({path!r}) else set()
for name, act in {units!r}:
    if name in done:
        continue
    print(json.dumps({{"at": name, "template": "t"}}), flush=True)
    if act == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if act == "hang":
        threading.Event().wait()
    print("{{}}", flush=True)
    print(json.dumps({{"id": name, "state": "crash" if act == "spoil" else "right"}}), flush=True)
    if act == "spoil":
        sys.exit({spoilt})
    if act == "stop":
        raise SystemError("of its own accord")
"""


def follow(
    folder: Path, *units: tuple[str, str], end: float = 60.0, patience: float = 20.0
) -> dict[str, dict[str, Any]]:
    path = folder / "rows.jsonl"
    code = CHILD.format(path=str(path), units=units, spoilt=rows.SPOILT)
    found = rows.Rows(path, {"device": "emulator"})
    job = Job(tuple(name for name, _ in units), (sys.executable, "-c", code), patience)
    Children(found, time.monotonic() + end).run([job])
    return {r["id"]: r for r in rows.read(path)}


def test_a_child_that_waits_for_others_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "SIGN", 0.01)
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    tell = rows.Teller(())
    with tell.unit("a"), tell.trusted():
        until(lambda: out.getvalue().count("{}\n") >= 3)
        tell.row("a", "right")
    first, *signs, last = out.getvalue().splitlines()
    assert "at" in first
    assert last.startswith('{"id"') or last == "{}"
    assert signs.count("{}") >= 3


def test_rows_of_another_device_are_not_done(tmp_path: Path) -> None:
    for device in ("NVIDIA H100", "NVIDIA H200"):
        found = rows.Rows(tmp_path / "rows.jsonl", {"device": device})
        assert not found.done("a")
        found.add({"id": "a", "state": "right"})
        assert found.done("a")


def test_a_dying_child_costs_one_row(tmp_path: Path) -> None:
    found = follow(tmp_path, ("a", ""), ("b", "die"), ("c", "spoil"), ("d", "stop"), ("e", ""))
    assert {k: r["state"] for k, r in found.items()} == {
        "a": "right", "b": "crash", "c": "crash", "d": "right", "e": "right",
    }  # fmt: skip
    assert found["b"]["message"] == "killed by SIGSEGV"
    assert found["b"]["template"] == "t"


def test_a_hanging_child_costs_one_row(tmp_path: Path) -> None:
    found = follow(tmp_path, ("a", "hang"), ("b", ""), patience=2.0)
    assert {k: r["state"] for k, r in found.items()} == {"a": "timeout", "b": "right"}


def test_the_deadline_leaves_no_row_of_what_it_cuts_off(tmp_path: Path) -> None:
    began = time.monotonic()
    found = follow(tmp_path, ("a", ""), ("b", "hang"), end=2.0)
    assert time.monotonic() - began < 10
    assert set(found) == {"a"}


def test_a_child_that_never_comes_to_its_work_is_broken(tmp_path: Path) -> None:
    found = rows.Rows(tmp_path / "rows.jsonl", {"device": "emulator"})
    job = Job(("a", "b"), (sys.executable, "-c", "raise SystemError('no luck')"), 20.0)
    Children(found, time.monotonic() + 60).run([job])
    [row] = found
    assert (row["id"], row["state"]) == ("a", "broken")
    assert "no luck" in row["message"]


# --------------------------------------------------------------------------- what is compared


def test_the_shapes_are_sound() -> None:
    assert len({s.workload.key for s in shapes.ODD}) == len(shapes.ODD)
    *taken, large = map(shapes.label_of, shapes.LIGHT)
    assert len(set(taken)) == len(taken)
    with pytest.raises(TilewrightError, match="at most 2147483647"):
        next(s.workload for s in shapes.LIGHT if s.label == large)
    alone = {s.op for s in shapes.LIGHT[:-1] if not rivals.has_rival(s.workload)}
    assert alone == {"attention", "dequant_matmul"}  # of pages, and of whole numbers
    assert {shapes.label_of(s) for s in shapes.TUNED} <= set(taken)
    assert {s.op for s in shapes.SMALL} <= {s.op for s in shapes.LIGHT}


def test_libraries_in_another_layout_are_told_from_those_in_ours() -> None:
    first, last = (
        next(s.workload for s in shapes.LIGHT if f"layout={layout}" in s.label) for layout in ("NCHW", "NHWC")
    )
    names = ("cudnn contiguous", "cudnn channels last")
    assert [rivals.as_they_lie(first, x) for x in names] == [True, False]
    assert [rivals.as_they_lie(last, x) for x in names] == [True, True]


def test_causal_attention_needs_half_of_the_operations() -> None:
    causal = next(s.workload for s in shapes.LIGHT if "is_causal" in s.label)
    sizes = dict(causal.params)
    visible = sum(i + 1 for i in range(int(sizes["lq"])))
    assert timing.operations(causal) == causal.flops * visible / int(sizes["lq"]) ** 2
    assert timing.operations(causal) == pytest.approx(causal.flops / 2, rel=1e-3)
    product = shapes.LIGHT[0].workload
    assert timing.operations(product) == product.flops == 2 * 4096**3


class Hopper:
    """What of a world says how fast its device is."""

    def __init__(self) -> None:
        self.target = archs.target("sm_90a")
        self.place = self

    def peaks(self, task: Task) -> Peaks:
        return Peaks(1070.5e12, 4.8e12)


def test_a_share_is_of_the_peak_at_the_clock_of_the_sample() -> None:
    """704 TFLOP/s at 1,605 MHz: 66% of what 1,980 MHz could, and 81% of what was possible."""
    world: Any = Hopper()
    task = Task(shapes.LIGHT[0].workload, world.target)
    found = timing.speed(world, task, 2 * 4096**3 / 704e12, {"sm_hz": 1.605e9})
    assert found["unit"] == "operations/s"
    assert (round(found["share"], 2), round(found["share_at_clock"], 2)) == (0.66, 0.81)
    few = next(s for s in shapes.LIGHT if s.label.startswith("matmul m=16 n=28672"))
    memory = timing.speed(world, Task(few.workload, world.target), 60e-6, {"sm_hz": 1.605e9})
    assert memory["unit"] == "bytes/s"
    assert memory["share"] == memory["share_at_clock"] == pytest.approx(0.82, abs=0.02)


# --------------------------------------------------------------------------- earlier rows


def timed(shape: str, us: float, theirs: float, device: str = "NVIDIA H200", version: int = 6) -> dict[str, Any]:
    ratio = theirs / us
    return {
        "id": f"light/{shape}/default/cublas", "state": "measured", "choice": "default", "rival": "cublas", "our_us": us,
        "ratio": ratio, "low": ratio, "high": ratio, "shape": shape, "device": device,
        "schedule": {"template": "cuda_wgmma", "version": version},
    }  # fmt: skip


def test_times_are_compared_on_one_device_and_ratios_on_any() -> None:
    old = [timed("a", 10.0, 12.0), timed("b", 10.0, 9.0), timed("c", 10.0, 9.0)]
    new = [timed("a", 10.1, 12.0), timed("b", 8.0, 9.0), timed("d", 1.0, 1.0)]
    text = comparing.compared(old, new, "NVIDIA H200")
    assert "| a | 10.0 | 10.1 | same | 1.200" in text
    assert "| b | 10.0 | 8.0 | faster +25.0% | 0.900" in text
    assert "| c |" not in text
    assert "| d |" not in text
    slow = comparing.compared(old, [timed("a", 20.0, 12.0)], "NVIDIA H200")
    assert "slower -50.0%" in slow
    other = comparing.compared(old, new, "NVIDIA H100 80GB HBM3")
    assert "There are no earlier rows of NVIDIA H100 80GB HBM3: ratios alone are compared." in other
    assert "| b |  |  |  | 0.900 (0.900 to 0.900), cublas | 1.125" in other


def test_a_template_changed_where_its_version_never_ran() -> None:
    version = TEMPLATES["cuda_wgmma"].version
    ours = {n for n, t in TEMPLATES.items() if "cuda" in t.kinds and n != "own"}
    assert comparing.changed([timed("a", 1.0, 1.0, version=version)]) == ours - {"cuda_wgmma"}
    assert comparing.changed([timed("a", 1.0, 1.0, version=version - 1)]) == ours


def test_the_committed_rows_can_be_compared_with() -> None:
    old = comparing.rows_of(gpu_acceptance.OLD)
    shapes = comparing.compared(old, old, "NVIDIA H200").splitlines()[4:]
    assert len(shapes) > 40
    assert [line for line in shapes if "| same |" not in line] == []
    assert any(line.startswith("| layer_norm shape=8192,4096 dtype=bfloat16 | ") for line in shapes)
