"""Integer expressions of launch arguments as C++: the text has the expression's value, whatever stands within what."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import IntExpr, evaluate
from tilewright.kernels.codegen.integers import long_text

NAMES = {"a": 3, "b": 17, "c": 40}


def expressions() -> st.SearchStrategy[IntExpr]:
    leaf: st.SearchStrategy[IntExpr] = st.one_of(st.sampled_from(sorted(NAMES)), st.integers(1, 9))

    def grown(inner: st.SearchStrategy[IntExpr]) -> st.SearchStrategy[IntExpr]:
        several = st.tuples(st.sampled_from(["+", "*", "min", "max"]), inner, inner)
        divided = st.tuples(st.sampled_from(["//", "ceildiv", "roundup"]), inner, st.integers(1, 9))
        return st.one_of(several, divided).map(list)

    return st.recursive(leaf, grown, max_leaves=8)


@given(expressions())
def test_the_text_of_a_long_has_the_value_of_the_expression(e: IntExpr) -> None:
    text = long_text(e, {name: name for name in NAMES})
    python = re.sub(r"(\d)L\b", r"\1", text).replace("tw::imin", "min").replace("tw::imax", "max").replace("/", "//")
    assert eval(python, dict(NAMES)) == evaluate(e, NAMES), text
