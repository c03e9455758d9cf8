"""Queries, keys and values as the copy engine fetches them: tensor maps of matrices that lie evenly in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.templates.cuda.warpgroups import Tile
from tilewright.kernels.templates.cuda_attention.match import Form, Side
from tilewright.kernels.templates.cuda_mma.source import CHUNK

MOST = 1 << 31
"""Matrices of a map, whose number is an ``int``."""


@dataclass(frozen=True)
class Matrices:
    """Rows of a side ``apart`` elements apart; ``number`` names a matrix of them, which begin ``step`` apart.

    Heads and batches may lie in any order, and share matrices: all that matters is that where one begins is a multiple
    of ``step``. ``step`` is 0 where there is a single one.
    """

    apart: int
    number: Expr
    step: int
    count: int


def matrices(s: Side) -> Matrices | None:
    """How a side's matrices lie in memory; ``None`` where no tensor map describes that."""
    if s.where is None or s.tensor is None:
        return None
    apart, item = s.where.step(s.row), ITEMSIZE[s.tensor.dtype]
    if apart is None or (s.length > 1 and s.where.step(s.along) != 1):
        return None
    if s.rows == 1:
        apart = -(-s.length * item // CHUNK) * CHUNK // item  # no distance to a next, but a tensor map wants one
    start = s.where.without(s.row, s.along)
    step = math.gcd(start.const, *start.coef.values())
    if apart <= 0 or apart * item % CHUNK or step * item % CHUNK:
        return None
    last = s.tensor.size - (s.rows - 1) * apart - s.length
    count = last // step + 1 if step else 1
    return Matrices(apart, start.divided(step or 1)[0].expr(), step, count) if count < MOST else None


def fetched(f: Form) -> bool:
    """Whether the copy engine can fetch all operands."""
    return f.tensor_cores and all(matrices(s) is not None for s in f.sides)


def described(f: Form, s: Side, tile: Tile) -> dict[str, Any]:
    """The tensor map of a side, for copies of a tile."""
    m, item = matrices(s), tile.item
    assert m is not None
    assert s.tensor is not None
    number = [t.name for t in f.a.program.inputs].index(s.tensor.name)
    rows, depth = (s.length, s.rows) if tile.rows_contiguous else (s.rows, s.length)
    return tile.map(number, rows, depth, m.apart * item, (m.count, m.step * item) if m.step else None)
