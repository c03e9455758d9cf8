"""The expression language of constraints and launch sizes: Python's arithmetic over knobs and sizes.

Values are integers, exact fractions and strings. Operations: ``+ - * / // % **``, ``& | ^`` of integers and conditions,
comparisons, ``and or not``, ``a if c else b``, ``x in (1, 2)``, and the functions of :data:`FUNCTIONS`. Expressions are
parsed and interpreted, never executed as Python: attributes, subscripts and calls of all other functions are rejected.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Union

from tilewright.core import UsageError
from tilewright.errors import nearest

Number = Union[int, Fraction, str]
_MOST_BITS = 256
_LONGEST = 1000  # characters


class NoValue(Exception):
    """An expression has no value for the given knobs, such as a division by zero or a number of too many bits."""


def _ceildiv(a: Any, b: Any) -> Any:
    return -(-a // b)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "min": (-2, min),
    "max": (-2, max),
    "abs": (1, abs),
    "ceildiv": (2, _ceildiv),
    "roundup": (2, lambda a, b: _ceildiv(a, b) * b),
}
"""Functions by name: number of operands (negative: the minimum, negated), and meaning."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: Fraction(a) / Fraction(b),
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
}
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


@dataclass(frozen=True)
class Expression:
    """A parsed expression. ``names``: the knobs and sizes that it reads, in order of occurrence."""

    text: str
    names: tuple[str, ...]
    node: ast.expr

    def value(self, names: Mapping[str, Any]) -> Any:
        """Evaluate the expression; an integral fraction becomes an integer. Raises ``NoValue``."""
        try:
            return _plain(_value(self.node, names))
        except (ZeroDivisionError, OverflowError, TypeError) as e:
            raise NoValue(f"{self.text}: {e}") from None

    def whole(self, names: Mapping[str, Any]) -> int:
        """Evaluate the expression, whose value must be an integer. Raises ``NoValue``."""
        value = self.value(names)
        if isinstance(value, bool) or not isinstance(value, int):
            raise NoValue(f"{self.text} is {value}, which is not a whole number")
        return value


def parse(text: str, what: str, known: Iterable[str]) -> Expression:
    """Parse one expression over the names ``known``. Raises ``UsageError`` that names ``what`` and the mistake."""
    found = parse_list(text, what, known)
    if len(found) != 1:
        raise UsageError(f"{what} {text!r} is {len(found)} expressions", "Give one, without a comma at its end")
    return found[0]


def parse_list(text: str, what: str, known: Iterable[str]) -> tuple[Expression, ...]:
    """Parse comma-separated expressions over the names ``known``. Raises ``UsageError``."""
    if len(text) > _LONGEST:
        raise UsageError(f"{what} has {len(text)} characters", f"At most {_LONGEST} are taken")
    try:
        tree = ast.parse(f"({text.strip()}\n,)", mode="eval").body
        if not isinstance(tree, ast.Tuple):
            raise SyntaxError("its parentheses close ours")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(
            f"{what} {text!r} is not an expression", "Write it as in Python, such as BM*BN <= 1024 or ceildiv(n, BN)"
        ) from None
    names = tuple(known)
    out = []
    for node in tree.elts:
        _check(node, text, what, names)
        read = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id not in FUNCTIONS)
        out.append(Expression(ast.unparse(node), tuple(read), node))
    return tuple(out)


def _check(node: ast.AST, text: str, what: str, known: tuple[str, ...]) -> None:
    """Raise ``UsageError`` for a node that is not in the language."""

    def refuse(why: str, hint: str = "") -> UsageError:
        return UsageError(
            f"{what} {text!r}: {why}",
            hint or "Use + - * / // % ** & | ^, comparisons, and, or, not, a if c else b, " + ", ".join(FUNCTIONS),
        )

    if isinstance(node, ast.Constant):
        if not isinstance(node.value, (bool, int, float, str)):
            raise refuse(f"{node.value!r} is neither a number nor a text")
    elif isinstance(node, ast.Name):
        if node.id not in known:
            hint = f"{nearest(node.id, known)}There are {', '.join(known)}"
            raise refuse(f"{node.id!r} is neither a knob nor a size", hint)
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in _BINARY and not isinstance(node.op, ast.Pow):
            raise refuse(f"{type(node.op).__name__} is not part of the language")
    elif isinstance(node, ast.Compare):
        if any(type(o) not in _COMPARE for o in node.ops):
            raise refuse("it compares in a way that is not part of the language")
        if any(isinstance(n, ast.BinOp) and isinstance(n.op, _BITS) for n in node.comparators[:-1]):
            raise refuse("& and | are computed before comparisons", "Write (a > 1) & (b > 1), or a > 1 and b > 1")
        for o, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(o, (ast.In, ast.NotIn)) != isinstance(right, (ast.Tuple, ast.List)):
                raise refuse("`in` takes a list of values on the right", "Write BM in (32, 64)")
        for part in (node.left, *node.comparators):
            for n in part.elts if isinstance(part, (ast.Tuple, ast.List)) else (part,):
                _check(n, text, what, known)
        return
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise refuse("it calls something that is not part of the language")
        count, _ = FUNCTIONS[node.func.id]
        if len(node.args) != count and not (count < 0 and len(node.args) >= -count):
            raise refuse(f"{node.func.id} takes {abs(count)} values{' or more' if count < 0 else ''}")
        for a in node.args:
            _check(a, text, what, known)
        return
    elif not isinstance(node, (ast.UnaryOp, ast.BoolOp, ast.IfExp)) or isinstance(
        getattr(node, "op", None), ast.Invert
    ):
        raise refuse(f"{type(node).__name__} is not part of the language")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _check(child, text, what, known)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return Fraction(str(node.value)) if isinstance(node.value, float) else node.value
    if isinstance(node, ast.Name):
        value = names[node.id]
        return Fraction(str(value)) if isinstance(value, float) else value
    if isinstance(node, ast.BinOp):
        a, b = _value(node.left, names), _value(node.right, names)
        if isinstance(a, str) or isinstance(b, str):
            raise TypeError("a text has no arithmetic")
        out = _power(a, b) if isinstance(node.op, ast.Pow) else _BINARY[type(node.op)](a, b)
        if isinstance(out, (int, Fraction)) and max(abs(Fraction(out)).as_integer_ratio()).bit_length() > _MOST_BITS:
            raise OverflowError("a number beyond reason")
        return out
    if isinstance(node, ast.UnaryOp):
        v = _value(node.operand, names)
        return (not v) if isinstance(node.op, ast.Not) else -v if isinstance(node.op, ast.USub) else +v
    if isinstance(node, ast.BoolOp):
        for v in node.values:
            value = _value(v, names)
            if bool(value) == isinstance(node.op, ast.Or):
                break
        return value
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, names) else node.orelse, names)
    if isinstance(node, ast.Compare):
        left = _value(node.left, names)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(right_node, (ast.Tuple, ast.List)):
                right: Any = tuple(_value(e, names) for e in right_node.elts)
            else:
                right = _value(right_node, names)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return FUNCTIONS[node.func.id][1](*(_value(a, names) for a in node.args))


def _power(a: Any, b: Any) -> Any:
    if not isinstance(b, int) or not 0 <= b <= _MOST_BITS:
        raise OverflowError(f"a power of {b}")
    if a and max(abs(Fraction(a)).as_integer_ratio()).bit_length() * b > 4 * _MOST_BITS:
        raise OverflowError("a number beyond reason")
    return a**b


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value
