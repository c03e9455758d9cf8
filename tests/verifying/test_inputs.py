from __future__ import annotations

import numpy as np
import pytest

from tilewright.kernels.expression.numerics import to_bfloat16
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.verifying.inputs import RECIPES, Recipe, make_input, make_inputs


def test_inputs_depend_on_recipe_and_position_alone() -> None:
    p = Program((Tensor("x0", (50, 4), "float32"), Tensor("x1", (50, 4), "float32")), ())
    a, b = make_inputs(p, RECIPES[0], {})
    again, _ = make_inputs(p, RECIPES[0], {})
    other, _ = make_inputs(p, RECIPES[1], {})
    assert np.array_equal(a, again)
    assert not np.array_equal(a, b)
    assert not np.array_equal(a, other)


def test_normal_inputs_are_never_trivial() -> None:
    values = make_input(Tensor("x0", (4000,), "float32"), 0, RECIPES[0], {})
    assert (values != 0).all()
    assert 0.9 < values.std() < 1.1
    assert abs(values.mean()) < 0.1


def test_whole_inputs_reach_both_ends() -> None:
    values = make_input(Tensor("x0", (4000,), "float32"), 0, Recipe("whole", 2, "odd", 3), {})
    assert set(np.unique(values)) == {-3, -2, -1, 0, 1, 2, 3}


def test_indices_stay_within_their_bounds() -> None:
    values = make_input(Tensor("x0", (4000,), "int32"), 0, RECIPES[0], {"x0": 5})
    assert values.dtype == np.int32
    assert set(np.unique(values)) == set(range(5))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint8", "int64", "bool"])
def test_inputs_of_every_dtype_are_drawn(dtype: str) -> None:
    for recipe in RECIPES:
        values = make_input(Tensor("x0", (6, 7), dtype), 0, recipe, {})
        assert values.dtype == np.dtype(dtype)
        assert values.shape == (6, 7)
        assert len(np.unique(values)) > 1


def test_bfloat16_rounds_to_nearest_even() -> None:
    ulp = 2.0**-7
    given = np.array([1.0, 1 + ulp / 4, 1 + ulp / 2, 1 + 1.5 * ulp, 1 + 0.75 * ulp, -2.5], np.float32)
    back = (to_bfloat16(given).astype(np.uint32) << 16).view(np.float32)
    assert list(back) == [1.0, 1.0, 1.0, 1 + 2 * ulp, 1 + ulp, -2.5]


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.0), (100.0, 200.0), (-0.25, 0.0), (0.0, None), (None, -20.0)])
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: r.name)
def test_a_range_of_values_holds_in_every_set(recipe: Recipe, low: float | None, high: float | None) -> None:
    values = make_input(Tensor("x0", (4000,), "float32", low=low, high=high), 0, recipe, {})
    assert low is None or (values >= np.float32(low)).all()
    assert high is None or (values <= np.float32(high)).all()
    assert len(np.unique(values)) > 1
    if recipe.kind == "whole":
        steps = values * 2**10
        assert (steps == np.rint(steps)).all()


def test_whole_numbers_with_a_range_take_all_of_it() -> None:
    tensor = Tensor("x0", (4000,), "int32", low=-3, high=60)
    normal, *_, whole = (make_input(tensor, 0, r, {}, full=True) for r in RECIPES)
    assert set(np.unique(normal)) == set(range(-3, 61))
    assert set(np.unique(whole)) == {-1, 0, 1}
