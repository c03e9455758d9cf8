"""Adapts a user's CUDA file to the emulator: the emulator's headers, and variables in shared memory.

One text serves both compilers; code for only one compiler is inside ``TW_CUDA`` or ``TW_EMULATED``. Uses of
``__shared__`` that do not parse as variables (in macros) stay as they are; the emulator's compiler rejects them with a
plain message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.kernels.templates.user_kernel.conditions import DIRECTIVE, Edit, code, edited, hidden
from tilewright.kernels.templates.user_kernel.source import Tokens

_HEADERS = {
    "vectors": r"(?:make_)?(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|dim3",
    "lanes": r"__(?:shfl|ballot|any|all|uni|match|reduce)\w*_sync|__activemask",
    "atomics": r"atomic[A-Z]\w*",
    "bits": r"__(?:popc|clz|ffs|brev)(?:ll)?|__byte_perm|__funnelshift_\w+|__fns|__u?mul24|__u?mul(?:64)?hi|__u?sad"
    r"|__u?r?hadd|__dp[24]a\w*|__vim(?:ax|in)3_s32",
    "simd": r"__v[a-z]+[24]",
    "minmax": r"(?:u|ll|ull)?(?:min|max)",
    "strings": r"mem(?:cpy|set|move|cmp)|str[a-z]+",
    "memory": r"__ld(?:g|ca|cg|cs|lu|cv)|__st(?:wb|cg|cs|wt)",
    "system": r"clock(?:64)?|printf|assert|__(?:nanosleep|trap|brkpt|prof_trigger)",
    "casts": r"__\w+_as_\w+|__double2(?:hi|lo)int|__hiloint2double",
    "rounding": r"__\w+_r[nzud]",
    "functions": r"__(?:exp|exp10|log|log2|log10|sin|cos|tan|tanh|pow|sincos|fdivide|saturate)f|fdividef|rsqrtf?"
    r"|rcbrtf?|(?:sin|cos|sincos|tan)pif?|erfc?invf?|erfcxf?|normcdf(?:inv)?f?|r?norm(?:[34]d)?f?|rhypotf?",
}
"""Files of the emulator's folder ``cuda``, each with the pattern of the identifiers that need the file."""

_QUALIFIERS = ("alignas", "__align__", "__attribute__")
_SCOPES = re.compile(r"\b(?:namespace|extern|struct|class|union)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ASSEMBLY = re.compile(r'[^"]*"(?:\\.|[^"\\])')
"""Text after ``asm`` if the statement has instructions: its string literal is not empty."""


def headers(words: Iterable[str]) -> list[str]:
    """Names of the emulator's files that ``words`` need, ``base`` first."""
    known = set(words)
    return ["base", *(n for n, form in _HEADERS.items() if any(re.fullmatch(form, w) for w in known))]


def both(text: str, entry: str) -> str:
    """The file for both compilers: shared memory, and the beginning and end of the kernel ``entry``, are adapted."""
    text = _without_other_names(text)
    file = _File(text)
    edits = [e for d in file.shared() for e in file.declared(d)] + file.frame(entry)
    return edited(text, [*edits, *file.assembly(), *_in_macros(text)])


def _without_other_names(text: str) -> str:
    """The text with macros that stand for ``__shared__`` (and further qualifiers) expanded."""
    names = {}
    for m in DIRECTIVE.finditer(hidden(text)):
        found = re.fullmatch(r"\s*#\s*define\s+(\w+)\s+((?:\w+\s+)*__shared__(?:\s+\w+)*)\s*", m[0])
        if found:
            names[found[1]] = found[2]
    return edited(text, ((w.start(), w.end(), names[w[0]]) for w in _WORD.finditer(code(text)) if w[0] in names))


def _in_macros(text: str) -> Iterator[Edit]:
    """Yield edits of declarations in the bodies of function-like macros; a macro's parameter may be a name."""
    for m in DIRECTIVE.finditer(hidden(text)):
        found = re.match(r"[ \t]*#[ \t]*define[ \t]+\w+\(([^()]*)\)", m[0])
        if found is None or "__shared__" not in m[0]:
            continue
        start = m.start() + found.end()
        body = text[start : m.end()].replace("\\\n", "  ")
        file = _File(body + ";", tuple(p.strip() for p in found[1].split(",")))
        for d in file.shared():
            for first, last, new in file.declared(d):
                yield start + first, min(start + last, m.end()), new


