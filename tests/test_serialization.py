"""Dataclasses as JSON and back; and values from outside: the right ones come through, others are refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import Extent, Pairs
from tilewright.serialization import LONGEST, MOST, Json, JsonList, PairList, Value, decode, require_types


@dataclass(frozen=True)
class Inner:
    count: int


@dataclass(frozen=True)
class Outer:
    name: str
    size: float
    ready: bool
    share: float | None
    words: tuple[str, ...]
    inner: Inner
    more: Pairs = ()


GOOD: dict[str, Any] = {
    "name": "a b", "size": 1.5, "ready": True, "share": None, "words": ["x", "y"], "inner": {"count": 3},
    "more": {"low": -2.5, "n": 1, "on": False, "text": "é"},
}  # fmt: skip
BAD: dict[str, list[Any]] = {
    "name": [None, 1, b"a", "a\nb", "x" * (LONGEST + 1)],
    "size": [True, "1", None, -0.5, math.inf, math.nan, 1 << 61],
    "ready": [1, "yes", None],
    "share": ["1", True, -1.0, math.nan],
    "words": ["xy", None, {"x": 1}, [1], ["\x1b"], ["x"] * (MOST + 1)],
    "inner": [None, 3, {}, {"count": 1.0}, {"count": -1}, {"count": 1, "other": 2}],
    "more": [None, [], {"A": 1}, {1: 1}, {"a": None}, {"a": [1]}, {"a": -math.inf}, {f"n{i}": i for i in range(65)}],
}


def test_what_fits_comes_through() -> None:
    found = decode(Outer, GOOD)
    assert found == Outer("a b", 1.5, True, None, ("x", "y"), Inner(3), tuple(GOOD["more"].items()))
    assert decode(Outer, {n: v for n, v in GOOD.items() if n != "more"}).more == ()
    assert decode(Outer, {**GOOD, "size": 2, "share": 0.25}).share == 0.25


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_what_does_not_is_named(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        decode(Outer, {**GOOD, name: value})


@pytest.mark.parametrize("name", [f.name for f in fields(Outer) if f.name != "more"])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"lacks {name}"):
        decode(Outer, {n: v for n, v in GOOD.items() if n != name})


def test_fields_within_fields_are_named_with_their_path() -> None:
    with pytest.raises(ValueError, match=r"inner\.count"):
        decode(Outer, {**GOOD, "inner": {"count": "3"}})
    with pytest.raises(ValueError, match=r"more\.low"):
        decode(Outer, {**GOOD, "more": {"low": [1]}})


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=9)
JSON = st.recursive(PLAIN, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=9) | st.integers(), x))


@given(st.sampled_from([f.name for f in fields(Outer)]), JSON)
def test_whatever_comes_is_refused_or_of_the_right_types(name: str, value: Any) -> None:
    try:
        found = decode(Outer, {**GOOD, name: value})
    except ValueError:
        return
    assert isinstance(found.name, str)
    assert isinstance(found.size, int | float)
    assert math.isfinite(found.size)
    assert isinstance(found.ready, bool)
    assert all(isinstance(w, str) and w.isprintable() for w in found.words)
    assert isinstance(found.inner, Inner)
    assert all(isinstance(v, int | float | str) for _, v in found.more)


@dataclass(frozen=True)
class Point(JsonList, sparse=("mark",)):
    name: str
    at: tuple[int, ...]
    mark: int | None = None


@dataclass(frozen=True)
class Everything(Json, sparse=("late",)):
    number: float
    points: tuple[Point, ...]
    best: Point | None
    facts: Pairs
    steps: PairList
    ends: tuple[tuple[str, tuple[int, ...]], ...]
    late: Pairs = ()
    memo: object = field(default=None, compare=False)


WORDS = st.text(max_size=3)
PAIRS = st.dictionaries(WORDS, st.integers() | st.booleans() | WORDS).map(lambda d: tuple(d.items()))
NUMBERS = st.lists(st.integers(), max_size=3).map(tuple)
POINTS = st.builds(Point, WORDS, NUMBERS, st.none() | st.integers())
EVERYTHING = st.builds(
    Everything, st.floats(allow_nan=False), st.lists(POINTS, max_size=3).map(tuple), st.none() | POINTS, PAIRS, PAIRS,
    st.lists(st.tuples(WORDS, NUMBERS), max_size=3).map(tuple), PAIRS,
)  # fmt: skip


@given(EVERYTHING)
def test_json_and_back(value: Everything) -> None:
    text = json.dumps(value.to_json())
    back = Everything.from_json(json.loads(text))
    assert back == value
    assert json.dumps(back.to_json()) == text


def test_the_form_of_json() -> None:
    value = Everything(1.5, (Point("a", (1,)), Point("b", (), 0)), None, (("x", 1),), (("y", 2),), (("z", (3,)),))
    data = {
        "number": 1.5, "points": [["a", [1]], ["b", [], 0]], "best": None, "facts": {"x": 1}, "steps": [["y", 2]],
        "ends": [["z", [3]]],
    }  # fmt: skip
    assert value.to_json() == data
    assert Everything.from_json(data) == value
    assert replace(value, late=(("w", True),), memo=3).to_json() == {**data, "late": {"w": True}}


@pytest.mark.parametrize(
    "data", [None, 3, [], ["number"], {"number": 1.0}, {"other": 1}, {"points": [["a"]]}, {"steps": [["y", 2, 3]]}]
)
def test_nonsense_is_refused(data: Any) -> None:
    whole = {"number": 1.5, "points": [], "best": None, "facts": {}, "steps": [], "ends": []}
    with pytest.raises((KeyError, TypeError, ValueError)):
        Everything.from_json({**whole, **data} if isinstance(data, dict) and set(data) != {"number"} else data)


def test_a_list_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Point.from_json(["a", [1], 2, 3])


@dataclass(frozen=True)
class Stored:
    name: str
    sizes: tuple[int, ...]
    pair: tuple[str, float]
    values: Mapping[str, Value]
    more: Stored | None = None


RIGHT = Stored("a", (1, 2), ("b", 1), {"x": True, "y": 2, "z": 1.5, "w": "v"})


def test_what_is_of_its_types_passes() -> None:
    require_types(Stored, replace(RIGHT, more=RIGHT), "it")
    require_types(int, Extent(4, 1, "m"), "it")
    require_types(Any, object(), "it")


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"name": 1}, r"it\.name may not be int"),
        ({"name": "\0"}, r"it\.name"),
        ({"name": "\ud800"}, r"it\.name"),
        ({"sizes": [1]}, r"it\.sizes may not be list"),
        ({"sizes": (1, "2")}, r"it\.sizes may not be str"),
        ({"sizes": (1, True)}, r"it\.sizes may not be bool"),
        ({"sizes": (1 << 64,)}, r"it\.sizes may not be int"),
        ({"pair": ("b",)}, r"it\.pair may not be tuple"),
        ({"pair": ("b", "c")}, r"it\.pair may not be str"),
        ({"values": {1: 2}}, r"a name in it\.values may not be int"),
        ({"values": {"x": None}}, r"it\.values\.x may not be NoneType"),
        ({"values": None}, r"it\.values may not be NoneType"),
        ({"more": 7}, r"it\.more may not be int"),
        ({"more": replace(RIGHT, name=[])}, r"it\.more may not be Stored"),
    ],
)
def test_what_is_not_is_named_by_its_place(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        require_types(Stored, replace(RIGHT, **changed), "it")
