"""Speeds and shares of peaks, as printed."""

from __future__ import annotations

import pytest

from tilewright.backends.cpu.targets import detect
from tilewright.cli.output import rate
from tilewright.core import Task
from tilewright.kernels.operators import get_operator


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.5, "1 GFLOP/s, 50.0% of the FMA peak measured here"),
        (
            1.2,
            "1 GFLOP/s, above the FMA peak measured here: the kernel does fewer operations than the operator counts, or "
            "other programs ran while the peak was measured",
        ),
        (None, "1 GFLOP/s"),
    ],
)
def test_a_speed_has_its_share_of_the_peak_or_says_why_not(share: float | None, text: str) -> None:
    task = Task(get_operator("matmul").workload(m=100, n=100, k=50), detect())
    assert rate(task, 1e-3, share, here=True) == text
