"""The measured peak and bandwidths of the cores."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tilewright.backends.cores import affinity
from tilewright.backends.cpu.peak import PeakProbe, per_float32
from tilewright.backends.cpu.targets import detect
from tilewright.core import Task
from tilewright.kernels.operators import get_operator


def test_the_peak_is_that_of_a_vector_unit_on_every_core() -> None:
    with PeakProbe(detect(), affinity()[:1]) as probe:
        one = probe.sample(0.01)
    assert one > 1e8
    with PeakProbe(detect(), affinity()[:1] * 2) as probe:  # two threads, whatever the machine
        assert probe.sample(0.01) > 0.5 * one


def test_a_disturbed_millisecond_does_not_lower_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    with PeakProbe(detect(), affinity()[:1]) as probe:
        rates = itertools.cycle([2e9, 8e9, 4e9])
        monkeypatch.setattr(
            probe,
            "_library",
            SimpleNamespace(handle=SimpleNamespace(tw_peak_flops=lambda _: next(rates)), close=probe._library.close),
        )
        assert probe.sample(0.001) == 8e9


def test_nearer_caches_are_faster_and_what_is_no_larger_than_the_one_before_is_left_out() -> None:
    target = replace(detect(), l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=1 << 20)
    with PeakProbe(target, affinity()[:1]) as probe:
        found = probe.caches(target, 0.02)
        assert list(found) == ["l1", "l2"]
        assert found["l1"] > 0.5 * probe.bandwidth()


@pytest.mark.parametrize(
    ("dtype", "isa", "factor"),
    [
        ("float64", "avx512f", 0.5), ("float32", "avx512vnni", 1.0), ("int8", "avx512vnni", 4.0), ("int8", "avx2", 1.0),
        ("bfloat16", "avx512bf16", 2.0),
    ],
)  # fmt: skip
def test_the_peak_of_a_product_counts_dot_instructions(dtype: str, isa: str, factor: float) -> None:
    task = Task(get_operator("matmul").workload(m=8, n=8, k=8, dtype=dtype), replace(detect(), isa=(isa,)))
    assert per_float32(task) == factor
