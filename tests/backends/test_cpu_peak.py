"""The measured peak and bandwidths of the cores."""

from __future__ import annotations

from dataclasses import replace

from tilewright.backends.cores import affinity
from tilewright.backends.cpu.peak import PeakProbe
from tilewright.backends.cpu.targets import detect


def test_the_peak_is_that_of_a_vector_unit_on_every_core() -> None:
    with PeakProbe(detect(), affinity()[:1]) as probe:
        one = probe.sample(0.01)
    assert one > 1e8
    with PeakProbe(detect(), affinity()[:1] * 2) as probe:  # two threads, whatever the machine
        assert probe.sample(0.01) > 0.5 * one


def test_nearer_caches_are_faster_and_what_is_no_larger_than_the_one_before_is_left_out() -> None:
    target = replace(detect(), l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=1 << 20)
    with PeakProbe(target, affinity()[:1]) as probe:
        found = probe.caches(target, 0.02)
        assert list(found) == ["l1", "l2"]
        assert found["l1"] > 0.5 * probe.bandwidth(target.l3_bytes, 0.01)
