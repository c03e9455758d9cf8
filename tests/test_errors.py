"""Suggestions for what was mistyped."""

from __future__ import annotations

import pytest

from tilewright.errors import nearest


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("sqdits", ["matmul", "sqdist"], "Did you mean sqdist? "),
        ("c", ["n", "ci", "co", "h"], "Did you mean ci or co? "),
        ("tnue", ["tune", "best", "tune"], "Did you mean tune? "),
        ("zzz", ["tune", "best"], ""),
        ("a", [], ""),
    ],
)
def test_all_that_are_equally_close_are_named(name: str, known: list[str], said: str) -> None:
    assert nearest(name, known) == said
