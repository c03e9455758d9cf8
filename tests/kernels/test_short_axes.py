"""Elementwise programs with a short innermost axis: what is unrolled, what is read as runs, and the template's contract."""

from __future__ import annotations

import pytest
from short_programs import PROGRAMS

from tilewright.testing.template import TemplateContract


class TestShortAxes(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.nightly
class TestShortAxesThoroughly(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 30
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")
