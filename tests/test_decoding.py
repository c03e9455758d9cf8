"""Plain values into dataclasses: the right ones come through, others are refused with the field's name."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import Pairs
from tilewright.decoding import LONGEST, MOST, decode


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
