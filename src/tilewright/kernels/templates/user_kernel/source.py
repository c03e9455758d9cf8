"""Reads a user's C++ or CUDA file: local includes, functions, and the parameters of a function.

It parses declarations only, not all of C++: enough to find one function and its parameters, and to report a declaration
that it cannot parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.errors import nearest
from tilewright.kernels.templates.user_kernel.conditions import DIRECTIVE, Edit, code, edited, hidden

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', re.MULTILINE)
_TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|\d[\w.']*|\S")
_WORD = re.compile(r"[A-Za-z_]\w*")
LONGEST = 1 << 20  # largest number of characters of a file with its includes

ELEMENTS = {
    spelling: tuple(d.name for d in DTYPES.values() if spelling in d.spellings)
    for spelling in (s for d in DTYPES.values() for s in d.spellings)
}
"""Element types of tensors that each C type of a pointer may point to; any other C type is accepted unchecked."""


def read(path: Path) -> str:
    """A file's text with its quoted includes expanded, each once. Raises ``UsageError``."""
    text = _read(path, path.name, set())
    if len(text) > LONGEST:
        raise UsageError(f"{path} has {len(text)} characters with its includes", f"Shorten it to {LONGEST} or fewer")
    return text


def _read(path: Path, label: str, seen: set[Path]) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", "Give the path of your kernel's file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text", "Give the source, not compiled code") from None
    seen.add(path.resolve())
    if "\0" in text:
        raise UsageError(f"{path} is not text", "Give the source, not compiled code")

    def put_in(m: re.Match[str]) -> str:
        inner = (path.parent / m[1]).resolve()
        line = text.count("\n", 0, m.start()) + 1
        if not inner.is_file():
            raise UsageError(
                f"{path}:{line} includes {m[1]}, which is not there", "Put it beside the kernel, or include it by <...>"
            )
        if inner in seen:
            return ""
        return f'#line 1 "{m[1]}"\n{_read(inner, m[1], seen)}\n#line {line + 1} "{label}"'

    return _INCLUDE.sub(put_in, text)


_LINE = re.compile(r'#line (\d+) "([^"\n]*)"')


def listing(text: str, label: str) -> str:
    """The lines of the file ``label`` alone, from a text with expanded includes."""
    lines: dict[int, str] = {}
    number, mine = 1, True
    for line in text.split("\n"):
        if m := _LINE.fullmatch(line):
            number, mine = int(m[1]), m[2] == label
            continue
        if mine:
            lines[number] = line
        number += 1
    return "\n".join(lines.get(n, "") for n in range(1, max(lines, default=0) + 1))


def relabelled(text: str, label: str, shown: str) -> str:
    """The text with ``shown`` in place of the file name ``label`` in ``#line`` directives, which follow includes."""
    return re.sub(rf'^(#line \d+ )"{re.escape(label)}"$', rf"\1{shown}", text, flags=re.MULTILINE)


def words(text: str) -> set[str]:
    """All identifiers of a text outside of comments and literals."""
    return set(_WORD.findall(hidden(text)))


class Tokens:
    """The tokens of a text (``words``), without comments, literals and directives.

    ``plain``: the text with comments, literals and directives blanked out. ``starts`` and ``ends``: positions of each
    token in the text. ``pairs``: for each matched bracket's token number, the number of the matching bracket.
    """

    def __init__(self, text: str) -> None:
        self.plain = code(text)
        found = list(_TOKEN.finditer(self.plain))
        self.words = [m[0] for m in found]
        self.starts = [m.start() for m in found]
        self.ends = [m.end() for m in found]
        self.pairs: dict[int, int] = {}
        opened: list[int] = []
        for n, word in enumerate(self.words):
            if word in ("(", "[", "{"):
                opened.append(n)
            elif word in (")", "]", "}") and opened:
                self.pairs[n] = opened.pop()
                self.pairs[self.pairs[n]] = n


# --------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class Function:
    """A function's definition or declaration at the top level, or in an ``extern "C"`` block.

    ``start``: position of its declaration in the text. ``prefix``: text of the declaration before the function's name.
    """

    name: str
    prefix: str
    parameters: str
    start: int
    defined: bool
    in_c_block: bool


def functions(text: str) -> tuple[Function, ...]:
    """The functions of a file, in order."""
    tokens = Tokens(text)
    words, plain = tokens.words, tokens.plain
    out: list[Function] = []
    blocks: list[bool] = []  # open braces: whether each is an extern "C" block
    start = 0
    n = 0
    while n < len(words):
        top = all(blocks)
        if words[n] == "{":
            blocks.append(top and n > 0 and words[n - 1] == "extern")
            if blocks[-1]:
                start = n + 1
        elif words[n] == "}":
            if blocks:
                blocks.pop()
            start = n + 1
        elif words[n] == ";" and top:
            start = n + 1
        elif words[n] == "(" and top and n > start:
            name, end = words[n - 1], tokens.pairs.get(n, len(words))
            after = _after(tokens, end + 1)
            if _WORD.fullmatch(name) and after in ("{", ";") and n - 1 > start:
                first = tokens.starts[start]
                stop = tokens.starts[end] if end < len(words) else len(plain)
                out.append(
                    Function(
                        name, plain[first : tokens.starts[n - 1]].strip(), plain[tokens.ends[n] : stop], first,
                        after == "{", bool(blocks),
                    )
                )  # fmt: skip
            n = end
        n += 1
    return tuple(out)


