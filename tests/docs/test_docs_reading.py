"""The documentation is short and easy to read: Flesch's reading ease of guides, lengths of sentences, words in all.

Before it was rewritten in November 2026, the documentation had 75,258 words, and 612 sentences of more than 25 words. The
reading ease of its guides went from 65.9 (README), 68.3 (check), 69.8 (howto/primitive) and 70.1 (faq) to 92.3 (howto/page), with
a median of 78.9. The formula sees long words and sentences, and not whether a sentence names its subject:
test_docs_style.py has rules for that.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

from blocks import ROOT, pages
from prose import reading_ease, sentences, text_words

DOCS = ROOT / "docs"


def guides() -> list[Path]:
    """README, and what the landing page lists under Guides."""
    listed = (DOCS / "index.md").read_text(encoding="utf-8").partition("## Guides\n")[2].partition("## Reference\n")[0]
    return [ROOT / "README.md", *(DOCS / name for name in re.findall(r"\]\(([\w/]+\.md)\)", listed))]


def test_guides_are_easy_to_read() -> None:
    ease = {p.relative_to(ROOT).as_posix(): reading_ease(p.read_text(encoding="utf-8")) for p in guides()}
    assert len(ease) > 35
    assert median(ease.values()) >= 55
    assert not {name: value for name, value in ease.items() if value < 40}


def test_reading_ease_is_flesch_formula() -> None:
    """Two sentences of nine words and eleven syllables; headings, tables and code blocks do not count."""
    page = "# Heading\n\nThe kernel reads a tile. It stores the result.\n\n| a | table |\n\n```sh\ncode here\n```\n"
    assert sentences(page) == ["The kernel reads a tile.", "It stores the result."]
    assert abs(reading_ease(page) - (206.835 - 1.015 * 9 / 2 - 84.6 * 11 / 9)) < 1e-9


def test_no_sentence_is_longer_than_40_words() -> None:
    long = [
        f"{page.relative_to(ROOT)}: {sentence}"
        for page in pages()
        for sentence in sentences(page.read_text(encoding="utf-8"))
        if len(sentence.split()) > 40
    ]
    assert not long


def test_the_documentation_is_short() -> None:
    """Words that are read: code blocks, and comments for tests, aside."""
    words = {p.relative_to(ROOT).as_posix(): text_words(p.read_text(encoding="utf-8")) for p in pages()}
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700
    assert words["docs/index.md"] <= 350
    assert words["docs/glossary.md"] <= 900
    assert sum(words.values()) - words["README.md"] <= 36_000
