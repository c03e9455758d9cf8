"""Sizes that each call chooses, as numbers, as texts and as parts of shapes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from tilewright.core import Extent, TensorSpec
from tilewright.extent import (
    Undecided,
    bounds,
    ctext,
    divides,
    for_every_size,
    larger,
    read_size,
    replaced,
    simplified_extent,
    smaller,
    values_at,
    write_size,
)
from tilewright.size_ranges import params_at, params_within, sizes_in, sizes_of, span_of, spread


def test_an_extent_is_its_greatest_size() -> None:
    m = Extent(300, 17, "m")
    assert (int(m), int(m + 1), f"{m}", m.high, m.low) == (300, 301, "300", 300, 17)
    assert m > 299
    assert repr(m) == "m=17..300"
    assert m.argument == "extent_m"
    assert [m.takes(n) for n in (16, 17, 300, 301)] == [False, True, True, False]


def test_an_extent_equals_the_same_expression_and_no_number() -> None:
    m, n = Extent(300, 17, "m"), Extent(300, 17, "n")
    assert m * 2 + 3 == 3 + m + m
    assert (m * 2 + 3 - m) // 1 == m + 3
    for other in (300, n, m + 1, Extent(300, 16, "m")):
        assert m != other


def test_a_multiple_of_a_size_has_a_unit() -> None:
    rows = Extent(300, 17, "m") * 4
    assert isinstance(rows, Extent)
    assert (int(rows), rows.high, rows.unit, rows.text("n")) == (1200, 300, 4, "(n * 4L)")
    assert isinstance(5 * rows, Extent)
    assert rows // 4 == Extent(300, 17, "m")


W, H = Extent(64, 3, "w"), Extent(32, 1, "h")
EXPRESSIONS: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "a convolution's output": ((W + 2 * 1 - 3) // 2 + 1, lambda w, h: (w + 2 * 1 - 3) // 2 + 1),
    "a stride over two axes": (W * 8 * H, lambda w, h: w * 8 * h),
    "rounded up": (-(-W // 2), lambda w, h: -(-w // 2)),
    "halved twice": (((W + 1) // 2 + 1) // 2, lambda w, h: ((w + 1) // 2 + 1) // 2),
    "a number less a size": (100 - W, lambda w, h: 100 - w),
    "two sizes": (3 * W - H + 5, lambda w, h: 3 * w - h + 5),
    "a product of quotients": ((W // 2) * (H // 3 + 1), lambda w, h: (w // 2) * (h // 3 + 1)),
    "a common factor": ((6 * W + 4) // 4, lambda w, h: (6 * w + 4) // 4),
}


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_an_expression_of_sizes_is_that_number_at_every_size(what: str) -> None:
    extent, same = EXPRESSIONS[what]
    assert isinstance(extent, Extent)
    assert read_size(write_size(extent)) == extent
    c = ctext(extent).replace("L", "").replace("/", "//").replace("extent_", "")
    values = []
    for w in range(3, 65):
        for h in (1, 2, 7, 31, 32):
            values.append(same(w, h))
            assert extent.at({"w": w, "h": h}) == eval(c, {"w": w, "h": h}) == values[-1]
    assert (extent.least, int(extent)) == (min(values), max(values))
    fixed = extent.within({"w": (7, 7)})
    assert (fixed.at({"h": 5}) if isinstance(fixed, Extent) else fixed) == same(7, 5)


def test_a_quotient_of_a_quotient_is_one() -> None:
    assert W // 2 // 2 == W // 4
    assert (2 * W + 1) // 4 == W // 2
    assert W - W == 0
    assert type(W - W) is int


def test_a_remainder_is_known_where_it_is_the_same_at_every_size() -> None:
    assert [(4 * W + 3) % 4, 4 * W % 4, W % 1] == [3, 0, 0]
    assert (2 * W) % 4 > 0


@pytest.mark.parametrize(
    ("extents", "shape", "sizes"),
    [
        ((H, W * 2, 3), (4, 20, 3), {"h": 4, "w": 10}),
        ((H * W, W), (40, 20), {"h": 2, "w": 20}),
        ((H + 2, W - 1), (5, 20), {"h": 3, "w": 21}),
        ((H, W * 2), (4, 21), None),
        ((H, H, W), (4, 5, 20), None),
        ((H, W), (4, 65), None),
        ((H, W // 2), (4, 5), None),
        ((H, W, 3), (4, 5, 2), None),
        ((H, W), (4,), None),
    ],
)
def test_shapes_tell_the_sizes(extents: tuple[int, ...], shape: tuple[int, ...], sizes: dict[str, int] | None) -> None:
    assert sizes_of([(extents, shape)]) == sizes


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
    assert spec.at({"m": 20}).shape == (20, 8)
    with pytest.raises(ValueError, match="not a size"):
        TensorSpec.from_json(["a", ["m=seventeen"], "float32"])


@pytest.mark.parametrize("text", ["1..4096", " 1 .. 4096 "])
def test_texts_that_are_ranges(text: str) -> None:
    assert span_of(text) == (1, 4096)


@pytest.mark.parametrize("text", ["1...4", "..4", "1..", "a..b", "-1..4", "1..2..3", 7, None])
def test_texts_that_are_none(text: object) -> None:
    assert span_of(text) is None


def test_parameters_for_sizes_and_back() -> None:
    assert params_at({"m": "1..64", "n": 3}, {"m": 7}) == {"m": 7, "n": 3}
    assert params_at({"shape": "1..64,100"}, {"shape": 7}) == {"shape": "7,100"}
    assert params_at({"shape": "1..64,3,2..9"}, {"shape": 7, "shape_2": 8}) == {"shape": "7,3,8"}
    found = [sizes_in({"m": "1..64"}, {"m": given}) for given in (7, "7", 65, "x", None)]
    assert found == [{"m": 7}, {"m": 7}, None, None, None]
    given = ("7,100", "7,101", "65,100", "7", ",100")
    assert [sizes_in({"shape": "1..64,100"}, {"shape": g}) for g in given] == [{"shape": 7}, None, None, None, None]
    both = {"m": "1..64", "shape": "2,5..6,1..3"}
    assert sizes_in(both, {"m": 3, "shape": "2,5,3"}) == {"m": 3, "shape_1": 5, "shape_2": 3}
    assert sizes_in(both, {"m": 3, "shape": "1,5,3"}) is None
    assert params_within(both, {"m": (2, 9), "shape_1": (5, 5)}) == {"m": "2..9", "shape": "2,5,1..3"}


def test_sizes_between_two_are_spread_by_their_logarithm() -> None:
    assert spread(1, 4096, 7) == [1, 4, 16, 64, 256, 1024, 4096]
    assert spread(5, 6, 9) == [5, 6]


def test_questions_hold_for_every_size_or_are_not_answered() -> None:
    with for_every_size():
        assert W >= 3
        assert not W < 3
        assert W + 1 > W
        assert max(W * 2, W) == W * 2
        assert bool(W)
        for question in (
            lambda: W > 3, lambda: W > 10, lambda: min(W, 10), lambda: int(W), lambda: bool(W - 3), lambda: W // H,
            lambda: W % 2, lambda: W < H,
        ):  # fmt: skip
            with pytest.raises(Undecided):
                question()
    assert W > 3
    assert int(W) == 64


def test_a_remainder_is_bounded_by_trying_every_size() -> None:
    with for_every_size():
        assert W - 2 * (W // 2) < 2
    assert bounds(W - 2 * (W // 2), exactly=True) == (0, 1)
    low, high = bounds(W - W // 2)
    assert low <= 2
    assert high >= 32


def test_a_product_is_divided_by_what_it_is_made_of() -> None:
    half = (W + 1) // 2
    assert (W * H * 768) // (W * 12) == H * 64
    assert ((W - 2) * H * 64) // (W - 2) == H * 64
    assert (half * H) // half == H
    assert divides(W * 4, W * H * 8)
    assert not divides(W * 3, W * H * 8)
    assert not divides(W + 1, W)


def test_the_smaller_and_the_larger_are_the_same_for_every_size() -> None:
    assert smaller(W, 64) == W
    assert larger(3, W) == W
    assert smaller(W // 2, W) == W // 2
    assert (smaller(2, 5), larger(2, 5)) == (2, 5)
    with pytest.raises(Undecided):
        smaller(W, 63)


def test_an_expression_that_is_the_same_at_every_size_is_that_number() -> None:
    n = Extent(224, 193, "n")
    assert (simplified_extent((n + 31) // 32), simplified_extent((n + 31) // 32 - 6)) == (7, 1)
    assert simplified_extent((n + 32) // 32) == (n + 32) // 32
    assert simplified_extent(5) == 5


def test_expressions_of_other_sizes_take_their_place() -> None:
    rows = Extent(128, 1, "n0")
    assert replaced(rows * 4 + 1, {"n0": W * 2}) == W * 8 + 1
    assert replaced(rows * 4 + 1, {"n0": 3}) == 13
    assert values_at({"shape": [W, 2, (H,)], "dim": 0}, {"w": 5, "h": 7}) == {"shape": [5, 2, (7,)], "dim": 0}
