"""The language of constraints and launch sizes."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from tilewright.core import UsageError
from tilewright.kernels.templates.user_kernel.expressions import NoValue, parse, parse_list

NAMES = {"BM": 32, "BN": 48, "TM": 4, "m": 100, "n": 7, "KIND": "wide", "SCALE": 0.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("BM*BN <= 1024", False),
        ("BM*BN <= 1024 or m == 100", True),
        ("not BM > BN", True),
        ("32 <= BM < 64", True),
        ("BM in (16, 32)", True),
        ("BM not in (16, 32)", False),
        ("KIND == 'wide' and SCALE < 1", True),
        ("BM % TM == 0", True),
        ("ceildiv(m, BM)", 4),
        ("roundup(m, BM)", 128),
        ("min(m, n, BM)", 7),
        ("max(m, n) - abs(-3)", 97),
        ("BM / TM", 8),
        ("BN / BM", Fraction(3, 2)),
        ("BM // 5 + -BM % 5", 9),
        ("2 ** TM", 16),
        ("BM if n > 8 else BN", 48),
        ("SCALE * 4", 2),
        ("True", True),
        ("(BM or 1) == 32 and (0 or TM) == 4 and (TM and BM) == 32 and (0 and BM) == 0", True),
        ("n - 7 or BM", 32),
        ("BM & BM - 1 == 0", True),
        ("(BM > 8) & (BN > 8) | (n > 8)", True),
        ("(TM | 3) ^ 1", 6),
    ],
)
def test_expressions_of_users_have_their_values(text: str, value: Any) -> None:
    assert parse(text, "constraint", NAMES).value(NAMES) == value


def test_lists_and_names() -> None:
    x, y = parse_list("ceildiv(n, BN), max(1, BM/TM)", "grid", NAMES)
    assert (x.names, y.names) == (("n", "BN"), ("BM", "TM"))
    assert (x.whole(NAMES), y.whole(NAMES)) == (1, 8)
    assert parse_list("3", "grid", ())[0].names == ()


def test_only_whole_numbers_launch() -> None:
    for text in (
        "BN/BM",
        "SCALE",
        "KIND",
        "BM == 32",
        "BM / (n - 7)",
        "BM % 0",
        "BM + KIND",
        "2 ** (BM * BM)",
        "BM & SCALE",
    ):
        with pytest.raises(NoValue):
            parse(text, "grid", NAMES).whole(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "", "BM,BN", "BM +", "BM < ", "__import__('os')", "BM.real", "BM[0]", "[BM for x in (1,)]", "lambda: 1", "f(BM)",
        "BM := 3", "(BM, BN)", "{1: 2}", "BM > 8 & BN > 8", "BM << 3", "1) + (BM", "~BM", "BM is 3", "min()", "ceildiv(BM)", "min(x=3)", "print(BM)",
        "BM if", "'a' 'b", "f'{BM}'", "b'x' == BM", "*BM", "yield", "BM in BN", "BM == (1, 2)", "1j", "...", "(" * 300,
        "0" + "+1" * 5000, "open('x')", "().__class__", "BM\nBN", "#",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "constraint", NAMES)
    assert caught.value.hint
    assert "\n" not in caught.value.message or "\n" in text


def test_an_unknown_name_is_recognised() -> None:
    with pytest.raises(UsageError) as caught:
        parse("BMM < 3", "constraint", NAMES)
    assert "Did you mean BM" in caught.value.hint


def test_no_text_reaches_the_interpreter() -> None:
    """Whatever is parsed either is refused or is an expression that has a value or none."""
    rng = random.Random(0)
    text = "+ - * / // % ** & | < <= == and or not ( ) , 1 7 0 if else in min ceildiv __class__ . [ ] 'x' lambda :"
    words = [*NAMES, *text.split()]
    values = 0
    for _ in range(3000):
        text = " ".join(rng.choice(words) for _ in range(rng.randint(1, 7)))
        try:
            parsed = parse(text, "constraint", NAMES)
        except UsageError:
            continue
        try:
            assert isinstance(parsed.value(NAMES), (bool, int, Fraction, str))
            values += 1
        except NoValue:
            pass
    assert values > 50
