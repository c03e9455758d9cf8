"""Loop nests, to which a schedule lowers before any text is printed: loops, accesses and staged tiles.

A :class:`LoopNest` is a plain description. The emitter prints its loops, bounds and indices; the footprint analysis
reads flops, bytes and reuse from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from tilewright.kernels.expression.expr import Expr, ValueNumbers
from tilewright.kernels.expression.program import Tensor

BLOCK = ("unroll", "vector")
"""Kinds of loops that the text does not contain: one execution of a body computes all their iterations."""


@dataclass(frozen=True)
class Loop:
    """One loop over ``extent`` elements of ``axis`` in steps of ``step`` elements.

    ``step`` is the span that one iteration hands to the loops inside (1 for the innermost loop over an axis).
    ``argument`` names the launch argument that carries the step at run time; ``step`` is its value in this schedule.
    Two nests that differ only in steps with an argument print the same source.

    ``kind``: ``serial``, ``parallel`` (iterations may run on different threads), ``chunked`` (parallel, each task gets
    one contiguous chunk of iterations), ``unroll`` (unrolled in the text), ``vector`` (one SIMD operation). ``level``:
    memory level for which the tile inside is meant: ``outer``, ``l3``, ``l2``, ``l1``, ``register``. ``walked``: if the
    loop counts chunks of work, the loops over the nest's axes that it replaces.
    """

    axis: str
    extent: int
    step: int
    kind: str = "serial"
    level: str = "outer"
    argument: str | None = None
    walked: tuple[Loop, ...] | None = None

    @property
    def trips(self) -> int:
        return -(-self.extent // self.step)


def vectors(axis: str, size: int, lanes: int, count: int) -> tuple[Loop, ...]:
    """Loops over ``size`` elements in blocks of ``count`` vectors: over blocks, over a block's vectors, over lanes."""
    block = lanes * count
    several = (Loop(axis, min(size, block), lanes, "unroll", "register"),) if count > 1 else ()
    around = Loop(axis, size, block, level="register")
    return (around, *several, Loop(axis, min(size, lanes), 1, "vector", "register"))


