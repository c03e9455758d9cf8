"""Kernel text with holes."""

from __future__ import annotations

import pytest

from tilewright.kernels.codegen.holes import fill

TEXT = """\
void $name(int *x) {
$if padded: x += ${width}L;
$unless padded: (void)x;
$body
}"""


def test_holes_conditions_and_lines() -> None:
    filled = fill(TEXT, {"name": "f", "padded": True, "width": 4, "body": [" a;", " b;"]})
    assert filled == "void f(int *x) {\n x += 4L;\n a;\n b;\n}"


def test_a_line_that_is_not_there_needs_no_values_and_no_lines_are_no_line() -> None:
    assert fill(TEXT, {"name": "f", "padded": False, "body": []}) == "void f(int *x) {\n (void)x;\n}"


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    assert fill("$a $b", {"a": "$b", "b": 1}) == "$b 1"


def test_a_hole_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="name"):
        fill("$name", {})
    with pytest.raises(KeyError, match="padded"):
        fill("$if padded: x", {})
