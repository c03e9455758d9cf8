"""The acceptance run's own plumbing, on the emulator's driver; what it finds on a GPU is not for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu_acceptance.py"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder / "out"), *words],
        capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip


def result(folder: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((folder / "out" / "acceptance.json").read_text())
    return loaded


def test_templates_are_checked_through_the_isolated_child(tmp_path: Path) -> None:
    done = run(tmp_path, "--driver", "emulator", "--only", "correctness", "--limit", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = result(tmp_path)["parts"]["correctness"]  # type: ignore[index]
    assert {r["template"] for r in rows} == {"cuda_mma", "cuda_simt"}
    assert {r["result"] for r in rows} == {"right"}
    assert done.stdout.splitlines()[-2].startswith(f"correctness   {len(rows)} right")
    assert "skipped   compute-sanitizer, tuning and rivals" in done.stdout.splitlines()[-1]


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
