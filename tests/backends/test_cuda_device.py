"""Devices as the driver library reports them: a stand-in for it answers, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cuda_kernels import nvrtc

from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cuda import device as module
from tilewright.backends.cuda.device import CudaDevice, describe_cuda, parse_device
from tilewright.backends.cuda.targets import gpus, gpus_or_none
from tilewright.backends.driver import NoDriver
from tilewright.backends.locks import DeviceLock
from tilewright.core import TilewrightError, UsageError

Ask = Callable[..., Any]
needs_no_gpu = pytest.mark.skipif(bool(gpus_or_none()), reason="this machine has a GPU")


ASKED = """
import json, os, sys
from tilewright.backends import get_backend, parse_target
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.device import *
from tilewright.backends.cuda.nvrtc import driver_version, find_nvrtc
from tilewright.backends.cuda.targets import gpus
from tilewright.core import TilewrightError

for line in sys.stdin:
    expression, settings = json.loads(line)
    if os.fork():
        _, status = os.wait()
        if status:
            sys.exit("no answer")
        continue
    os.environ.update(settings)
    try:
        value = eval(expression)
    except TilewrightError as e:
        value = [type(e).__name__, e.message, e.hint]
    print(json.dumps(value), flush=True)
    break
"""
"""A process that answers each question in a fork of its own, where nothing was asked of the driver before."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Evaluate an expression where the stand-in is the driver; its value by way of JSON."""
    folder = tmp_path_factory.mktemp("stub")
    source = Path(__file__).with_name("stub_cuda.cpp")
    compiler = find_compiler()
    out = folder / "libcuda.so.1"
    subprocess.run([*compiler.command, "-shared", "-fPIC", str(source), "-o", str(out)], check=True)

    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}  # no threads: it forks
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", ASKED], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def run(expression: str, **settings: int) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            stub = {f"STUB_{k.upper()}": str(v) for k, v in settings.items()}
            process.stdin.write(json.dumps([expression, stub]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, "it died"
            return json.loads(answer)

        yield run


def test_limits_come_from_the_device(ask: Ask) -> None:
    found = ask("[[g.index, g.model, g.bus_id, g.cc, dict(g.limits)] for g in gpus()]", count=2)
    assert [f[:4] for f in found] == [[0, "Stub GPU", "0001:1B:00.0", 90], [1, "Stub GPU", "0001:1C:00.0", 90]]
    limits = found[0][4]
    assert limits["sms"] == 132
    assert limits["shared_per_block"] == 227 * 1024
    assert limits["bandwidth"] == pytest.approx(2 * 3.201e9 * 768)
    assert limits["memory_bytes"] == 5 << 32
    assert limits["shared_reserved"] == 0  # the driver did not know


def test_targets_of_the_device(ask: Ask) -> None:
    name, shared, reserved, flops = ask(
        "[(t := parse_target('cuda')).name, t.limit['shared_per_sm'], t.limit['shared_reserved'], t.limit['fp32_flops']]"
    )
    assert (name, shared, reserved) == ("cuda:sm_90a", 233472, 1024)
    assert flops == pytest.approx(66.9e12, rel=1e-3)
    assert ask("[t.variant for t in get_backend('cuda').targets()]", cc=89) == ["sm_89", "sm_86", "sm_80"]
    assert ask("parse_target('cuda:sm_80').limit['cc']", cc=89) == 80
    assert ask("get_backend('cuda').runs_here(archs.target('sm_120'))", cc=121) is True


def test_errors_name_the_cause(ask: Ask) -> None:
    assert ask("parse_target('cuda')", cc=75)[:2] == [
        "TargetUnavailable",
        "Stub GPU has compute capability 7.5; code is generated for sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100, sm_120",
    ]
    assert ask("parse_target('cuda:sm_90a')", cc=89)[1] == "Stub GPU cannot run code for sm_90a"
    for settings in ({"error": 100}, {"count": 0}):
        kind, message, hint = ask("parse_target('cuda')", **settings)
        assert kind == "TargetUnavailable"
        assert "no CUDA device" in message
        assert "--target cpu" in hint
    kind, message, hint = ask("parse_device('cuda')", error=803)
    assert "driver is too old" in message
    assert "Update the driver" in hint
    assert ask("parse_device('cuda:2').name", count=2)[::2] == ["UsageError", "Use cuda:0 or cuda:1"]


def test_device_and_its_facts(ask: Ask) -> None:
    name, model, kind, facts, cores = ask(
        "[(d := parse_device('cuda:1')).name, d.model, d.kind, dict(d.facts), d.cores]", count=2, version=12040
    )
    assert (name, model, kind) == ("cuda:1", "Stub GPU", "cuda")
    assert facts["cuda_driver"] == "12.4"
    assert facts["pci"] == "0001:1C:00.0"
    assert cores == [(1 << 16) | (0x1C << 8)]


def test_nvrtc_of_a_later_generation_than_the_driver(ask: Ask) -> None:
    if nvrtc().version[0] < 13:
        pytest.skip("needs an NVRTC of CUDA 13")
    kind, message, hint = ask("find_nvrtc()", version=12040)
    assert kind == "NoNvrtc"
    assert "this driver (CUDA 12.4) cannot load" in message
    assert "tilewright[cuda12]" in hint
    assert ask("find_nvrtc().version[0]", version=13000) == 13


def test_doctor_describes_cuda_devices(ask: Ask) -> None:
    facts = ask("describe_cuda()")
    assert facts["cuda_driver"] == "13.0"
    assert [d["target"] for d in facts["devices"]] == ["cuda:sm_90a"]
    assert facts["devices"][0]["limits"]["blocks_per_sm"] == 32
    old = ask("describe_cuda()", cc=75)
    assert old["devices"][0]["target"] is None
    assert any("compute capability 7.5" in p for p in old["problems"])


# --------------------------------------------------------------------------- without a driver


@needs_no_gpu
def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDriver) as e:
        gpus()
    assert "--target cpu" in e.value.hint
    with pytest.raises(NoDriver):
        parse_device("cuda:0")
    facts = describe_cuda()
    assert facts["devices"] == []
    assert any(e.value.message in p for p in facts["problems"])
    json.dumps(facts)


def test_doctor_without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.nvrtc, "candidates", lambda: ())
    facts = describe_cuda(load=False)
    assert facts["nvrtc"] is None
    assert any("no NVRTC found" in p for p in facts["problems"])


