"""Prints expressions as C++ text, for one element or for a vector of elements.

Data is computed in the C type that its dtype's record names: narrow reals in ``float``, integers of 16 and 8 bits in
``int``. In vectors, conditions are masks; indices are ``int`` or ``long`` lanes, depending on their range. All
functions used are in ``headers/``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.dtypes import DTYPES, VALUES
from tilewright.extent import ctext
from tilewright.kernels.codegen.ranges import Range, index_range, overflows
from tilewright.kernels.expression.expr import FLOATS, INDEX, NARROW, SHORT, Expr, ValueNumbers, holds, whole

_COMPUTED = {name: VALUES[d.computed].cpu for name, d in VALUES.items()}


def held_lane(dtype: str) -> str:
    """C type of an accumulator's lane."""
    return "int" if dtype == "bool" else computed(dtype)


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&&", "or": "||",
}  # fmt: skip

Load = Callable[[Expr, str | None], str]
"""Prints a tensor read; the second argument is the mask under which it is evaluated (vectors)."""


def number(value: Any, dtype: str) -> str:
    """A C literal, exact for every finite value."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in FLOATS:
        x = float(value) if dtype == "float64" else _single(float(value))
        suffix = "" if dtype == "float64" else "f"
        if math.isnan(x):
            return f'__builtin_nan{suffix}("")'
        if math.isinf(x):
            return f"{'-' if x < 0 else ''}__builtin_inf{suffix}()"
        if abs(x) < 1e6 and x * 64 == int(x * 64):
            return f"{x!r}{suffix}"  # an exact decimal
        return f"{x.hex()}{suffix}"
    n = int(value)
    if n == -(2**63):
        return "(-9223372036854775807L-1)"
    if n == -(2**31) and dtype != "int64":
        return "(-2147483647-1)"
    return f"{n}L" if dtype in ("int64", INDEX) else f"{n}"


def _single(x: float) -> float:
    """The number, or infinity or zero if float32 rounds it to that: compilers refuse out-of-range literals."""
    if abs(x) >= 2.0**128 - 2.0**103:
        return math.copysign(math.inf, x)
    return math.copysign(0.0, x) if abs(x) <= 2.0**-150 else x


def _no_load(e: Expr, guard: str | None) -> str:
    raise AssertionError("an expression reads memory where none can be read")


@dataclass
class Memo:
    """Caches that printers of common expressions share; it keeps the expressions alive."""

    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    varies: dict[tuple[str | None, frozenset[str], int], bool] = field(default_factory=dict)
    repeated: dict[tuple[int, ...], tuple[tuple[int, Expr], ...]] = field(default_factory=dict)


@dataclass
class Printer:
    """Prints expressions in one context.

    ``axis`` maps each axis to its C text (for the ``vector`` axis, the value in lane 0), ``var`` each accumulator.
    ``lanes`` is the number of lanes, ``None`` for scalars. A value that does not depend on the ``vector`` axis (or on a
    name in ``varying``) is printed as a scalar and broadcast where needed. ``ranges`` bounds axes (inclusive); an axis
    without bounds is at least 0.
    """

    axis: Mapping[str, str]
    load: Load = _no_load
    var: Mapping[str, str] = field(default_factory=dict)
    lanes: int | str | None = None  # a number, or the name of a constant
    vector: str | None = None
    varying: frozenset[str] = frozenset()  # vars whose text is a vector
    ranges: Mapping[str, Range] = field(default_factory=dict)
    guard: str | None = None  # mask under which the current text is evaluated
    names: dict[int, str] = field(default_factory=dict)  # number of a value -> temporary that holds it
    memo: Memo = field(default_factory=Memo)

    def held(self, e: Expr) -> str:
        """Text of an accumulator's value; in vectors, conditions are kept as masks of int lanes."""
        if self.lanes is not None and e.dtype == "bool":
            return f"tw::as_mask<{self.vec('int')}>({self.mask(e)})"
        return self.text(e)

    # -- one value
    def scalar(self, e: Expr) -> str:
        """Text of a value that is equal in all lanes."""
        name = self._name(e)
        if name is not None and not self.varies(e):
            return name
        op, a = e.op, e.args
        if op == "const":
            return number(e.value, e.dtype)
        if op == "axis":
            return self.axis[str(e.value)]
        if op == "size":
            return ctext(whole(e))
        if op == "var":
            return self.var[str(e.value)]
        if op == "load":
            return self.load(e, None)
        if op == "select":
            return f"({self.scalar(a[0])} ? {self.scalar(a[1])} : {self.scalar(a[2])})"
        if op == "cast":
            return self._scalar_cast(a[0], e.dtype)
        if op in ("floordiv", "mod"):
            return self._division(e, self.scalar(a[0]))
        if overflows(e, self.ranges):
            t = computed(e.dtype)
            return _shortened(_unsigned(op, t, f"unsigned {t}", [self.scalar(x) for x in a]), e.dtype)
        if op in _INFIX:
            return f"({self.scalar(a[0])} {_INFIX[op]} {self.scalar(a[1])})"
        if op == "not":
            return f"(!{self.scalar(a[0])})"
        if op == "neg":
            return _negated(self.scalar(a[0]))
        if op in ("min", "max"):
            t = computed(e.dtype)
            return f"tw::{op}<{t}>({self.scalar(a[0])}, {self.scalar(a[1])})"
        t = computed(e.dtype)
        return _shortened(f"tw::{op}({', '.join(f'{t}({self.scalar(x)})' for x in a)})", e.dtype)

    def _scalar_cast(self, a: Expr, dtype: str) -> str:
        text = self.scalar(a)
        if dtype in NARROW and not holds(dtype, a.dtype):
            return f"tw::rounded<{DTYPES[dtype].cpu}>({text if a.dtype in FLOATS else f'(float)({text})'})"
        if dtype == "bool":
            return text if a.dtype == "bool" else f"({text} != 0)"
        if dtype in SHORT:
            return f"({DTYPES[dtype].cpu})({text})"
        return text if computed(a.dtype) == computed(dtype) else f"({computed(dtype)})({text})"

    def _division(self, e: Expr, text: str) -> str:
        a, b = e.args
        if index_range(a, self.ranges)[0] >= 0:
            return f"({text} {'/' if e.op == 'floordiv' else '%'} {self.scalar(b)})"
        if b.op == "const" and whole(b) & (whole(b) - 1) == 0:
            return _by_bits(e.op, text, whole(b))
        t = computed(e.dtype)
        return f"tw::{e.op}<{t}>({text}, {self.scalar(b)})"

    def _name(self, e: Expr) -> str | None:
        return self.names.get(self.memo.numbers.of(e)) if self.names else None

    def named(self, e: Expr) -> bool:
        """Whether a temporary holds the value."""
        return self._name(e) is not None

    # -- a vector of values
    def varies(self, e: Expr) -> bool:
        """Whether lanes may differ."""
        if self.lanes is None:
            return False
        if e.op == "axis":
            return e.value == self.vector
        if e.op == "var":
            return str(e.value) in self.varying
        if not e.args:
            return False
        key = self.vector, self.varying, self.memo.numbers.of(e)
        found = self.memo.varies.get(key)
        if found is None:
            found = self.memo.varies[key] = any(self.varies(a) for a in e.args)
        return found

    def lane_type(self, e: Expr) -> str:
        """C type of a vector's lanes for this value (not for conditions)."""
        if e.dtype == INDEX:
            low, high = index_range(e, self.ranges)
            return "int" if low >= -(2**31) and high < 2**31 else "long"
        return computed(e.dtype)

    def scalar_type(self, e: Expr) -> str:
        """C type of this value as a scalar."""
        return computed(e.dtype)

    def vec(self, lane: str) -> str:
        return f"tw::vec<{lane}, {self.lanes}>"

    def vector_text(self, e: Expr, lane: str | None = None) -> str:
        """Text of a vector with lanes of C type ``lane`` (by default the C type of the value)."""
        if e.dtype == "bool":
            return self.mask(e)
        own = self.lane_type(e)
        lane = lane or own
        if not self.varies(e):
            return f"tw::splat<{self.vec(lane)}>({self.scalar(e)})"
        text = self._vector(e, own)
        return text if lane == own else f"tw::convert<{self.vec(lane)}>({text})"

    def mask(self, e: Expr) -> str:
        """Text of a condition as a mask with integer lanes of any type."""
        if not self.varies(e):
            return f"tw::splat<{self.vec('int')}>({self.scalar(e)} ? -1 : 0)"
        name = self._name(e)
        if name is not None:
            return name
        op, a = e.op, e.args
        if op in ("and", "or"):
            return f"tw::{'both' if op == 'and' else 'either'}({self.mask(a[0])}, {self.mask(a[1])})"
        if op == "not":
            return f"(~{self.mask(a[0])})"
        if op == "var":
            return self.var[str(e.value)]
        if op == "select":
            cond, x, y = self._branches(a)
            return f"tw::pick({cond}, {x}, {y})"
        if op == "load":
            return f"({self.load(e, self.guard)} != 0)"
        if op == "cast":
            return f"({self.vector_text(a[0])} != 0)"
        if a[0].dtype == "bool":  # eq, ne and orderings of conditions: compare them as 0 and 1
            x, y = (f"(tw::as_mask<{self.vec('int')}>({self.mask(v)}) & 1)" for v in a)
            return f"({x} {_INFIX[op]} {y})"
        lane = self._common(a)
        return f"({self.vector_text(a[0], lane)} {_INFIX[op]} {self.vector_text(a[1], lane)})"

    def _common(self, args: tuple[Expr, ...]) -> str:
        kinds = {self.lane_type(x) for x in args}
        return kinds.pop() if len(kinds) == 1 else "long"

    def _conjuncts(self, e: Expr) -> tuple[list[Expr], list[Expr]]:
        """Splits a chain of ``and`` into conditions that are equal in all lanes, and conditions that vary."""
        if e.op == "and":
            a, b = self._conjuncts(e.args[0]), self._conjuncts(e.args[1])
            return a[0] + b[0], a[1] + b[1]
        return ([], [e]) if self.varies(e) else ([e], [])

    def _branches(self, args: tuple[Expr, ...], lane: str | None = None) -> tuple[str, str, str]:
        cond = self.mask(args[0])
        x = self._under(cond, args[1], lane)
        y = self._under(f"(~{cond})", args[2], lane)
        return cond, x, y

    def _under(self, mask: str, e: Expr, lane: str | None) -> str:
        outer = self.guard
        self.guard = mask if outer is None else f"tw::both({outer}, {mask})"
        try:
            return self.vector_text(e, lane)
        finally:
            self.guard = outer

    def _vector(self, e: Expr, lane: str) -> str:
        name = self._name(e)
        if name is not None:
            return name
        op, a = e.op, e.args
        v = self.vec(lane)
        if op == "axis":
            return f"(tw::iota<{v}>() + tw::splat<{v}>({self.axis[str(e.value)]}))"
        if op == "var":
            return self.var[str(e.value)]
        if op == "load":
            return self.load(e, self.guard)
        if op == "select":
            if not self.varies(a[0]):
                x, y = self.vector_text(a[1], lane), self.vector_text(a[2], lane)
                return f"({self.scalar(a[0])} ? {x} : {y})"
            same, differs = self._conjuncts(a[0])
            if same and a[2].op == "const":
                # Conditions that are equal in all lanes are tested once: whole rows are skipped.
                inner = self._vector(Expr("select", e.dtype, (_all(differs), *a[1:])), lane)
                return f"({self.scalar(_all(same))} ? {inner} : {self.vector_text(a[2], lane)})"
            cond, x, y = self._branches(a, lane)
            return f"tw::select({cond}, {x}, {y})"
        if op == "cast":
            return self._vector_cast(a[0], e.dtype, lane)
        if op in ("floordiv", "mod"):
            text = self.vector_text(a[0], lane)
            if a[1].op == "const" and whole(a[1]) & (whole(a[1]) - 1) == 0:
                return _by_bits(op, text, whole(a[1]))
            return f"tw::{op}<{v}>({text}, tw::splat<{v}>({self.scalar(a[1])}))"
        if overflows(e, self.ranges):
            text = _unsigned(op, v, self.vec(f"unsigned {lane}"), [self.vector_text(x, lane) for x in a])
            return self._shortened_lanes(text, e.dtype, v)
        if op == "neg":
            return _negated(self.vector_text(a[0], lane))
        if op in ("min", "max"):
            return f"tw::{op}<{v}>({self.vector_text(a[0], lane)}, {self.vector_text(a[1], lane)})"
        if op in _INFIX:
            return f"({self._operand(a[0], lane)} {_INFIX[op]} {self._operand(a[1], lane)})"
        text = f"tw::{op}({', '.join(self.vector_text(x, lane) for x in a)})"
        return self._shortened_lanes(text, e.dtype, v)

    def _operand(self, e: Expr, lane: str) -> str:
        # The compiler broadcasts a scalar beside a vector (a broadcast operand of the multiply-add).
        if not self.varies(e):
            return f"({lane})({self.scalar(e)})"
        return self.vector_text(e, lane)

    def _vector_cast(self, a: Expr, dtype: str, lane: str) -> str:
        v = self.vec(lane)
        if a.dtype == "bool":
            return f"tw::select({self.mask(a)}, tw::splat<{v}>(1), {v}{{}})"
        text = f"tw::convert<{v}>({self.vector_text(a)})"
        if dtype in NARROW and not holds(dtype, a.dtype):
            return f"tw::rounded_lanes<{DTYPES[dtype].cpu}>({self.vector_text(a) if a.dtype == 'float64' else text})"
        return self._shortened_lanes(text, dtype, v)

    def _shortened_lanes(self, text: str, dtype: str, v: str) -> str:
        """Text of a vector ``v`` of values of ``dtype``; 8- and 16-bit integers are truncated to their bits."""
        if dtype not in SHORT:
            return text
        return f"tw::convert<{v}>(tw::convert<{self.vec(DTYPES[dtype].cpu)}>({text}))"

    # -- repeated values
    def bind(self, exprs: Sequence[Expr], line: Callable[[str], None], fresh: Callable[[str], str]) -> None:
        """Computes values that occur more than once into temporaries, which ``line`` declares.

        A value that reads memory and occurs only under a ``select`` is left there.
        """
        key = tuple(map(id, exprs))
        found = self.memo.repeated.get(key)
        if found is None:
            found = self.memo.repeated[key] = repeated_values(exprs, self.memo.numbers)
        for value_number, e in found:
            name = fresh("t")
            if self.varies(e):
                line(f"const {self.vec(self.lane_type(e))} {name} = {self.vector_text(e)};")
            else:
                line(f"const {self.scalar_type(e)} {name} = {self.scalar(e)};")
            self.names[value_number] = name

    def text(self, e: Expr) -> str:
        """Text of a value: a vector if ``lanes`` is set (a mask for a condition), else a scalar."""
        return self.scalar(e) if self.lanes is None else self.vector_text(e)


