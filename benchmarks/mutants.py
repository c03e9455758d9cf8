"""Automatic mutants of a CUDA kernel's text: what a checker must notice.

Each mutant is one small mistake: a barrier, a wait, a guard or a reset left out, an index or a stage
constant off by one, in a function that is called. They are found on the text's tokens, so the same text
always gives the same list. One compiled unit holds all mutants of a kernel (:func:`with_switch`), told apart
by a launch argument; :func:`applied` prints one alone.

================  ==============================================================================
``sync``          a block barrier, or half of a cluster's, is left out
``sync_warp``     a warp barrier is left out
``cp_wait``       a wait for asynchronous copies is left out
``cp_commit``     a commit of asynchronous copies is left out
``mbarrier``      a barrier in shared memory is not made, not announced, not awaited, or not told of an arrival
``tma``           a fence, a commit or a wait of boxes on their way to memory is left out
``wgmma``         a fence, a commit or a wait of a warp group's products is left out
``guard``         one condition of an ``if``, of ``?:``, of a ``bool`` or of ``&&`` always holds; an
                  asynchronous copy reads all its bytes, valid or not
``reset``         an accumulator keeps what its memory held before
``index``         a subscript, an address, a pointer, an integer or an argument is one more
``stage``         a constant is one more: a modulus, an addend, a wait, a prologue's length
================  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cpp_syntax import Syntax, read
from tilewright.checking.check import Subject
from tilewright.core import Launch, TilewrightError

KINDS = ("sync", "sync_warp", "cp_wait", "cp_commit", "mbarrier", "wgmma", "tma", "guard", "reset", "index", "stage")
ARGUMENT = "tw_mutant"
"""Launch argument that says which mutant runs; 0 is none."""

_DELETED = {
    "tw::sync": "sync", "tw::sync_warp": "sync_warp", "tw::cp_wait": "cp_wait", "tw::cp_commit": "cp_commit",
    **{f"tw::mbarrier_{x}": "mbarrier" for x in ("init", "fence", "expect", "wait", "arrive")},
    **{f"tw::wgmma_{x}": "wgmma" for x in ("fence", "commit", "wait")}, "tw::sync_some": "sync",
    "tw::cluster_arrive": "sync", "tw::cluster_wait": "sync", "tw::mbarrier_arrive_cluster": "mbarrier",
    **dict.fromkeys(("tw::tma_wait", "tw::shared_fence"), "tma"), "tw::tma_commit": "tma",
}  # fmt: skip
_WAITS = ("tw::cp_wait", "tw::wgmma_wait", "tw::tma_wait")
"""Those whose constant says how many groups may be under way."""
_ADDRESSES: Mapping[str, tuple[int, ...]] = {
    "tw::load_global": (0,), "tw::store_global": (0,), "tw::load_shared": (0,), "tw::store_shared": (0,),
    "tw::cp_async": (0, 1), "tw::ldmatrix_x4": (1,), "tw::ldmatrix_x4_trans": (1,), "tw::ldmatrix_x2": (1,),
    "tw::ldmatrix_x2_trans": (1,), "tw::atomic_add": (0,), "tw::shared_address": (0,),
    "tw::mbarrier_init": (1,), "tw::mbarrier_expect": (1,), "tw::mbarrier_wait": (1,), "tw::wgmma_operand": (0, 1, 2),
    "tw::tma_load_2d": (3, 4), "tw::tma_load_3d": (3, 4, 5), "tw::tma_store_2d": (2, 3), "tw::tma_store_3d": (2, 3, 4),
    "tw::tma_multicast_2d": (3, 4, 5), "tw::tma_multicast_3d": (3, 4, 5, 6), "tw::cluster_address": (0, 1),
    **{f"tw::tma_im2col_{n}d": tuple(range(3, 2 * n + 1)) for n in (3, 4, 5)},
    **{f"tw::tma_im2col_multicast_{n}d": tuple(range(3, 2 * n + 2)) for n in (3, 4, 5)},
    **{f"tw::wgmma_{x}": (1, 2, 3) for x in ("f16", "bf16", "tf32", "s8")},
    **{f"tw::wgmma_{x}_rs": (2, 3) for x in ("f16", "bf16")},
}  # fmt: skip
"""Which arguments of a primitive are addresses."""
_INTEGERS = {"int", "unsigned", "long", "u32", "u64", "tw::u32", "tw::u64", "size_t", "char", "short"}
_REALS = {"float", "double"}
_CLOSING = -(10**8)  # before every opening at the same place

HEADER = """
static int tw_mutant = 0;
__attribute__((noinline, no_sanitize("thread"))) static void tw_choose_mutant(int n) { tw_mutant = n; }
__attribute__((noinline)) static void tw_fill_garbage(void *p, unsigned long n) { __builtin_memset(p, 0xff, n); }
template <class T> static inline T tw_left_out(int n, T value) {
    if (tw_mutant == n) tw_fill_garbage(&value, sizeof value);
    return value;
}
"""
"""Text before the kernel. What is not set holds 0xFF bytes: NaN, or -1."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: its kind, the line (from 1) and text it changes, and the change in words.

    ``edits`` are insertions ``(position, depth, text)`` for the compiled switch, with ``{n}`` for the
    mutant's number; ``alone`` is a replacement ``(start, end, text)``. Without ``edits`` the mutant can
    only be compiled alone (constants that the compiler must know).
    """

    kind: str
    line: int
    column: int
    text: str
    change: str
    alone: tuple[int, int, str]
    edits: tuple[tuple[int, int, str], ...] = ()

    @property
    def key(self) -> str:
        """Names the mutant within its kernel's text."""
        return f"{self.line}:{self.column}:{self.kind}"


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a kernel's text, in order of place."""
    found = _Finder(read(source)).run()
    unique: dict[tuple[int, int, str], Mutant] = {}
    for m in found:
        unique.setdefault(m.alone, m)
    return sorted(unique.values(), key=lambda m: (m.line, m.column, KINDS.index(m.kind), m.change))