@dataclass(frozen=True)
class _Shared:
    """A declaration of variables in shared memory, from ``start`` to ``end`` (after its semicolon).

    ``types``: the declaration with each variable's name replaced by a type's name, as in a ``typedef``. ``local``:
    whether the declaration is inside a function.
    """

    start: int
    end: int
    dynamic: bool
    types: str
    names: tuple[str, ...]
    align: tuple[str, ...]
    local: bool


class _File(Tokens):
    """The tokens of a file, and its functions. ``parameters``: a macro's parameters, if the text is a macro's body."""

    def __init__(self, text: str, parameters: tuple[str, ...] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.parameters = parameters
        self.functions = list(self._functions())

    def _functions(self) -> Iterator[tuple[int, int, int]]:
        """Yield for each function three token numbers: first token of the declaration, opening and closing brace."""
        start = n = 0
        while n < len(self.words):
            if self.words[n] == "{":
                before = " ".join(self.words[start:n])
                if "(" in before or not _SCOPES.search(before):
                    close = self.pairs.get(n, len(self.words))
                    if "(" in before and close < len(self.words):
                        yield start, n, close
                    n = close
                start = n + 1
            elif self.words[n] in (";", "}"):
                start = n + 1
            n += 1

    # ------------------------------------------------------------------ shared memory

    def shared(self) -> list[_Shared]:
        """All declarations of variables in shared memory."""
        found = (self._declaration(n) for n, token in enumerate(self.words) if token == "__shared__")
        return [d for d in found if d is not None]

    def declared(self, d: _Shared) -> Iterator[Edit]:
        """Yield edits that turn variables into references.

        A local declaration becomes references in place. For a declaration at file level, each function that names its
        variables gets references.
        """
        original = self.text[d.start : d.end]
        made = f"typedef {d.types};"
        if d.local:
            places = "".join(self._reference(d, name) for name in d.names)
            yield d.start, d.end, f"TW_CUDA({original}) TW_EMULATED({made}{places})"
            return
        keys = "" if d.dynamic else "".join(f" static char tw_key_{name};" for name in d.names)
        yield d.start, d.end, f"TW_CUDA({original}) TW_EMULATED({made}{keys})"
        for start, opening, closing in self.functions:
            used = [n for n in d.names if n in self.words[opening:closing] and n not in self.words[start:opening]]
            if used:
                references = "".join(self._reference(d, name) for name in used)
                yield self.ends[opening], self.ends[opening], f" TW_EMULATED({references})"

    def _reference(self, d: _Shared, name: str) -> str:
        kind, key, shown = self._type(name), self._type(name).replace("tw_type_", "tw_key_"), f'"{name}"'
        if "##" in kind:
            shown = f"#{name}"
        if d.dynamic:
            return f" {kind} &{name} = *({kind} *)emu::current->shared;"
        made = f" static char {key};" if d.local else ""
        align = "".join(f", {a}" for a in d.align)
        return f"{made} {kind} &{name} = cuda_words::variable<{kind}>(&{key}, {shown}, __LINE__{align});"

    def _type(self, name: str) -> str:
        return f"tw_type_##{name}" if name in (self.parameters or ()) else f"tw_type_{name}"

    def _declaration(self, n: int) -> _Shared | None:
        first = n
        while first > 0:
            opening = self.pairs.get(first - 1, 0)
            if self.words[first - 1] == ")" and opening and self.words[opening - 1] in _QUALIFIERS:
                first = opening - 1
            elif _WORD.fullmatch(self.words[first - 1]) and self.words[first - 1] not in ("else", "do"):
                first -= 1
            else:
                break
        last = n
        while last < len(self.words) and self.words[last] != ";":
            if self.words[last] in (")", "]", "}", "="):
                return None
            last = self.pairs.get(last, last) + 1
        if last >= len(self.words):
            return None
        start, end = self.starts[first], self.ends[last]
        if any(start < m.start() < end for m in DIRECTIVE.finditer(hidden(self.text))):
            return None
        skipped: set[int] = set()
        nameless: set[int] = set()
        align = []
        for at in range(first, last):
            if self.words[at] in _QUALIFIERS[:2] and at + 1 in self.pairs:
                close = self.pairs[at + 1]
                align.append(self.plain[self.ends[at + 1] : self.starts[close]].strip())
                skipped |= set(range(at, close + 1))
            elif self.words[at] == "__attribute__" and at + 1 in self.pairs:
                nameless |= set(range(at, self.pairs[at + 1] + 1))
            elif self.words[at] in ("__shared__", "static", "extern"):
                skipped.add(at)
        rest = [n for n in range(first, last) if n not in skipped | nameless]
        names = [self._name(piece) for piece in self._pieces(rest)]
        if None in names:
            return None
        dynamic = "extern" in self.words[first:last]
        types, at = [], start
        for i in range(first, last):
            if i in skipped or i in names:
                types.append(self.plain[at : self.starts[i]])
                types.append("" if i in skipped else self._type(self.words[i]))
                at = self.ends[i]
        types.append(self.plain[at : self.starts[last]])
        local = self.parameters is not None or any(opening < first < closing for _, opening, closing in self.functions)
        said = " ".join("".join(types).split())
        called = tuple(self.words[i] for i in names if i is not None)
        return _Shared(start, end, dynamic, said, called, tuple(align), local)

    def _pieces(self, kept: list[int]) -> Iterator[list[int]]:
        """Split a declaration's tokens at commas outside of brackets; the type stays with the first declarator."""
        piece: list[int] = []
        angle, skip = 0, -1
        for n in kept:
            if n <= skip:
                piece.append(n)
                continue
            token = self.words[n]
            if token in ("(", "[", "{"):
                skip = self.pairs[n]
            angle += (token == "<") - (token == ">")
            if token == "," and angle == 0:
                yield piece
                piece = []
            else:
                piece.append(n)
        yield piece

    def _name(self, piece: list[int]) -> int | None:
        """Number of the token with a declarator's name: the last word outside of brackets, or inside ``(*name)``."""
        found, skip, angle = None, -1, 0
        for n in piece:
            token = self.words[n]
            if n <= skip:
                continue
            if token == "(" and n and self.words[n - 1] in ("decltype", "typeof", "__typeof__"):
                skip = self.pairs[n]
                continue
            if token == "(":
                return self._name([i for i in piece if n < i < self.pairs[n]])
            if token in ("[", "{"):
                skip = self.pairs[n]
            angle += (token == "<") - (token == ">")
            if _WORD.fullmatch(token) and angle == 0:
                found = n
        return found

    # ------------------------------------------------------------------ assembly and kernel bounds

    def assembly(self) -> Iterator[Edit]:
        """Yield edits that make the emulator reject inline GPU assembly with a plain message."""
        for n, token in enumerate(self.words):
            if token in ("asm", "__asm__", "__asm") and _ASSEMBLY.match(self.text, self.ends[n]):
                yield self.starts[n], self.ends[n], f"TW_CUDA({token}) TW_EMULATED(CUDA_ASM)"

    def frame(self, entry: str) -> list[Edit]:
        """Edits that mark a kernel's begin and end, to detect early returns and to check ``__launch_bounds__``."""
        for start, opening, closing in self.functions:
            words = self.words[start:opening]
            if entry not in words or "__global__" not in words:
                continue
            most = "0"
            if "__launch_bounds__" in words:
                at = start + words.index("__launch_bounds__") + 1
                inner = next(self._pieces(list(range(at + 1, self.pairs[at]))))
                most = self.plain[self.starts[inner[0]] : self.ends[inner[-1]]]
            begin, end = self.ends[opening], self.starts[closing]
            return [
                (begin, begin, f" TW_EMULATED(emu::begin_kernel({most}, __LINE__);)"),
                (end, end, "TW_EMULATED(emu::end_kernel();) "),
            ]
        return []
