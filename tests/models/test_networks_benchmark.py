"""The benchmark of networks, on a small one; no times are compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def test_the_benchmark_runs(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, str(ROOT / "benchmarks/networks.py"), "bert", "--check", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(out.read_text())["rows"]
    assert set(row["seconds"]) == {"tilewright", "onnxruntime", "eager"}
    assert max(row["errors"].values()) < 1e-3
    assert row["left"] == {}
    assert row["served_share_of_time"] == 1.0
    assert row["best_rival"] == min(r[0] for r in row["ratios"].values())
    assert "bert (small)" in out.with_suffix(".md").read_text()
