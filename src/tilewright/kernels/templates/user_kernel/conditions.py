"""Evaluates the preprocessor conditions of a file (``#if``, ``#ifdef`` ...) for given values of knobs.

A condition that reads more than knobs and the file's own macros is not decided; all its branches stay.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tilewright.core import Value

_HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_TOKEN = re.compile(r"\d[\w']*|[A-Za-z_]\w*|&&|\|\||[<>=!]=|<<|>>|\S")
_DEEPEST = 40  # macros within macros


def hidden(text: str) -> str:
    """The text with comments and literals blanked out, every character in its place."""
    return _HIDDEN.sub(lambda m: blank(m[0]), text)


def blank(text: str) -> str:
    """The text with spaces in place of all characters but newlines."""
    return re.sub(r"[^\n]", " ", text)


def code(text: str) -> str:
    """The text with comments, literals and directives blanked out."""
    return DIRECTIVE.sub(lambda m: blank(m[0]), hidden(text))


Edit = tuple[int, int, str]
"""A replacement: start, end, new text."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits, which must not overlap, to a text."""
    out, last = list[str](), 0
    for start, end, new in sorted(edits, key=lambda e: e[:2]):
        out += [text[last:start], new]
        last = end
    return "".join([*out, text[last:]])


def literal(value: Value) -> str:
    """A knob's value as the text of its macro."""
    if isinstance(value, bool):
        return str(int(value))
    return f"({value})" if isinstance(value, (int, float)) and value < 0 else str(value)


def conditional_names(text: str) -> set[str]:
    """All names that conditions read, directly or through macros; knobs among them may decide what is compiled."""
    names: set[str] = set()
    bodies: dict[str, set[str]] = {}
    for m in DIRECTIVE.finditer(hidden(text)):
        kind, *words = re.findall(r"[A-Za-z_]\w*", m[0]) or [""]
        if kind in ("if", "ifdef", "ifndef", "elif"):
            names |= set(words)
        elif kind == "define" and words:
            bodies.setdefault(words[0], set()).update(words[1:])
    while more := {w for name in names & bodies.keys() for w in bodies[name]} - names:
        names |= more
    return names


class _Undecided(Exception):
    """A condition whose value only the compiler knows."""


@dataclass
class _Group:
    """An open ``#if`` group.

    ``outer``: whether the code around the group is compiled. ``taken``: whether an earlier branch of the group is
    compiled. ``kept``: whether the group's directives stay in the text, for the compiler to decide.
    """

    outer: bool
    taken: bool = False
    kept: bool = False


def view(text: str, knobs: Mapping[str, Value]) -> str:
    """The text with code blanked out that is not compiled for these values of knobs. Lines keep their numbers."""
    plain = hidden(text)
    macros: dict[str, str | None] = {name: literal(v) for name, v in knobs.items()}
    groups: list[_Group] = []
    active = True
    out: list[str] = []
    last = 0

    def put(until: int) -> None:
        nonlocal last
        out.append(text[last:until] if active else blank(text[last:until]))
        last = until

    for m in DIRECTIVE.finditer(plain):
        line = re.sub(r"\\\n", " ", m[0]).strip()[1:].strip()
        word = re.match(r"\w*", line)
        name, rest = (word[0] if word else ""), line[word.end() if word else 0 :].strip()
        put(m.start())
        if name in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            if name.startswith("if"):
                groups.append(_Group(active))
            elif not groups:
                return text  # unbalanced directives: the compiler reports them
            stays, active, spelt = _branch(groups[-1], name, rest, macros)
            if name == "endif":
                groups.pop()
            piece = text[m.start() : m.end()]
            if stays and spelt != name:
                piece = piece.replace(name, spelt, 1)
            out.append(piece if stays else blank(piece))
            last = m.end()
            continue
        if active and name in ("define", "undef"):
            _define(macros, name, rest, any(g.kept for g in groups))
        put(m.end())
    put(len(text))
    return "".join(out)


