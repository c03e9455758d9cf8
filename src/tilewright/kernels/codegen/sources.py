"""The language of printed kernels: C++ restricted to the forms that Tilewright's templates print.

A farm's builders compile sources that others send, and accept only this language. They receive a kernel's own text, the
names of its symbols and a target; the builder adds the prelude and the compiler's flags. So a text needs very little of
C++. Everything that reads the builder's files or addresses the compiler is outside the language: the check is an allow
list, not a deny list. The compiler itself is confined too (``backends/confine.py``), and the runner confines a kernel
that runs (``measure/sandbox.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.errors import TilewrightError, UsageError

GPUS = ("cuda", "opencl")
"""Target kinds whose kernels are thread blocks with shared memory, written with the CUDA prelude's functions."""

LONGEST = 4 << 20
"""Characters of a source; the longest that a template prints has about a hundred thousand."""

DEEPEST = 1000
"""Largest nesting depth of brackets and conditions. Compilers recurse over them, and survive some thousands.

The deepest expression of an operator (``expression/functions.py``) prints about 400 levels, other kernels 30.
"""

_SYMBOL = re.compile(r"tw_[0-9a-z_]{1,120}")

_HINT = (
    "Farm builders compile what this version's templates print; build other kernels, your own among them, on the client"
)

# Each of these characters may spell, join or hide text that the other rules look for. A backslash continues a line,
# escapes and names characters; the rest are comments across lines, trigraphs and digraphs.
_SPELLINGS = re.compile(r"[^\n -~]|[\\$@`]|/\*|\?\?|<[:%]|[:%]>|%:")

_CONDITIONS = {
    "cpu": r"#if defined\(__(?:clang|AVX|AVX2|AVX512F|SSE2)__\)|#elif __GNUC__ >= [0-9]{1,3}|#else|#endif",
    "cuda": r"(?!)",
}
_SPECIAL = {
    "cuda": r'__restrict__\b|__builtin_inff?\b|__builtin_nanf?\(""\)',
    # The only assembly is an opaque copy, without instructions.
    "cpu": r'__asm__\("":"\+r"\([A-Za-z]\w*\)\)|__attribute__\(\(vector_size\([0-9]{1,4}\)\)\)|__bf16\b'
    r"|__builtin_(?:memcpy|memset|prefetch|shufflevector|ia32_[a-z0-9_]+)\b",
}
_SPECIAL["cpu"] += f"|{_SPECIAL['cuda']}"
"""Implementation-reserved names that may occur, with the strings that belong to them."""

_REFUSED = {
    "directive": (r"(?:^ *)?#.*", "is not a directive that templates print"),
    "attribute": (r"__attribute__\b", "stands in a form that templates do not print"),
    # Reserved names, assembly, files read without a directive, and names from outside the text.
    "name": (r"_[_A-Z]\w*|(?:asm|import|export|module|extern)\b", "may not occur"),
    "literal": (r"[\"'].*", "may not occur"),
}
"""Directives, names and literals outside the allowed forms: the pattern and the reason, by the rule that they break."""


_PLAIN = (
    r"(?![ \n])(?:(?!(?:asm|import|export|module|extern)\b)[A-Za-z]\w*|[0-9][0-9A-Za-z.]*"
    r"|[^\w\n()\[\]{}#\"'/]+|/(?!/)|\n(?! *#))+"
)
"""Text that no rule concerns: most of a source, matched in long runs. A run ends before a line with a directive.

Not possessive (``++``): before 3.11.5, Python lets a possessive group run past text that its lookaheads forbid (CPython
issue 106052).
"""


