"""C++ that scales the sum of a block of k and adds it to a thread's accumulators, where scales are of such blocks.

Fragments of a warp and of a warp group are alike: of 8 rows and 8 columns a thread holds two neighbours along n, in row
``lane / 4``, and it holds them of two such pieces, 8 rows apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tilewright.caching import cached_property
from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.codegen.integers import text
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.scales import BlockScales, alike
from tilewright.kernels.templates.cuda.sizes import expression
from tilewright.kernels.templates.cuda.text import axis_texts, printer

FOLDED_PER_CYCLE = 128.0
"""Operations on results that a multiprocessor starts in a clock."""

EIGHT = 8
FOR_ROWS = """\
float of_rows[$mi][2];
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int h = 0; h < 2; h++) of_rows[i][h] = $row;
}"""
FOR_RUNS = """\
float of_columns[$count];
TW_UNROLL
for (int j = 0; j < $count; j++) of_columns[j] = $column;"""
FOLD = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $eights; j++) {
        TW_UNROLL
        for (int e = 0; e < 4; e++) {
            acc[i]$at += part[i]$at * ($factor);
$if again:            part[i]$at = 0;
        }
    }
}"""


@dataclass(frozen=True)
class Fold:
    """Of a thread with ``mi`` fragments along m, 16 rows of its warp each, and ``columns`` along n.

    ``edges``: the axes, of ``mn``, along which fragments may reach beyond the output.
    """

    c: CudaContraction
    scales: BlockScales
    mi: int
    columns: int
    edges: str

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """``scale_a(inputs..., batch, m, k)`` and ``scale_b(inputs..., batch, n, k)``, of sides that have scales."""
        s = self.scales
        return tuple(self._function(side, e) for side, e in (("a", s.a), ("b", s.b)) if e is not None)

    def _function(self, side: str, e: Expr) -> Function:
        c, along = self.c, "m" if side == "a" else "n"
        p = printer(c.program, c.stage.ranges, axis_texts(c, "batch", "m", "n", "k"), {}, (e,))
        body = f"    return {p.scalar(e)};\n"
        if along in self.edges:
            body = f"    if ({along} >= {text(expression(c.free(side).size))}) return 0;\n{body}"
        taken = {**pointers(c.program), **{x: f"int {x}" for x in ("batch", along, "k")}}
        return Function(f"scale_{side}", "float", taken, body)

    @cached_property
    def run(self) -> int:
        """Columns of one scale: whole eights of them, or 1."""
        assert self.scales.b is not None
        same = gcd(alike(self.scales.b, self.c.n), self.columns)
        return same if same % EIGHT == 0 else 1

    @property
    def held(self) -> int:
        """Scales that a thread holds."""
        rows = 2 * self.mi if self.scales.a is not None else 0
        return rows + (self._count if self.scales.b is not None else 0)

    @property
    def operations(self) -> int:
        """Instructions for each result: one where a scale is that of many columns."""
        return 2 if self.scales.a is not None and self.scales.b is not None and self.run == 1 else 1

    @property
    def _count(self) -> int:
        return self.columns // 4 if self.run == 1 else self.columns // self.run

    def read(self, batch: str, row: str, column: str, k: str) -> list[str]:
        """Statements that read the scales of the block of k at ``k``.

        ``row``: text of the first row of fragment ``i``; ``column``: that of the first column, to be followed by a
        further term.
        """
        found = []
        for f in self.functions:
            if f.name == "scale_a":
                place = f.call(batch=batch, m=f"{row} + h * 8 + lane / 4", k=k)
                found += fill(FOR_ROWS, {"mi": self.mi, "row": place}).split("\n")
            else:
                at = f"j * {self.run}" if self.run > 1 else "j / 2 * 8 + lane % 4 * 2 + j % 2"
                place = f.call(batch=batch, n=column + at, k=k)
                found += fill(FOR_RUNS, {"count": self._count, "column": place}).split("\n")
        return found

    def add(self, at: str, again: bool) -> list[str]:
        """Statements that add ``part``, scaled, to ``acc``, elements of a fragment's eight columns being at ``at``.

        ``again``: products add to ``part``, which begins at zero.
        """
        run = "2 * j + e % 2" if self.scales.b is None or self.run == 1 else f"j / {self.run // EIGHT}"
        both = {"scale_a": "of_rows[i][e / 2]", "scale_b": f"of_columns[{run}]"}
        factor = " * ".join(both[f.name] for f in self.functions)
        return fill(FOLD, {
            "mi": self.mi, "eights": self.columns // EIGHT, "at": at, "factor": factor, "again": again,
        }).split("\n")  # fmt: skip


def defined(folded: Fold | None) -> str:
    """Definitions of what gives the scales; empty where there are none."""
    return "".join(f.define() for f in folded.functions) if folded is not None else ""


def cycles(c: CudaContraction, bm: int, bn: int) -> float:
    """Clocks of a multiprocessor to fold a tile of ``bm`` x ``bn``; 0 where there are no scales."""
    folded = fold(c, 1, bn, "")
    return bm * bn * folded.operations / FOLDED_PER_CYCLE if folded is not None else 0.0


def fold(c: CudaContraction, mi: int, columns: int, edges: str) -> Fold | None:
    """What folds blocks of k, where a product has scales of them."""
    return Fold(c, c.scales, mi, columns, edges) if c.scales is not None else None
