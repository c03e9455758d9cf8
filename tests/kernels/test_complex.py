"""Products of complex matrices: one real product each, whatever the way in which a program states them."""

from __future__ import annotations

import pytest
from complex_programs import PROGRAMS
from test_rewrite import same_values

from tilewright.kernels.families.contraction import contractions
from tilewright.testing.template import TemplateContract


class TestComplexProducts(TemplateContract):
    templates = ("cpu_contraction",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.nightly
class TestComplexProductsThoroughly(TemplateContract):
    templates = ("cpu_contraction",)
    programs = PROGRAMS
    schedules = 20
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_product_by_component_is_one_real_product(name: str) -> None:
    program = PROGRAMS[name]()
    first = contractions(program.dumps())[0]
    assert first.is_product
    same_values(program, first.program)
