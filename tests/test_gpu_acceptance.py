"""The acceptance run's own plumbing, on the emulator's driver; what it finds on a GPU is not for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_acceptance.py"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder / "out"), *words],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def result(folder: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((folder / "out" / "acceptance.json").read_text())
    return loaded


@pytest.mark.parametrize(
    ("operator", "templates"),
    [
        ("matmul", {"cuda_mma", "cuda_simt"}),
        pytest.param("attention", {"cuda_attention"}, marks=pytest.mark.nightly),
    ],
)
def test_templates_are_checked_through_the_isolated_child(tmp_path: Path, operator: str, templates: set[str]) -> None:
    words = ("--only", "correctness", "--operators", operator, "--limit", "1")
    done = run(tmp_path, "--driver", "emulator", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = result(tmp_path)["parts"]["correctness"]  # type: ignore[index]
    assert {r["template"] for r in rows} >= templates
    assert {r["result"] for r in rows} == {"right"}
    assert done.stdout.splitlines()[-2].startswith(f"correctness   {len(rows)} right")
    assert "skipped   compute-sanitizer, tuning and rivals" in done.stdout.splitlines()[-1]


@pytest.mark.nightly
def test_every_operator_of_the_run_is_right_here_too(tmp_path: Path) -> None:
    done = run(tmp_path, "--driver", "emulator", "--only", "correctness", "--limit", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = result(tmp_path)["parts"]["correctness"]  # type: ignore[index]
    assert len({r["workload"].split()[0] for r in rows}) > 10


def test_what_is_compared_has_a_rival() -> None:
    """The shapes of the run are sound, and each is compared with something."""
    code = f"""
import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})
import gpu_acceptance, gpu_rivals
from tilewright.kernels.operators import get_operator
from tilewright.baselines.pytorch import compared
gpu_acceptance.workloads()
for op, params in gpu_acceptance.TABLE:
    workload = get_operator(op).workload(**params)
    assert compared(workload), workload.label
    print(gpu_rivals.peak_of(op, workload.inputs[0].dtype))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"bandwidth", "fp16_tensor_flops", "fp32_flops"}


@pytest.mark.nightly
def test_the_conformance_suite_is_recorded_and_compared(tmp_path: Path) -> None:
    done = run(tmp_path, "--driver", "emulator", "--only", "conformance")
    assert done.returncode == 0, done.stdout + done.stderr
    part = result(tmp_path)["parts"]["conformance"]  # type: ignore[index]
    assert part["run"] == part["of"]
    assert part["differing"] == []
    assert list((tmp_path / "out" / "conformance").glob("*.json"))


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "--driver", "pycuda")
    if done.returncode == 0:
        pytest.skip("there is a GPU here")
    assert done.returncode == 3
    assert "SKIPPED everything" in done.stdout
    assert result(tmp_path)["skipped"]