def repeated_values(exprs: Sequence[Expr], numbers: ValueNumbers) -> tuple[tuple[int, Expr], ...]:
    """Values worth a temporary, with their value numbers, in order of computation."""
    uses: dict[int, int] = {}
    always: set[int] = set()
    nodes: dict[int, Expr] = {}

    def visit(e: Expr, conditional: bool) -> None:
        key = numbers.of(e)
        uses[key] = uses.get(key, 0) + 1
        first = key not in nodes or (not conditional and key not in always)
        if not conditional:
            always.add(key)
        if first and e.op != "load":
            for n, a in enumerate(e.args):
                visit(a, conditional or (e.op == "select" and n > 0))
        nodes.setdefault(key, e)

    for e in exprs:
        visit(e, False)
    found = []
    for key, e in nodes.items():
        free = e.op in ("const", "axis", "var") or e.dtype in (INDEX, "bool")
        if uses[key] > 1 and not free and (key in always or not e.loads()):
            found.append((key, e))
    return tuple(found)


def _all(conditions: list[Expr]) -> Expr:
    result = conditions[0]
    for c in conditions[1:]:
        result = Expr("and", "bool", (result, c))
    return result


def _unsigned(op: str, type_: str, unsigned: str, operands: Sequence[str]) -> str:
    """Text of wrapping arithmetic on unsigned numbers: C defines wrap-around only for unsigned types."""
    sign = "" if len(operands) > 1 else "-"
    return f"({type_})({sign}{f' {_INFIX.get(op)} '.join(f'({unsigned}){x}' for x in operands)})"


