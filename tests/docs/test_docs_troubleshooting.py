"""Every message of docs/troubleshooting.md is one that the program prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^### `(.+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
HOLE = "..."


def texts(path: Path) -> Iterator[str]:
    """The texts of a file of Python, with ``...`` for what is filled in."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else HOLE for v in node.values)


@pytest.fixture(scope="module")
def printed() -> str:
    return "\n".join(t for path in (ROOT / "src" / "tilewright").rglob("*.py") for t in texts(path))


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_of_the_page_is_printed(message: str, printed: str) -> None:
    """As it stands there, between what is filled in at its ends."""
    fixed = message.removeprefix(HOLE).removesuffix(HOLE).strip()
    assert len(fixed) > 8, "too short to be found by"
    assert fixed in printed


def test_there_are_some_and_each_once() -> None:
    assert len(MESSAGES) > 30
    assert len(set(MESSAGES)) == len(MESSAGES)
    headings = re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [f"`{m}`" for m in MESSAGES] == headings
