"""Tensor maps of queries, keys and values, as sets of matrices with constant strides in memory.

Where a page table places rows, each page is a matrix. A tile is then copied in pieces, each within one page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis, whole
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cuda.warpgroups import Tile
from tilewright.kernels.templates.cuda_attention.match import Form, Side
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK

MOST = 1 << 31
"""Limit on the number of matrices of a tensor map, which is an ``int``."""
EIGHT_ROWS = 8
"""Rows after which the swizzle pattern in shared memory repeats: a piece of a tile has a multiple of eight rows."""


@dataclass(frozen=True)
class Matrices:
    """The matrices of a side: rows ``apart`` elements apart, in ``count`` matrices ``step`` elements apart.

    ``number``: the index of a matrix. Heads and batches may lie in any order and may share matrices, as long as each
    starts at a multiple of ``step``. ``step`` is 0 for a single matrix. ``rows``: rows of a matrix: all rows, or, where
    they are ``paged``, those of a page. A page's ``number`` depends on the row.
    """

    rows: int
    apart: int
    number: Expr
    step: int
    count: int
    paged: bool

    def piece(self, height: int) -> int:
        """Number of rows of a tile of ``height`` rows that certainly lie in one matrix."""
        return math.gcd(self.rows, height) if self.paged else height


def matrices(s: Side) -> Matrices | None:
    """The matrices of a side; ``None`` where no tensor map describes them."""
    if s.where is None or s.tensor is None or (s.length > 1 and s.where.step(s.along) != 1):
        return None
    item, rows, name, apart = ITEMSIZE[s.tensor.dtype], s.rows, s.row, s.where.step(s.row)
    paged = apart is None
    if apart is None:
        rows = _page(s, s.where)
        if not rows:
            return None
        name = repr(axis(s.row) % rows)
        apart = s.where.of(name)
    if rows == 1:
        apart = -(-s.length * item // CHUNK) * CHUNK // item  # a single row too needs a pitch in a tensor map
    start = s.where.without(name, s.along)
    step = math.gcd(start.const, *start.coef.values())
    if apart <= 0 or apart * item % CHUNK or step * item % CHUNK:
        return None
    last = s.tensor.size - (rows - 1) * apart - s.length
    count = last // step + 1 if step else 1
    return Matrices(rows, apart, start.divided(step or 1)[0].expr(), step, count, paged) if count < MOST else None


def _page(s: Side, where: Linear) -> int:
    """Number of rows of a page where a page table places rows, else 0.

    Pages divide the rows evenly, and a page has a multiple of eight rows.
    """
    terms = [x for e in where.atoms.values() for x in e.walk()]
    inner = [x for x in terms if x.op in ("floordiv", "mod") and x.args[0].op == "axis" and x.args[0].value == s.row]
    alone = [x for x in terms if x.op == "axis" and x.value == s.row]
    pages = {whole(x.args[1]) for x in inner}
    if len(pages) != 1 or len(alone) != len(inner) or where.of(s.row):
        return 0
    [page] = pages
    return page if s.rows % page == 0 and page % EIGHT_ROWS == 0 else 0


def fetched(f: Form) -> bool:
    """Whether TMA can copy all operands: queries in place, keys and values also in pages."""
    q, k, v = (matrices(s) for s in f.sides)
    return f.tensor_cores and q is not None and not q.paged and k is not None and v is not None


def described(f: Form, s: Side, tile: Tile) -> dict[str, Any]:
    """The tensor map of a side, for copies of ``tile``."""
    m, item = matrices(s), tile.item
    assert m is not None
    assert s.tensor is not None
    number = [t.name for t in f.a.program.inputs].index(s.tensor.name)
    rows, depth = (s.length, m.rows) if tile.rows_contiguous else (m.rows, s.length)
    height = tile.depth if tile.rows_contiguous else tile.rows
    batches = (m.count, m.step * item) if m.step else None
    return tile.map(number, rows, depth, m.apart * item, batches, height // m.piece(height))
