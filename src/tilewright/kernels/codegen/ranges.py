"""Bounds of index expressions, by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import FLOATS, INTEGERS, Expr, whole

Range = tuple[float, float]
"""Inclusive bounds, whole numbers or infinite."""

UNKNOWN = (-inf, inf)

WRAPPING = ("add", "sub", "mul", "neg")
"""Integer operations that wrap around, as in NumPy, ONNX and PyTorch."""

_ITEM: dict[str, Range] = {d.name: d.limits for d in DTYPES.values() if d.kind != "float" and d.bits < 64}


def index_range(e: Expr, axes: Mapping[str, Range]) -> Range:
    """Bounds of a whole-number expression; an axis that ``axes`` does not name is at least 0."""
    if e.op == "const":
        return whole(e), whole(e)
    if e.op == "size":
        extent = whole(e)
        return extent.least, int(extent)  # type: ignore[attr-defined]
    if e.op == "axis":
        found = axes.get(str(e.value))
        # Of a symbolic extent, take the upper bound: a negative multiple of the extent is least there.
        return (0, inf) if found is None else (int(found[0]), int(found[1]))
    if e.op in ("load", "var"):
        return _ITEM.get(e.dtype, UNKNOWN)
    if e.op == "cast":
        source = e.args[0]
        given, held = index_range(source, axes) if source.dtype not in FLOATS else UNKNOWN, _ITEM.get(e.dtype, UNKNOWN)
        return given if held[0] <= given[0] and given[1] <= held[1] else held
    found = _unwrapped(e, axes)
    return _ITEM.get(e.dtype, UNKNOWN) if e.op in WRAPPING and _beyond(found, e.dtype) else found


def overflows(e: Expr, axes: Mapping[str, Range]) -> bool:
    """Whether an integer operation may leave its type's range, where it must wrap around.

    Excludes combinations of partial results: the compiler knows no bounds of partial results, so an overflow
    contradicts nothing.
    """
    if e.op not in WRAPPING or e.dtype not in INTEGERS or all(a.op == "var" for a in e.args):
        return False
    return _beyond(_unwrapped(e, axes), e.dtype)


def _beyond(found: Range, dtype: str) -> bool:
    if dtype not in INTEGERS:
        return False
    least, most = DTYPES[dtype].limits
    return found[0] < least or found[1] > most


def _unwrapped(e: Expr, axes: Mapping[str, Range]) -> Range:
    rule = _RULES.get(e.op)
    return UNKNOWN if rule is None else rule(*(index_range(a, axes) for a in e.args))


def _mul(a: Range, b: Range) -> Range:
    if inf not in map(abs, (*a, *b)):
        ends = [x * y for x in a for y in b]
        return min(ends), max(ends)
    return (a[0] * b[0], inf) if a[0] >= 0 and b[0] >= 0 else UNKNOWN


def _floordiv(a: Range, b: Range) -> Range:
    if b[0] <= 0 or b[1] == inf:
        return UNKNOWN
    ends = [x if abs(x) == inf else x // d for x in a for d in b]
    return min(ends), max(ends)


def _mod(a: Range, b: Range) -> Range:
    if b[0] <= 0 or b[1] == inf:
        return UNKNOWN
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


_RULES: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "neg": lambda a: (-a[1], -a[0]),
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "select": lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
