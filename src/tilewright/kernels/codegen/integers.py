"""Integer expressions of launches (:data:`~tilewright.core.IntExpr`): their names replaced, and as C++."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from tilewright.core import IntExpr


def named(e: IntExpr, of: Callable[[str], IntExpr]) -> IntExpr:
    """The expression with what ``of`` gives in the place of each name."""
    if isinstance(e, int):
        return e
    if isinstance(e, str):
        return of(e)
    return [e[0], *(named(x, of) for x in e[1:])]


def text(e: IntExpr) -> str:
    """C++ of an ``int``, its names as they are."""
    return _text(e, "")


def wide(e: IntExpr) -> str:
    """C++ of a ``long long``."""
    return f"{e}LL" if isinstance(e, int) else _text(e, "(long long)")


def unsigned(e: IntExpr) -> str:
    """C++ of an ``unsigned``."""
    return f"{e}u" if isinstance(e, int) else f"unsigned({text(e)})"


def long_text(e: IntExpr, names: Mapping[str, str]) -> str:
    """C++ of a ``long``; ``names``: C++ of the launch arguments, each a ``long``."""
    if isinstance(e, int):
        return f"{e}L"
    if isinstance(e, str):
        return names[e]
    op, *rest = e
    if op == "roundup":
        return f"({long_text(rest[0], names)}+{int(rest[1]) - 1})/{rest[1]}*{rest[1]}"
    texts = [long_text(x, names) for x in rest]
    return _LONG[op](texts)


_LONG: dict[str, Callable[[list[str]], str]] = {
    "*": "*".join,
    "+": lambda xs: f"({'+'.join(xs)})",
    "min": lambda xs: reduce(lambda a, b: f"tw::imin({a},{b})", xs),
    "max": lambda xs: reduce(lambda a, b: f"tw::imax({a},{b})", xs),
}


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
