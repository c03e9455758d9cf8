"""Integer expressions of launches (:data:`~tilewright.core.IntExpr`): substitution of names, and C++ text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from tilewright.core import IntExpr


def named(e: IntExpr, of: Callable[[str], IntExpr]) -> IntExpr:
    """The expression with ``of(name)`` substituted for each name."""
    if isinstance(e, int):
        return e
    if isinstance(e, str):
        return of(e)
    return [e[0], *(named(x, of) for x in e[1:])]


def text(e: IntExpr) -> str:
    """C++ text of an ``int``; names stay as they are."""
    return _text(e, "")


def wide(e: IntExpr) -> str:
    """C++ text of a ``long long``."""
    return f"{e}LL" if isinstance(e, int) else _text(e, "(long long)")


def unsigned(e: IntExpr) -> str:
    """C++ text of an ``unsigned``."""
    return f"{e}u" if isinstance(e, int) else f"unsigned({text(e)})"


def long_text(e: IntExpr, names: Mapping[str, str]) -> str:
    """C++ text of a ``long``; ``names`` maps each name to C++ text of a ``long``."""
    if isinstance(e, int):
        return f"{e}L"
    if isinstance(e, str):
        return names[e]
    op, *rest = e
    texts = [long_text(x, names) for x in rest]
    if op in ("*", "//"):
        return ("*" if op == "*" else "/").join(
            f"({text})" if _apart(op, number, x) else text
            for number, (text, x) in enumerate(zip(texts, rest, strict=True))
        )
    if op == "roundup":
        return f"({texts[0]}+{int(rest[1]) - 1})/{rest[1]}*{rest[1]}"
    if op == "ceildiv":
        return f"({texts[0]}+{int(rest[1]) - 1})/{rest[1]}"
    return "+".join(texts) if op == "+" else reduce(lambda a, b: f"tw::i{op}({a},{b})", texts)


def _apart(op: str, number: int, operand: IntExpr) -> bool:
    """Whether operand ``number`` of a product or quotient needs parentheses; a leading quotient does not."""
    inner = operand[0] if isinstance(operand, list) else ""
    return inner == "+" or (op == "*" and (inner == "roundup" or (number > 0 and inner in ("//", "ceildiv"))))


def _text(e: IntExpr, kind: str) -> str:
    if isinstance(e, int):
        return str(e)
    if isinstance(e, str):
        return kind + e
    op, *rest = e
    return _PRINTED[op](*(_text(x, kind) for x in rest))


_PRINTED: dict[str, Callable[..., str]] = {
    "*": lambda *xs: f"({' * '.join(xs)})",
    "+": lambda *xs: f"({' + '.join(xs)})",
    "-": lambda a, b: f"({a} - {b})",
    "//": lambda a, b: f"({a} / {b})",
    "%": lambda a, b: f"({a} % {b})",
    "min": lambda *xs: reduce(lambda a, b: f"({a} < {b} ? {a} : {b})", xs),
    "max": lambda *xs: reduce(lambda a, b: f"({a} > {b} ? {a} : {b})", xs),
    "ceildiv": lambda a, b: f"(({a} + {int(b) - 1}) / {b})",
    "roundup": lambda a, b: f"(({a} + {int(b) - 1}) / {b} * {b})",
}
