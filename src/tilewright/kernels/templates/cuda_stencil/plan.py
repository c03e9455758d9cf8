"""The distribution of a stencil to threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewright.caching import cached_property
from tilewright.core import Value
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.families.reduce_window import Window, shared
from tilewright.kernels.templates.cuda.grid import Grid
from tilewright.kernels.templates.cuda.part_nests import grid
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.runs import places
from tilewright.kernels.templates.cuda.sizes import within
from tilewright.kernels.templates.cuda_stencil.match import Stencil
from tilewright.kernels.templates.decisions import decided


@dataclass(frozen=True)
class WindowTiling:
    """Everything that the printed source depends on.

    A thread computes ``outputs`` adjacent outputs along ``axis``, times ``vector`` along the innermost axis.
    ``unroll``: whether the loops over the window's other axes are unrolled.
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

    @cached_property
    def grid(self) -> Grid:
        """The distribution of outputs to threads."""
        inner = self.s.inner
        own = {inner: self.vector, self.axis: self.outputs * (self.vector if self.axis == inner else 1)}
        return grid(self.s.part, self.threads, own=own)

    @property
    def reduce(self) -> dict[str, str]:
        """Kinds of the loops over the window, outermost first. The loop along ``axis`` is always unrolled."""
        tap = self.window.tap
        others = dict.fromkeys((r for r in self.s.part.reduce_axes if r != tap), "unroll" if self.unroll else "serial")
        return {**others, tap: "unroll"}

    @property
    def taps(self) -> int:
        """Number of elements of the window along ``axis``."""
        return self.s.ranges[self.window.tap]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets along ``axis`` that a thread reads for each position along the window's other axes."""
        w = self.window
        found = {w.stride * j + w.dilation * t for j in range(self.outputs) for t in range(self.taps)}
        return tuple(sorted(found))

    @property
    def shared(self) -> tuple[Expr, ...]:
        """Values of the body that adjacent outputs along ``axis`` share, without duplicates."""
        return _shared(self.s, self.window)

    @property
    def accumulators(self) -> Accumulators:
        assert self.s.part.monoid is not None
        return Accumulators(self.s.program, self.s.part.monoid)

    @property
    def registers(self) -> int:
        """Estimated registers of a thread."""
        words = self.accumulators.bytes // 4
        return min(255, 28 + self.vector * (self.outputs * words + len(self.shared) * len(self.offsets) + 2))

    @property
    def read_bytes(self) -> int:
        """Bytes of the widest read of memory."""
        return _read_bytes(self.s, self.vector)

    @property
    def align(self) -> int:
        """Alignment in bytes that the kernel's memory accesses need."""
        return max(self.s.item * self.vector, self.read_bytes)


@lru_cache(maxsize=256)
def _shared(s: Stencil, window: Window) -> tuple[Expr, ...]:
    found: dict[int, Expr] = {}
    for e in s.part.body:
        for x in shared(e, window):
            found.setdefault(s.numbers.of(x), x)
    return tuple(found.values())


@lru_cache(maxsize=256)
def _read_bytes(s: Stencil, vector: int) -> int:
    return s.run.bytes(places(x for e in s.part.expressions for x in e.loads()), vector)


def plan(s: Stencil, values: Mapping[str, Value]) -> WindowTiling:
    """The tiling for a schedule's values. Raises ``IllegalSchedule`` for vectors that do not fit all symbolic sizes."""
    within("vector", int(values["vector"]), s.widest)
    return decided(WindowTiling, values, s=s)