def _after(tokens: Tokens, n: int) -> str:
    """The token after a parameter list and its specifiers (``noexcept``, attributes, ``const``)."""
    words = tokens.words
    while n < len(words) and words[n] in ("noexcept", "__attribute__", "const"):
        n += 1
        if n < len(words) and words[n] == "(":
            n = tokens.pairs.get(n, len(words)) + 1
    return words[n] if n < len(words) else ""


def find(text: str, entry: str, path: str) -> Function:
    """The definition of the function ``entry``. Raises ``UsageError`` that lists the file's functions."""
    found = [f for f in functions(text) if f.defined]
    mine = [f for f in found if f.name == entry]
    if not mine:
        names = list(dict.fromkeys(f.name for f in found))
        hint = nearest(entry, names)
        if not names and entry in words(text):
            hint = "It must stand at the top level of the file, not in a namespace or class. "
        raise UsageError(
            f"{path} defines no function {entry!r}", f"{hint}It defines {', '.join(names) or 'none that was found'}"
        )
    if len(mine) > 1:
        raise UsageError(f"{path} defines {entry} {len(mine)} times", "Give the kernel a name of its own")
    (one,) = mine
    if _WORD.match(one.prefix) and one.prefix.split()[0].startswith("template"):
        raise UsageError(f"{entry} in {path} is a template", "Write an ordinary function that calls it")
    return one


def renamed(text: str, name: str, symbol: str, *, c_linkage: bool) -> str:
    """The text with a function renamed to ``symbol``. ``c_linkage``: declare it ``extern "C"`` if it is not."""
    plain = hidden(text)
    edits: list[Edit] = []
    for m in _WORD.finditer(plain):
        before = plain[: m.start()].rstrip()[-2:]
        called = plain[m.end() :].lstrip().startswith("(")
        if m[0] == name and called and not (before.endswith(".") or before in ("->", "::")):
            edits.append((m.start(), m.end(), symbol))
    if c_linkage:
        for f in functions(text):
            if f.name == name and not f.in_c_block and "extern" not in f.prefix.split():
                edits.append((f.start, f.start, 'extern "C" '))
    return edited(text, edits)


# --------------------------------------------------------------------------- parameters


@dataclass(frozen=True)
class Parameter:
    """A declared parameter: name, type without qualifiers, whether it is a pointer, whether its type is const."""

    name: str
    type: str
    pointer: bool
    const: bool


_QUALIFIERS = ("restrict", "__restrict__", "__restrict", "volatile", "register", "struct")


def parameters(function: Function, path: str) -> tuple[Parameter, ...]:
    """The parameters of a function. Raises ``UsageError`` for a declaration that cannot be parsed."""
    text = re.sub(
        r"__align__\s*\([^()]*\)|__attribute__\s*\(\([^()]*(?:\([^()]*\))?[^()]*\)\)", " ", function.parameters
    )
    pieces = [p.strip() for p in text.split(",")]
    if pieces in ([""], ["void"]):
        return ()
    return tuple(_parameter(p, function.name, path) for p in pieces)


def _parameter(text: str, function: str, path: str) -> Parameter:
    def beyond(why: str) -> UsageError:
        return UsageError(
            f"{path}: parameter {' '.join(text.split())!r} of {function} {why}",
            "Declare pointers and plain numbers, or list what each parameter gets: --param a,b,out,m,n",
        )

    if not text or any(c in text for c in "()=<>&{}") or "..." in text:
        raise beyond("cannot be read")
    array = re.search(r"\[[^\]]*\]\s*$", text)
    if array:
        text = text[: array.start()]
    found = [t for t in _TOKEN.findall(text) if t not in _QUALIFIERS]
    stars = found.count("*") + bool(array)
    const = "const" in found[: found.index("*")] if "*" in found else "const" in found
    left = [t for t in found if t not in ("*", "const")]
    if len(left) < 2 or stars > 1 or not _WORD.fullmatch(left[-1]):
        raise beyond("has no name" if len(left) == 1 else "cannot be read")
    kind = re.sub(r"\s*::\s*", "::", " ".join(left[:-1]))
    return Parameter(left[-1], kind, bool(stars), const)


# --------------------------------------------------------------------------- macros


def fixed_macros(text: str, names: Iterable[str]) -> list[tuple[str, int]]:
    """The ``names`` that the file defines unconditionally, each with its line number."""
    wanted = set(names)
    plain = hidden(text)
    conditions: list[str] = []
    found = []
    for m in DIRECTIVE.finditer(plain):
        line = re.sub(r"\s+", " ", m[0].strip().lstrip("#").strip())
        word, _, rest = line.partition(" ")
        if word in ("if", "ifdef", "ifndef"):
            conditions.append(line)
        elif word in ("elif", "else") and conditions:
            conditions[-1] += f" {line}"
        elif word == "endif" and conditions:
            conditions.pop()
        elif word == "define":
            name = _WORD.match(rest)
            if name and name[0] in wanted and not any(name[0] in _WORD.findall(c) for c in conditions):
                found.append((name[0], plain.count("\n", 0, m.start()) + 1))
    return found
