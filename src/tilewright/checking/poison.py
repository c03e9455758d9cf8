"""Local variables of a kernel start as garbage, so that one that is read before it is set shows.

On a GPU a variable without a value holds whatever its register held; in a program for the CPU it is often
zero by chance. Each declaration without an initialiser gets a statement, on its own line, that fills it
with 0xFF bytes: NaN as a real, -1 as a whole number.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.checking.cpp_tokens import Tokens, tokenize

HEADER = (
    "static inline __attribute__((always_inline, unused)) void tw_unset(void *p, unsigned long n)"
    " { __builtin_memset(p, 0xff, n); }\n"
)
_NO_TYPES = {
    "return", "goto", "break", "continue", "using", "namespace", "typedef", "struct", "class", "union", "enum",
    "static", "extern", "else", "do", "case", "default", "template", "friend", "public", "private", "delete", "new",
}  # fmt: skip


def poisoned(source: str) -> str:
    """The text with such statements; unchanged where its structure cannot be read."""
    try:
        tokens = tokenize(source)
        _ = tokens.match  # raises where brackets do not
        inserts = [(tokens[end].end, names) for end, names in _declarations(tokens)]
    except (ValueError, IndexError):
        return source
    parts, last = [], 0
    for at, names in inserts:
        parts += [source[last:at], *(f" tw_unset(&{n}, sizeof({n}));" for n in names)]
        last = at
    return "".join([*parts, source[last:]])


def _declarations(tokens: Tokens) -> Iterator[tuple[int, list[str]]]:
    """The semicolon and the names of each declaration without initialisers in a function's body."""
    bodies: list[bool] = []
    for n, t in enumerate(tokens):
        if t.text == "{":
            bodies.append(_is_body(tokens, n, bool(bodies and bodies[-1])))
        elif t.text == "}":
            bodies.pop()
        elif t.kind == "name" and bodies and bodies[-1] and n and tokens[n - 1].text in (";", "{", "}"):
            found = _declared(tokens, n)
            if found is not None:
                yield found


def _is_body(tokens: Tokens, n: int, inside: bool) -> bool:
    before = tokens[n - 1].text if n else ""
    if before == ")":
        return True
    return inside and before in ("else", "do", ";", "{", "}", "TW_UNROLL")


def _declared(tokens: Tokens, n: int) -> tuple[int, list[str]] | None:
    """``TYPE NAME[2][3], NAME;`` from its first token: the semicolon and the names."""
    at = n
    while tokens[at].kind == "name":
        if tokens[at].text in _NO_TYPES:
            return None
        at = tokens.angle.get(at + 1, at) + 1
    if at - n < 2 or tokens[at - 1].kind != "name":
        return None
    names = [tokens[at - 1].text]
    while True:
        while tokens[at].text == "[":
            at = tokens.match[at] + 1
        if tokens[at].text == ";":
            return at, names
        if tokens[at].text != "," or tokens[at + 1].kind != "name":
            return None
        names.append(tokens[at + 1].text)
        at += 2
