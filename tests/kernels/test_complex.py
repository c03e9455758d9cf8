"""Products of complex matrices: one real product each, whatever the way in which a program states them."""

from __future__ import annotations

import pytest
from complex_programs import PROGRAMS, Written, by_select, by_selects, by_sign, matmul
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rewrite import same_values

from tilewright.kernels.families.contraction import contractions
from tilewright.kernels.rewrite import normal_forms
from tilewright.kernels.templates.cpu_contraction.match import match
from tilewright.testing.cuda_template import CudaTemplateContract
from tilewright.testing.template import TemplateContract

ALIKE = (
    "matmul", "matmul_double", "matmul_selects", "matmul_conjugates", "matmul_turned", "components_first_turned",
    "in_one_axis", "real_times", "times_real",
)  # fmt: skip
"""Programs that take the paths of others: only the nightly run computes them."""


class TestComplexProducts(TemplateContract):
    templates = ("cpu_contraction",)
    programs = {n: make for n, make in PROGRAMS.items() if n not in ALIKE}  # noqa: RUF012
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
    first = contractions(program)[0]
    assert first.is_product
    same_values(program, first.program)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.tuples(*(st.integers(1, 6) for _ in range(3))), st.integers(0, 2), st.sampled_from((by_select, by_selects, by_sign)),
    st.sampled_from(("", "a", "b", "ab")), st.sampled_from(("", "a", "b", "ab")),
)  # fmt: skip
def test_every_form_of_a_complex_product_keeps_its_values(
    sizes: tuple[int, int, int], place: int, written: Written, conjugate: str, turned: str
) -> None:
    program = matmul(*sizes, place=place, written=written, conjugate=conjugate, turned=turned)
    for form in normal_forms(program):
        same_values(program, form)


FEW = ("matmul_conjugates", "components_first", "batched", "real_part", "conv1d")


class TestComplexProductsOnGpus(CudaTemplateContract):
    templates = ("cuda_simt", "cuda_mma")
    programs = {n: PROGRAMS[n] for n in FEW}  # noqa: RUF012


@pytest.mark.nightly
class TestComplexProductsOnGpusThoroughly(CudaTemplateContract):
    templates = ("cuda_simt", "cuda_mma")
    programs = PROGRAMS
    targets = ("sm_80", "sm_90a")
    schedules = 4


def test_a_side_is_read_in_place_where_it_is_common_to_both_components() -> None:
    for name in ("matmul", "matmul_bias", "batched", "conv1d", "quaternions"):
        found = match(PROGRAMS[name]())
        assert found is not None
        assert found.a.window is not None
        assert found.b.choices is not None
        assert found.n.axes[-1] == found.wide[-1]


def test_columns_do_not_lie_along_components_that_the_other_side_is_read_along() -> None:
    (found, *_) = contractions(PROGRAMS["times_real_read"]())
    assert [found.m.axes, found.n.axes] == [("i0", "i2"), ("i1",)]
