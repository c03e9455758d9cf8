"""Symbolic sizes: a parameter such as ``m=1..4096`` has bounds, and each call passes its value to the kernel.

An extent that is computed from symbolic sizes (a convolution's output, an outer stride) is a symbolic expression: a
polynomial of sizes and of quotients by numbers. The polynomial has a normal form, so equal expressions compare equal.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Union

from tilewright.errors import UsageError

_SPANS = r"\w+=\d+\.\.\d+(?:,\w+=\d+\.\.\d+)*"
_NAMED = re.compile(rf"({_SPANS})(?:\*(\d+)|:(.+))?")

Form = tuple[tuple[tuple["Factor", ...], int], ...]
"""A polynomial: pairs of a product of factors and its coefficient, sorted. The empty product is the constant term."""

Factor = Union[str, tuple[Form, int]]
"""A factor: a size by name, or the floor of a polynomial without negative coefficients divided by a number."""

Sizes = Mapping[str, int]
"""Sizes of one call, by name."""

Spans = tuple[tuple[str, tuple[int, int]], ...]
"""Bounds of symbolic sizes: pairs of a name and its least and greatest value, inclusive."""

MOST_COMPARED = 1 << 14
"""Largest number of combinations of sizes that are tried one by one, where bounds do not answer a question."""

_for_every: ContextVar[bool] = ContextVar("for_every", default=False)


class Undecided(UsageError):
    """A comparison or conversion of a symbolic extent has different answers for different sizes in its range."""


@contextmanager
def for_every_size() -> Iterator[None]:
    """Inside this context, a comparison of extents must hold for every size, and a conversion to a number must too.

    Raises :class:`Undecided` where the answer depends on the size. Outside, comparisons use the upper bounds.
    """
    before = _for_every.set(True)
    try:
        yield
    finally:
        _for_every.reset(before)


class Extent(int):
    """A symbolic extent, such as ``unit`` times a size ``name`` from ``low`` to ``high``, inclusive.

    Sums, products and quotients by whole numbers are extents again, of one size or of several. ``spans`` maps each
    size's name to its bounds. As an ``int``, an extent has its largest value; arithmetic that has no symbolic form
    yields a plain number computed from that largest value. An extent equals an extent of the same expression and
    bounds, and no number.
    """

    spans: Mapping[str, tuple[int, int]]
    form: Form

    def __new__(cls, high: int, low: int, name: str, unit: int = 1) -> Extent:
        return _extent((((name,), unit),), {name: (low, high)})

    def __reduce__(self) -> tuple[Callable[..., Extent], tuple[Form, dict[str, tuple[int, int]]]]:
        return _extent, (self.form, dict(self.spans))

    # -- one size and its multiples
    @property
    def simple(self) -> bool:
        """Whether the extent is a whole multiple of one size; ``name``, ``low``, ``high`` and ``unit`` require it."""
        return len(self.form) == 1 and len(self.form[0][0]) == 1 and isinstance(self.form[0][0][0], str)

    @property
    def name(self) -> str:
        (name,) = self.spans
        return name

    @property
    def low(self) -> int:
        return self.spans[self.name][0]

    @property
    def high(self) -> int:
        return self.spans[self.name][1]

    @property
    def unit(self) -> int:
        assert self.simple
        return self.form[0][1]

    @property
    def argument(self) -> str:
        """Name of the size among the launch arguments of kernels."""
        return argument(self.name)

    def text(self, size: str) -> str:
        """C text of the extent, given the C text of its size."""
        return size if self.unit == 1 else f"({size} * {self.unit}L)"

    def takes(self, size: int) -> bool:
        """Whether ``size`` lies within the bounds."""
        return self.low <= size <= self.high

    # -- comparisons; within :func:`for_every_size` the answer must hold for every size
    def __lt__(self, other: float) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: float) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: float) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: float) -> bool:
        return self._compared(operator.ge, other)

    def __bool__(self) -> bool:
        return self._compared(operator.gt, 0) or self._compared(operator.lt, 0)

    def __int__(self) -> int:
        if _for_every.get():
            raise Undecided(f"what is computed takes the size {self!r} as one number", "Give that size as one number")
        return int.__int__(self)

    def __float__(self) -> float:
        return float(self.__int__())

    def _compared(self, relation: Callable[[Any, Any], bool], other: float) -> bool:
        if not _for_every.get():
            return relation(int.__int__(self), int.__int__(other) if isinstance(other, Extent) else other)
        difference, fixed = (self - other, 0) if isinstance(other, Extent) else (self, other)
        for low, high in (bounds(difference), bounds(difference, exactly=True)):
            answer = relation(low, fixed)
            if relation(high, fixed) == answer:
                return answer
        what = f"what is computed depends on how {self!r} compares with {other!r}"
        raise Undecided(what, "Give that size as one number")

    # -- any expression
    @property
    def sizes(self) -> tuple[Extent, ...]:
        """The symbolic sizes in the expression, each as an extent of its own."""
        return tuple(Extent(high, low, name) for name, (low, high) in self.spans.items())

    @property
    def least(self) -> int:
        """The least value of the extent."""
        return min(_corners(self.form, self.spans))

    def at(self, sizes: Sizes) -> int:
        """Value of the extent for these sizes."""
        return _value(self.form, sizes)

    def within(self, spans: Mapping[str, tuple[int, int]]) -> int:
        """The expression with the bounds ``spans``; a size whose bounds are equal becomes that number."""
        fixed = {n: low for n, (low, high) in spans.items() if low == high}
        return made(_replaced(self.form, fixed), {**self.spans, **spans})

    # -- arithmetic
    def __add__(self, other: int) -> int:
        return self._joined(other, _sum)

    def __sub__(self, other: int) -> int:
        return self._joined(other, lambda a, b: _sum(a, b, -1))

    def __rsub__(self, other: int) -> int:
        return self._joined(other, lambda a, b: _sum(b, a, -1))

    def __mul__(self, other: int) -> int:
        return self._joined(other, _product)

    def __neg__(self) -> int:
        return self * -1

    def __floordiv__(self, other: int) -> int:
        if isinstance(other, Extent) and (exact := _exact(self.form, other.form)) is not None:
            return made(exact, self.spans)
        if type(other) is not int or other < 1:
            return int(self) // int(other)
        return made(_quotient(self.form, other), self.spans)

    def __mod__(self, other: int) -> int:
        """The remainder where it is equal for every size; else some number above 0."""
        if type(other) is not int or other < 1:
            return int(self) % int(other)
        terms = dict(self.form)
        constant = terms.pop((), 0)
        if any(c % other for c in terms.values()):
            return int(self) % other or other - 1
        return constant % other

    __radd__ = __add__
    __rmul__ = __mul__

    def _joined(self, other: int, join: Callable[[Form, Form], Form]) -> int:
        if not isinstance(other, int):
            return NotImplemented
        theirs = other.spans if isinstance(other, Extent) else {}
        return made(join(self.form, form_of(other)), {**self.spans, **theirs})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.form == other.form and self.spans == other.spans

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        spans = ",".join(f"{n}={low}..{high}" for n, (low, high) in self.spans.items())
        if self.simple:
            return spans + (f"*{self.unit}" if self.unit > 1 else "")
        return f"{spans}:{_text(self.form, str, '', '//')}"

    __str__ = int.__repr__


def text_of(number: int) -> str:
    """Text of a number, or of an extent's expression without the bounds of its sizes."""
    return _text(number.form, str, "", "//") if isinstance(number, Extent) else str(number)


