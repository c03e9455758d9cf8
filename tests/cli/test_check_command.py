"""``tilewright check`` and ``prepare``: exit codes, the edit-and-check loop, JSON, clear refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.caches import with_runtime
from harness.waiting import until
from scripted_ncu import ScriptedNcu
from tilewright.backends.cuda import targets
from tilewright.backends.cuda.ncu import Profiler
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.cuda.sass import find_disassembler
from tilewright.backends.driver import NoDriver
from tilewright.checking.check import Checker
from tilewright.cli.commands.check import cuda_target
from tilewright.core import Candidate, TargetUnavailable, Task
from tilewright.insight.counters import Reader
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule, lower
from tilewright.measure.local_target import find_local_target

SIZES = ("m=33", "n=40", "k=24")


def test_a_default_schedule_is_right(cli: Any) -> None:
    reply = cli("check", "matmul", *SIZES, "--target", "cuda:sm_80")
    assert reply.code == 0, reply.err
    assert "1 right" in reply.out
    assert "cuda:sm_80" in reply.out


def test_several_schedules_as_json(cli: Any) -> None:
    reply = cli("check", "matmul", *SIZES, "--dtype", "float16", "--schedule", "random:3", "--seed", "4",
                "--orders", "random:9/eager", "--json")  # fmt: skip
    assert reply.code == 0, reply.err
    data = reply.json
    assert (data["asked"], data["checked"], data["right"], data["bug"], data["unchecked"]) == (3, 3, 3, 0, 0)
    assert data["orders"] == ["random:9/eager"]
    assert data["target"] == "cuda:sm_90a"
    assert len({json.dumps(k["schedule"], sort_keys=True) for k in data["kernels"]}) == 3
    assert all(k["runs"] == 2 for k in data["kernels"])


def test_machine_code_is_read_and_nothing_is_run(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = ("check", "matmul", "m=512", "n=512", "k=512", "--dtype", "float16", "--target", "cuda:sm_80", "--sass")
    try:
        find_nvrtc("sm_80"), find_disassembler()
    except TargetUnavailable as e:
        pytest.skip(e.message)
    monkeypatch.setattr(Checker, "check_all", None)
    reply = cli(*asked)
    assert reply.code == 0, reply.err
    assert "bound by" in reply.out
    assert "instructions in the main loop:" in reply.out
    [kernel] = cli(*asked, "--json").json["kernels"]
    assert kernel["template"] == "cuda_mma"
    assert kernel["loop"]["instructions"] >= kernel["loop"]["mma"] > 0
    assert kernel["loop"]["per_mma"] == kernel["loop"]["instructions"] / kernel["loop"]["mma"]
    assert sum(kernel["loop"]["classes"].values()) == kernel["loop"]["instructions"]
    assert set(kernel["bound"]) == {"by", "cycles", "share", "loop", "busy"}
    assert 0 < kernel["bound"]["share"] <= 1
    refused = cli(*asked, "--sanitize", "address")
    assert refused.code == 2
    assert "--sass runs nothing" in refused.err
    monkeypatch.setenv("TILEWRIGHT_NVDISASM", str(tmp_path / "none"))
    missing = cli(*asked)
    assert missing.code == 1
    assert "tilewright[sass]" in missing.err


def test_counters_of_a_gpu_stand_beside_the_bound(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = ("check", "matmul", "m=512", "n=512", "k=512", "--dtype", "bfloat16", "--sass", "--profile")
    try:
        find_nvrtc("sm_90a"), find_disassembler()
    except TargetUnavailable as e:
        pytest.skip(e.message)
    place = find_local_target("cuda:sm_90a", "emulator")
    task = Task(get_operator("matmul").workload(m=512, n=512, k=512, dtype="bfloat16"), place.target)
    symbols = [x.symbol for x in lower(Candidate(task, default_schedule(task))).program.launches]
    ncu = ScriptedNcu(tmp_path / "here", symbols, runs=False)
    monkeypatch.setattr(Reader, "find", lambda _target: Reader(place, Profiler(str(ncu.program))))
    reply = cli(*asked)
    assert reply.code == 0, reply.err
    for word in ("counters of cuda_wgmma", "81.2%", "took 4.012e+05 clocks (233 us", "1048 bank conflicts"):
        assert word in reply.out
    data = cli(*asked, "--json").json
    first = data["profiles"][0][0]
    tensor = next(r for r in first["resources"] if r["name"] == "tensor")
    assert tensor["bound"] == pytest.approx(data["kernels"][0]["bound"]["busy"]["tensor"])
    assert tensor["measured"] == pytest.approx(0.8125 * first["cycles"])
    denied = ScriptedNcu(tmp_path / "denied", symbols, denied=True)
    monkeypatch.setattr(Reader, "find", lambda _target: Reader(place, Profiler(str(denied.program))))
    refused = cli(*asked)
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert "ERR_NVGPUCTRPERM" in refused.err


def test_without_a_gpu_counters_are_refused_in_one_line(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise NoDriver("there is no NVIDIA driver on this machine")

    monkeypatch.setattr(targets, "gpus", none)
    reply = cli("check", "matmul", "m=64", "n=64", "k=64", "--sass", "--profile")
    assert reply.code == 1
    assert reply.err.count("\n") == 1
    assert "no counters can be read: there is no NVIDIA driver" in reply.err


def test_emit_edit_check(cli: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    reply = cli(
        "check", "matmul", *SIZES, "--template", "cuda_simt", "--schedule", "stages=2", "--emit", str(folder), "--json"
    )
    assert reply.code == 0
    kernel = Path(reply.json["kernel"])
    assert cli("check", "--from", str(folder)).code == 0
    text = kernel.read_text()
    line = next(n for n, x in enumerate(text.split("\n"), 1) if "tw::sync();" in x)
    kernel.write_text(text.replace("tw::sync();", "if (threadIdx.x < 40) tw::sync();", 1))
    reply = cli("check", "--from", str(folder))
    assert reply.code == 1
    assert f"line {line}" in reply.out
    assert "threadIdx.x < 40" in reply.out
    data = cli("check", "--from", str(folder), "--json").json
    bug = data["kernels"][0]["bugs"][0]
    assert bug["kind"] in ("divergence", "deadlock")
    assert bug["line"] == line
    assert bug["block"]
    kernel.write_text(text.replace("tw::sync();", "tw::synchronise();", 1))
    reply = cli("check", "--from", str(folder))
    assert reply.code == 1
    assert f"compile at line {line}" in reply.out
    launch = Path(folder / "launch.json")
    launch.write_text(launch.read_text().replace('"grid": [', '"grid": [0, '))
    reply = cli("check", "--from", str(folder))
    assert reply.code == 2
    assert "launches[0]" in reply.err


def test_the_profile_names_lines(cli: Any) -> None:
    reply = cli("check", "matmul", "m=64", "n=64", "k=64", "--profile", "--orders", "fifo/lazy")
    assert reply.code == 0
    assert "tw::store_shared(to" in reply.out
    assert "bank conflicts 0" in reply.out


def test_brackets_of_the_source_are_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    from tilewright.checking.check import Checked, Subject
    from tilewright.cli.commands.check_profile import print_profile
    from tilewright.core import LaunchProgram
    from tilewright.kernels.operators import get_operator

    workload = get_operator("matmul").workload(m=1, n=1, k=1)
    result = Checked(Subject(cuda_target("cuda:sm_80"), workload, "a[i] = b[/red];", LaunchProgram(())))
    one = {"requests": 4, "sectors": 8, "ideal_sectors": 4}
    result.profile = {"global_load": one, "lines": {"1": {"global_load": one, "waits": 5, "idle_stages": 2}}}
    print_profile(result)
    out = capsys.readouterr().out
    assert "a[i] = b[/red];" in out
    assert "2.00x" in out
    assert "2 with idle stages" in out


def test_sanitizers_from_the_command_line(cli: Any) -> None:
    reply = cli(
        "check", "matmul", "m=9", "n=8", "k=8", "--sanitize", "undefined,address", "--orders", "lifo/lazy", "--json"
    )
    assert reply.code == 0, reply.out
    assert reply.json["sanitize"] == ["address", "undefined"]
    assert reply.json["kernels"][0]["runs"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("matmul", *SIZES, "--target", "cpu"), "no emulator"),
        (("matmul", *SIZES, "--target", "cuda:sm_70"), "cuda:sm_80"),
        (("matmul", *SIZES, "--target", "cuda"), "cuda:sm_80"),
        (("matmul", *SIZES, "--sanitize", "memory"), "memory"),
        (("matmul", *SIZES, "--orders", "fifo"), "not an order"),
        (("matmul", *SIZES, "--schedule", "random:no"), "random:20"),
        (("matmul", *SIZES, "--template", "cuda_mma"), "cannot compute"),
        (("matmul", *SIZES, "--dtype", "float16", "--template", "cpu_generic"), "generates no code"),
        (("matmul", *SIZES, "--dtype", "complex64"), "complex64"),
        (("matmul", *SIZES, "--schedule", "random:2", "--emit", "x"), "one kernel"),
        (("matmul", "m=8192", "n=8192", "k=8192"), "--force"),
        (("matmul", *SIZES, "--from", "x"), "--from"),
        (("--from", "/nowhere"), "/nowhere"),
        ((), "no operator"),
        (("softmax", "rows=8", "cols=8"), "softmax"),
    ],
)
def test_check_refuses_wrong_usage(cli: Any, arguments: tuple[str, ...], said: str) -> None:
    reply = cli("check", *arguments)
    assert reply.code == 2, reply.out
    assert said in reply.err
    assert len(reply.err.strip().splitlines()) == 1
    assert cli("check", *arguments, "--json").json["error"]["kind"] == "usage"


def test_smaller_sizes_are_suggested(cli: Any) -> None:
    reply = cli("check", "conv2d", "n=8", "ci=256", "h=56", "w=56", "co=256", "kh=3", "kw=3", "padding=1")
    assert reply.code == 2
    suggested = reply.err.partition("conv2d n=")[2].partition("conv2d")[2] or reply.err
    assert "padding=1" in suggested


def test_what_cannot_be_checked_is_exit_code_3(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    reply = cli("check", "matmul", *SIZES)
    assert reply.code == 3
    assert "g++" in reply.err
    fake = tmp_path / "c++"
    fake.write_text('#!/bin/sh\ncase "$*" in *-fsanitize*) exit 1;; esac\nexec g++ "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    reply = cli("check", "matmul", "m=8", "n=8", "k=8", "--orders", "fifo/lazy", "--sanitize", "thread")
    assert reply.code == 3
    assert "not checked" in reply.out
    assert "1 right" not in reply.out


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    with_runtime(tmp_path, shared_library=False)
    blobs = tmp_path / "v1" / "blobs"
    given = len(list(blobs.rglob("*")))
    process = subprocess.Popen(
        [sys.executable, "-c", "from tilewright.cli import main; main()", "check", "matmul", *SIZES, "--schedule",
         "random:400", "--jobs", "1", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "TILEWRIGHT_CACHE": str(tmp_path)},
    )  # fmt: skip
    until(lambda: len(list(blobs.rglob("*"))) >= given + 5)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    data = json.loads(out)
    assert data["interrupted"]
    assert 0 < data["checked"] < 400
    assert "stopped early" in err
    assert "Traceback" not in err


def test_a_bug_in_a_template_is_exit_code_1(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way from a wrong kernel to the report, with a real kernel that loses its barriers."""
    from dataclasses import replace

    real = Checker.check

    def without_barriers(self: Checker, subject: Any) -> Any:
        return real(self, replace(subject, source=subject.source.replace("tw::sync();", ";")))

    monkeypatch.setattr(Checker, "check", without_barriers)
    reply = cli("check", "matmul", "m=33", "n=65", "k=37", "--template", "cuda_simt", "--schedule", "random:1")
    assert reply.code == 1
    assert "1 with bugs" in reply.out
    assert "cuda_simt: BM=" in reply.out
