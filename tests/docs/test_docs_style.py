"""The glossary is complete, and texts for readers use its terms: no banned word or phrase (wording.py) stands in the README, the
documentation, the command line's help and messages, the dashboard's pages, or the package's docstrings and comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from blocks import ROOT, pages
from wording import BANNED, TERMS, Banned

from tilewright.cli.app import app

PACKAGE = ROOT / "src" / "tilewright"


def documentation() -> Iterator[tuple[str, str]]:
    """Pages without their code, which is held to its own rules."""
    for page in pages():
        text = re.sub(
            r"^```.*?^```|<!--.*?-->|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        yield page.relative_to(ROOT).as_posix(), text


def command_line_help(command: click.Command = app, path: str = "tilewright") -> Iterator[tuple[str, str]]:
    options = [p.help or "" for p in command.params if isinstance(p, click.Option)]
    yield path, "\n".join([command.help or "", *options])
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from command_line_help(below, f"{path} {name}")


def messages() -> Iterator[tuple[str, str]]:
    """Texts in the command line's code, but for docstrings."""
    for path in sorted((PACKAGE / "cli").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
        texts = [
            n.value
            for n in nodes
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docstrings
        ]
        yield path.relative_to(ROOT).as_posix(), "\n".join(texts)


def dashboard() -> Iterator[tuple[str, str]]:
    for path in sorted((PACKAGE / "dashboard" / "templates").glob("*.html")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def docstrings_and_comments() -> Iterator[tuple[str, str]]:
    """The package's docstrings, those of attributes too, without their code, and its comments."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        statements = (n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Expr))
        texts = [n.value for n in statements if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
        yield path.relative_to(ROOT).as_posix(), re.sub(r"``[^`]+``", "", " | ".join(texts))


TEXTS = (documentation, command_line_help, messages, dashboard, docstrings_and_comments)


@pytest.mark.parametrize("texts", TEXTS, ids=lambda f: f.__name__)
def test_no_banned_phrase(texts: Callable[[], Iterator[tuple[str, str]]]) -> None:
    found = [
        f"{where}: {match[0]!r}: write {banned.instead} ({banned.why})"
        for where, text in texts()
        for banned in BANNED
        for match in banned.pattern.finditer(" ".join(text.split()))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("sentence", [
    "For so many threads, where there are several", "Such a farm is open", "Such pairs are added", "These are kept",
    "Where that does not do, use --param", "Every trial that was wanted was made", "That is more than there is",
    "It is not said who signs the bundle", "None of them matters more than chance explains.", "time / ours",
    "'512' is no KEY=VALUE", "the model foresees it", "a schedule space", "sizes that calls choose",
])  # fmt: skip
def test_the_reviewed_sentences_are_refused(sentence: str) -> None:
    assert any(banned.pattern.search(sentence) for banned in BANNED)


@pytest.mark.parametrize("sentence", ["A size such as 512", "These kernels are stored", "a tile whose source is B"])
def test_plain_sentences_are_not_refused(sentence: str) -> None:
    assert not [b for b in BANNED if b.pattern.search(sentence)]


def test_every_ban_says_what_to_write_and_why() -> None:
    assert not [b for b in BANNED if not (b.instead and b.why)]
    assert len({b.words for b in BANNED}) == len(BANNED)
    assert isinstance(BANNED[0], Banned)


def test_the_glossary_has_every_term() -> None:
    entries = _glossary()
    assert set(entries) >= TERMS
    assert not [term for term, text in entries.items() if not text or len(text.split()) > 40]
    assert not [term for term in entries if term != term.lower() and term != "split-K"]


def test_links_into_the_glossary_lead_to_a_term() -> None:
    anchors = {re.sub(r"[^\w -]", "", term).lower().replace(" ", "-") for term in _glossary()}
    linked = {
        (page.name, anchor)
        for page in pages()
        for anchor in re.findall(r"glossary\.md#([\w-]+)", page.read_text(encoding="utf-8"))
    }
    assert len(linked) > 30
    assert not [link for link in linked if link[1] not in anchors]


def _glossary() -> dict[str, str]:
    text = Path(ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (.+)\n", re.sub(r"^## .*", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    return {term: " ".join(entry.split()) for term, entry in zip(parts[1::2], parts[2::2], strict=True)}
