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
from tilewright.kernels.expression.linear import Linear, linearise
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.scales import BlockScales, alike
from tilewright.kernels.templates.cuda.sizes import expression
from tilewright.kernels.templates.cuda.text import axis_texts, load_text, printer, read_place

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
$if shared:        const tw::pack<float, 2> of_two = tw::load_shared<tw::pack<float, 2>>($shared + j * 8);
        TW_UNROLL
        for (int e = 0; e < 4; e++) {
            acc[i]$at += $part[i]$at * ($factor);
$if again:            $part[i]$at = 0;
        }
    }
}"""


@dataclass(frozen=True)
class Fold:
    """Of a thread with ``mi`` fragments along m, 16 rows of its warp each, and ``columns`` along n.

    ``edges``: the axes, of ``mn``, along which fragments may reach beyond the output. ``in_shared``: scales of single
    columns are in shared memory, from which they are read two at a time.
    """

    c: CudaContraction
    scales: BlockScales
    mi: int
    columns: int
    edges: str
    in_shared: bool = False

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """``scale_a(inputs..., batch, m, k)`` and ``scale_b(inputs..., batch, n, k, further)``, of the column ``n +
        further``, of sides that have scales."""
        s = self.scales
        return tuple(self._function(side, e) for side, e in (("a", s.a), ("b", s.b)) if e is not None)

    def _function(self, side: str, e: Expr) -> Function:
        c, along = self.c, "m" if side == "a" else "n"
        place = "n + further" if side == "b" else "m"
        step = self._step(e) if side == "b" else None
        texts = axis_texts(c, "batch", "m", "n" if step is not None else f"({place})", "k")
        p = printer(c.program, c.stage.ranges, texts, {}, (e,))
        value = p.scalar(e)
        if step is not None:
            tensor = c.program.tensors[str(e.value)]
            value = load_text(tensor.dtype, f"{read_place(p, tensor, e)} + further * {step}")
        body = f"    return {value};\n"
        if along in self.edges:
            body = f"    if ({place} >= {text(expression(c.free(side).size))}) return 0;\n{body}"
        taken = {**pointers(c.program), **{x: f"int {x}" for x in ("batch", along, "k", "further")}}
        return Function(f"scale_{side}", "float", taken, body)

    def _step(self, e: Expr) -> int | None:
        """How far apart the scales of neighbouring columns lie, where a scale is one read: columns that are a constant
        ``further`` need no address of their own."""
        c = self.c
        if e.op != "load":
            return None
        where = Linear()
        for index, step in zip(e.args, c.program.tensors[str(e.value)].strides, strict=True):
            where = where.plus(linearise(index), step)
        return None if any(where.step(x) is None for x in c.n.axes) else c.n.stride(where)

    @cached_property
    def run(self) -> int:
        """Columns of one scale: whole eights of them, or 1."""
        assert self.scales.b is not None
        same = gcd(alike(self.scales.b, self.c.n), self.columns)
        return same if same % EIGHT == 0 else 1

    @property
    def shared_columns(self) -> bool:
        """Whether there are scales in shared memory, one for each column."""
        return self.in_shared and self.scales.b is not None and self.run == 1

    @property
    def held(self) -> int:
        """Scales that a thread holds."""
        rows = 2 * self.mi if self.scales.a is not None else 0
        return rows + (0 if self.scales.b is None else 4 if self.shared_columns else self._count)

    @property
    def operations(self) -> int:
        """Instructions for each result: one where a scale is that of many columns."""
        return 2 if self.scales.a is not None and self.scales.b is not None and self.run == 1 else 1

    @property
    def _count(self) -> int:
        return self.columns // 4 if self.run == 1 else self.columns // self.run

    def read(self, batch: str, row: str, column: str, k: str) -> list[str]:
        """Statements that read the scales of the block of k at ``k``.

        ``row``: text of the first row of fragment ``i``; ``column``: that of the first column.
        """
        found = []
        for f in self.functions:
            if f.name == "scale_b" and self.shared_columns:
                continue
            if f.name == "scale_a":
                place = f.call(batch=batch, m=f"{row} + h * 8 + lane / 4", k=k)
                found += fill(FOR_ROWS, {"mi": self.mi, "row": place}).split("\n")
            else:
                place = self.column(batch, column, k, f"j * {self.run}")
                if self.run == 1:
                    place = self.column(batch, f"{column} + lane % 4 * 2", k, "j / 2 * 8 + j % 2")
                found += fill(FOR_RUNS, {"count": self._count, "column": place}).split("\n")
        return found

    def column(self, batch: str, column: str, k: str, further: str) -> str:
        """Text of the scale of a column, ``further`` ones behind ``column``."""
        (f,) = (f for f in self.functions if f.name == "scale_b")
        return f.call(batch=batch, n=column, k=k, further=further)

    def add(self, at: str, again: bool, part: str = "part", shared: str = "") -> list[str]:
        """Statements that add ``part``, scaled, to ``acc``, elements of a fragment's eight columns being at ``at``.

        ``again``: products add to ``part``, which begins at zero. ``shared``: text of where the scales of a thread's
        columns begin in shared memory, where they are there.
        """
        run = "2 * j + e % 2" if self.scales.b is None or self.run == 1 else f"j / {self.run // EIGHT}"
        both = {"scale_a": "of_rows[i][e / 2]", "scale_b": "of_two.v[e % 2]" if shared else f"of_columns[{run}]"}
        factor = " * ".join(both[f.name] for f in self.functions)
        return fill(FOLD, {
            "mi": self.mi, "eights": self.columns // EIGHT, "at": at, "factor": factor, "again": again,
            "part": part, "shared": shared,
        }).split("\n")  # fmt: skip


def defined(folded: Fold | None) -> str:
    """Definitions of what gives the scales; empty where there are none."""
    return "".join(f.define() for f in folded.functions) if folded is not None else ""


def cycles(c: CudaContraction, bm: int, bn: int) -> float:
    """Clocks of a multiprocessor to fold a tile of ``bm`` x ``bn``; 0 where there are no scales."""
    folded = fold(c, 1, bn, "")
    return bm * bn * folded.operations / FOLDED_PER_CYCLE if folded is not None else 0.0


def fold(c: CudaContraction, mi: int, columns: int, edges: str, in_shared: bool = False) -> Fold | None:
    """What folds blocks of k, where a product has scales of them."""
    return Fold(c, c.scales, mi, columns, edges, in_shared) if c.scales is not None else None
