"""Bounds of index expressions, by interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import FLOATS, INTEGERS, Expr, whole

Range = tuple[int | None, int | None]
"""Inclusive bounds; ``None`` where there is none."""

WRAPPING = ("add", "sub", "mul", "neg")
"""Arithmetic whose whole numbers wrap around, as in NumPy, ONNX and PyTorch."""

_ITEM = {d.name: d.limits for d in DTYPES.values() if d.kind != "float" and d.bits < 64}


def index_range(e: Expr, axes: Mapping[str, Range]) -> Range:
    """Bounds of a whole-number expression; an axis that ``axes`` does not name is at least 0."""
    if e.op == "const":
        return whole(e), whole(e)
    if e.op == "size":
        extent = whole(e)
        return extent.least, int(extent)  # type: ignore[attr-defined]
    if e.op == "axis":
        low, high = axes.get(str(e.value), (0, None))
        # Of an extent the greatest: a multiple of one below zero is least where that is the greatest.
        return None if low is None else int(low), None if high is None else int(high)
    if e.op in ("load", "var"):
        return _ITEM.get(e.dtype, (None, None))
    if e.op == "cast":
        source = e.args[0]
        return _converted(index_range(source, axes) if source.dtype not in FLOATS else (None, None), e.dtype)
    found = _unwrapped(e, axes)
    return _ITEM.get(e.dtype, (None, None)) if e.op in WRAPPING and _beyond(found, e.dtype) else found


def overflows(e: Expr, axes: Mapping[str, Range]) -> bool:
    """Whether a whole number of arithmetic may lie outside of its type, where it wraps around.

    Partial results of a reduction are combined as they are: a compiler knows nothing of them that an overflow would
    contradict.
    """
    if e.op not in WRAPPING or e.dtype not in INTEGERS or all(a.op == "var" for a in e.args):
        return False
    return _beyond(_unwrapped(e, axes), e.dtype)


def _beyond(found: Range, dtype: str) -> bool:
    if dtype not in INTEGERS:
        return False
    low, high = found
    least, most = DTYPES[dtype].limits
    return low is None or high is None or low < least or high > most


def _unwrapped(e: Expr, axes: Mapping[str, Range]) -> Range:
    rule = _RULES.get(e.op)
    return (None, None) if rule is None else rule(*(index_range(a, axes) for a in e.args))


def _converted(given: Range, dtype: str) -> Range:
    """Bounds of a number after its conversion to ``dtype``: the type's own where ``dtype`` may not hold the number."""
    low, high = _ITEM.get(dtype, (None, None))
    if low is None or high is None:
        return given
    within = given[0] is not None and given[1] is not None and low <= given[0] and given[1] <= high
    return given if within else (low, high)


def _add(a: Range, b: Range) -> Range:
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def _neg(a: Range) -> Range:
    return None if a[1] is None else -a[1], None if a[0] is None else -a[0]


def _mul(a: Range, b: Range) -> Range:
    if None not in (*a, *b):
        ends = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(ends), max(ends)
    nonneg = all(r[0] is not None and r[0] >= 0 for r in (a, b))
    return (a[0] * b[0], None) if nonneg else (None, None)  # type: ignore[operator]


def _floordiv(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0 or b[1] is None:
        return None, None
    low = None if a[0] is None else min(a[0] // b[0], a[0] // b[1])
    return low, None if a[1] is None else max(a[1] // b[0], a[1] // b[1])


def _mod(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0 or b[1] is None:
        return None, None
    if a[0] is not None and a[1] is not None and a[0] >= 0 and a[1] < b[0]:
        return a
    return 0, b[1] - 1


def _min(a: Range, b: Range) -> Range:
    highs = [x for x in (a[1], b[1]) if x is not None]
    return None if a[0] is None or b[0] is None else min(a[0], b[0]), min(highs, default=None)


def _max(a: Range, b: Range) -> Range:
    lows = [x for x in (a[0], b[0]) if x is not None]
    return max(lows, default=None), None if a[1] is None or b[1] is None else max(a[1], b[1])


def _hull(_: Range, a: Range, b: Range) -> Range:
    return _min(a, b)[0], _max(a, b)[1]


_RULES: dict[str, Callable[..., Range]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "neg": _neg,
    "mul": _mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _min,
    "max": _max,
    "select": _hull,
}
