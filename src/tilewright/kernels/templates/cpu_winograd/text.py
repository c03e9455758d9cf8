"""C text that multiplies a Winograd matrix with vectors; opposite points share their sums."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tilewright.kernels.templates.cpu_winograd.transforms import Matrix


def _term(factor: Fraction, name: str, first: bool) -> str:
    sign = "-" if factor < 0 else "" if first else "+"
    size = abs(factor)
    return f"{sign}{name}" if size == 1 else f"{sign}{float(size)!r}f*{name}"


def _sum(terms: Sequence[tuple[Fraction, str]]) -> str:
    kept = [(f, n) for f, n in terms if f]
    return "".join(_term(f, n, not i) for i, (f, n) in enumerate(kept))


def _pairs(count: int) -> list[tuple[int, int]]:
    """Pairs of indices of opposite points."""
    return [(i, i + 1) for i in range(1, count - 1, 2)]


def by_rows(matrix: Matrix, given: Sequence[str], made: Sequence[str]) -> list[str]:
    """Statements that declare ``made`` as the matrix times ``given``; rows of opposite points share their sums."""
    count = len(matrix)
    lines = [f"const V {made[i]}={_sum(list(zip(matrix[i], given, strict=True)))};" for i in (0, count - 1)]
    for i, j in _pairs(count):
        same = [(x, n) for x, y, n in zip(matrix[i], matrix[j], given, strict=True) if x == y]
        other = [(x, n) for x, y, n in zip(matrix[i], matrix[j], given, strict=True) if x != y]
        assert all(x == -y for x, y in zip(matrix[i], matrix[j], strict=True) if x != y)
        lines.append(f"const V {made[i]}e={_sum(same)},{made[i]}o={_sum(other)};")
        lines.append(f"const V {made[i]}={made[i]}e+{made[i]}o,{made[j]}={made[i]}e-{made[i]}o;")
    return lines


def by_columns(matrix: Matrix, given: Sequence[str], made: Sequence[str]) -> list[str]:
    """Statements that declare ``made`` as the matrix times ``given``; columns of opposite points multiply sums and
    differences of ``given``."""
    count = len(given)
    lines: list[str] = []
    inside: list[tuple[int, int, str, str]] = []
    for i, j in _pairs(count):
        total, apart = f"{made[0]}s{i}", f"{made[0]}d{i}"
        lines.append(f"const V {total}={given[i]}+{given[j]},{apart}={given[i]}-{given[j]};")
        inside.append((i, j, total, apart))
    for row, name in zip(matrix, made, strict=True):
        terms = [(row[0], given[0]), (row[-1], given[-1])]
        terms += [(row[i], total if row[i] == row[j] else apart) for i, j, total, apart in inside]
        lines.append(f"const V {name}={_sum(terms)};")
    return lines
