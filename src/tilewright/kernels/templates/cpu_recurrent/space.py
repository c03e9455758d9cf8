"""The search space of a recurrent layer: knobs, rules, and the default schedule.

- ``vectors``, ``rows``: size of the register tile, in vectors of features and in rows; each gate has that many
  accumulators.
- ``unroll``: unroll factor of the reduction loop.
- ``tasks``: number of tasks into which the features of a step are divided; threads synchronise after each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

from tilewright.core import Target, Value, cached_property
from tilewright.extent import Extent, least
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.recurrence import Pass, Recurrent
from tilewright.kernels.templates.cpu_contraction.space import core, step_cycles
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import Blocks, SymbolicBlocks, balanced, ceildiv
from tilewright.search_space import Choice, SearchSpace, rule

VECTORS, TALLEST, UNROLLS = (1, 2, 3, 4, 6, 8), 12, (1, 2, 4)
L2_CYCLES = 2
"""Cycles per vector of weights from the second-level cache: at best, a layer's weights are there."""
LEAST_TASK = 100_000
"""Smallest work of a task, in operations: a synchronisation after each pass takes about half a microsecond."""
FEW = 8
"""Largest number of accumulators of a register tile for which the default unrolls: loop overhead matters there."""
ALIGN = 16
"""Granule, in elements, to which sizes of workspace arrays are rounded up."""


@dataclass(frozen=True, eq=False)
class RecurrentPlan:
    """A recurrent layer with the decisions of its schedule."""

    r: Recurrent
    target: Target
    vectors: int
    rows: int
    unroll: int
    tasks: int = 1

    @property
    def item(self) -> int:
        """Size of an element in bytes."""
        return ITEMSIZE[self.r.output.dtype]

    @property
    def lanes(self) -> int:
        return lane_count(self.r, self.target)

    @property
    def width(self) -> int:
        """Width of a register tile, in features."""
        return self.vectors * self.lanes

    @property
    def tiles(self) -> int:
        """Number of register tiles along the features."""
        return ceildiv(self.r.sizes[3], self.width)

    @property
    def row_blocks(self) -> Blocks:
        rows = self.r.sizes[2]
        return (
            SymbolicBlocks(int(rows), self.rows, least(rows)) if isinstance(rows, Extent) else Blocks(rows, self.rows)
        )

    def panel(self, p: Pass) -> int:
        """Size of a pass's packed weights for the features of one register tile, in elements."""
        return self.r.sizes[3] * len(p.mixes) * self.width

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offset of each pass's packed weights, in elements; the last entry is their total size."""
        found = [0]
        for p in self.r.passes:
            found.append(found[-1] + self.tiles * self.panel(p))
        return tuple(found)


def lane_count(r: Recurrent, target: Target) -> int:
    return max(2, target.vector_bytes // ITEMSIZE[r.output.dtype])


def _gates(r: Recurrent) -> int:
    """Number of gate products (mixes) of the largest pass."""
    return max(len(p.mixes) for p in r.passes)


def space(r: Recurrent, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a recurrent layer."""
    _, _, rows, features = r.sizes
    lanes = lane_count(r, target)
    most = ceildiv(features, lanes)
    vectors = tuple(v for v in VECTORS if v <= most)
    heights = tuple(h for h in range(1, min(rows, TALLEST) + 1) if balanced(rows, h))
    knobs = [Choice("vectors", vectors), Choice("rows", heights), Choice("unroll", UNROLLS)]
    if target.threads > 1:
        knobs.append(Choice("tasks", _tasks(features, lanes, target), half="launch"))
    rules = (rule("the register tile does not fit", partial(_fits, _gates(r), target.registers)),)
    return SearchSpace(template, version, tuple(knobs), rules)


def _fits(gates: int, registers: int, vectors: int, rows: int) -> bool:
    # Registers hold the accumulators, a vector of weights and a broadcast value. The smallest tile is always legal.
    return (vectors, rows) == (1, 1) or vectors * rows * gates + 2 <= registers


def _tasks(features: int, lanes: int, target: Target) -> tuple[int, ...]:
    most = ceildiv(features, lanes)
    return tuple(sorted({1, *(min(most, k * target.threads) for k in (1, 2, 4))}))


def default(r: Recurrent, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: the register tile with the fewest estimated cycles over all features and rows."""
    _, _, rows, features = r.sizes
    lanes, gates, on = lane_count(r, target), _gates(r), core(target.registers)

    def cycles(vectors: int, height: int) -> float:
        tiles = ceildiv(features, vectors * lanes) * ceildiv(rows, height)
        return tiles * max(step_cycles(height, vectors * gates, on), L2_CYCLES * vectors * gates)

    tiles = product(within.options["vectors"], within.options["rows"])
    vectors, height = min((t for t in tiles if _fits(gates, target.registers, *t)), key=lambda t: (cycles(*t), t))
    unroll = UNROLLS[-1] if vectors * height * gates <= FEW else 1
    values: dict[str, Value] = {"vectors": vectors, "rows": height, "unroll": unroll}
    if target.threads > 1:
        work = 2 * features * features * rows * gates
        most = min(target.threads, work // LEAST_TASK)
        values["tasks"] = max(t for t in map(int, within.options["tasks"]) if t <= max(1, most))
    return values


def plan(r: Recurrent, target: Target, values: Mapping[str, Value]) -> RecurrentPlan:
    """Read the decisions of a schedule."""
    return decided(RecurrentPlan, values, r=r, target=target)