def applied(source: str, mutant: Mutant) -> str:
    """The kernel's text with one mistake in it."""
    start, end, text = mutant.alone
    return source[:start] + text + source[end:]


def with_switch(subject: Subject, chosen: Mapping[int, Mutant]) -> Subject:
    """One kernel that holds the mutants by number; the launch argument ``ARGUMENT`` says which is live."""
    source = subject.source
    inserts: list[tuple[int, int, int, str]] = []
    for number, m in chosen.items():
        for at, depth, text in m.edits:
            inserts.append((at, depth, -number if depth < _CLOSING // 2 else number, text.format(n=number)))
    inserts += [(at, 2 * _CLOSING, 0, text) for at, text in _entry(source)]
    parts, last = [], 0
    for at, _depth, _number, text in sorted(inserts):
        parts += [source[last:at], text]
        last = at
    body = "".join([*parts, source[last:]])
    launches = tuple(_with_argument(x) for x in subject.program.launches)
    return replace(
        subject, source=f'{HEADER}#line 1 "kernel"\n{body}', program=replace(subject.program, launches=launches),
        launch=(*subject.launch, (ARGUMENT, 0)),
    )  # fmt: skip


def choose(subject: Subject, number: int) -> Subject:
    """A kernel with a switch, set to one of its mutants."""
    launch = tuple((k, number if k == ARGUMENT else v) for k, v in subject.launch)
    return replace(subject, launch=launch)


def _with_argument(launch: Launch) -> Launch:
    if launch.parameters:
        return replace(launch, parameters=(*launch.parameters, ("int32", ARGUMENT)))
    return replace(launch, arguments=(*launch.arguments, ARGUMENT))


def _entry(source: str) -> Iterator[tuple[int, str]]:
    """Insertions that give every kernel the argument and set the switch."""
    found = 0
    tokens = read(source)
    for n, t in enumerate(tokens):
        if t.text != "TW_KERNEL":
            continue
        opening = tokens.after(tokens.after(tokens.match[n + 1], "void"), "(")
        closing = tokens.match[opening]
        yield tokens[closing].start, f", int {ARGUMENT}_"
        yield tokens[tokens.after(closing, "{")].end, f" tw_choose_mutant({ARGUMENT}_);"
        found += 1
    if not found:
        raise TilewrightError("the text holds no kernel", "Kernels begin with TW_KERNEL(threads, blocks)")


class _Finder:
    """Walks the tokens once for each kind of mistake."""

    def __init__(self, tokens: Syntax) -> None:
        self.tokens = tokens
        self.found: list[Mutant] = []
        self.integers: set[str] = set()
        self.arrays: set[str] = set()

    def run(self) -> list[Mutant]:
        self._walk()
        dead = [(self.tokens[a].start, self.tokens[b].end) for a, b in self.tokens.uncalled()]
        return [m for m in self.found if not any(a <= m.alone[0] < b for a, b in dead)]

    def _walk(self) -> None:
        for n, t in enumerate(self.tokens):
            if t.text in _DELETED and self.tokens.begins_statement(n):
                self._call(n, _DELETED[t.text])
            if t.kind == "name":
                self._definition(n)
                self._addresses(n)
                self._arguments(n)
            elif t.text == "[":
                self._subscript(n)
        for n, t in enumerate(self.tokens):
            if t.kind == "name" and self.tokens.begins_statement(n):
                self._assignment(n)
            if t.text in ("if", "while"):
                self._condition(n)
            elif t.text == "?":
                self._ternary(n)
            elif t.text in ("%", "+", "-"):
                self._constant(n)
            elif t.text == "for":
                self._prologue(n)

    # ------------------------------------------------------------------ writing mutants down

    def _add(
        self, kind: str, first: int, last: int, change: str, replacement: str, *, opening: str = "", closing: str = "",
        live: bool = True,
    ) -> None:  # fmt: skip
        """A mutant that replaces tokens ``first`` to ``last``; ``opening`` and ``closing`` wrap them in the switch."""
        t, end = self.tokens[first], self.tokens[last].end
        text = self.tokens.source[t.start : end]
        span = end - t.start
        # At one place what ends comes before what begins, and the insertion around more text is the outer one.
        edits = ((t.start, -span, opening), (end, span + _CLOSING, closing)) if live else ()
        self.found.append(Mutant(kind, t.line, t.column, text, change, (t.start, end, replacement), edits))

    def _shift(self, kind: str, first: int, last: int, what: str, live: bool = True) -> None:
        text = self.tokens.text(first, last)
        self._add(
            kind, first, last, f"{what} {text} + 1", f"({text}) + 1", opening="((", closing=") + (tw_mutant == {n}))",
            live=live,
        )  # fmt: skip

    def _always(self, first: int, last: int) -> None:
        """Every condition joined by && from ``first`` to ``last`` as one that always holds."""
        tokens = self.tokens
        while tokens[first].text == "(" and tokens.match[first] == last:
            first, last = first + 1, last - 1
        parts = tokens.split(first, last, "&&")
        if len(parts) > 1:
            for a, b in parts:
                self._always(a, b)
            return
        if len(tokens.split(first, last, "||")) == 1 and first == last and tokens[first].kind == "number":
            return
        text = tokens.text(first, last)
        self._add(
            "guard", first, last, f"without {text}", "true", opening="(tw_mutant == {n} || (", closing="))"
        )  # fmt: skip

    # ------------------------------------------------------------------ kinds of places

    def _call(self, n: int, kind: str) -> None:
        tokens = self.tokens
        name_end = tokens.angle.get(n + 1, n)
        closing = tokens.match[name_end + 1]
        end = closing + 1  # the semicolon
        text = tokens.text(n, closing)
        self._add(
            kind, n, end, f"without {text}", ";", opening="{{ if (tw_mutant != {n}) ", closing=" }}"
        )  # fmt: skip
        if tokens[n].text in _WAITS and name_end > n:
            self._wait(n, name_end, end)

    def _wait(self, n: int, name_end: int, end: int) -> None:
        tokens = self.tokens
        constant = tokens.text(n + 2, name_end - 1)
        t, stop = tokens[n], tokens[end].end
        more = f"{tokens[n].text}<({constant}) + 1>();"
        span = stop - t.start + 1
        edits = ((t.start, -span, f"{{{{ if (tw_mutant == {{n}}) {more} else "), (stop, span + _CLOSING, " }}"))
        self.found.append(
            Mutant("stage", t.line, t.column, tokens.text(n, end), more, (t.start, stop, more), edits)
        )  # fmt: skip

    def _subscript(self, n: int) -> None:
        tokens = self.tokens
        before = tokens[n - 1]
        closing = tokens.match[n]
        if closing == n + 1 or before.kind not in ("name", "close") or before.text == "}":
            return
        if tokens.declares_array(n) or tokens.is_type_position(n):
            first = n
            while tokens[first - 1].text == "]":
                first = tokens.match[first - 1]
            self.arrays.add(tokens[first - 1].text)
            return
        self._shift("index", n + 1, closing - 1, "subscript")

    def _definition(self, n: int) -> None:
        """``int NAME = EXPR`` and ``TYPE *NAME = EXPR``, in a statement or a loop's header."""
        tokens = self.tokens
        if n + 1 >= len(tokens) or tokens[n + 1].text != "=" or n == 0:
            return
        before = tokens[n - 1]
        words = tokens.declaration_words(n)
        if not words or tokens[n + 2].text in ("{", "["):  # a list of values, a lambda
            return
        last = tokens.expression_end(n + 2)
        fixed = "constexpr" in words or "static" in words
        if before.text == "*":
            self._shift("index", n + 2, last, f"pointer {tokens[n].text} =", live=not fixed)
        elif words & _INTEGERS and "bool" not in words:
            self.integers.add(tokens[n].text)
            self._shift("stage" if fixed else "index", n + 2, last, f"{tokens[n].text} =", live=not fixed)
        elif "bool" in words:
            self._always(n + 2, last)
        elif words & _REALS and tokens.constant(n + 2, last):
            self._reset(n + 2, last)

    def _assignment(self, n: int) -> None:
        """``acc[i][j] = 0.f;`` is a reset, ``stage = EXPR;`` an index."""
        tokens = self.tokens
        at = n + 1
        while tokens[at].text == "[" or (tokens[at].text == "." and tokens[at + 1].kind == "name"):
            at = tokens.match[at] + 1 if tokens[at].text == "[" else at + 2
        if tokens[at].text not in ("=", "+=", "-="):
            return
        last = tokens.expression_end(at + 1)
        if tokens[at].text == "+=" and self._runs_once(n, at + 1):
            return
        if at == n + 1 and tokens[n].text in self.integers:
            self._shift("index", at + 1, last, f"{tokens[n].text} {tokens[at].text}")
        elif tokens[at].text == "=" and tokens.constant(at + 1, last):
            self._reset(at + 1, last)

    def _runs_once(self, n: int, step: int) -> bool:
        """Whether ``i += 8`` ends the header of a loop ``for (int i = 0; i < 8; i += 8)``: it never matters."""
        tokens = self.tokens
        opening = next((a for a in range(n, max(n - 16, 0), -1) if tokens[a].text == "(" and tokens.match[a] > n), None)
        if opening is None or tokens[opening - 1].text != "for":
            return False
        header = tokens.text(opening, tokens.match[opening])
        found = re.fullmatch(r"\(\w+ (\w+) = (\d+); \1 < (\d+); \1 \+= (\d+)\)", header)
        return found is not None and int(found[2]) + int(found[4]) >= int(found[3])

    def _reset(self, first: int, last: int) -> None:
        text = self.tokens.text(first, last)
        self._add(
            "reset", first, last, f"without = {text}", f"tw_left_out(0, {text})", opening="tw_left_out({n}, ",
            closing=")",
        )  # fmt: skip

    def _addresses(self, n: int) -> None:
        tokens = self.tokens
        which = _ADDRESSES.get(tokens[n].text)
        if which is None:
            return
        opening = tokens.angle.get(n + 1, n) + 1
        if tokens[opening].text != "(":
            return
        arguments = tokens.split(opening + 1, tokens.match[opening] - 1, ",")
        for position in which:
            if position < len(arguments) and arguments[position][0] != arguments[position][1]:
                self._shift("index", *arguments[position], f"address {position} of {tokens[n].text}:")
        if tokens[n].text == "tw::cp_async" and len(arguments) > 2 and n + 1 in tokens.angle:
            first, last = arguments[2]
            size = tokens.text(n + 2, tokens.angle[n + 1] - 1)
            if tokens.text(first, last) != size:
                self._add(
                    "guard", first, last, f"all {size} bytes valid, not {tokens.text(first, last)}", size,
                    opening=f"(tw_mutant == {{n}} ? ({size}) : (", closing="))",
                )  # fmt: skip

    def _condition(self, n: int) -> None:
        if self.tokens[n + 1].text == "(":
            self._always(n + 2, self.tokens.match[n + 1] - 1)

    def _ternary(self, n: int) -> None:
        first = self.tokens.operand_start(n)
        if first < n:
            self._always(first, n - 1)

    def _constant(self, n: int) -> None:
        """A number after ``%``, or after ``+`` or ``-`` between two operands."""
        tokens = self.tokens
        before, after = tokens[n - 1], tokens[n + 1]
        binary = before.kind in ("name", "number") or before.text in (")", "]")
        ends = tokens[n + 2].text not in ("*", "/", "%", ".")
        if not (binary and after.kind == "number" and after.text.rstrip("uUlL").isdigit() and ends):
            return
        what = "modulus" if tokens[n].text == "%" else tokens[n].text
        if not tokens.in_declarator(n):
            self._shift("stage", n + 1, n + 1, what)

    def _arguments(self, n: int) -> None:
        """Sums and products that are passed to the text's own functions."""
        tokens = self.tokens
        if tokens[n].text not in tokens.functions or tokens.declaration_words(n) or tokens[n + 1].text != "(":
            return
        for first, last in tokens.split(n + 2, tokens.match[n + 1] - 1, ","):
            if first != last and any(t.text in ("+", "-", "*") for t in tokens.at_depth(first + 1, last)):
                self._shift("index", first, last, f"argument of {tokens[n].text}:")

    def _prologue(self, n: int) -> None:
        """The length of a loop that starts copies."""
        tokens = self.tokens
        header = tokens.match[n + 1]
        parts = tokens.split(n + 2, header - 1, ";")
        end = tokens.statement_end(header + 1)
        body = {t.text for t in tokens[header + 1 : end + 1]}
        if len(parts) == 3 and body & {"tw::cp_commit", "tw::cp_async"}:
            compare = [k for k in range(parts[1][0], parts[1][1]) if tokens[k].text == "<"]
            if compare and tokens[compare[0] + 1].kind == "number" and compare[0] + 1 == parts[1][1]:
                self._shift("stage", parts[1][1], parts[1][1], "loop to")


def describe(found: Sequence[Mutant]) -> dict[str, int]:
    """How many mutants there are of each kind."""
    return {k: sum(m.kind == k for m in found) for k in KINDS}
