"""Which of several stored kernels serves a request."""

from __future__ import annotations

from tilewright.core import LaunchProgram, Schedule, Target
from tilewright.extent import Extent
from tilewright.runtime.choice import Place, choose_sized
from tilewright.runtime.entry import Entry

TARGET = Target("cpu", "portable", "x86_64", (), 16, 16)


class Here(Place):
    name, model, threads, asked = "here", "m", 4, None

    def runs(self, entry: Entry) -> bool:
        return True


def ranged(low: int, high: int, seconds: float) -> Entry:
    """A kernel for sizes of one range."""
    return Entry(
        "key", "matmul", {}, {}, (), (), 1, "", TARGET, "m", None, Schedule("t", 1, (), ()), LaunchProgram(()), seconds,
        "", "verified", 0.0, {"m": Extent(high, low, "m")},
    )  # fmt: skip


def test_the_narrowest_range_with_a_size_serves_it_even_where_a_wider_one_is_faster() -> None:
    wide, narrow, wider = ranged(1, 4096, 1.0), ranged(1, 64, 2.0), ranged(1, 8192, 0.5)
    assert choose_sized((), (wide, narrow, wider), Here()).entry is narrow


def test_a_kernel_of_the_very_size_serves_before_those_of_ranges() -> None:
    exact = ranged(8, 8, 3.0)
    assert choose_sized((exact,), (ranged(1, 64, 1.0),), Here()).entry is exact
