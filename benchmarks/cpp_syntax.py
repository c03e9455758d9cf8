"""Structure in generated C++: enough to find statements, conditions and definitions.

No parser: it knows statements, where an expression ends, and what a declaration looks like. The kernels it
reads are our templates' own and ones written in their manner.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from cpp_tokens import Token, Tokens, tokenize

_WORDS = {
    "const", "constexpr", "static", "auto", "bool", "int", "unsigned", "signed", "long", "short", "char", "float",
    "double", "size_t", "u8", "u16", "u32", "u64", "volatile",
}  # fmt: skip
_STATEMENT_ENDS = {";", "{", "}"}
_NOT_TYPES = {"return", "else", "case", "goto", "do", "TW_UNROLL"}


def read(source: str) -> Syntax:
    """The structure of a text."""
    return Syntax(source, tokenize(source))


class Syntax(Tokens):
    """The tokens of a text, and what stands where."""

    # ------------------------------------------------------------------ places

    def after(self, n: int, text: str) -> int:
        """The next token of that text after ``n``."""
        for at in range(n + 1, len(self)):
            if self[at].text == text:
                return at
        raise ValueError(f"no {text!r} after line {self[n].line}")

    def begins_statement(self, n: int) -> bool:
        """Whether a statement starts at a token."""
        if n == 0:
            return True
        before = self[n - 1].text
        if before in _STATEMENT_ENDS or before in ("else", "do", "TW_UNROLL"):
            return True
        if before == ")":
            opener = self.match[n - 1]
            return opener > 0 and self[opener - 1].text in ("if", "for", "while", "constexpr")
        return False

    def expression_end(self, first: int) -> int:
        """The last token of the expression that starts at ``first``: before ``,`` or ``;`` or a closing bracket."""
        at = first
        while at < len(self):
            t = self[at]
            if t.kind == "open":
                at = self.match[at]
            elif at in self.angle:
                at = self.angle[at]
            elif t.kind == "close" or t.text in (",", ";"):
                return at - 1
            at += 1
        return at - 1

    def statement_end(self, first: int) -> int:
        """The last token of the statement that starts at ``first``."""
        at = first
        while at < len(self):
            t = self[at]
            if t.text == "{":
                return self.match[at]
            if t.kind == "open":
                at = self.match[at]
            elif t.text == ";":
                return at
            at += 1
        return at - 1

    def operand_start(self, n: int) -> int:
        """The first token of the condition that ends before the ``?`` at ``n``."""
        at = n - 1
        while at >= 0:
            t = self[at]
            if t.kind == "close" and t.text != "}":
                at = self.match[at]
            elif t.kind == "open" or t.text in (
                ",", ";", "=", "?", ":", "return", "{", "}", "+=", "-=", "|=", "&=",
            ):  # fmt: skip
                return at + 1
            at -= 1
        return 0

    def at_depth(self, first: int, last: int) -> Iterator[Token]:
        """The tokens of a range that are in no bracket of it."""
        n = first
        while n <= last:
            yield self[n]
            n = (self.match[n] if self[n].kind == "open" else self.angle.get(n, n)) + 1

    def split(self, first: int, last: int, at: str) -> list[tuple[int, int]]:
        """Ranges of tokens between separators at the same depth; empty ones are left out."""
        out, begin, n = [], first, first
        while n <= last:
            t = self[n]
            if t.kind == "open":
                n = self.match[n]
            elif n in self.angle:
                n = self.angle[n]
            elif t.text == at:
                out.append((begin, n - 1))
                begin = n + 1
            n += 1
        out.append((begin, last))
        return [(a, b) for a, b in out if a <= b]

    # ------------------------------------------------------------------ declarations

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of the functions that the text defines."""
        found = set()
        for n, t in enumerate(self[:-1]):
            if t.kind == "name" and self[n + 1].text == "(" and self.declaration_words(n):
                closing = self.match[n + 1]
                if closing + 1 < len(self) and self[closing + 1].text == "{":
                    found.add(t.text)
        return frozenset(found)

    def uncalled(self) -> list[tuple[int, int]]:
        """The bodies of functions whose name stands nowhere else."""
        out = []
        for name in self.functions:
            uses = [n for n, t in enumerate(self) if t.text == name or t.text.endswith(f"::{name}")]
            if len(uses) == 1 and self[uses[0] - 1].text == "void" and not self._is_kernel(uses[0]):
                body = self.match[uses[0] + 1] + 1
                out.append((body, self.match[body]))
        return out

    def _is_kernel(self, n: int) -> bool:
        return self[n - 2].text == ")"  # TW_KERNEL(128, 1) void NAME

    def in_declarator(self, n: int) -> bool:
        """Whether a token lies in an array's size or in template arguments: no place for a run-time value."""
        if any(a < n < b for a, b in self.angle.items()):
            return True
        depth_start = next((a for a in range(n, -1, -1) if self[a].text == "[" and self.match[a] > n), None)
        return depth_start is not None and (self.declares_array(depth_start) or self.is_type_position(depth_start))

    def declaration_words(self, n: int) -> set[str]:
        """The words of the declaration that the name at ``n`` ends; empty where it is none."""
        at, words = n - 1, set[str]()
        while at >= 0:
            t = self[at]
            if t.text == "," and words == set():
                # A later name of the same declaration: int a = 1, b = 2.
                start = self._declarator_list(at)
                return self.declaration_words(start) if start is not None else set()
            if t.text in ("*", "&") and at and (self[at - 1].kind == "name" or self[at - 1].text in (">", ",")):
                at -= 1
                continue
            if t.text == ">" and (opener := self._angle_start(at)) is not None:
                at = opener - 1
                words.add(self[at].text)
                at -= 1
                continue
            if t.kind == "name" and t.text not in _NOT_TYPES:
                words.add(t.text)
                at -= 1
                continue
            break
        before = self[at].text if at >= 0 else ";"
        fits = before in _STATEMENT_ENDS or before in ("(", ")", "TW_UNROLL", "else")
        return words if fits and words and not words <= {"const"} else set()

    def _declarator_list(self, comma: int) -> int | None:
        """The first declared name of ``int a = 1, b`` from a comma in it."""
        at = comma - 1
        first: int | None = None
        while at >= 0:
            t = self[at]
            if t.kind == "close" and t.text != "}":
                at = self.match[at] - 1
                continue
            if t.kind == "open" or t.text in (";", "{", "}"):
                break
            if t.text == "=":
                first = at - 1
            at -= 1
        if first is None or self[first].kind != "name":
            return None
        before = self[first - 1].text
        return None if before == "," or (before == "*" and self[first - 2].text == ",") else first

    def _angle_start(self, closing: int) -> int | None:
        return next((a for a, b in self.angle.items() if b == closing), None)

    def declares_array(self, n: int) -> bool:
        """Whether the ``[`` at ``n`` gives an array's size in a declaration."""
        at = n
        while self[at - 1].text == "]":
            at = self.match[at - 1]
        name = at - 1
        if self[name].kind != "name" or name == 0:
            return False
        before = self[name - 1]
        if before.text == ")":  # a reference to an array: float (&c)[4]
            return False
        if before.kind == "name":
            return before.text not in _NOT_TYPES
        if before.text == ",":
            return self._continues_declaration(name - 1)
        return before.text == ">" and self._angle_start(name - 1) is not None

    def _continues_declaration(self, comma: int) -> bool:
        """Whether a comma separates the names of one declaration."""
        at = comma - 1
        while at >= 0 and self[at].kind != "open" and self[at].text not in (";", "}"):
            at = (self.match[at] if self[at].kind == "close" else at) - 1
        if at >= 0 and self[at].text in ("(", "["):
            return False
        first = at + 1
        if self[first].kind != "name" or self[first].text in _NOT_TYPES:
            return False
        second = self[self.angle.get(first + 1, first) + 1]
        return second.kind == "name" or second.text == "*"

    def is_type_position(self, n: int) -> bool:
        """Whether the ``[`` at ``n`` belongs to a parameter's type, as in ``float (&c)[4]``."""
        at = n
        while self[at - 1].text == "]":
            at = self.match[at - 1]
        if self[at - 1].text != ")":
            return False
        opening = self.match[at - 1]
        return self[opening + 1].text in ("&", "*") and self[opening - 1].kind in ("name", "op")

    def constant(self, first: int, last: int) -> bool:
        """Whether an expression is a number, with a sign or a cast perhaps, and nothing else."""
        names = [t for t in self[first : last + 1] if t.kind == "name" and t.text not in _WORDS]
        numbers = [t for t in self[first : last + 1] if t.kind == "number"]
        return bool(numbers) and all(t.text.startswith(("tw::", "__builtin_")) for t in names)