@pytest.mark.parametrize("text", ["", "cuda:", "cuda:x", "cuda:-1", "cuda:0-1", "cuda:sm_90a", "cpu:0", "gpu"])
def test_malformed_devices_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as e:
        parse_device(text)
    assert "cuda:0" in e.value.hint


# --------------------------------------------------------------------------- lock


def test_lock_excludes_and_names_the_device(tmp_path: Path) -> None:
    device = CudaDevice("cuda:1", "Test GPU", index=1, bus_id="0000:3B:00.0")
    same = CudaDevice("cuda:0", "Test GPU", bus_id="0000:3B:00.0")  # renumbered by CUDA_VISIBLE_DEVICES
    other = CudaDevice("cuda:2", "Test GPU", bus_id="0000:3C:00.0")
    told: list[str] = []
    errors: list[str] = []

    def wait() -> None:
        try:
            DeviceLock(same, lambda h: told.append(str(h)), 0.3, tmp_path).acquire()
        except TilewrightError as e:
            errors.append(e.message)

    with DeviceLock(device, folder=tmp_path) as held:
        assert held.held
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        with DeviceLock(other, folder=tmp_path, timeout=0):
            pass
    assert len(errors) == len(told) == 1
    assert "cuda:0 is in use: cuda:0 is held by process" in errors[0]
    assert told[0].startswith("cuda:0 is held by process")
    with DeviceLock(same, folder=tmp_path, timeout=0):
        pass