def ctext(number: int) -> str:
    """C text of a ``long``; the sizes of an extent are C locals named as the launch arguments."""
    return _text(number.form, argument, "L", "/") if isinstance(number, Extent) else f"{number}L"


def intexpr(number: int) -> Any:
    """A number or an extent as an integer expression of launch arguments (:data:`~tilewright.launch.IntExpr`)."""
    if not isinstance(number, Extent):
        return int(number)

    def factor(f: Factor) -> Any:
        return argument(f) if isinstance(f, str) else ["//", total(f[0]), f[1]]

    def total(form: Form) -> Any:
        terms = [
            _joined_up("*", [*map(factor, factors), *([c] if c != 1 or not factors else [])]) for factors, c in form
        ]
        return _joined_up("+", terms)

    return total(number.form)


def _joined_up(operator: str, operands: list[Any]) -> Any:
    return operands[0] if len(operands) == 1 else [operator, *operands]


def constant_term(number: int) -> int:
    """The number itself, or the constant term of an extent's polynomial."""
    return dict(number.form).get((), 0) if isinstance(number, Extent) else number


def least(number: int) -> int:
    """The least value of a number or an extent."""
    return number.least if isinstance(number, Extent) else number


def bounds(number: int, exactly: bool = False) -> tuple[int, int]:
    """Lower and upper bound of a number or an extent, both inclusive.

    ``exactly``: the least and the greatest value, where at most :data:`MOST_COMPARED` combinations of sizes must be
    tried.
    """
    if not isinstance(number, Extent):
        return number, number
    return _bounds(number.form, tuple(number.spans.items()), exactly)


