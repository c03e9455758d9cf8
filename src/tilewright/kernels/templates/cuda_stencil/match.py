"""Matching of windowed reductions for GPUs, with flat positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import ITEMSIZE, ValueNumbers
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.flatten import Linearizer, flat_tensors, flattened
from tilewright.kernels.families.parts import Part
from tilewright.kernels.families.reduce_window import Window, reduce_window
from tilewright.kernels.templates.cuda.kernels import fits, supported
from tilewright.kernels.templates.cuda.runs import Run, places


@dataclass(frozen=True, eq=False)
class Stencil:
    """A matched program: the family's part, with body and value over flat tensors."""

    program: Program
    tensors: Mapping[str, Tensor]
    part: Part
    windows: tuple[Window, ...]

    @property
    def ranges(self) -> dict[str, int]:
        return self.part.ranges

    @property
    def inner(self) -> str:
        """The innermost output axis."""
        return self.part.axes[-1]

    @property
    def item(self) -> int:
        """Bytes of an output element."""
        return ITEMSIZE[self.part.dtype]

    @cached_property
    def numbers(self) -> ValueNumbers:
        return ValueNumbers()

    @cached_property
    def run(self) -> Run:
        """Runs of adjacent outputs."""
        return Run(
            ((self.inner, self.ranges[self.inner]),), single=frozenset(a for a, n in self.ranges.items() if n == 1)
        )

    @cached_property
    def widest(self) -> int:
        """Most adjacent outputs that a thread takes along the innermost axis: 1 where a window moves along that
        axis."""
        found = places(x for e in self.part.body for x in e.loads() if self.inner in x.axes())
        if not found or any(w.axis == self.inner for w in self.windows):
            return 1
        # The output is contiguous.
        return min(self.run.widest(where, size) for where, size in (*found, (Linear(0, {self.inner: 1}), self.item)))


@lru_cache(maxsize=256)
def match(program: Program) -> Stencil | None:
    """The windowed reduction that a program computes, or ``None``; the same object at each call."""
    form = reduce_window(program)
    if form is None or not supported(form.program):
        return None
    part, program = form.part, form.program
    tensors, lin = flat_tensors(program.inputs), Linearizer()
    body = tuple(flattened(e, program.tensors, lin) for e in part.body)
    made = replace(part, body=body, value=flattened(part.value, program.tensors, lin))
    if not fits(tensors, made.expressions, made.ranges, (made.outputs,)):
        return None
    return Stencil(program, tensors, made, form.walked)


__all__ = ["Stencil", "match"]
