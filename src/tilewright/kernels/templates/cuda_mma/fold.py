"""C++ that scales the sum of a block of k and adds it to a thread's accumulators, where scales are of such blocks.

Fragments of a warp and of a warp group are alike: of 8 rows and 8 columns a thread holds two neighbours along n, in row
``lane / 4``, and it holds them of two such pieces, 8 rows apart.
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
from tilewright.kernels.templates.cuda.scales import BlockScales, alike
from tilewright.kernels.templates.cuda.sizes import expression
from tilewright.kernels.templates.cuda.sizes import used as sizes_used
from tilewright.kernels.templates.cuda.text import AxisTexts, Names, load_text, printer, read_place

FOLDED_PER_CYCLE = 128.0
"""Operations on results that a multiprocessor starts in a clock."""

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
    """Of a thread with ``mi`` fragments along m, 16 rows of its warp each, and ``columns`` along n.

    ``edges``: the axes, of ``mn``, along which fragments may reach beyond the output. ``in_shared``: scales are copied
    to shared memory, one for each row, and one for each of :attr:`runs` columns or for each column; those of single
    columns are read as they are used, four at a time (:meth:`place`).
    """

    c: CudaContraction
    scales: BlockScales
    mi: int
    columns: int
    edges: str
    in_shared: bool = False

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Device functions of the scales, by side: ``scale_a(inputs..., batch, m, k)`` and
        ``scale_b(inputs..., batch, n, k, further)`` of the column ``n + further``. If scales are copied:
        ``place_a(inputs..., batch, m, k, further)`` and ``place_b``, where they lie in memory."""
        return {side: self._function(side, e) for side, e in self.scales.of.items()}

    @property
    def sides(self) -> str:
        """The sides, of ``ab``, that have scales."""
        return "".join(self.scales.of)

    @property
    def copied(self) -> bool:
        """Whether scales are copied to shared memory as they lie, not computed."""
        return self.in_shared and all(e.op == "load" and e.dtype == "float32" for e in self.scales.of.values())

    def by_fours(self, bk: int) -> bool:
        """Whether scales of a row, or of a column, for :data:`FOUR` steps of ``bk`` along k are copied as 16 bytes."""
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
        """How far apart the scales of neighbouring rows or columns lie, where a scale is one read: those that are a
        constant ``further`` need no address of their own."""
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
        """Columns of one scale: whole eights of them, or 1."""
        same = gcd(alike(self.scales.of["b"], self.c.n), self.columns)
        return same if same % EIGHT == 0 else 1

    @property
    def runs(self) -> int:
        """Scales of columns: one for each run, or for each column; 0: there are none."""
        return self.columns // self.run if "b" in self.sides else 0

    @property
    def pairs(self) -> bool:
        """Whether scales of single columns are read from shared memory as they are used."""
        return self.in_shared and "b" in self.sides and self.run == 1

    def place(self, column: str) -> str:
        """Text of where the scale of a column lies in shared memory: a thread's four of 16 columns are neighbours."""
        if not self.pairs:
            return column
        return f"({column} / 16 * 16 + {column} % 8 / 2 * 4 + {column} / 8 % 2 * 2 + {column} % 2)"

    @property
    def held(self) -> int:
        """Scales that a thread holds: from shared memory, of one fragment along m at a time."""
        rows = (2 if self.in_shared else 2 * self.mi) if "a" in self.sides else 0
        return rows + (0 if "b" not in self.sides else 4 if self.pairs else self._count)

    @property
    def operations(self) -> int:
        """Instructions for each result: one where a scale is that of many columns."""
        return 2 if self.sides == "ab" and self.run == 1 else 1

    @property
    def _count(self) -> int:
        return self.columns // 4 if self.run == 1 else self.columns // self.run

    def read(self, batch: str, row: str, column: str, k: str) -> list[str]:
        """Statements that read the scales of the block of k at ``k`` from memory.

        ``row``: text of the first row of fragment ``i``; ``column``: that of the first column.
        """
        place = {"a": f"{row} + h * 8 + lane / 4", "b": column}
        further = ""
        if "b" in self.sides:
            further = "j / 2 * 8 + j % 2" if self.run == 1 else f"j * {self.run}"
            place["b"] += " + lane % 4 * 2" if self.run == 1 else ""
        return self._read({side: self.of(side, batch, place[side], k, further) for side in self.sides}, 0, self.mi)

    def fetch(self, at: str, row: str, rows: int, i: int) -> list[str]:
        """Statements that read those of fragment ``i`` from shared memory, but for single columns.

        ``at``: text of where those of a tile begin, its ``rows`` first; ``row``: text of the warp's first row in it.
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
        """Text of the scale of a row, or of a column, ``further`` ones behind ``place``. If scales are copied: of where
        it lies, of a row ``further`` ones behind too."""
        return self.functions[side].call(batch=batch, m=place, n=place, k=k, further=further)

    def add(
        self, at: str, again: bool, part: str = "", pairs: str = "", rows: tuple[int, int] | None = None
    ) -> list[str]:
        """Statements that add sums, scaled, to ``acc``, elements of a fragment's eight columns being at ``at``.

        ``part``: text of a sum's element, ``part[i]`` at ``at`` if empty; ``again``: products add to it, which begins
        at zero. ``pairs``: text of where the scales of a thread's columns begin in shared memory, if they are read from
        there. ``rows``: the first fragment and the one behind the last, all if ``None``.
        """
        run = "2 * j + e % 2" if "b" not in self.sides or self.run == 1 else f"j / {self.run // EIGHT}"
        both = {"a": "of_rows[i][e / 2]", "b": "of_four.v[j % 2 * 2 + e % 2]" if pairs else f"of_columns[{run}]"}
        first, end = rows or (0, self.mi)
        return substituted(FOLD, {
            "first": first, "end": end, "eights": self.columns // EIGHT, "at": at, "again": again,
            "part": part or f"part[i]{at}", "factor": " * ".join(both[side] for side in self.sides), "pairs": pairs,
        })  # fmt: skip


def results(c: CudaContraction, values: int, edges: str, split: bool, folded: Fold | None) -> tuple[str, Function]:
    """:func:`.splitk.results`, with the functions that give the scales where there are some."""
    text, stored = splitk.results(c, values, edges, split)
    scales = folded.functions.values() if folded is not None else ()
    return text + "".join(f.define() for f in scales), stored


def cycles(c: CudaContraction, bm: int, bn: int) -> float:
    """Clocks of a multiprocessor to fold a tile of ``bm`` x ``bn``; 0 where there are no scales."""
    folded = fold(c, 1, bn, "")
    return bm * bn * folded.operations / FOLDED_PER_CYCLE if folded is not None else 0.0


def fold(c: CudaContraction, mi: int, columns: int, edges: str, in_shared: bool = False) -> Fold | None:
    """What folds blocks of k, where a product has scales of them."""
    return Fold(c, c.scales, mi, columns, edges, in_shared) if c.scales is not None else None
