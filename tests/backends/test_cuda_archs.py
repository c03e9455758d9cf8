"""Architectures and targets: the table agrees with itself, and names become targets or clear errors."""

from __future__ import annotations

import pytest

from tilewright.backends import backend_for, parse_target
from tilewright.backends.cuda import archs, targets
from tilewright.backends.cuda.targets import Gpu, gpus_or_none, target_of
from tilewright.core import Target, TargetUnavailable, Task, UsageError
from tilewright.kernels.operators import get_operator

NAMES = (
    "cc", "sms", "shared_per_block", "shared_per_sm", "shared_reserved", "registers_per_sm", "registers_per_thread",
    "threads_per_block", "threads_per_sm", "blocks_per_sm", "l2_bytes", "clock_hz", "bandwidth", "fp32_flops",
    "fp64_flops", "fp16_tensor_flops", "tf32_tensor_flops", "int8_tensor_ops", "fp64_tensor_flops",
)  # fmt: skip

needs_no_gpu = pytest.mark.skipif(bool(gpus_or_none()), reason="this machine has a GPU")


def gpu(cc: int, **limits: float) -> Gpu:
    return Gpu(0, "Test GPU", "0000:01:00.0", (("cc", cc), *limits.items()))


@pytest.mark.parametrize("variant", archs.VARIANTS)
def test_the_table_of_architectures_is_complete(variant: str) -> None:
    t = archs.target(variant)
    assert (t.kind, t.variant, t.arch, t.isa) == ("cuda", variant, "cuda", (variant,))
    assert tuple(t.limit) == NAMES
    assert Target.from_json(t.to_json()) == t
    limit = {k: float(v) for k, v in t.limits}
    # A block at the limit fits on a multiprocessor together with what the system reserves.
    assert limit["shared_per_block"] + limit["shared_reserved"] == limit["shared_per_sm"]
    assert limit["threads_per_sm"] % limit["threads_per_block"] in (0, 512)
    assert limit["threads_per_sm"] <= 32 * 64
    assert t.l1_bytes >= limit["shared_per_sm"]
    # What the maker states follows from lanes, multiprocessors and clock. Data centre products state peaks for
    # lower clocks than they reach.
    a = archs.ARCHITECTURES[variant]
    for lanes, peak in zip(a.lanes, a.peaks, strict=True):
        assert 2 * a.sms * a.clock_hz * lanes / peak == pytest.approx(1.03, abs=0.06)


def test_identity_does_not_depend_on_the_product() -> None:
    found = archs.with_device("sm_90a", {"sms": 114, "clock_hz": 1.755e9, "bandwidth": 2e12, "l2_bytes": 50 << 20})
    assert found.key == archs.target("sm_90a").key
    assert found != archs.target("sm_90a")


def test_a_devices_own_figures_replace_the_products() -> None:
    t = archs.with_device("sm_80", {"sms": 100, "clock_hz": 1e9, "bandwidth": 0, "cc": 87, "unknown": 3})
    assert t.limit["sms"] == 100
    assert t.limit["fp32_flops"] == 2 * 100 * 1e9 * 64
    assert t.limit["fp16_tensor_flops"] == 2 * 100 * 1e9 * 1024
    assert t.limit["bandwidth"] == archs.target("sm_80").limit["bandwidth"]  # the driver did not say
    assert t.limit["cc"] == 80
    assert "unknown" not in t.limit


def test_code_runs_on_later_minor_versions_only() -> None:
    assert archs.variants_for(89) == ("sm_89", "sm_86", "sm_80")
    assert archs.variants_for(87) == ("sm_87",)  # Jetson runs no code of other chips
    assert archs.variants_for(90) == ("sm_90a",)
    assert archs.variants_for(103) == ("sm_100",)
    assert archs.variants_for(75) == ()
    with pytest.raises(TargetUnavailable, match=r"compute capability 7\.5.*sm_80"):
        target_of(gpu(75))
    with pytest.raises(TargetUnavailable, match="cannot run code for sm_90a") as e:
        target_of(gpu(86), "sm_90a")
    assert "cuda:sm_86 or cuda:sm_80" in e.value.hint
    assert target_of(gpu(86, sms=72), "sm_80").limit["sms"] == 72


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cuda:sm_90", "Use sm_90a"), ("cuda:90", "Use sm_90a"), ("cuda:sm_80a", "Use sm_80"), ("cuda:80", "Use sm_80"),
        ("cuda:sm_75", "Use one of sm_80"), ("cuda:", "cuda:sm_90a"), ("cuda:auto:x", "Use one of"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("foreign", [False, True])
def test_unknown_names_list_the_known(name: str, hint: str, foreign: bool) -> None:
    with pytest.raises(UsageError) as e:
        parse_target(name, allow_foreign=foreign)
    assert hint in e.value.hint


def test_threads_are_refused() -> None:
    with pytest.raises(UsageError, match="takes no number of threads"):
        parse_target("cuda:sm_80", 2, True)


@needs_no_gpu
def test_without_a_gpu() -> None:
    for name in ("cuda", "cuda:sm_90a", "cuda:sm_120"):
        with pytest.raises(TargetUnavailable) as e:
            parse_target(name)
        for word in ("--target cpu", "check", "a machine with such a GPU"):
            assert word in e.value.hint
    assert parse_target("cuda", allow_foreign=True) == archs.target("sm_90a")
    assert parse_target("cuda:sm_86", allow_foreign=True) == archs.target("sm_86")
    assert targets.available() == ()
    assert not targets.runs_here(archs.target("sm_80"))


def test_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (gpu(89, sms=142), gpu(90))
    monkeypatch.setattr(targets, "gpus", lambda: found)
    monkeypatch.setattr(targets, "gpus_or_none", lambda: found)
    assert parse_target("cuda").variant == "sm_89"
    assert parse_target("cuda").limit["sms"] == 142
    assert [t.variant for t in targets.available()] == ["sm_89", "sm_86", "sm_80"]
    assert targets.runs_here(archs.target("sm_90a"))  # on the second one
    assert not targets.runs_here(archs.target("sm_120"))
    with pytest.raises(TargetUnavailable, match="cannot run code for sm_120"):
        parse_target("cuda:sm_120")
    assert parse_target("cuda:sm_120", allow_foreign=True) == archs.target("sm_120")


@pytest.mark.parametrize(
    ("op", "params", "peak"),
    [
        ("matmul", {}, "fp32_flops"),
        ("matmul", {"precision": "tf32"}, "tf32_tensor_flops"),
        ("matmul", {"dtype": "float64"}, "fp64_tensor_flops"),
        ("matmul", {"dtype": "bfloat16"}, "fp16_tensor_flops"),
        ("matmul", {"dtype": "int8"}, "int8_tensor_ops"),
        ("scaled_mm", {}, "int8_tensor_ops"),
        ("scaled_mm", {"dtype": "float8_e5m2"}, "int8_tensor_ops"),
    ],
)
def test_peaks_are_those_of_the_operands(op: str, params: dict[str, str], peak: str) -> None:
    target = archs.target("sm_90a")
    task = Task(get_operator(op).workload(m=256, n=256, k=256, **params), target)
    peaks = backend_for(target).ceilings(task)
    assert (peaks.flops, peaks.bandwidth) == (target.limit[peak], target.limit["bandwidth"])
