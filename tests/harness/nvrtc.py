"""Compiles kernels with NVRTC without warnings, and returns their resources and costs."""

from __future__ import annotations

import pytest

from tilewright.backends.cuda.build import flags
from tilewright.backends.cuda.nvrtc import NoNvrtc, find_nvrtc
from tilewright.backends.cuda.ptxas import Usage, parse_log
from tilewright.backends.cuda.sass import NoDisassembler
from tilewright.checking.check import subject_of
from tilewright.checking.machine_code import KernelCost, costs
from tilewright.core import Candidate, Schedule, Task
from tilewright.kernels.templates import full_source


def compiled(task: Task, schedule: Schedule) -> dict[str, Usage]:
    """Resources of each kernel. Any warning fails; skips the test without an NVRTC for all architectures."""
    try:
        nvrtc = find_nvrtc("sm_120")
    except NoNvrtc as reason:
        pytest.skip(str(reason))
    _, log = nvrtc.compile(full_source(Candidate(task, schedule)), flags(task.target))
    report = parse_log(log)
    assert not report.warnings, (dict(schedule.values), log)
    assert "warning" not in log, log
    assert report.kernels
    return dict(report.kernels)


def measured(task: Task, schedule: Schedule) -> tuple[KernelCost, ...]:
    """Machine code and bound of each kernel. Skips the test without NVRTC or without a disassembler."""
    try:
        return costs(subject_of(Candidate(task, schedule)))
    except (NoNvrtc, NoDisassembler) as reason:
        pytest.skip(str(reason))


def spilled(task: Task, schedule: Schedule) -> int:
    """Register spills of the kernels, in bytes."""
    kernels = compiled(task, schedule).values()
    return sum(u.spill_stores + u.spill_loads + u.frame_bytes for u in kernels)
