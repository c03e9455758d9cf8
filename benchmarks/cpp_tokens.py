"""Tokens of generated C++, with their brackets and template arguments.

No parser. The kernels it reads are our templates' own and ones written in their manner.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.caching import cached_property

_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*|/\*.*?\*/|\\\n)
    | (?P<directive>\#[^\n]*(?:\\\n[^\n]*)*)
    | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[fFuUlL]*)
    | (?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<op><<=|>>=|&&|\|\||==|!=|<=|>=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|->|\+\+|--|<<|>>|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_TEMPLATES = {
    "pack", "load_global", "store_global", "load_shared", "store_shared", "cp_async", "cp_wait", "floordiv", "mod",
    "wgmma_wait", "wgmma_f16", "wgmma_bf16", "wgmma_tf32", "wgmma_s8", "tma_wait", "sync_some", "fewer_registers",
    "more_registers", "static_cast", "reinterpret_cast", "const_cast", "min", "max", "template",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A piece of text: its kind, place (offsets into the text) and line and column (from 1)."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int


class Tokens(list[Token]):
    """The tokens of a text, without spaces, comments and preprocessor lines."""

    def __init__(self, source: str, items: Iterable[Token]) -> None:
        super().__init__(items)
        self.source = source

    def text(self, first: int, last: int) -> str:
        """The text from one token to another, both included."""
        return self.source[self[first].start : self[last].end]

    @cached_property
    def match(self) -> dict[int, int]:
        """Every bracket's partner. Raises ``ValueError`` where one has none."""
        out: dict[int, int] = {}
        stack: list[int] = []
        for n, t in enumerate(self):
            if t.kind == "open":
                stack.append(n)
            elif t.kind == "close":
                if not stack or _PAIRS[self[stack[-1]].text] != t.text:
                    raise ValueError(f"line {t.line}: {t.text!r} closes nothing")
                out[n] = stack.pop()
                out[out[n]] = n
        if stack:
            raise ValueError(f"line {self[stack[-1]].line}: {self[stack[-1]].text!r} is never closed")
        return out

    @cached_property
    def angle(self) -> dict[int, int]:
        """``<`` of template arguments to their ``>``."""
        out: dict[int, int] = {}
        own = {self[n].text for n in self._after_template()}
        for n, t in enumerate(self[:-1]):
            plain = t.text.rpartition("::")[2]
            if t.kind != "name" or self[n + 1].text != "<" or not (plain in _TEMPLATES or t.text in own):
                continue
            depth, at = 0, n + 1
            while at < len(self):
                text = self[at].text
                depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
                if depth <= 0:
                    out[n + 1] = at
                    break
                if text in (";", "{"):
                    break
                at += 1
        return out

    def _after_template(self) -> Iterator[int]:
        """Names of functions and types that the text itself declares as templates."""
        for n, t in enumerate(self):
            if t.text != "template":
                continue
            at = n
            while at + 1 < len(self) and self[at].text not in ("(", "{", ";"):
                at += 1
            yield at - 1


def tokenize(source: str) -> Tokens:
    """The tokens of a text."""
    starts = [0] + [m.end() for m in re.finditer("\n", source)]
    items = []
    for m in _TOKEN.finditer(source):
        kind = m.lastgroup or "op"
        if kind in ("skip", "directive"):
            continue
        line = bisect_right(starts, m.start())
        items.append(Token(kind, m.group(), m.start(), m.end(), line, m.start() - starts[line - 1] + 1))
    return Tokens(source, items)
