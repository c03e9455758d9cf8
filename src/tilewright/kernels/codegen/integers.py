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
    """C++ of a ``long``; ``names``: C++ of each name, a ``long`` too."""
    if isinstance(e, int):
        return f"{e}L"
    if isinstance(e, str):
        return names[e]
    op, *rest = e
    texts = [long_text(x, names) for x in rest]
    if op == "roundup":
        return f"({texts[0]}+{int(rest[1]) - 1})/{rest[1]}*{rest[1]}"
    if op == "ceildiv":
        return f"({texts[0]}+{int(rest[1]) - 1})/{rest[1]}"
    if op == "//":
        return "/".join(texts)
    if op == "*":
        whole = (isinstance(x, list) and x[0] in ("+", "roundup") for x in rest)
        return "*".join(f"({t})" if apart else t for t, apart in zip(texts, whole, strict=True))
    return "+".join(texts) if op == "+" else reduce(lambda a, b: f"tw::i{op}({a},{b})", texts)


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