def divided(loops: Iterable[Loop], tasks: int) -> tuple[Loop, ...]:
    """The loops with the ``chunked`` ones divided among ``tasks`` tasks, the outermost loop first."""
    found = []
    for x in chain.from_iterable((x,) if x.walked is None else x.walked for x in loops):
        if x.kind != "chunked":
            found.append(x)
            continue
        parts = min(tasks, x.trips)
        tasks = -(-tasks // parts)
        span = -(-x.trips // parts) * x.step
        if parts > 1:
            found.append(replace(x, step=span, kind="parallel", level="l2"))
        if parts == 1 or span > x.step:
            found.append(replace(x, extent=min(x.extent, span), kind="serial"))
    return tuple(found)


@dataclass(frozen=True)
class Layout:
    """A dense or padded array: shape, strides in elements, and an optional XOR swizzle.

    ``swizzle = (bits, base, shift)``: address bits ``[base, base+bits)`` are XORed with the bits ``shift`` places above
    them. Layouts describe packed panels, prepacked weights and register tiles.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    swizzle: tuple[int, int, int] | None = None

    @staticmethod
    def row_major(*shape: int) -> Layout:
        strides, step = [], 1
        for s in reversed(shape):
            strides.append(step)
            step *= s
        return Layout(shape, tuple(reversed(strides)))

    @property
    def size(self) -> int:
        """Number of elements from the first to the last address, both included, before swizzling."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    def offset(self, *index: int) -> int:
        """Position of an index, in elements."""
        at = sum(i * s for i, s in zip(index, self.strides, strict=True))
        if self.swizzle is None:
            return at
        bits, base, shift = self.swizzle
        return at ^ (((at >> (base + shift)) & ((1 << bits) - 1)) << base)

    def text(self, *index: str) -> str:
        """C text of the position of an index that is given as C texts."""
        terms = [
            i if s == 1 else f"({i})*{s}L"
            for i, s, n in zip(index, self.strides, self.shape, strict=True)
            if n != 1 and i != "0"
        ]
        at = "+".join(terms) or "0"
        if self.swizzle is None:
            return at
        bits, base, shift = self.swizzle
        return f"(({at})^(((({at})>>{base + shift})&{(1 << bits) - 1})<<{base}))"

    def injective(self) -> bool:
        """Whether distinct indices have distinct positions. Swizzles permute positions, so strides decide."""
        reach = 0
        for n, s in sorted(zip(self.shape, self.strides, strict=True), key=lambda p: p[1]):
            if n > 1:
                if s <= reach:
                    return False
                reach += (n - 1) * s
        return True


@dataclass(frozen=True)
class Access:
    """One tensor access of the innermost body: its indices are expressions of the nest's axes.

    Stores, and reads with ``outside``, run once per output point, outside the reduce loops. ``moves``: approximate
    number of instructions that permute each vector after it is read.
    """

    tensor: str
    indices: tuple[Expr, ...]
    dtype: str
    store: bool = False
    outside: bool = False
    moves: float = 0.0


def reads(
    exprs: Iterable[Expr], tensors: Mapping[str, Tensor] | None = None, outside: bool = False
) -> tuple[Access, ...]:
    """The distinct reads of an evaluation, including those inside indices; ``tensors`` gives their dtypes."""
    numbers = ValueNumbers()
    found = {numbers.of(x): x for e in exprs for x in e.loads()}
    return tuple(
        Access(str(x.value), x.args, tensors[str(x.value)].dtype if tensors else x.dtype, outside=outside)
        for x in found.values()
    )


@dataclass(frozen=True)
class Staged:
    """A tile that is copied before its use or before it is stored.

    ``depth``: number of loops around the copy; ``None``: the copy runs once, before the first call. ``tensor`` names
    the access that the copy serves; ``layout`` is the copy's, in elements. ``moves``: approximate instructions per
    copied element. It is a lane's share of a vector copy's, 1 for scalar copies, and more if each element's position is
    computed.
    """

    tensor: str
    depth: int | None
    layout: Layout
    level: str
    moves: float = 0.0


@dataclass(frozen=True)
class LoopNest:
    """Loops, outermost first, with the innermost body's accesses, staged copies and operation counts.

    ``flops_per_output`` counts operations once per output point (finish and epilogue). The axes in the store's indices
    are the output axes; all other axes are reduced.
    """

    name: str
    axes: Mapping[str, int]
    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]
    staged: tuple[Staged, ...] = ()
    flops_per_point: int = 2
    itemsize: int = 4
    flops_per_output: int = 0

    @property
    def chunked(self) -> tuple[Loop, ...]:
        """The ``chunked`` loops."""
        return tuple(x for x in self.loops if x.kind == "chunked")

    def spans(self, axis: str) -> tuple[int, ...]:
        """The extent of an axis, then the step of each of its loops.

        Raises ``ValueError`` if a loop's extent differs from the enclosing step, or if the last step is not 1.
        """
        loops = [x for x in self.loops if x.axis == axis]
        found = (int(self.axes[axis]), *(x.step for x in loops))
        if tuple(x.extent for x in loops) != found[:-1] or found[-1] != 1:
            raise ValueError(f"loops of {self.name!r} do not walk all of {axis!r}")
        return found

    @property
    def around(self) -> tuple[Loop, ...]:
        """The loops around the block; loops of kinds ``unroll`` and ``vector`` form the block."""
        return tuple(x for x in self.loops if x.kind not in BLOCK)

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Sizes of blocks by axis, largest first: the step of the loop around, and the step of the block's first
        loop."""
        inside: dict[str, int] = {}
        for x in self.loops:
            if x.kind == "unroll":
                inside.setdefault(x.axis, x.step)
        vectors = {x.axis for x in self.loops if x.kind == "vector"}
        return {
            x.axis: tuple(dict.fromkeys((x.step, inside.get(x.axis, x.step))))
            for x in self.around if x.level == "register" and x.axis in {*inside, *vectors}
        }  # fmt: skip
