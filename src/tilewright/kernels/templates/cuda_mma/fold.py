"""C++ that scales the sum of a block of k and adds it to a thread's accumulators, for scales of blocks of k.

Accumulator fragments of ``mma.sync`` and of wgmma have one layout. In each 8 x 8 matrix, a thread holds two neighbours
along n in row ``lane / 4``. A fragment has two 8 x 8 matrices, 8 rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tilewright.caching import cached_property
from tilewright.kernels.codegen.integers import text
from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.expression.expr import Expr, whole
from tilewright.kernels.expression.linear import Linear, linearise
from tilewright.kernels.templates.cuda import splitk
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.scales import BlockScales, block_length
from tilewright.kernels.templates.cuda.sizes import expression
from tilewright.kernels.templates.cuda.sizes import used as sizes_used
from tilewright.kernels.templates.cuda.text import AxisTexts, Names, load_text, printer, read_place

FOLDED_PER_CYCLE = 128.0
"""Operations on accumulators that a multiprocessor issues in a clock."""

EIGHT = 8
FOUR = 4
"""Floats of a copy of 16 bytes."""
FOR_ROWS = """\
float of_rows[$mi][2];
TW_UNROLL
for (int i = $first; i < $end; i++) {
    TW_UNROLL
    for (int h = 0; h < 2; h++) of_rows[i][h] = $row;
}"""
FOR_RUNS = """\
float of_columns[$count];
TW_UNROLL
for (int j = 0; j < $count; j++) of_columns[j] = $column;"""
FOLD = """\
TW_UNROLL
for (int i = $first; i < $end; i++) {
    TW_UNROLL
    for (int j = 0; j < $eights; j++) {
$if pairs:        const tw::pack<float, 4> of_four = tw::load_shared<tw::pack<float, 4>>($pairs + j / 2 * 16);
        TW_UNROLL
        for (int e = 0; e < 4; e++) {
            acc[i]$at += $part * ($factor);
$if again:            $part = 0;
        }
    }
}"""


@dataclass(frozen=True)
class Fold:
    """Scaling of a thread's sums: ``mi`` fragments along m, of 16 rows of the warp each, and ``columns`` along n.

    ``edges``: the axes out of ``mn`` along which fragments may reach beyond the output. ``in_shared``: scales are
    copied to shared memory, one for each row, and one for each run of columns (:attr:`run`) or for each column. Scales
    of single columns are read at their use, four at a time (:meth:`place`).
    """

    c: CudaContraction
    scales: BlockScales
    mi: int
    columns: int
    edges: str
    in_shared: bool = False

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Device functions of the scales, by side.

        ``scale_a(inputs..., batch, m, k)`` returns a row's scale, ``scale_b(inputs..., batch, n, k, further)`` the
        scale of column ``n + further``. If scales are :attr:`copied`, ``place_a(inputs..., batch, m, k, further)`` and
        ``place_b`` return their addresses instead.
        """
        return {side: self._function(side, e) for side, e in self.scales.of.items()}

    @property
    def sides(self) -> str:
        """The sides out of ``ab`` that have scales."""
        return "".join(self.scales.of)

    @property
    def copied(self) -> bool:
        """Whether scales are copied to shared memory unchanged, without computation."""
        return self.in_shared and all(e.op == "load" and e.dtype == "float32" for e in self.scales.of.values())

    def by_fours(self, bk: int) -> bool:
        """Whether a 16-byte copy brings the scales of a row or column for :data:`FOUR` steps of ``bk`` along k."""
        return self.copied and all(self._by_fours(e, bk) for e in self.scales.of.values())

    def _by_fours(self, e: Expr, bk: int) -> bool:
        (axis, *more), tensor, found = self.c.k.axes, self.c.program.tensors[str(e.value)], False
        for index, step, extent in zip(e.args, tensor.strides, tensor.shape, strict=True):
            if axis in index.axes():
                divided = index.op == "floordiv" and index.args[0].op == "axis" and whole(index.args[1]) == bk
                found = divided and step == 1 and extent % FOUR == 0
            elif extent > 1 and step % FOUR:
                return False
        return found and not more

    def _function(self, side: str, e: Expr) -> Function:
        c, along, place = self.c, "m" if side == "a" else "n", self.copied
        further = place or side == "b"
        at = f"{along} + further" if further else along
        step = self._step(side, e) if further else None
        own = along if step is not None else f"({at})"
        used = set[str]()
        texts = AxisTexts(c, Names({"batch": "batch", "m": "m", "n": "n", "k": "k", along: own}, used))
        p = printer(c.program, c.stage.ranges, texts, {}, (e,), used=used)
        if place or step is not None:
            tensor = c.program.tensors[str(e.value)]
            value = read_place(p, tensor, e) + (f" + further * {step}" if step is not None else "")
            value = value if place else load_text(tensor.dtype, value)
        else:
            value = p.scalar(e)
        body, size = f"    return {value};\n", c.free(side).size
        if along in self.edges and not place:
            body = f"    if ({at} >= {text(expression(size))}) return 0;\n{body}"
            used |= {along, *sizes_used(size)}
        if further and (step is not None or along in used):
            used.add("further")
        taken = {**pointers(c.program), **{x: f"int {x}" for x in ("batch", along, "k", "further")}}
        if place:
            return Function(f"place_{side}", "const float *", taken, body, used)
        return Function(f"scale_{side}", "float", taken, body, used)

    def _step(self, side: str, e: Expr) -> int | None:
        """Stride of scales along rows or columns, in elements; ``None`` unless a scale is one read with a fixed stride.

        With a fixed stride, scales at a constant ``further`` share one address computation.
        """
        c = self.c
        if e.op != "load":
            return None
        where = Linear()
        for index, step in zip(e.args, c.program.tensors[str(e.value)].strides, strict=True):
            where = where.plus(linearise(index), step)
        group = c.free(side)
        return None if any(where.step(x) is None for x in group.axes) else group.stride(where)

    @cached_property
    def run(self) -> int:
        """Number of columns that share a scale: a multiple of 8, or 1."""
        same = gcd(block_length(self.scales.of["b"], self.c.n), self.columns)
        return same if same % EIGHT == 0 else 1

    @property
    def runs(self) -> int:
        """Number of column scales: one a run of :attr:`run` columns; 0 if side b has no scales."""
        return self.columns // self.run if "b" in self.sides else 0

    @property
    def pairs(self) -> bool:
        """Whether scales of single columns are read from shared memory at their use."""
        return self.in_shared and "b" in self.sides and self.run == 1

    def place(self, column: str) -> str:
        """Text of the index of a column's scale in shared memory: a thread's four out of 16 columns are adjacent."""
        if not self.pairs:
            return column
        return f"({column} / 16 * 16 + {column} % 8 / 2 * 4 + {column} / 8 % 2 * 2 + {column} % 2)"

    @property
    def held(self) -> int:
        """Number of scales that a thread holds; with ``in_shared``, row scales of one fragment along m at a time."""
        rows = (2 if self.in_shared else 2 * self.mi) if "a" in self.sides else 0
        return rows + (0 if "b" not in self.sides else 4 if self.pairs else self._count)

    @property
    def operations(self) -> int:
        """Instructions for each sum: 1, or 2 if both sides have scales and every column has its own."""
        return 2 if self.sides == "ab" and self.run == 1 else 1

    @property
    def _count(self) -> int:
        return self.columns // 4 if self.run == 1 else self.columns // self.run

    def read(self, batch: str, row: str, column: str, k: str) -> list[str]:
        """Statements that read the scales of the block of k at ``k`` from global memory.

        ``row``: text of the first row of fragment ``i``. ``column``: text of the first column.
        """
        place = {"a": f"{row} + h * 8 + lane / 4", "b": column}
        further = ""
        if "b" in self.sides:
            further = "j / 2 * 8 + j % 2" if self.run == 1 else f"j * {self.run}"
            place["b"] += " + lane % 4 * 2" if self.run == 1 else ""
        return self._read({side: self.of(side, batch, place[side], k, further) for side in self.sides}, 0, self.mi)

    def fetch(self, at: str, row: str, rows: int, i: int) -> list[str]:
        """Statements that read the scales of fragment ``i`` from shared memory, except scales of single columns.

        ``at``: text of the start of a tile's scales, of which ``rows`` row scales come first. ``row``: text of the
        warp's first row in the tile.
        """
        texts = {
            "a": f"tw::load_shared<float>({at} + {row} + h * 8 + lane / 4)",
            "b": f"tw::load_shared<float>({at} + {rows} + j)",
        }
        return self._read({side: texts[side] for side in self.sides if side == "a" or not self.pairs}, i, i + 1)

    def _read(self, texts: Mapping[str, str], first: int, end: int) -> list[str]:
        found = []
        if "a" in texts:
            found += substituted(FOR_ROWS, {"mi": self.mi, "first": first, "end": end, "row": texts["a"]})
        if "b" in texts:
            found += substituted(FOR_RUNS, {"count": self._count, "column": texts["b"]})
        return found

    def of(self, side: str, batch: str, place: str, k: str, further: str) -> str:
        """Text of the scale of row ``place``, or of column ``place + further``.

        If scales are :attr:`copied`: text of the address of the scale of row or column ``place + further``.
        """
        return self.functions[side].call(batch=batch, m=place, n=place, k=k, further=further)

    def add(
        self, at: str, again: bool, part: str = "", pairs: str = "", rows: tuple[int, int] | None = None
    ) -> list[str]:
        """Statements that add scaled sums of a block of k to ``acc``.

        ``at``: subscripts of an element within ``acc[i]``. ``part``: text of a sum's element; ``part[i]`` with the
        subscripts ``at`` if empty. ``again``: resets the sum to zero for the next block. ``pairs``: text of the address
        in shared memory of the thread's column scales, if they are read from there. ``rows``: first and end of a range
        of fragments; all if ``None``.
        """
        run = "2 * j + e % 2" if "b" not in self.sides or self.run == 1 else f"j / {self.run // EIGHT}"
        both = {"a": "of_rows[i][e / 2]", "b": "of_four.v[j % 2 * 2 + e % 2]" if pairs else f"of_columns[{run}]"}
        first, end = rows or (0, self.mi)
        return substituted(FOLD, {
            "first": first, "end": end, "eights": self.columns // EIGHT, "at": at, "again": again,
            "part": part or f"part[i]{at}", "factor": " * ".join(both[side] for side in self.sides), "pairs": pairs,
        })  # fmt: skip


def results(c: CudaContraction, values: int, edges: str, split: bool, folded: Fold | None) -> tuple[str, Function]:
    """:func:`.splitk.results`, with the device functions of the scales, if any."""
    text, stored = splitk.results(c, values, edges, split)
    scales = folded.functions.values() if folded is not None else ()
    return text + "".join(f.define() for f in scales), stored


def cycles(c: CudaContraction, bm: int, bn: int) -> float:
    """Clocks of a multiprocessor to scale and add the sums of a tile of ``bm`` x ``bn``; 0 without scales."""
    folded = fold(c, 1, bn, "")
    return bm * bn * folded.operations / FOLDED_PER_CYCLE if folded is not None else 0.0


def fold(c: CudaContraction, mi: int, columns: int, edges: str, in_shared: bool = False) -> Fold | None:
    """The :class:`Fold` of a product with scales of blocks of k; ``None`` without scales."""
    return Fold(c, c.scales, mi, columns, edges, in_shared) if c.scales is not None else None
