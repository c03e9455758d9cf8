"""The mistakes that ``make mistakes`` plants can be planted."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MISTAKES = tomllib.loads((ROOT / "tests" / "mistakes.toml").read_text("utf-8"))["mistake"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m["what"])
def test_a_planted_mistake_replaces_a_text_that_stands_once_in_its_file(mistake: dict[str, str]) -> None:
    text = (ROOT / "src" / "tilewright" / mistake["file"]).read_text("utf-8")
    assert text.count(mistake["text"]) == 1
    assert mistake["text"] != mistake["mistake"]
    assert all((ROOT / test).exists() for test in mistake["tests"])


def test_there_are_thirty_mistakes() -> None:
    assert len({m["what"] for m in MISTAKES}) >= 30
