"""Dense masks and biases: reads of the score that are contiguous along the keys, and are transposed block by block.

Vectors run along the queries, so a direct read would gather each lane from another row. Instead, squares are transposed
in registers into a tile [key][query] beside the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.extent import least
from tilewright.kernels.expression.bounds import Bounds
from tilewright.kernels.expression.expr import FLOATS, Expr, same
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.expression.program import Tensor, strides_of
from tilewright.kernels.families.attention import Attention


@dataclass(frozen=True, eq=False)
class StagedRead:
    """A read of the score that is contiguous along the keys. ``along``: its stride between queries, in elements."""

    name: str
    load: Expr
    tensor: Tensor
    along: int

    @property
    def text(self) -> str:
        """C text of the read's value, from the vector of the tile that has the read's name."""
        return f"({self.name}!=0.0f)" if self.tensor.dtype == "bool" else self.name


@lru_cache(maxsize=64)
def staged_reads(a: Attention) -> tuple[StagedRead, ...]:
    """The reads that are transposed: they vary along queries, are contiguous along keys, and always in bounds."""
    bounds = Bounds({x: (0, n - 1) for x, n in a.ranges.items()})
    found: list[StagedRead] = []
    for load in a.score.loads():
        tensor = a.program.tensors[str(load.value)]
        strides = strides_of(tensor.shape)
        along, step = flat_step(load.args, strides, a.query), flat_step(load.args, strides, a.key)
        if along in (None, 0, 1) or step != 1 or any(i.loads() for i in load.args):
            continue
        if tensor.dtype not in ("bool", *FLOATS[1:]):
            continue
        ends = [bounds.of(i) for i in load.args]
        inside = all(
            low >= 0 and (high < least(n) or (i.op == "axis" and a.ranges[str(i.value)] == n))
            for i, (low, high), n in zip(load.args, ends, tensor.shape, strict=True)
        )
        if inside and not any(same(load, r.load) for r in found):
            assert along is not None
            found.append(StagedRead(f"b{len(found)}", load, tensor, along))
    return tuple(found)


def with_tiles(a: Attention, score: Expr) -> Expr:
    """The score with variables in place of the transposed reads."""
    reads = staged_reads(a)

    def tile(e: Expr) -> Expr | None:
        if e.op != "load":
            return None
        for r in reads:
            if same(e, r.load):
                return Expr("var", "bool" if r.tensor.dtype == "bool" else "float32", (), r.name)
        return None

    return score.map(tile) if reads else score
