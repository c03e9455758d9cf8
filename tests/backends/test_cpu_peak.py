"""The measured peak of the cores."""

from __future__ import annotations

from tilewright.backends.cores import affinity
from tilewright.backends.cpu.peak import PeakProbe
from tilewright.backends.cpu.targets import detect


def test_the_peak_is_that_of_a_vector_unit_on_every_core() -> None:
    with PeakProbe(detect(), affinity()[:1]) as probe:
        one = probe.sample(0.01)
    assert one > 1e8
    with PeakProbe(detect(), affinity()[:1] * 2) as probe:  # two threads, whatever the machine
        assert probe.sample(0.01) > 0.5 * one
