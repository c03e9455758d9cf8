"""Hardware counters beside the bound of a kernel."""

from __future__ import annotations

import pytest

from tilewright.backends.cuda.bound import Bound
from tilewright.backends.cuda.ncu import Counters
from tilewright.insight.counters import Profile, beside

CLOCK = 1.98e9
BUSY = {"tensor": 300_000.0, "issue": 110_000.0, "registers": 20_000.0, "mufu": 0.0, "l2": 90_000.0, "dram": 50_000.0}
READ = {"cycles": 400_000.0, "nanoseconds": 400_000 / 1.5, "tensor": 80.0, "issue": 25.0, "mufu": 1.0, "dram": 12.5,
        "bank_conflicts": 1048.0}  # fmt: skip


def test_clocks_that_a_resource_is_busy_stand_beside_those_of_the_bound() -> None:
    found = beside(Counters("tw_a", READ), Bound("tensor", 310_000.0, 0.9, {}, BUSY), CLOCK)
    rows = {r.name: (r.bound, r.measured, r.share) for r in found.resources}
    assert rows["tensor"] == (300_000.0, pytest.approx(320_000.0), 0.8)
    assert rows["issue"] == (110_000.0, pytest.approx(100_000.0), 0.25)
    assert rows["registers"] == (20_000.0, None, None), "no GPU counts it"
    assert rows["l2"] == (90_000.0, None, None), "it was not read"
    assert rows["mufu"] == (0.0, pytest.approx(4_000.0), 0.01)
    assert [r.ratio for r in found.resources if r.name in ("issue", "registers")] == [pytest.approx(1.1), None]
    assert (found.by, found.reached) == ("tensor", pytest.approx(0.775))
    assert found.others == {"nanoseconds": READ["nanoseconds"], "bank_conflicts": 1048.0}
    assert Profile.from_json(found.to_json()) == found


def test_memory_takes_as_many_seconds_however_slow_the_multiprocessors_run() -> None:
    """The bound's clocks of memory are of the nominal frequency, 1.98 GHz; the device ran at 1.5."""
    found = beside(Counters("tw_a", READ), Bound("dram", 50_000.0, 0.0, {}, {"dram": 50_000.0}), CLOCK)
    [dram] = [r for r in found.resources if r.name == "dram"]
    assert dram.bound == pytest.approx(50_000 * 1.5 / 1.98)
    assert found.bound == pytest.approx(50_000 * 1.5 / 1.98)


def test_a_kernel_without_a_bound_has_its_counters() -> None:
    found = beside(Counters("tw_a_sum", READ), None, CLOCK)
    assert (found.bound, found.by, found.reached) == (None, "", None)
    assert {r.name for r in found.resources} == {"tensor", "issue", "mufu", "dram"}