def _pieces(kind: str) -> re.Pattern[str]:
    """Pattern of a source's tokens: at each place the first alternative that matches."""
    forms = {
        "plain": _PLAIN,
        "comment": r"//.*",
        # Whole lines. ``#line`` names a file that does not exist; it renumbers lines in diagnostics.
        "line": r'^#line [0-9]{1,6} "kernel" *(?=//|$)',
        "condition": rf"^(?:{_CONDITIONS[kind]}) *(?=//|$)",
        "special": _SPECIAL[kind],
        **{rule: form for rule, (form, _) in _REFUSED.items()},
        "word": r"[A-Za-z_]\w*|\.?[0-9][0-9A-Za-z.]*",
        "mark": r"\S",
    }
    return re.compile("|".join(f"(?P<{name}>{form})" for name, form in forms.items()), re.MULTILINE | re.ASCII)


_HOST, _DEVICE = _pieces("cpu"), _pieces("cuda")
_PIECES = {"cpu": _HOST, **dict.fromkeys(GPUS, _DEVICE)}

_OPENING = ("(", "[", "{", "#if", "#elif", "#else")
_CLOSING = {
    ")": ("(",), "]": ("[",), "}": ("{",), "#elif": ("#if", "#elif"), "#else": ("#if", "#elif"),
    "#endif": ("#if", "#elif", "#else"),
}  # fmt: skip
"""The openings that each closing token ends. Branches of conditions close like brackets, with all that they opened."""


class SourceRefused(TilewrightError):
    """A source that a farm's builder refuses: the ``line`` (from 1; 0: the whole source) and the ``rule`` that it
    breaks.

    Rules: ``size``, ``symbol``, ``spelling``, ``directive``, ``literal``, ``name``, ``attribute``, ``brackets``,
    ``nesting``.
    """

    kind = "source"

    def __init__(self, line: int, rule: str, what: str) -> None:
        at = f", line {line}" if line else ""
        super().__init__(f"kernel source refused{at}: {what} (rule: {rule})", _HINT)
        self.line = line
        self.rule = rule


def check_source(text: str, symbols: Iterable[str], kind: str) -> None:
    """Checks a kernel's source, without a prelude, before a builder compiles it.

    ``symbols``: names that the library must export. ``kind``: the target's kind. A text that passes closes every
    bracket, comment and condition that it opens, so text placed behind it keeps its meaning. Raises ``SourceRefused``,
    and ``UsageError`` for an unknown kind.
    """
    if kind not in _PIECES:
        raise UsageError(f"builders compile nothing of kind {kind!r}", "Use cpu or cuda")
    for symbol in symbols:
        if not _SYMBOL.fullmatch(symbol):
            raise SourceRefused(0, "symbol", f"{_shown(symbol)} is not a kernel's symbol")
    if len(text) > LONGEST:
        raise SourceRefused(0, "size", f"it has {len(text)} characters, and the most is {LONGEST}")

    def refused(at: int, rule: str, what: str) -> SourceRefused:
        return SourceRefused(text.count("\n", 0, at) + 1, rule, what)

    if odd := _SPELLINGS.search(text):
        raise refused(odd.start(), "spelling", f"{_shown(odd[0])} may not occur")
    opened: list[tuple[str, int]] = []
    before = ""
    for piece in _PIECES[kind].finditer(text):
        at, name, words = piece.start(), piece.lastgroup or "", piece[0]
        if name in _REFUSED:
            raise refused(at, name, f"{_shown(words)} {_REFUSED[name][1]}")
        if name in ("comment", "line"):
            continue
        if name in ("plain", "word"):
            before = words
            continue
        word = words.split(" ")[0]
        if word in _CLOSING:
            if not opened or opened[-1][0] not in _CLOSING[word]:
                raise refused(at, "brackets", f"{word} closes nothing")
            opened.pop()
        if word in _OPENING:
            if len(opened) == DEEPEST:
                column = at - text.rfind("\n", 0, at)
                raise refused(at, "nesting", f"{word} at column {column} is nested over the limit of {DEEPEST}")
            opened.append((word, at))
        if word == before == "[":
            raise refused(at, "attribute", "[[ may not occur")
        before = before if name == "condition" else word
    if opened:
        word, at = opened[-1]
        raise refused(at, "brackets", f"{word} is never closed")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
