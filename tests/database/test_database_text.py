from __future__ import annotations

import io
import string
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tilewright.database.text import safe_text, visible_text

STEADY = settings(deadline=None, derandomize=True, database=None)
TRICKY = st.text(alphabet=st.sampled_from("[]\\/@#ab =:x\x1b\n"), max_size=20)


def printed(markup: str) -> str:
    out = io.StringIO()
    Console(file=out, width=10_000, emoji=False, highlight=False, color_system="truecolor", force_terminal=True).print(
        markup, end="", soft_wrap=True
    )
    return out.getvalue()


@STEADY
@given(st.text() | TRICKY)
@example("[bold red]x[/]")
@example("[/]")
@example("\\[b]")
@example("ends with \\")
def test_rich_prints_it_as_it_stands(text: str) -> None:
    shown = printed(safe_text(text))
    assert "\x1b" not in shown
    assert shown.replace(r"\x5c", "\\") == visible_text(text).replace(r"\x5c", "\\")


@STEADY
@given(TRICKY, TRICKY)
def test_two_texts_within_markup_stay_apart_from_it(a: str, b: str) -> None:
    shown = printed(f"[bold]-{safe_text(a)}[/bold]-{safe_text(b)}]").replace(r"\x5c", "\\")
    a, b = (visible_text(t).replace(r"\x5c", "\\") for t in (a, b))
    assert shown == f"\x1b[1m-{a}\x1b[0m-{b}]"


@STEADY
@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    shown = visible_text(text)
    assert not set(shown) & set(map(chr, [*range(32), *range(127, 160), 0x2028, 0x202E, 0x200B]))
    assert shown.splitlines() in ([], [shown])
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢 = [0, 1]", "plain é 漢 = [0, 1]"),
        ("a\nb\tc\x1b[2J", "a\\x0ab\\x09c\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("left\u202eright\u200b\ud800\U000e0001", "left\\u202eright\\u200b\\ud800\\U000e0001"),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_controls_are_spelled_out(text: object, shown: str) -> None:
    assert visible_text(text) == shown


def test_printable_ascii_stays() -> None:
    text = string.ascii_letters + string.digits + string.punctuation
    assert visible_text(text) == text


def test_reading_text_needs_no_sqlalchemy() -> None:
    script = (
        "import sys; from tilewright.database import safe_text, StoredKernel; import tilewright.paths\n"
        "print('sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
