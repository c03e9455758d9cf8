"""Reads msgpack from peers, bounded in depth, count and memory: a first pass measures a message before decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.errors import needed
from tilewright.farm.budgets import DEPTH, MESSAGE, Budget, OverBudget
from tilewright.farm.errors import FarmError

_TEXT, _OTHER, _LIST, _MAP, _REFUSED = range(5)


class NoMessage(FarmError):
    """Bytes that are not a message of plain values."""

    kind = "no_message"


def _forms() -> list[tuple[int, int, int]]:
    """Table by a value's first byte: its kind, its bytes or entries that are known from that byte, and the number of
    length bytes that follow."""
    forms = [(_OTHER, 1, 0)] * 0x80
    forms += [(_MAP, n, 0) for n in range(16)] + [(_LIST, n, 0) for n in range(16)]
    forms += [(_TEXT, 1 + n, 0) for n in range(32)]
    forms += [(_OTHER, 1, 0), (_REFUSED, 0, 0), (_OTHER, 1, 0), (_OTHER, 1, 0)]  # nothing, unused, false, true
    forms += [(_OTHER, 1 + n, n) for n in (1, 2, 4)]  # bytes
    forms += [(_REFUSED, 0, 0)] * 3  # extensions
    forms += [(_OTHER, n, 0) for n in (5, 9, 2, 3, 5, 9, 2, 3, 5, 9)]  # floats, unsigned and signed integers
    forms += [(_REFUSED, 0, 0)] * 5  # extensions
    forms += [(_TEXT, 1 + n, n) for n in (1, 2, 4)]
    forms += [(_LIST, 0, n) for n in (2, 4)] + [(_MAP, 0, n) for n in (2, 4)]
    return forms + [(_OTHER, 1, 0)] * 0x20


_FORMS = _forms()


def unpack(data: bytes, budget: Budget = MESSAGE) -> dict[str, Any]:
    """Decodes a map of plain values: keys are texts, extension types are refused.

    Raises ``OverBudget`` if the bytes, values or levels exceed their limits, ``NoMessage`` if ``data`` is not a map of
    plain values.
    """
    budget.check(len(data))
    _measure(data, budget)
    try:
        message: dict[str, Any] = require_msgpack().unpackb(data, raw=False)
    except ValueError as e:  # a text that is not UTF-8
        raise NoMessage(f"not a message: {type(e).__name__}") from None
    return message


def _measure(data: bytes, budget: Budget) -> None:
    """Checks the structure of a message without decoding its values.

    Every entry takes at least one byte. So a header that announces more entries than bytes follow is refused before
    memory is allocated for it.
    """
    at, end, count = 0, len(data), 1
    outer: list[tuple[int, bool]] = []  # of each enclosing container: entries left, and whether it is a map
    left, is_map = 1, False
    while True:
        while not left:
            if not outer:
                if at != end:
                    raise NoMessage("not a message: something follows it")
                return
            left, is_map = outer.pop()
        if at >= end:
            raise NoMessage("not a message: it ends too early")
        kind, size, more = _FORMS[data[at]]
        if is_map and not left & 1 and kind != _TEXT:
            raise NoMessage("not a message: a key that is not text")
        left -= 1
        if kind <= _OTHER:
            at += size + (int.from_bytes(data[at + 1 : at + 1 + more]) if more else 0)
            if at > end:
                raise NoMessage("not a message: it ends too early")
            if not outer:
                raise NoMessage("not a message: no map")
            continue
        if kind == _REFUSED:
            raise NoMessage("not a message: a value that is not plain")
        entries = int.from_bytes(data[at + 1 : at + 1 + more]) if more else size
        at += 1 + more
        if not outer and kind != _MAP:
            raise NoMessage("not a message: no map")
        entries *= kind - _LIST + 1
        count += entries
        if count > end:
            raise NoMessage("not a message: it ends too early")
        if count > budget.values:
            raise OverBudget(replace(budget, most=budget.values, of=budget.of.replace("bytes", "values", 1)), count)
        DEPTH.check(len(outer) + 1)
        outer.append((left, is_map))
        left, is_map = entries, kind == _MAP


def require_msgpack() -> Any:
    """The msgpack package. Raises ``FarmError`` where it is not installed."""
    return needed("msgpack", "the farm needs the package msgpack", "farm", FarmError)
