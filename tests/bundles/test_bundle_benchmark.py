"""The benchmark of bundles, on a few kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "benchmarks/bundle.py"), "--kernels", "3", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["kernels"] == 3
    assert min(found["import_numpy_seconds"], found["first_call_seconds"]) > 0
    assert set(found["look_up_microseconds"]) == {"3"}