def _shortened(text: str, dtype: str) -> str:
    """Text of a value of ``dtype``; 8- and 16-bit integers are truncated to their bits."""
    return f"({DTYPES[dtype].cpu}){text}" if dtype in SHORT else text


def _negated(text: str) -> str:
    # Two adjacent minus signs would be a decrement.
    return f"(-({text}))" if text.startswith("-") else f"(-{text})"


def _by_bits(op: str, text: str, d: int) -> str:
    # Shifts and masks of two's complement round down, as // and % do.
    return f"({text} >> {d.bit_length() - 1})" if op == "floordiv" else f"({text} & {d - 1})"


def computed(dtype: str) -> str:
    """C type of a value, or of a vector's lanes, during computation (a vector of conditions is a mask)."""
    return _COMPUTED[dtype]


def print_expr(
    expr: Expr,
    *,
    axis: Mapping[str, str],
    load: Callable[[Expr], str],
    var: Mapping[str, str] | None = None,
    lanes: int | None = None,
) -> str:
    """Text of one expression.

    With ``lanes``, the result and every ``var`` are vectors of that many lanes, and axes are equal in all lanes.
    """
    names = dict(var or {})
    varying = frozenset(names) if lanes else frozenset[str]()
    return Printer(axis, lambda e, _: load(e), names, lanes, varying=varying).text(expr)
