"""Transposes a square tile in registers with a network of two-operand shuffles.

The first steps interleave rows within 16-byte parts of vectors, in units that double at each step. The last steps
reorder whole parts by taking every second one. Each step is one instruction on all supported vector units.
"""

from __future__ import annotations

from collections.abc import Sequence

PART = 16
"""Size, in bytes, of the parts of a vector within which rows are interleaved."""


def transpose(names: Sequence[str], item: int, vector: str, fresh: str) -> tuple[list[str], list[str]]:
    """C statements that transpose row vectors, and the names of the column vectors.

    ``names``: the rows, whose number equals the number of lanes. ``item``: size of an element in bytes. ``vector``:
    C type of a row. New names start with ``fresh``.
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