def _branch(group: _Group, name: str, rest: str, macros: Mapping[str, str | None]) -> tuple[bool, bool, str]:
    """Evaluate a directive of a group.

    Returns whether the directive stays in the text, whether the code after it is compiled, and its name if it stays.
    """
    if not group.outer:
        return False, False, name
    if name == "endif":
        return group.kept, group.outer, name
    if group.kept:
        return True, True, name
    if group.taken:
        return False, False, name
    if name == "else":
        return False, True, name
    try:
        if name in ("ifdef", "ifndef"):
            holds = _defined(rest.split(maxsplit=1)[0] if rest else "", macros) == (name == "ifdef")
        else:
            holds = bool(_Condition(_expanded(rest, macros)).value())
    except _Undecided:
        group.kept = True
        return True, True, "if" if name == "elif" else name
    group.taken = holds
    return False, holds, name


def _define(macros: dict[str, str | None], name: str, rest: str, maybe: bool) -> None:
    m = re.match(r"([A-Za-z_]\w*)(\(?)", rest)
    if m is None:
        return
    if name == "undef" and not maybe:
        macros.pop(m[1], None)
    else:
        macros[m[1]] = None if maybe or m[2] or name == "undef" else rest[m.end() :].strip()


def _defined(name: str, macros: Mapping[str, str | None]) -> bool:
    if name in macros:
        return True
    if name.startswith(("_", "TW_")):
        raise _Undecided
    return False


def _expanded(text: str, macros: Mapping[str, str | None], depth: int = 0) -> list[str]:
    """The tokens of a condition after macro expansion."""
    if depth > _DEEPEST:
        raise _Undecided
    tokens = _TOKEN.findall(text)
    out: list[str] = []
    n = 0
    while n < len(tokens):
        token = tokens[n]
        if token == "defined":
            inside = tokens[n + 1 : n + 4]
            name = inside[1] if len(inside) == 3 and inside[0] == "(" and inside[2] == ")" else "".join(inside[:1])
            out.append("1" if _defined(name, macros) else "0")
            n += 4 if name not in inside[:1] else 2
            continue
        if re.match(r"[A-Za-z_]", token):
            value = macros.get(token, "")
            if token in macros and value is not None:
                out += ["(", *_expanded(value, macros, depth + 1), ")"]
            elif token in macros or token.startswith(("_", "TW_")) or tokens[n + 1 : n + 2] == ["("]:
                raise _Undecided
            else:
                out.append({"true": "1"}.get(token, "0"))
        else:
            out.append(token)
        n += 1
    return out


class _Condition:
    """Evaluates a condition's tokens by C's rules."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def value(self) -> int:
        found = self._choice()
        if self.at != len(self.tokens):
            raise _Undecided
        return found

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _choice(self) -> int:
        test = self._binary(1)
        if self._next() != "?":
            return test
        self.at += 1
        yes = self._choice()
        if self._next() != ":":
            raise _Undecided
        self.at += 1
        no = self._choice()
        return yes if test else no

    def _binary(self, least: int) -> int:
        """Evaluate binary operations of a precedence of at least ``least``."""
        left = self._unary()
        while (found := _BINARY.get(self._next())) is not None and found[0] >= least:
            self.at += 1
            left = int(found[1](left, self._binary(found[0] + 1)))
        return left

    def _unary(self) -> int:
        op = self._next()
        self.at += 1
        if op == "(":
            inner = self._choice()
            if self._next() != ")":
                raise _Undecided
            self.at += 1
            return inner
        if op in ("!", "-", "+", "~"):
            v = self._unary()
            return {"!": int(not v), "-": -v, "+": v, "~": ~v}[op]
        number = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*", op.replace("'", ""))
        if number is None:
            raise _Undecided
        digits = number[1]
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            return int(digits, 8 if octal else 0)
        except ValueError:
            raise _Undecided from None


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise _Undecided
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift(b: int) -> int:
    if not 0 <= b < 64:
        raise _Undecided
    return b


_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: bool(a or b)), "&&": (2, lambda a, b: bool(a and b)), "|": (3, operator.or_),
    "^": (4, operator.xor), "&": (5, operator.and_), "==": (6, operator.eq), "!=": (6, operator.ne),
    "<": (7, operator.lt), ">": (7, operator.gt), "<=": (7, operator.le), ">=": (7, operator.ge),
    "<<": (8, lambda a, b: a << _shift(b)), ">>": (8, lambda a, b: a >> _shift(b)), "+": (9, operator.add),
    "-": (9, operator.sub), "*": (10, operator.mul), "/": (10, _quotient),
    "%": (10, lambda a, b: a - b * _quotient(a, b)),
}  # fmt: skip
"""Precedence and meaning of each binary operator."""
