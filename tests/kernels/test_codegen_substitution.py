"""Substitution of placeholders in kernel text."""

from __future__ import annotations

import pytest

from tilewright.kernels.codegen.substitution import substitute

TEXT = """\
void $name(int *x) {
$if padded: x += ${width}L;
$unless padded: (void)x;
$body
}"""


def test_placeholders_conditions_and_lines_are_substituted() -> None:
    text = substitute(TEXT, {"name": "f", "padded": True, "width": 4, "body": [" a;", " b;"]})
    assert text == "void f(int *x) {\n x += 4L;\n a;\n b;\n}"


def test_a_line_that_is_left_out_needs_no_values_and_an_empty_value_leaves_no_line() -> None:
    assert substitute(TEXT, {"name": "f", "padded": False, "body": []}) == "void f(int *x) {\n (void)x;\n}"


def test_placeholders_in_a_value_are_not_substituted() -> None:
    assert substitute("$a $b", {"a": "$b", "b": 1}) == "$b 1"


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="name"):
        substitute("$name", {})
    with pytest.raises(KeyError, match="padded"):
        substitute("$if padded: x", {})
