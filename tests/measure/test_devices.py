"""The devices of this machine: which there are, what is said of them, and the classes that they belong to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_smi import BUS, H200, ScriptedSmi, ask, stub_driver
from tilewright.backends.cores import affinity, available_cores, format_cores
from tilewright.backends.cpu.device import cpu_class
from tilewright.backends.cuda import device as gpus
from tilewright.backends.cuda.device import gpu_class
from tilewright.backends.cuda.health import GpuFacts, Identity
from tilewright.backends.cuda.targets import gpus_or_none
from tilewright.core import TargetUnavailable, UsageError
from tilewright.measure import devices as module
from tilewright.measure.devices import (
    DeviceDescription,
    describe_device,
    find,
    host_identity,
)

GIB = 1 << 30
SLUG = r"[a-z0-9][a-z0-9.+-]{0,99}"
needs_no_gpu = pytest.mark.skipif(bool(gpus_or_none()), reason="this machine has a GPU")


def describe(device: str = "auto", target: str = "auto", threads: int = 1) -> DeviceDescription:
    return describe_device(find(device, target, threads))


# --------------------------------------------------------------------------- this machine


@needs_no_gpu
def test_auto_is_all_cores_where_there_is_no_gpu() -> None:
    d = describe()
    cores = affinity()[: available_cores()]
    assert d.device == f"cpu:{format_cores(cores)}"
    assert d.cores == len(cores)
    assert d.device_class.startswith("cpu-")
    assert d.device_class.endswith(f"-{d.target.variant}-{len(cores)}c")
    assert dict(d.labels)["arch"] == d.target.arch
    assert d.memory > 0
    assert d.compiler
    with pytest.raises(TargetUnavailable):
        describe(target="cuda")


def test_the_same_cores_are_the_same_device() -> None:
    core = f"cpu:{affinity()[0]}"
    assert describe(core) == describe(core)
    assert describe(core).cores == 1
    assert describe(core).uuid != describe("emulator").uuid


def test_names_that_are_none() -> None:
    for name in ("gpu", "cpu:x", "cpu:99999", "emulator:1", "cuda:0,cuda:1"):
        with pytest.raises((UsageError, TargetUnavailable)):
            describe(name)
    with pytest.raises(UsageError, match="do not fit"):
        describe("auto", "cpu", threads=4096)


def test_the_emulator_is_a_device() -> None:
    d = describe("emulator", "cuda:sm_80")
    assert (d.device, d.model, d.device_class, d.cores) == ("emulator:0", "emulator", "emulator-sm-80", 0)
    assert find("emulator").emulated


def test_an_identity_gives_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, none = (tmp_path / n for n in ("one", "other", "none"))
    one.write_text("0123456789abcdef0123456789abcdef\n")
    other.write_text("fedcba9876543210fedcba9876543210\n")
    found = host_identity("cpu:0", (none, one))
    assert found == host_identity("cpu:0", (one, other))
    assert "0123456789abcdef" not in found
    assert len({found, host_identity("cpu:1", (one,)), host_identity("cpu:0", (other,))}) == 3
    one.write_text("\n")  # as in many container images

    def on(node: int) -> str:
        monkeypatch.setattr(module.uuid, "getnode", lambda: node)
        assert host_identity("cpu:0", (one,)) == host_identity("cpu:0", (none,))
        return host_identity("cpu:0", (one,))

    assert on(0x0242AC110002) != on(0x0242AC110003)  # network cards' numbers
    assert on(0x010203040506) == on(0x010203040507)  # random ones, other ones each time


# --------------------------------------------------------------------------- GPUs


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub_driver(tmp_path_factory.mktemp("stub"))


def test_a_gpu_is_described_by_its_driver_and_nvidia_smi(stub: Path, tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    smi.state("h200", {**H200, "pci.bus_id": "00000001:1B:00.0"})
    smi.go("h200")
    d = ask(stub, smi, "describe_device(find()).to_json()")
    assert (d["device"], d["model"], d["device_class"]) == ("cuda:0", "Stub GPU", "h200-141g-700w")
    assert d["uuid"] == "GPU-e07a497d-1bb6-5a42-b670-1c33bf55ab6e"
    assert (d["cores"], d["memory"], d["driver"]) == (0, 5 << 32, "CUDA 13.0")
    assert d["target"]["variant"] == "sm_90a"
    assert d["labels"]["power_limit_w"] == 700.0


def test_a_gpu_without_nvidia_smi(stub: Path, tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    smi.go("gone")
    of_two = "[(d.device_class, d.uuid[:5]) for d in map(describe_device, (find(), find('cuda:1')))]"
    assert ask(stub, smi, of_two, count=2) == [["stub-20g", "GPU-e"], ["stub-20g", "host-"]]
    assert ask(stub, smi, "find(target='cpu').device.name").startswith("cpu:")


def test_a_gpu_too_old_leaves_auto_to_the_processor(stub: Path, tmp_path: Path) -> None:
    assert ask(stub, ScriptedSmi(tmp_path / "bin"), "find().device.name", cc=75).startswith("cpu:")


def gpu(name: str, memory: int, watts: float | None, profile: str = "") -> str:
    """The class of a GPU of so many MiB."""
    return gpu_class(name, GIB, Identity("GPU-x", profile, GpuFacts("GPU-x", BUS, name, "", memory << 20, watts)))


@pytest.mark.parametrize(
    ("name", "memory", "watts", "profile", "slug"),
    [
        ("NVIDIA H200", 143771, 700.0, "", "h200-141g-700w"),
        ("NVIDIA H100 80GB HBM3", 81559, 700.0, "", "h100-hbm3-80g-700w"),
        ("NVIDIA H100 PCIe", 81559, 350.0, "", "h100-pcie-80g-350w"),
        ("NVIDIA A100-SXM4-40GB", 40536, 400.0, "", "a100-sxm4-40g-400w"),
        ("NVIDIA A100-SXM4-40GB", 40536, 400.0, "3g.20gb", "a100-sxm4-40g-400w-mig-3g.20gb"),
        ("NVIDIA A100-SXM4-40GB", 40536, 400.0, "1g.5gb+me", "a100-sxm4-40g-400w-mig-1g.5gb+me"),
        ("NVIDIA GeForce RTX 4090", 24564, 450.0, "", "rtx-4090-24g-450w"),
        ("NVIDIA GeForce RTX 3050 Laptop GPU", 4096, None, "", "rtx-3050-laptop-4g"),
        ("Tesla V100-SXM2-16GB", 16160, 299.6, "", "v100-sxm2-16g-300w"),
    ],
)
def test_classes_of_gpus(name: str, memory: int, watts: float | None, profile: str, slug: str) -> None:
    assert gpu(name, memory, watts, profile) == slug


def test_classes_of_gpus_without_nvidia_smi() -> None:
    assert gpu_class("NVIDIA H200", 150109880320, Identity("GPU-x")) == "h200-140g"
    slice_ = Identity("MIG-x", "3g.20gb")
    assert gpu_class("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20 * GIB, slice_) == "a100-sxm4-20g-mig-3g.20gb"


WORD = st.from_regex(r"[A-Z][A-Z0-9]{0,5}|[1-9][0-9]{2,3}", fullmatch=True).filter(
    lambda w: w.lower() not in {*gpus._WORDS, "cpu", "processor", "r", "tm"} and not w.endswith("GB")
)
GPU_KIND = st.tuples(
    st.lists(WORD, min_size=1, max_size=4).map(" ".join), st.integers(1, 1000), st.none() | st.integers(1, 2000),
    st.sampled_from(["", "1g.5gb", "1g.10gb+me", "3g.20gb", "7g.80gb"]),
)  # fmt: skip


@given(GPU_KIND, GPU_KIND)
def test_classes_tell_gpus_apart(one: Any, other: Any) -> None:
    slugs = [gpu(f"NVIDIA {n}", g << 10, None if w is None else float(w), p) for n, g, w, p in (one, other)]
    assert (slugs[0] == slugs[1]) == (one == other)
    assert re.fullmatch(SLUG, slugs[0])


@given(st.text(max_size=40), st.integers(0, 9), st.booleans())
def test_classes_do_not_change_with_what_does(name: str, errors: int, throttled: bool) -> None:
    quiet = GpuFacts("GPU-x", BUS, name, "1", 80 * GIB, 400.0)
    loud = replace(
        quiet, uuid="GPU-y", bus_id="0000:2B:00.0", driver="2", persistence=True,
        ecc_uncorrected=errors, reasons=("hw_slowdown",) if throttled else (),
    )  # fmt: skip
    slug = gpu_class(name, GIB, Identity("GPU-x", "", quiet))
    assert slug == gpu_class(name, GIB, Identity("GPU-y", "", loud))
    assert re.fullmatch(SLUG, slug)


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("AMD EPYC 9B45 (family 26 model 17)", "cpu-amd-epyc-9b45-f26m17-avx512-2c"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz (family 6 model 79)", "cpu-intel-xeon-2.20ghz-f6m79-avx512-2c"),
        ("implementer 0x41 part 0xd40", "cpu-implementer-0x41-part-0xd40-avx512-2c"),
        ("Apple M2 Pro", "cpu-apple-m2-pro-avx512-2c"),
    ],
)
def test_classes_of_processors(model: str, slug: str) -> None:
    assert cpu_class(model, "avx512", 2) == slug


CPU_KIND = st.tuples(
    st.lists(WORD, min_size=1, max_size=4).map(" ".join), st.integers(0, 99), st.integers(0, 255),
    st.sampled_from(["avx512", "avx2", "neon"]), st.integers(1, 512),
)  # fmt: skip


@given(CPU_KIND, CPU_KIND)
def test_classes_tell_processors_apart(one: Any, other: Any) -> None:
    slugs = [cpu_class(f"{n} (family {f} model {m})", v, c) for n, f, m, v, c in (one, other)]
    assert (slugs[0] == slugs[1]) == (one == other)


@given(st.text(max_size=400))
def test_a_class_is_always_one_that_may_travel(model: str) -> None:
    assert re.fullmatch(SLUG, cpu_class(model, "avx2", 4))
