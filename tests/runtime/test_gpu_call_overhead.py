"""The benchmark of a GPU call's host time: the promises that need no quiet machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.backends.cache import ArtifactCache

ROOT = Path(__file__).parents[2]


def test_a_call_is_launches_and_little_else(
    tmp_path: Path, emulators_cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(emulators_cache.root))
    out = tmp_path / "out.json"
    script = str(ROOT / "benchmarks/gpu_call_overhead.py")
    command = [sys.executable, script, "--check", "--rounds", "2", "--calls", "100", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["asked"] == {"plan": {"launch": 1}, "lib.matmul": {"launch": 1}}
    assert found["uncounted"] == 0
    assert 0 < found["functions"]["plan"] < found["functions"]["lib.matmul"]
    assert all(row["microseconds"] > 0 for row in found["rows"].values())
    assert "not silicon" in out.with_suffix(".md").read_text()
