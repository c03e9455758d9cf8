"""Reads of packed elements, of which a byte holds several."""

from __future__ import annotations

from tilewright.dtypes import DType
from tilewright.kernels.expression.expr import Expr, cast, compare, select


def element(byte: Expr, place: Expr, record: DType) -> Expr:
    """Value of element number ``place`` of a byte, counted from its lowest bits; a byte has the elements' sign."""
    whole, span, low = cast(byte, record.computed), 1 << record.bits, record.limits[0]
    value: Expr = whole // span ** (record.per_byte - 1)
    for n in reversed(range(record.per_byte - 1)):
        above = whole // span**n if n else whole
        own = (above - low) % span + low if low else above % span
        value = select(compare("eq", place, n), own, value)
    return value
