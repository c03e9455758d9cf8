"""The benchmark of what tuning gains, on one operator; a run that was cut short goes on where it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RATIOS = {"winner over default", "winner over most", "most over default"}


def gain(out: Path, seeds: int) -> tuple[dict[str, Any], str]:
    command = [
        sys.executable, str(ROOT / "benchmarks/gain.py"), "--only", "cumsum", "--trials", "2", "--most", "2", "--seeds",
        str(seeds), "--processes", "1", "--out", str(out), "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_rows_are_timed_once_and_come_with_a_table(tmp_path: Path) -> None:
    out = tmp_path / "gain"
    found, _ = gain(out, 1)
    (row,) = found["rows"]
    assert (row["name"], row["seed"]) == ("cumsum 256x4096", 0)
    assert all(row[name][0] > 0 for name in RATIOS)
    assert row["is_default"] == (row["winner over default"] == [1.0, 1.0, 1.0])
    assert 0 < row["share"] < 2
    path = out.with_suffix(".jsonl")
    assert len(path.read_text().splitlines()) == 3  # the machine, the best of most trials, the row
    assert "Winner over default: geometric mean" in out.with_suffix(".md").read_text()
    marked = {**row, "winner over default": [2.0, 1.9, 2.1], "is_default": False}
    lines = path.read_text().splitlines()[:2]
    path.write_text("\n".join([*lines, json.dumps(marked)]) + "\n")
    assert gain(out, 1)[0]["rows"] == [marked]
    assert "2.000 (1.900 to 2.100)" in out.with_suffix(".md").read_text()
