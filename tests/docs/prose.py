"""The running text of a page, its sentences, and how easy it is to read.

The measure is Flesch's reading ease as textstat 0.7.4 has it: 206.835 - 1.015 words a sentence - 84.6 syllables a word,
syllables by pyphen's hyphenation (textstat rounds both averages to a tenth, which moves its figure by up to 4). Textstat
itself is not used: version 0.7.4 imports ``pkg_resources``, which warns and which new environments lack; later versions
download a dictionary.
"""

from __future__ import annotations

import re

from pyphen import Pyphen

HYPHENS = Pyphen(lang="en_US")


def prose(markdown: str) -> str:
    """A page's sentences, without headings, tables, code blocks, comments and pictures; inline code is one word."""
    text = re.sub(r"\A---\n.*?\n---\n|<!--.*?-->", "", markdown, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?::::|\||#|\s*<).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)(\{[^}]*\})?", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``?[^`]+``?", "code", text)
    text = re.sub(r"[*_]{1,2}([^*_]+)[*_]{1,2}", r"\1", text)
    blocks = (" ".join(b.split()) for b in re.split(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. )", text))
    items = (re.sub(r"^(?:[-*]|\d+\.) ", "", b) for b in blocks)
    return "\n".join(i if i[-1] in ".!?" else i.rstrip(":;,") + "." for i in items if i)


def sentences(markdown: str) -> list[str]:
    return [s for s in re.split(r"(?<=[.!?])\s+", prose(markdown)) if s]


def reading_ease(markdown: str) -> float:
    """Flesch's reading ease of a page: 100 is very easy, 30 is hard."""
    text = prose(markdown)
    words = _words(text)
    # Textstat counts no sentence of one or two words.
    count = sum(len(_words(s)) > 2 for s in re.findall(r"\b[^.!?]+[.!?]*", text))
    syllables = sum(len(HYPHENS.positions(w)) + 1 for w in words)
    return 206.835 - 1.015 * len(words) / max(1, count) - 84.6 * syllables / max(1, len(words))


def _words(text: str) -> list[str]:
    return re.sub(r"[^\w\s]", "", text.lower()).split()


def text_words(markdown: str) -> int:
    """Words that are read: all but code blocks and comments."""
    return len(re.sub(r"<!--.*?-->|^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE).split())
