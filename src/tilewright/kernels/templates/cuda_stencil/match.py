"""Which windowed reductions a GPU computes, with flat positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, ValueNumbers
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.flatten import Linearizer, flat_tensors, flattened, linear
from tilewright.kernels.families.parts import Part
from tilewright.kernels.families.reduce_window import Window, reduce_window
from tilewright.kernels.templates.cuda.kernels import fits, outputs, supported


@dataclass(frozen=True, eq=False)
class Stencil:
    """A matched program: the family's part, whose body and value are of flat tensors here."""

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

    def packed(self, where: Linear, width: int) -> bool:
        """Whether ``width`` elements along the innermost axis are one aligned run, wherever it begins at a multiple."""
        if where.step(self.inner) != 1 or self.ranges[self.inner] % width:
            return False
        wide = {a for a, n in self.ranges.items() if n > 1}
        steps = [c for e, c in where.terms if e.op != "axis" or (e.value != self.inner and str(e.value) in wide)]
        return all(c % width == 0 for c in (where.const, *steps))

    @cached_property
    def widest(self) -> int:
        """The most neighbouring outputs a thread takes along the innermost axis: 1 where that is a window."""
        if any(w.axis == self.inner for w in self.windows):
            return 1
        best = 16
        reads = [x for e in self.part.body for x in e.loads() if self.inner in x.axes()]
        for x in reads:
            width = 1
            while 2 * width * ITEMSIZE[x.dtype] <= 16 and self.packed(linear(x.args[0]), 2 * width):
                width *= 2
            best = min(best, width)
        while best > 1 and (best * self.item > 16 or self.ranges[self.inner] % best):
            best //= 2
        return best if reads else 1


@lru_cache(maxsize=256)
def match(text: str) -> Stencil | None:
    """The windowed reduction that a program (canonical text) is, or ``None``; the same object each time."""
    form = reduce_window(text)
    if form is None or not supported(form.program):
        return None
    part, program = form.part, form.program
    tensors, lin = flat_tensors(program.inputs), Linearizer()
    body = tuple(flattened(e, program.tensors, lin) for e in part.body)
    made = replace(part, body=body, value=flattened(part.value, program.tensors, lin))
    if not fits(tensors, made.expressions, made.ranges, (outputs(made),)):
        return None
    return Stencil(program, tensors, made, form.walked)


__all__ = ["Stencil", "match"]
