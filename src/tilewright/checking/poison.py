"""Fills local variables of a kernel with garbage, so that reads before the first write become visible.

On a GPU an uninitialised variable has its register's last value; in a program for the CPU it is often
zero by chance. Each declaration without an initialiser gets a statement, on its own line, that fills the variable
with 0xFF bytes: NaN as a real, -1 as a whole number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilewright.kernels.templates.user_kernel.conditions import edited
from tilewright.kernels.templates.user_kernel.source import Tokens

HEADER = (
    "static inline __attribute__((always_inline, unused)) void tw_unset(void *p, unsigned long n)"
    " { __builtin_memset(p, 0xff, n); }\n"
)
_NO_TYPES = {
    "return", "goto", "break", "continue", "using", "namespace", "typedef", "struct", "class", "union", "enum",
    "static", "extern", "else", "do", "case", "default", "template", "friend", "public", "private", "delete", "new",
}  # fmt: skip
_TEMPLATE = re.compile(r"\btemplate\b[^(){};]*\b(\w+)\s*\{")
"""A type that the text declares as a template; library types have constructors, which initialise them."""


def poisoned(source: str) -> str:
    """The source with these statements; unchanged if its structure cannot be parsed."""
    tokens = Tokens(source)
    if any(word in "()[]{}" and n not in tokens.pairs for n, word in enumerate(tokens.words)):
        return source
    edits = []
    for semicolon, names in _declarations(tokens):
        at = tokens.ends[semicolon]
        edits.append((at, at, "".join(f" tw_unset(&{n}, sizeof({n}));" for n in names)))
    return edited(source, edits)


def _declarations(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """Semicolon and names of each declaration without initialisers in a function's body."""
    words = tokens.words
    templates = {"pack", *_TEMPLATE.findall(tokens.plain)}
    bodies: list[bool] = []
    for n, word in enumerate(words):
        if word == "{":
            bodies.append(_is_body(words, n, bool(bodies and bodies[-1])))
        elif word == "}":
            bodies.pop()
        elif bodies and bodies[-1] and words[n - 1] in (";", "{", "}"):
            found = _declared(tokens, n, templates)
            if found is not None:
                yield found


def _is_body(words: Sequence[str], n: int, inside: bool) -> bool:
    before = words[n - 1] if n else ""
    if before == ")":
        return True
    return inside and before in ("else", "do", ";", "{", "}", "TW_UNROLL")


def _declared(tokens: Tokens, n: int, templates: set[str]) -> tuple[int, list[str]] | None:
    """Parse ``TYPE NAME[2][3], NAME;`` from its first token, in a function's body: the semicolon and the names."""
    words, at = tokens.words, n
    while words[at].isidentifier() or words[at] == "::":
        if words[at] in _NO_TYPES:
            return None
        at = _past_arguments(words, at + 1) if words[at] in templates else at + 1
    if at - n < 2 or not words[at - 1].isidentifier() or words[at - 2] == "::":
        return None
    names = [words[at - 1]]
    while True:
        while words[at] == "[":
            at = tokens.pairs[at] + 1
        if words[at] == ";":
            return at, names
        if words[at] != "," or not words[at + 1].isidentifier():
            return None
        names.append(words[at + 1])
        at += 2


def _past_arguments(words: Sequence[str], n: int) -> int:
    """Index of the token after a template's arguments that begin at ``n``; ``n`` if no arguments begin there."""
    depth, at = 0, n
    while words[at] not in (";", "{", "}"):
        depth += {"<": 1, ">": -1}.get(words[at], 0)
        if depth <= 0:
            return at + 1 if at > n else n
        at += 1
    return n
