"""Who computes what of a stencil."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewright.core import Value
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.families.reduce_window import Window, shared
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda_stencil.match import Stencil
from tilewright.kernels.templates.tiles import ceildiv


@dataclass(frozen=True)
class Plan:
    """Everything that the printed source depends on.

    A thread computes ``outputs`` neighbours along ``axis`` times ``vector`` along the innermost axis; ``unroll``
    says whether the loops over the other axes of the window are printed out.
    """

    s: Stencil
    threads: int
    axis: str
    outputs: int
    vector: int
    unroll: bool

    @property
    def window(self) -> Window:
        return next(w for w in self.s.windows if w.axis == self.axis)

    @property
    def tile(self) -> dict[str, int]:
        """Outputs of a thread along each axis, where there are several."""
        return {self.s.inner: self.vector, self.axis: self.outputs * (self.vector if self.axis == self.s.inner else 1)}

    @property
    def reduce(self) -> dict[str, str]:
        """Kinds of the loops over the window, outermost first: the one along ``axis`` is always printed out."""
        tap = self.window.tap
        others = dict.fromkeys((r for r in self.s.part.reduce_axes if r != tap), "unroll" if self.unroll else "serial")
        return {**others, tap: "unroll"}

    @property
    def taps(self) -> int:
        """Elements of the window along ``axis``."""
        return self.s.ranges[self.window.tap]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Places along the window that a thread reads for every place along its other axes."""
        w = self.window
        found = {w.stride * j + w.dilation * t for j in range(self.outputs) for t in range(self.taps)}
        return tuple(sorted(found))

    @property
    def shared(self) -> tuple[Expr, ...]:
        """Values of the body that neighbours along the window share; equal ones once."""
        return _shared(self.s, self.window)

    @property
    def accumulators(self) -> Accumulators:
        assert self.s.part.monoid is not None
        return Accumulators(self.s.program, self.s.part.monoid)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Threads along every output axis."""
        tile = self.tile
        return tuple(ceildiv(n, tile.get(a, 1)) for a, n in zip(self.s.part.axes, self.s.part.extents, strict=True))

    @property
    def items(self) -> int:
        """Threads that have something to do."""
        n = 1
        for e in self.extents:
            n *= e
        return n

    @property
    def blocks(self) -> int:
        return ceildiv(self.items, self.threads)

    @property
    def registers(self) -> int:
        """An estimate, a thread."""
        words = self.accumulators.bytes // 4
        return min(255, 28 + self.vector * (self.outputs * words + len(self.shared) * len(self.offsets) + 2))

    def width(self, where: Linear, size: int) -> int:
        """Elements of one access along the innermost axis: 16 bytes at most, 1 where they do not lie in order."""
        return _width(self.s, self.vector, where, size)

    @property
    def read_bytes(self) -> int:
        """Bytes of the widest read of memory."""
        return _read_bytes(self.s, self.vector)

    @property
    def align(self) -> int:
        """Alignment that its accesses of memory need."""
        return min(16, max(self.s.item * self.vector if self.vector > 1 else 1, self.read_bytes))


@lru_cache(maxsize=256)
def _shared(s: Stencil, window: Window) -> tuple[Expr, ...]:
    found: dict[int, Expr] = {}
    for e in s.part.body:
        for x in shared(e, window):
            found.setdefault(s.numbers.of(x), x)
    return tuple(found.values())


def _width(s: Stencil, vector: int, where: Linear, size: int) -> int:
    width = min(vector, 16 // size)
    return width if width > 1 and s.packed(where, vector) else 1


@lru_cache(maxsize=256)
def _read_bytes(s: Stencil, vector: int) -> int:
    reads = [(linear(x.args[0]), ITEMSIZE[x.dtype]) for e in s.part.expressions for x in e.loads()]
    return max((size * _width(s, vector, where, size) for where, size in reads), default=1)


def plan(s: Stencil, values: Mapping[str, Value]) -> Plan:
    """The plan of a schedule's values."""
    return Plan(
        s, int(values["threads"]), str(values["axis"]), int(values["outputs"]), int(values["vector"]),
        bool(values["unroll"]),
    )  # fmt: skip
