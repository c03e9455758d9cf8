"""What a farm's builder accepts as a kernel's source: C++ in the words that Tilewright's templates print, nothing else.

A builder gets a kernel's own text, the names of its symbols and a target; the prelude and the compiler's flags are the
builder's. So a text needs very little of the language, and everything that reads the builder's files or speaks to the
compiler is outside of it: a list of what is allowed decides, not one of what is known to be bad. The compiler itself
is confined too (``backends/cpu/confine.py``), and what a kernel does when it runs is the runner's to bound
(``measure/sandbox.py``). NVRTC compiles inside the builder's process: its texts pass the same check, which leaves them
no file to open, its deadline is asked about between its steps, and its memory is the process's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from tilewright.errors import TilewrightError, UsageError
from tilewright.measure.cpp_tokens import Tokens, tokenize

Kind = Literal["cpu", "cuda"]

LONGEST = 4 << 20
"""Characters of a source; the longest that a template prints has about a hundred thousand."""

_SYMBOL = re.compile(r"tw_[0-9a-z_]{1,120}")

_MEND = (
    "Farm builders compile what this version's templates print; build other kernels, your own among them, on the client"
)

# Each may spell, join or hide what the other rules look for. A backslash continues a line, escapes and names
# characters; the rest are comments across lines, trigraphs and digraphs.
_SPELLINGS = re.compile(r"[^\n -~]|[\\$@`]|/\*|\?\?|<[:%]|[:%]>|%:")

_DIRECTIVES = {
    "cpu": re.compile(
        r"#if defined\(__(?:clang|AVX|AVX2|AVX512F|SSE2)__\)|#elif __GNUC__ >= [0-9]{1,3}|#else|#endif"
        r'|#line [0-9]{1,6} "kernel"'
    ),
    "cuda": re.compile(r'#line [0-9]{1,6} "kernel"'),
}
"""Whole lines. ``#line`` names no file that exists: it moves the numbers in diagnostics."""

_RESERVED = {
    "cpu": re.compile(r"__restrict__|__bf16|__builtin_(?:inff?|memcpy|memset|prefetch|shufflevector|ia32_[a-z0-9_]+)"),
    "cuda": re.compile(r"__restrict__|__builtin_inff?"),
}
"""Names of the implementation that may stand anywhere; others, from ``__asm`` to ``_Pragma``, may not."""

_FORMS = {
    "__attribute__": re.compile(r"__attribute__ \( \( vector_size \( [0-9]{1,4} \) \) \)"),
    "__asm__": re.compile(r'__asm__ \( "" : "\+r" \( [A-Za-z]\w* \) \)'),  # an opaque copy, without instructions
    "__builtin_nan": re.compile(r'__builtin_nan \( "" \)'),
    "__builtin_nanf": re.compile(r'__builtin_nanf \( "" \)'),
}
"""Names that may stand in one form only, as its tokens with a space between."""

_LONGEST_FORM = 9  # tokens
_NEVER = frozenset({"asm", "import", "export", "module", "extern"})
"""Assembly, files read without a directive, and names from outside of the text."""


class SourceRefused(TilewrightError):
    """A source that a farm's builder does not compile: the ``line`` (from 1; 0: the whole) and the ``rule`` it breaks.

    Rules: ``size``, ``symbol``, ``spelling``, ``directive``, ``literal``, ``name``, ``attribute``, ``brackets``.
    """

    kind = "source"

    def __init__(self, line: int, rule: str, what: str) -> None:
        at = f", line {line}" if line else ""
        super().__init__(f"kernel source refused{at}: {what} (rule: {rule})", _MEND)
        self.line = line
        self.rule = rule


def check_source(text: str, symbols: Iterable[str], kind: Kind) -> None:
    """Check a kernel's source, without a prelude, before a builder compiles it.

    ``symbols``: what the library must export; ``kind``: of target. A text that passes closes every bracket,
    comment and condition that it opens, so what is put behind it is read as it stands. Raises ``SourceRefused``,
    and ``UsageError`` for an unknown kind.
    """
    if kind not in _DIRECTIVES:
        raise UsageError(f"builders compile nothing of kind {kind!r}", "Use cpu or cuda")
    for symbol in symbols:
        if not _SYMBOL.fullmatch(symbol):
            raise SourceRefused(0, "symbol", f"{_shown(symbol)} is no kernel's symbol")
    if len(text) > LONGEST:
        raise SourceRefused(0, "size", f"it has {len(text)} characters, and the most is {LONGEST}")
    if odd := _SPELLINGS.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        raise SourceRefused(line, "spelling", f"{_shown(odd[0])} may not occur")
    tokens = tokenize(_code(text, kind))
    _check_tokens(tokens, kind)
    try:
        _ = tokens.match
    except ValueError as e:
        where, _, what = str(e).removeprefix("line ").partition(": ")
        raise SourceRefused(int(where), "brackets", what) from None


def _code(text: str, kind: Kind) -> str:
    """The text without comments and directives, line by line. Raises ``SourceRefused``."""
    lines = []
    branches: list[bool] = []  # open conditions: whether each has had its #else
    for n, line in enumerate(text.split("\n"), 1):
        # No string that is allowed holds two slashes: one that does is cut here, and found unclosed.
        code = line.partition("//")[0]
        if "'" in code:
            raise SourceRefused(n, "literal", "character literals and digit separators may not occur")
        if "#" in code:
            directive = code.rstrip(" ")
            if not _DIRECTIVES[kind].fullmatch(directive):
                raise SourceRefused(n, "directive", f"{_shown(directive)} is no directive that templates print")
            _follow(branches, directive, n)
            code = ""
        lines.append(code)
    if branches:
        raise SourceRefused(len(lines), "directive", "an #if is never closed")
    return "\n".join(lines)


def _follow(branches: list[bool], directive: str, line: int) -> None:
    if directive.startswith("#if"):
        branches.append(False)
    elif not directive.startswith("#line"):
        if not branches or (branches[-1] and directive != "#endif"):
            raise SourceRefused(line, "directive", f"{directive} without an #if")
        if directive == "#endif":
            branches.pop()
        else:
            branches[-1] = directive == "#else"


def _check_tokens(tokens: Tokens, kind: Kind) -> None:
    n = 0
    while n < len(tokens):
        t = tokens[n]
        if t.kind == "string" or t.text == '"':
            raise SourceRefused(t.line, "literal", f"the string {_shown(t.text)} may not occur")
        if t.text == "[" and n and tokens[n - 1].text == "[":
            raise SourceRefused(t.line, "attribute", "[[ may not occur")
        if t.kind == "name" and t.text in _FORMS:
            count = _form(tokens, n)
            if not count:
                rule = "attribute" if t.text == "__attribute__" else "name"
                raise SourceRefused(t.line, rule, f"{t.text} stands in a form that templates do not print")
            n += count
            continue
        if t.kind == "name":
            for name in t.text.split("::"):
                if name in _NEVER or (_is_reserved(name) and not _RESERVED[kind].fullmatch(name)):
                    raise SourceRefused(t.line, "name", f"{_shown(name)} may not occur")
        n += 1


def _form(tokens: Tokens, n: int) -> int:
    """How many tokens the one form of the name at ``n`` has, if it stands in it, else 0."""
    texts = [t.text for t in tokens[n : n + _LONGEST_FORM]]
    found = _FORMS[texts[0]].match(" ".join(texts))
    return 0 if found is None else len(found[0].split(" "))


def _is_reserved(name: str) -> bool:
    return name.startswith("__") or (name.startswith("_") and name[1:2].isupper())


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:37] + "...")