@lru_cache(maxsize=4096)
def _bounds(form: Form, spans: tuple[tuple[str, tuple[int, int]], ...], exactly: bool) -> tuple[int, int]:
    if exactly and math.prod(b - a + 1 for _, (a, b) in spans) <= MOST_COMPARED:
        names = [n for n, _ in spans]
        every = [
            _value(form, dict(zip(names, sizes, strict=True)))
            for sizes in itertools.product(*(range(a, b + 1) for _, (a, b) in spans))
        ]
        return min(every), max(every)
    least, most = ({n: span[k] for n, span in spans} for k in (0, 1))
    low = high = 0
    for factors, c in form:  # factors grow with sizes, and are not negative
        ends = [c * math.prod(_factor(f, sizes) for f in factors) for sizes in (least, most)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def simplified_extent(number: int) -> int:
    """Simplifies an extent to a number if its bounds are equal, such as ``(n + 31) // 32`` for n in 193..224."""
    low, high = bounds(number)
    return low if low == high else number


def at_least(extent: Extent, number: int) -> Spans | None:
    """Bounds of the sizes for which an extent is ``number`` or more; ``None`` where it never is.

    Only an extent of one size is narrowed; for several sizes the bounds stay as they are.
    """
    if int(extent) < number:
        return None
    spans = tuple(extent.spans.items())
    if len(spans) > 1:
        return spans
    ((name, (low, high)),) = spans
    first, past = low, high  # binary search: extents grow with sizes
    while first < past:
        between = (first + past) // 2
        first, past = (first, between) if extent.at({name: between}) >= number else (between + 1, past)
    narrowed = ((name, (first, high)),)
    least_then = bounds(extent.within(dict(narrowed)), exactly=True)[0]
    return narrowed if least_then >= number else spans


def smaller(a: int, b: int) -> int:
    """The extent that is the smaller one for every size. Raises :class:`Undecided` where that depends on the size."""
    low, high = bounds(a - b, exactly=True)
    if low < 0 < high:
        raise Undecided(f"which of {a!r} and {b!r} is less depends on the size", "Give that size as one number")
    return a if high <= 0 else b


def larger(a: int, b: int) -> int:
    """The extent that is the larger one for every size. Raises :class:`Undecided` where that depends on the size."""
    return b if smaller(a, b) is a else a


def divisor(number: int) -> int:
    """The greatest number that divides ``number`` for every size, as the coefficients of its polynomial show."""
    return math.gcd(*(c for _, c in number.form)) if isinstance(number, Extent) else number


def divides(one: int, other: int) -> bool:
    """Whether ``other`` is a whole multiple of ``one`` for every size, as their expressions show."""
    if not isinstance(one, Extent) and not isinstance(other, Extent):
        return other % one == 0
    return one != 0 and _exact(form_of(other), form_of(one)) is not None


def argument(name: str) -> str:
    """Name of a symbolic size among the launch arguments of kernels."""
    return f"extent_{name}"


def form_of(number: int) -> Form:
    """The polynomial of a number or an extent."""
    if isinstance(number, Extent):
        return number.form
    return (((), int(number)),) if number else ()


def made(form: Form, spans: Mapping[str, tuple[int, int]]) -> int:
    """The extent of a polynomial; a plain number if the polynomial is constant."""
    if not form or (form[0][0] == () and len(form) == 1):
        return form[0][1] if form else 0
    return _extent(form, spans)


def _extent(form: Form, spans: Mapping[str, tuple[int, int]]) -> Extent:
    return _made(form, tuple((n, spans[n]) for n in sorted(_names(form))))


@lru_cache(maxsize=1 << 14)
def _made(form: Form, spans: tuple[tuple[str, tuple[int, int]], ...]) -> Extent:
    used = dict(spans)
    extent = int.__new__(Extent, max(_corners(form, used)))
    extent.form, extent.spans = form, MappingProxyType(used)
    return extent


def _names(form: Form) -> set[str]:
    found: set[str] = set()
    for factors, _ in form:
        for f in factors:
            found |= {f} if isinstance(f, str) else _names(f[0])
    return found


def _corners(form: Form, spans: Mapping[str, tuple[int, int]]) -> Iterable[int]:
    """Values of the polynomial at all combinations of lower and upper bounds."""
    names = sorted(_names(form))
    return [_value(form, dict(zip(names, c, strict=True))) for c in itertools.product(*(spans[n] for n in names))]


def _value(form: Form, sizes: Sizes) -> int:
    return sum(c * math.prod(_factor(f, sizes) for f in factors) for factors, c in form)


def _factor(f: Factor, sizes: Sizes) -> int:
    return sizes[f] if isinstance(f, str) else _value(f[0], sizes) // f[1]


def _normal(terms: Mapping[tuple[Factor, ...], int]) -> Form:
    return tuple(sorted(((k, c) for k, c in terms.items() if c), key=repr))


def _sum(a: Form, b: Form, times: int = 1) -> Form:
    terms = dict(a)
    for factors, c in b:
        terms[factors] = terms.get(factors, 0) + times * c
    return _normal(terms)


def _product(a: Form, b: Form) -> Form:
    terms: dict[tuple[Factor, ...], int] = {}
    for (x, c), (y, d) in itertools.product(a, b):
        key = tuple(sorted((*x, *y), key=repr))
        terms[key] = terms.get(key, 0) + c * d
    return _normal(terms)


def _quotient(form: Form, by: int) -> Form:
    """Returns ``form // by``: multiples of ``by`` are divided term by term, the rest becomes one quotient.

    Coefficients inside the quotient are from 0 to ``by - 1``.
    """
    whole = _normal({k: c // by for k, c in form})
    rest = {k: c % by for k, c in form if c % by}
    constant = rest.pop((), 0)
    if not rest:
        return whole
    common = math.gcd(by, *rest.values())
    by, constant = by // common, constant // common
    inside: Form = _normal({**{k: c // common for k, c in rest.items()}, (): constant})
    if by == 1:
        return _sum(whole, inside)
    ((first, c), *others) = rest.items()
    if not others and c == common and len(first) == 1 and not isinstance(first[0], str):
        # (a // b) // c is a // (b * c).
        deeper, divisor = first[0]
        inside, by = _sum(deeper, (((), divisor * constant),) if constant else ()), by * divisor
    return _sum(whole, ((((inside, by),), 1),))


def _exact(form: Form, by: Form) -> Form | None:
    """The quotient of two polynomials that divide without remainder for every size; else ``None``."""

    def leading(terms: Form) -> tuple[tuple[Factor, ...], int]:
        return max(terms, key=lambda t: (len(t[0]), repr(t[0])))

    first, unit = leading(by)
    total: Form = ()
    while form:
        factors, c = leading(form)
        rest = list(factors)
        for f in first:
            if f not in rest:
                return None
            rest.remove(f)
        if c % unit:
            return None
        term: Form = ((tuple(rest), c // unit),)
        total, form = _sum(total, term), _sum(form, _product(term, by), -1)
    return total


def _replaced(form: Form, fixed: Sizes) -> Form:
    """The polynomial with numbers or extents substituted for some sizes."""
    total: Form = ()
    for factors, c in form:
        product: Form = (((), c),)
        for f in factors:
            if isinstance(f, str):
                by: Form = form_of(fixed[f]) if f in fixed else (((f,), 1),)
            else:
                by = _quotient(_replaced(f[0], fixed), f[1])
            product = _product(product, by)
        total = _sum(total, product)
    return total


def _text(form: Form, name: Callable[[str], str], suffix: str, over: str) -> str:
    """Text of the polynomial in a language whose floor division is ``over``; ``suffix`` follows each number (``L`` in
    C)."""

    def factor(f: Factor) -> str:
        return name(f) if isinstance(f, str) else f"({_text(f[0], name, suffix, over)} {over} {f[1]}{suffix})"

    out, several = "", len(form) > 1
    for factors, c in sorted(form, key=lambda t: (t[1] < 0, t[0] == ())):
        parts = [factor(f) for f in factors]
        if abs(c) != 1 or not parts:
            parts.append(f"{abs(c)}{suffix}")
        sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
        out += sign + " * ".join(parts)
        several = several or len(parts) > 1
    return f"({out})" if several else out


def replaced(number: int, sizes: Mapping[str, int]) -> int:
    """Substitutes numbers or extents for the sizes of an expression, by name."""
    if not isinstance(number, Extent):
        return number
    spans = {n: span for e in sizes.values() if isinstance(e, Extent) for n, span in e.spans.items()}
    return made(_replaced(number.form, sizes), {**number.spans, **spans})


def symbolic_sizes(numbers: Iterable[int]) -> dict[str, Extent]:
    """The symbolic sizes in the expressions of some extents, by name."""
    found = {s.name: s for n in numbers if isinstance(n, Extent) for s in n.sizes}
    return dict(sorted(found.items()))


def extents_among(values: Iterable[object]) -> Iterator[Extent]:
    """Yields the extents among lengths, shapes and attributes."""
    for v in values:
        if isinstance(v, Extent):
            yield v
        elif isinstance(v, tuple | list):
            yield from extents_among(v)
        elif isinstance(v, Mapping):
            yield from extents_among(v.values())


def varies(*values: object) -> bool:
    """Whether one of the values is or contains an extent."""
    return next(extents_among(values), None) is not None


def values_at(value: Any, sizes: Sizes) -> Any:
    """Replaces every extent in a value (nested tuples, lists and dictionaries) by its number for these sizes."""
    if isinstance(value, tuple | list):
        return type(value)(values_at(v, sizes) for v in value)
    if isinstance(value, dict):
        return {k: values_at(v, sizes) for k, v in value.items()}
    return value.at(sizes) if isinstance(value, Extent) else value


def shape_at(shape: Iterable[int], sizes: Sizes) -> tuple[int, ...]:
    """The shape for these sizes."""
    return tuple(n.at(sizes) if isinstance(n, Extent) else n for n in shape)


def greatest(extents: Mapping[str, Extent]) -> dict[str, int]:
    """The upper bound of each size, by name."""
    return {n: e.high for n, e in extents.items()}


Size = Annotated[int, "size"]
"""A whole number or an :class:`Extent`, which JSON holds as the text ``m=1..4096``."""


def write_size(size: int) -> int | str:
    return repr(size) if isinstance(size, Extent) else size


def read_size(stored: int | str) -> int:
    """The size of a text that :func:`write_size` wrote. Raises ``ValueError`` for another text."""
    if not isinstance(stored, str):
        return stored
    found = _NAMED.fullmatch(stored)
    if found is None:
        raise ValueError(f"{stored!r} is not a size")
    sizes = {}
    for text in found[1].split(","):
        name, _, span = text.partition("=")
        low, _, high = span.partition("..")
        sizes[name] = Extent(int(high), int(low), name)
    if found[3] is not None:
        return _read(ast.parse(found[3], mode="eval").body, sizes)
    (one,) = sizes.values()
    return one * int(found[2] or 1)


_READ: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def _read(node: ast.expr, sizes: Mapping[str, Extent]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _READ:
        return _READ[type(node.op)](_read(node.left, sizes), _read(node.right, sizes))
    raise ValueError(f"{ast.unparse(node)!r} is not a size")
