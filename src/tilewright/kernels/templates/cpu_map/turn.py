"""Transposing a square tile in registers: a network of two-operand shuffles.

Rows are interleaved within 16-byte parts, in units that double from step to step; then the parts are sorted by
taking every other one. Both kinds of step are single instructions of every vector unit in use.
"""

from __future__ import annotations

from collections.abc import Sequence

PART = 16
"""Bytes within which the interleaving steps work."""


def turn(names: Sequence[str], item: int, vector: str, fresh: str) -> tuple[list[str], list[str]]:
    """Statements that transpose row vectors, and the names of the columns.

    ``names``: as many vectors as each has elements, of ``item`` bytes. ``vector`` is the C type; new names start
    with ``fresh``.
    """
    size = len(names)
    per_part = min(PART // item, size)
    cells = {n: [(r, c) for c in range(size)] for r, n in enumerate(names)}
    lines: list[str] = []

    def shuffle(a: str, b: str, picks: list[int]) -> str:
        name = f"{fresh}{len(lines)}"
        lines.append(f"const {vector} {name} = __builtin_shufflevector({a}, {b}, {', '.join(map(str, picks))});")
        both = cells[a] + cells[b]
        cells[name] = [both[p] for p in picks]
        return name

    def interleaved(a: str, b: str, unit: int) -> list[str]:
        out = []
        for half in (0, 1):
            picks = []
            for part in range(0, size, per_part):
                start = part + half * per_part // 2
                for at in range(start, start + per_part // 2, unit):
                    picks += [*range(at, at + unit), *range(size + at, size + at + unit)]
            out.append(shuffle(a, b, picks))
        return out

    def columns(rows: Sequence[str]) -> list[str]:
        if len(rows) == 1:
            return list(rows)
        half = len(rows) // 2
        first, second = columns(rows[:half]), columns(rows[half:])
        return [x for a, b in zip(first, second, strict=True) for x in interleaved(a, b, half)]

    groups = [columns(names[g : g + per_part]) for g in range(0, size, per_part)]
    done: list[str] = []
    for same in zip(*groups, strict=True):
        level = [list(same)]
        while len(level[0]) > 1:
            level = [
                [shuffle(a, b, _every_other(size, per_part, odd)) for a, b in zip(x[::2], x[1::2], strict=True)]
                for x in level
                for odd in (0, 1)
            ]
        done += [x[0] for x in level]
    order = {cells[n][0][1]: n for n in done}
    assert all([cells[order[c]][r] == (r, c) for r in range(size)] for c in range(size))
    return lines, [order[c] for c in range(size)]


def _every_other(size: int, per_part: int, odd: int) -> list[int]:
    starts = range(odd * per_part, 2 * size, 2 * per_part)
    return [k for s in starts for k in range(s, s + per_part)]
