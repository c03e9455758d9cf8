"""The OpenCL backend on PoCL: the contract of every backend, its driver, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.backends import backend_for, get_backend
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.driver import LoadError, NoDriver, OutOfMemory
from tilewright.backends.opencl import build, devices
from tilewright.backends.opencl.code import header
from tilewright.backends.opencl.driver import OpenClContext
from tilewright.backends.toolchain import CompileError, CompileTimeout
from tilewright.core import Launch, LaunchProgram, Target, TargetUnavailable, UsageError
from tilewright.testing.backend import SYMBOL, BackendContract, Floats

pytestmark = pytest.mark.needs("OpenCL")

SAXPY = f"""
__kernel void {SYMBOL}(__global const float *x, __global const float *y, __global float *out, __global uchar *ws,
                       int n, int a) {{
    const int i = (int)get_global_id(0);
    if (i < n) out[i] = a * x[i] + y[i];
}}
"""


class TestContract(BackendContract):
    kind = "opencl"
    threads = 1
    returns_codes = False

    def saxpy(self, target: Target) -> str:
        return SAXPY

    def broken(self, target: Target) -> str:
        return SAXPY + "__kernel void twice(__global int *x) { x[0] = 2 * y; }"

    def program(self) -> LaunchProgram:
        grid = (["max", 1, ["ceildiv", "n", 64]],)
        return LaunchProgram((Launch(SYMBOL, ("n", "a"), grid=grid, block=(64,)),), align=4)

    @pytest.fixture(autouse=True)
    def _one_context(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is uploaded lies in the context in which the kernels run."""
        self.context = context()
        monkeypatch.setattr("tilewright.backends.opencl.backend.OpenClBackend.open", lambda *_: self.context)

    def upload(self, array: Floats) -> tuple[object, int]:
        address = self.context.allocate(array.nbytes)
        self.context.upload(address, array)
        return (address, array.shape), address

    def download(self, owner: object) -> Floats:
        assert isinstance(owner, tuple)
        out = np.empty(owner[1], np.float32)
        self.context.download(owner[0], out)
        return out


def context() -> OpenClContext:
    return OpenClContext(devices.find())


def toolchain(folder: Path) -> build.OpenClToolchain:
    return build.OpenClToolchain(devices.parse_target("opencl"), ArtifactCache(folder))


# --------------------------------------------------------------------------- names


def test_devices_have_numbers_and_names() -> None:
    first = devices.find()
    assert devices.parse_target(f"opencl:{first.index}") == devices.parse_target(f"opencl:{first.variant}")
    target, device = get_backend("opencl").place("auto", f"opencl:{first.index}", 1)
    assert (target.name, device.name) == (f"opencl:{first.variant}", f"opencl:{first.index}")
    with pytest.raises(UsageError, match=f"{first.index} \\({first.variant}\\)"):
        devices.find("99")
    with pytest.raises(UsageError, match="do not run on cuda:0"):
        get_backend("opencl").place("opencl", "cuda:0", 1)


def fake(*platforms: tuple[str, ...]) -> SimpleNamespace:
    """pyopencl with platforms of devices of these names."""
    made = []
    for n, names in enumerate(platforms):
        platform = SimpleNamespace(name=f"Maker {n}", version="OpenCL 3.0")
        handles = [
            SimpleNamespace(name=x, platform=platform, version="1", driver_version="2", svm_capabilities=n,
                            compiler_available=True)
            for x in names
        ]  # fmt: skip
        platform.get_devices = lambda found=handles: found
        made.append(platform)
    return SimpleNamespace(
        get_platforms=lambda: made, Error=ValueError, device_svm_capabilities=SimpleNamespace(COARSE_GRAIN_BUFFER=1)
    )


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Other platforms in place of this machine's."""

    def use(package: Any) -> None:
        devices.every.cache_clear()
        monkeypatch.setattr(devices, "pyopencl", lambda: package)

    yield use
    devices.every.cache_clear()


def test_two_platforms_with_one_processor(other: Any) -> None:
    other(fake(("Some CPU", "GPU 7"), ("Some CPU",)))
    assert [(d.index, d.variant) for d in devices.every()] == [(0, "some_cpu"), (1, "gpu_7"), (2, "maker_1_some_cpu")]
    assert devices.find().index == 2  # the others have no shared virtual memory
    with pytest.raises(TargetUnavailable, match="no shared virtual memory"):
        devices.find("gpu_7")


def test_no_device_is_told(other: Any) -> None:
    other(fake(()))
    with pytest.raises(NoDriver, match="no OpenCL device") as e:
        get_backend("opencl").parse_target("opencl")
    assert "pocl-opencl-icd" in e.value.hint
    assert devices.usable() == ()
    assert get_backend("opencl").compilers() == {}
    report = get_backend("opencl").report(True)
    assert "no OpenCL device" in report.rows[0][1]
    assert not report.problems


def test_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, tilewright.backends.opencl.backend, tilewright.backends.opencl.arrays\n"
        "assert 'pyopencl' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --------------------------------------------------------------------------- compiling


def test_a_driver_that_dies_while_it_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compilation happens in a worker; this one ends itself as a crash does."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    made = toolchain(tmp_path / "cache")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    with pytest.raises(CompileError, match="the OpenCL compiler was killed by SIGSEGV"):
        made.compile(SAXPY)


def test_a_compiler_that_takes_too_long(tmp_path: Path) -> None:
    with pytest.raises(CompileTimeout):
        toolchain(tmp_path).compile(SAXPY, (), 0.01)


def test_code_of_another_driver_is_refused(tmp_path: Path) -> None:
    made = toolchain(tmp_path)
    data = Path(made.compile(SAXPY).path).read_bytes()
    assert set(header(data)["kernels"]) == {SYMBOL}
    older = context()
    older.device = replace(older.device, handle=SimpleNamespace(platform=SimpleNamespace(name="", version=""), version="",
                                                                driver_version="0.9"))  # fmt: skip
    with pytest.raises(LoadError, match=r"driver 0\.9"):
        older.load(data)


# --------------------------------------------------------------------------- the driver


def test_memory_is_copied_filled_and_given_back() -> None:
    c = context()
    a, b = c.allocate(4000), c.allocate(4000)
    assert a % 256 == b % 256 == 0
    data = np.arange(1000, dtype=np.int32)
    c.busy(1e-3)  # what is queued behind it must not wait for ever
    c.upload(a, data)
    c.copy(b, a, 4000)
    c.fill(b + 8, 0xFF, 4)
    out = np.empty(1000, np.int32)
    c.download(b, out)
    assert out[2] == -1
    out[2] = 2
    np.testing.assert_array_equal(out, data)
    start, stop = c.event(), c.event()
    c.busy(1e-3)
    start.record()
    c.fill(b, 0, 4000)
    stop.record()
    c.synchronize()
    assert 0 <= c.elapsed(start, stop) < 1
    c.free(a)
    with pytest.raises(UsageError):
        c.free(a)
    with pytest.raises(OutOfMemory):
        c.allocate(1 << 60)


def test_the_folder_stays_small() -> None:
    folder = Path(build.__file__).parent
    lines = sum(len(p.read_text().splitlines()) for p in folder.iterdir() if p.suffix in (".py", ".cl"))
    assert lines <= 910
    assert backend_for(devices.parse_target("opencl")).name == "opencl"
