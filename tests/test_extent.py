"""Sizes that each call chooses, as numbers, as texts and as parts of shapes."""

from __future__ import annotations

import copy
import pickle

import pytest

from tilewright.core import Extent, TensorSpec
from tilewright.extent import params_at, read_size, size_in, span_of, spread, write_size


def test_it_is_its_greatest_size() -> None:
    m = Extent(300, 17, "m")
    assert (m, m + 1, f"{m}", m.high, m.low) == (300, 301, "300", 300, 17)
    assert repr(m) == "m=17..300"
    assert m.argument == "extent_m"
    assert [m.takes(n) for n in (16, 17, 300, 301)] == [False, True, True, False]


def test_a_multiple_is_an_extent_and_all_else_a_number() -> None:
    m = Extent(300, 17, "m")
    rows = m * 4
    assert isinstance(rows, Extent)
    assert (rows, rows.high, rows.unit, rows.text("n")) == (1200, 300, 4, "(n * 4L)")
    assert isinstance(5 * rows, Extent)
    for plain in (m + 1, m // 2, m - 1, -m, m * 0, 7 % m):
        assert type(plain) is int


@pytest.mark.parametrize("extent", [Extent(300, 17, "m"), Extent(300, 17, "m", 4)])
def test_copies_and_texts_are_the_same(extent: Extent) -> None:
    for again in (copy.deepcopy(extent), pickle.loads(pickle.dumps(extent)), read_size(write_size(extent))):
        assert isinstance(again, Extent)
        assert repr(again) == repr(extent)


def test_json_of_a_tensor_holds_its_range() -> None:
    spec = TensorSpec("a", (Extent(300, 17, "m"), 8), "float32")
    data = spec.to_json()
    assert data == ["a", ["m=17..300", 8], "float32"]
    assert repr(TensorSpec.from_json(data).shape) == "(m=17..300, 8)"
    assert spec.at(20).shape == (20, 8)
    with pytest.raises(ValueError, match="no size"):
        TensorSpec.from_json(["a", ["m=seventeen"], "float32"])


@pytest.mark.parametrize("text", ["1..4096", " 1 .. 4096 "])
def test_texts_that_are_ranges(text: str) -> None:
    assert span_of(text) == (1, 4096)


@pytest.mark.parametrize("text", ["1...4", "..4", "1..", "a..b", "-1..4", "1..2..3", 7, None])
def test_texts_that_are_none(text: object) -> None:
    assert span_of(text) is None


def test_parameters_for_one_size_and_back() -> None:
    whole, part = Extent(64, 1, "m"), Extent(64, 1, "shape")
    assert params_at({"m": "1..64", "n": 3}, whole, 7) == {"m": 7, "n": 3}
    assert params_at({"shape": "1..64,100"}, part, 7) == {"shape": "7,100"}
    assert [size_in({"m": "1..64"}, whole, given) for given in (7, "7", 65, "x", None)] == [7, 7, None, None, None]
    given = ("7,100", "7,101", "65,100", "7", ",100")
    assert [size_in({"shape": "1..64,100"}, part, g) for g in given] == [7, None, None, None, None]


def test_sizes_between_two_are_spread_by_their_logarithm() -> None:
    assert spread(1, 4096, 7) == [1, 4, 16, 64, 256, 1024, 4096]
    assert spread(5, 6, 9) == [5, 6]
