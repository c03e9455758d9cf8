"""``benchmarks/gpu_profile.py``: rows of counters, from prepared kernels where there are some."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from scripted_ncu import ScriptedNcu
from tilewright.backends.cuda.ncu import Profiler
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.sass import find_disassembler
from tilewright.core import Candidate, TargetUnavailable, Task
from tilewright.insight.counters import Reader
from tilewright.kernels.templates import default_schedule, lower
from tilewright.measure.local_target import find_local_target
from tilewright.tuner.prepare import prepare, write

PRODUCT, SUM = "matmul m=256 n=256 k=256 dtype=bfloat16", "sum shape=300,77 dim=0"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        find_nvrtc("sm_90a"), find_disassembler()
    except TargetUnavailable as e:
        pytest.skip(e.message)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import gpu_profile

    return gpu_profile


def test_shapes_are_profiled_as_prepared_or_compiled_now_and_those_with_rows_are_left_alone(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = find_local_target("cuda:sm_90a", "emulator")
    shapes = [script.parse_shape(s) for s in (PRODUCT, SUM)]
    candidates = [Candidate(t, default_schedule(t)) for t in (Task(s.workload, place.target) for s in shapes)]
    ncu = ScriptedNcu(
        tmp_path / "ncu", [x.symbol for c in candidates for x in lower(c).program.launches], runs=False, unknown="n/a"
    )
    monkeypatch.setattr(Reader, "find", lambda: Reader(place, Profiler(str(ncu.program))))
    write(prepare(candidates[0].task, tmp_path / "made", keep=1, pool=1, verify=0), tmp_path / "made")
    asked: list[str] = []
    compile_now = script.read_subject
    monkeypatch.setattr(script, "read_subject", lambda s: (asked.append(s.workload.op), compile_now(s))[1])

    def run(*shapes: str) -> int:
        command = ("gpu_profile", "--out", str(tmp_path), "--prepared", str(tmp_path / "made"), *shapes)
        monkeypatch.setattr(sys, "argv", list(command))
        code: int = script.main()
        return code

    assert run(PRODUCT, SUM) == 0
    assert asked == ["sum"], "the product was prepared"
    rows = {r["id"]: r for r in script.Rows(tmp_path / "profile.jsonl", {"device": place.device.model})}
    product = rows[f"profile/{PRODUCT}"]
    assert product["state"] == "measured"
    assert product["profiles"][0]["by"]
    assert product["profiles"][0]["cycles"] == 401_234
    assert product["schedule"] == candidates[0].schedule.to_json()
    assert rows[f"profile/{SUM}"]["state"] == "measured"
    runs = len(ncu.asked)
    assert run(PRODUCT) == 0
    assert len(ncu.asked) == runs
    capsys.readouterr()


def test_without_counters_it_says_why_in_one_line(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = find_local_target("cuda:sm_90a", "emulator")
    ncu = ScriptedNcu(tmp_path / "ncu", denied=True)
    monkeypatch.setattr(Reader, "find", lambda: Reader(place, Profiler(str(ncu.program))))
    monkeypatch.setattr(sys, "argv", ["gpu_profile", "--out", str(tmp_path), SUM])
    assert script.main() == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ERR_NVGPUCTRPERM" in said
