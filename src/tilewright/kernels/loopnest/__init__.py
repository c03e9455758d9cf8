"""What a schedule lowers to before any text is printed: loops, and where operand tiles are staged.

A :class:`LoopNest` is a description without passes over it. The emitter prints its loops, bounds
and indices; the footprint analysis reads flops, bytes and reuse from the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from tilewright.kernels.expression.expr import Expr, ValueNumbers
from tilewright.kernels.expression.program import Tensor

BLOCK = ("unroll", "vector")
"""Kinds of loops that are no loops in the text: a body computes all their iterations together."""


@dataclass(frozen=True)
class Loop:
    """One loop: it walks ``extent`` elements of ``axis`` in steps of ``step``.

    ``step`` is the span that one iteration hands to the loops inside (1 for the innermost loop over
    an axis). ``argument`` names the launch argument that carries the step at run time; ``step`` is
    then its value in this schedule, and two nests that differ only there print the same source.
    ``kind``: ``serial``, ``parallel`` (iterations may run on different threads), ``chunked`` (parallel, and each
    task gets one chunk of neighbouring iterations), ``unroll`` (printed out), ``vector`` (one SIMD
    operation). ``level``: which level of the memory hierarchy the tile inside is meant for: ``outer``, ``l3``,
    ``l2``, ``l1``, ``register``. ``walked``: the loops over the nest's axes that one over numbers of pieces stands for.
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
    """Loops over ``size`` elements in blocks of ``count`` vectors: around a block, over its vectors, over lanes."""
    block = lanes * count
    several = (Loop(axis, min(size, block), lanes, "unroll", "register"),) if count > 1 else ()
    around = Loop(axis, size, block, level="register")
    return (around, *several, Loop(axis, min(size, lanes), 1, "vector", "register"))


def divided(loops: Iterable[Loop], tasks: int) -> tuple[Loop, ...]:
    """The loops, the ``chunked`` ones divided among ``tasks`` tasks, the outermost first."""
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
    """A dense or padded array of elements: shape, strides (elements), and an optional XOR swizzle.

    ``swizzle = (bits, base, shift)``: address bits ``[base, base+bits)`` are XORed with the bits
    ``shift`` places above them. Layouts describe packed panels, prepacked weights, register tiles.
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
        """Elements from the first to one past the last addressed (before swizzling)."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    def offset(self, *index: int) -> int:
        """Position, in elements, of an index."""
        at = sum(i * s for i, s in zip(index, self.strides, strict=True))
        if self.swizzle is None:
            return at
        bits, base, shift = self.swizzle
        return at ^ (((at >> (base + shift)) & ((1 << bits) - 1)) << base)

    def text(self, *index: str) -> str:
        """C text of the position of an index given as C texts."""
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
        """Whether no two indices share a position (swizzles permute, so strides decide)."""
        reach = 0
        for n, s in sorted(zip(self.shape, self.strides, strict=True), key=lambda p: p[1]):
            if n > 1:
                if s <= reach:
                    return False
                reach += (n - 1) * s
        return True


@dataclass(frozen=True)
class Access:
    """One tensor access of the innermost body: indices are expressions of the nest's axes.

    Stores, and reads with ``outside``, happen once per output point, outside of the reduce loops. ``moves``:
    instructions, roughly, that bring each vector into order after it is read.
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
    """Reads of an evaluation, a repeated one once, those inside of indices included; ``tensors`` say of which dtype."""
    numbers = ValueNumbers()
    found = {numbers.of(x): x for e in exprs for x in e.loads()}
    return tuple(
        Access(str(x.value), x.args, tensors[str(x.value)].dtype if tensors else x.dtype, outside=outside)
        for x in found.values()
    )


@dataclass(frozen=True)
class Staged:
    """A tile copied before use, or before it is stored: inside loop number ``depth`` (loops before it are fixed).

    ``depth`` is ``None`` for what is copied once, before the first call. ``tensor`` names the access that the copy
    serves, ``layout`` is the copy's, in elements. ``moves``: instructions, roughly, that copying an element takes: a
    lane's share of a vector's, 1 where elements are copied one by one, more where the place of each is worked out.
    """

    tensor: str
    depth: int | None
    layout: Layout
    level: str
    moves: float = 0.0


@dataclass(frozen=True)
class LoopNest:
    """Loops, outermost first; the innermost body's accesses; staged copies; operations per point.

    ``flops_per_output`` counts what is done once per output point (finish and epilogue). The axes of
    the store's indices are the output axes, the others are reduced.
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
        """The loops of which each task gets a chunk of iterations."""
        return tuple(x for x in self.loops if x.kind == "chunked")

    def spans(self, axis: str) -> tuple[int, ...]:
        """The extent of an axis, then the step of each of its loops.

        Raises ``ValueError`` where a loop walks another extent than it is handed in, or the last step is not 1.
        """
        loops = [x for x in self.loops if x.axis == axis]
        found = (int(self.axes[axis]), *(x.step for x in loops))
        if tuple(x.extent for x in loops) != found[:-1] or found[-1] != 1:
            raise ValueError(f"loops of {self.name!r} do not walk all of {axis!r}")
        return found

    @property
    def around(self) -> tuple[Loop, ...]:
        """The loops around a block, which those of kinds ``unroll`` and ``vector`` compute."""
        return tuple(x for x in self.loops if x.kind not in BLOCK)

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Sizes of blocks by axis, largest first: the step of the loop around, and that of the block's first loop."""
        inside: dict[str, int] = {}
        for x in self.loops:
            if x.kind == "unroll":
                inside.setdefault(x.axis, x.step)
        vectors = {x.axis for x in self.loops if x.kind == "vector"}
        return {
            x.axis: tuple(dict.fromkeys((x.step, inside.get(x.axis, x.step))))
            for x in self.around if x.level == "register" and x.axis in {*inside, *vectors}
        }  # fmt: skip
