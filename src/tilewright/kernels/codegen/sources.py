"""The language of printed kernels: C++ in the words that Tilewright's templates print, nothing else.

A farm's builders compile what others send, and accept nothing beyond it. They get a kernel's own text, the names of its
symbols and a target; the prelude and the compiler's flags are the builder's. So a text needs very little of the
language, and everything that reads the builder's files or speaks to the compiler is outside of it: a list of what is
allowed decides, not one of what is known to be bad. The compiler itself is confined too (``backends/confine.py``),
and what a kernel does when it runs is the runner's to bound (``measure/sandbox.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.errors import TilewrightError, UsageError

GPUS = ("cuda", "opencl")
"""Target kinds whose kernels are blocks of threads with shared memory, in the words of the CUDA prelude."""

LONGEST = 4 << 20
"""Characters of a source; the longest that a template prints has about a hundred thousand."""

DEEPEST = 1000
"""Brackets and conditions within each other: compilers recurse over them, and bear some thousands. The deepest
expression that an operator may have (``expression/functions.py``) prints about 400, other kernels 30."""

_SYMBOL = re.compile(r"tw_[0-9a-z_]{1,120}")

_HINT = (
    "Farm builders compile what this version's templates print; build other kernels, your own among them, on the client"
)

# Each may spell, join or hide what the other rules look for. A backslash continues a line, escapes and names
# characters; the rest are comments across lines, trigraphs and digraphs.
_SPELLINGS = re.compile(r"[^\n -~]|[\\$@`]|/\*|\?\?|<[:%]|[:%]>|%:")

_CONDITIONS = {
    "cpu": r"#if defined\(__(?:clang|AVX|AVX2|AVX512F|SSE2)__\)|#elif __GNUC__ >= [0-9]{1,3}|#else|#endif",
    "cuda": r"(?!)",
}
_SPECIAL = {
    "cuda": r'__restrict__\b|__builtin_inff?\b|__builtin_nanf?\(""\)',
    # An opaque copy is the only assembly: it has no instructions.
    "cpu": r'__asm__\("":"\+r"\([A-Za-z]\w*\)\)|__attribute__\(\(vector_size\([0-9]{1,4}\)\)\)|__bf16\b'
    r"|__builtin_(?:memcpy|memset|prefetch|shufflevector|ia32_[a-z0-9_]+)\b",
}
_SPECIAL["cpu"] += f"|{_SPECIAL['cuda']}"
"""Names of the implementation that may occur, and the strings that belong to them."""

_REFUSED = {
    "directive": (r"(?:^ *)?#.*", "is not a directive that templates print"),
    "attribute": (r"__attribute__\b", "stands in a form that templates do not print"),
    # Names of the implementation, assembly, files read without a directive, and names from outside of the text.
    "name": (r"_[_A-Z]\w*|(?:asm|import|export|module|extern)\b", "may not occur"),
    "literal": (r"[\"'].*", "may not occur"),
}
"""What the allowed forms leave of directives, names and literals: by the rule that it breaks, with a reason."""


_PLAIN = (
    r"(?![ \n])(?:(?!(?:asm|import|export|module|extern)\b)[A-Za-z]\w*|[0-9][0-9A-Za-z.]*"
    r"|[^\w\n()\[\]{}#\"'/]+|/(?!/)|\n(?! *#))+"
)
"""What no rule is about: most of a text, read in long runs. One ends before a line with a directive. Not possessive
(``++``): before 3.11.5 Python lets such a group run past what its lookaheads forbid (CPython issue 106052)."""


def _pieces(kind: str) -> re.Pattern[str]:
    """What a text is read in: at each place the first of these that fits there."""
    forms = {
        "plain": _PLAIN,
        "comment": r"//.*",
        # Whole lines. ``#line`` names no file that exists: it moves the numbers in diagnostics.
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
"""What each ends. The branches of conditions close like brackets, each with all that it opened."""


class SourceRefused(TilewrightError):
    """A source that a farm's builder does not compile: the ``line`` (from 1; 0: the whole) and the ``rule`` it breaks.

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
    """Check a kernel's source, without a prelude, before a builder compiles it.

    ``symbols``: what the library must export; ``kind``: of target. A text that passes closes every bracket,
    comment and condition that it opens, so what is put behind it is read as it stands. Raises ``SourceRefused``,
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
