"""Generates random programs of all operations, indices and reductions, mostly with sizes that are no powers of two."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from fuzz.formats import COMPUTED
from fuzz.tree import (
    COMPARISONS,
    FUNCTIONS,
    INDEX,
    REALS,
    WHOLE,
    Axis,
    Case,
    Input,
    Node,
    Stage,
    axis,
    binary,
    cast,
    const,
)  # fmt: skip

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 19, 23, 31, 32, 33, 47, 64, 65, 97, 127, 130)
POINTS = 100_000
"""Largest number of points of a stage, which NumPy evaluates in a few milliseconds."""
ELEMENTS = 20_000
MONOIDS = ("welford", "mean_square", "runner_up")


def program(seed: int, number: int) -> Case:
    """Program ``number`` of a seed; deterministic."""
    made = _Generator(random.Random(f"{seed} {number}")).case()
    return Case(made.inputs, made.stages, made.outputs, seed, number).pruned()


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.r = rng
        self.dtype = rng.choice(["float32"] * 6 + ["float64", "float16", "bfloat16", "float16", "bfloat16"])
        self.computed = COMPUTED[self.dtype]
        self.inputs: list[Input] = []
        self.stages: list[Stage] = []

    def case(self) -> Case:
        for _ in range(self.r.choice((1, 1, 2, 2, 3, 3, 4))):
            self.stage()
        read = {n for s in self.stages for n in s.reads()}
        ends = [s.name for s in self.stages if s.name not in read]
        if self.r.random() < 0.5:
            ends = ends[-1:]
        elif self.r.random() < 0.3:
            ends += [n for n in read if n.startswith("s")][:1]
        return Case(tuple(self.inputs), tuple(self.stages), tuple(ends[:6]))

    # ------------------------------------------------------------------ tensors

    def shape(self, rank: int, most: int = ELEMENTS) -> tuple[int, ...]:
        while True:
            found = tuple(self.r.choice(SIZES) for _ in range(rank))
            if math.prod(found) <= most:
                return found

    def input(self, shape: tuple[int, ...], dtype: str | None = None, below: int | None = None) -> Input:
        made = Input(f"x{len(self.inputs)}", shape, dtype or self.dtype, below)
        self.inputs.append(made)
        return made

    def tensors(self, real: bool) -> list[Input | Stage]:
        every: list[Input | Stage] = [*(t for t in self.inputs if t.below is None), *self.stages]
        return [t for t in every if (t.dtype in WHOLE) != real]

    # ------------------------------------------------------------------ indices

    def index(self, axes: Sequence[Axis], size: int) -> tuple[Node, Node | None]:
        """An index into ``size`` elements, and the condition under which it is in bounds; ``None`` if it always is."""
        r = self.r
        if not axes or (size == 1 and r.random() < 0.6):
            return const(r.randrange(size), INDEX), None
        same = [a for a in axes if a[1] == size]
        name, extent = r.choice(same) if same and r.random() < 0.8 else r.choice(axes)
        x, kind = axis(name), r.random()
        if extent <= size and kind < 0.6:
            off = r.choice((0, 0, 0, size - extent, r.randrange(size - extent + 1)))
            return (binary("add", x, const(off, INDEX)) if off else x), None
        if kind < 0.68:
            made = binary("sub", const(size - 1, INDEX), x)
        elif kind < 0.75:
            made = binary("floordiv", x, const(r.choice((2, 3, 4, 5)), INDEX))
        elif kind < 0.8:
            made = binary(
                "mod", binary("add", x, const(r.randrange(-3, 4), INDEX)), const(r.choice((2, 3, size)), INDEX)
            )
        elif kind < 0.87 and extent * 2 < POINTS:
            gathered = self.input((extent,), r.choice(("int32", "int64", "int32")), below=size)
            return Node("load", gathered.dtype, (x,), gathered.name), None
        else:
            other, _ = r.choice(axes)
            step = binary("mul", x, const(r.choice((1, 1, 2, 3)), INDEX))
            further = binary("mul", axis(other), const(r.choice((0, 1, 1, 2, -1)), INDEX))
            made = binary("add", binary("add", step, further), const(r.choice((0, 0, -1, -2, 1)), INDEX))
        return self.within(made, size)

    def within(self, index: Node, size: int) -> tuple[Node, Node | None]:
        kind = self.r.random()
        least, most = const(0, INDEX), const(size - 1, INDEX)
        if kind < 0.35:
            return binary("min", binary("max", index, least), most), None
        if kind < 0.55:
            return binary("mod", index, const(size, INDEX)), None
        return index, binary("and", binary("ge", index, least), binary("le", index, most))

    def load(self, tensor: Input | Stage, axes: Sequence[Axis]) -> Node:
        """An element of a tensor at the stage's point, with padding where an index may be out of bounds."""
        guard: Node | None = None
        at = []
        for size in tensor.shape:
            one, condition = self.index(axes, size)
            at.append(one)
            if condition is not None:
                guard = condition if guard is None else binary("and", guard, condition)
        read = Node("load", tensor.dtype, tuple(at), tensor.name)
        if guard is None:
            return read
        if tensor.dtype == "bool":
            return binary("and", guard, Node("select", "bool", (guard, read, const(False, "bool"))))
        return Node("select", tensor.dtype, (guard, read, const(self.r.choice((0, 0, 0, 2)), tensor.dtype)))

    # ------------------------------------------------------------------ values

    def leaf(self, axes: Sequence[Axis]) -> Node:
        r, dtype = self.r, self.computed
        kind = r.random()
        if kind < 0.08:
            return const(round(r.uniform(-2, 2), 2), dtype)
        if kind < 0.12 and axes:
            return binary("mul", cast(axis(r.choice(axes)[0]), dtype), const(0.25, dtype))
        known = self.tensors(True)
        if known and r.random() < 0.6:
            tensor: Input | Stage = r.choice(known[-4:])
        else:
            chosen = r.sample(list(axes), min(len(axes), r.choice((1, 2, 2, 3))))
            if r.random() < 0.7:
                chosen.sort(key=list(axes).index)
            shape = tuple(n for _, n in chosen)
            usual = r.random() < 0.85
            tensor = self.input(
                shape if math.prod(shape) <= ELEMENTS else shape[:1],
                self.dtype if usual else r.choice([*REALS[1:], "int8", "int32", "uint8"]),
            )
        return cast(self.load(tensor, axes), dtype)

    def condition(self, axes: Sequence[Axis], depth: int) -> Node:
        r = self.r
        if axes and r.random() < 0.5:
            x = axis(r.choice(axes)[0])
            y = axis(r.choice(axes)[0]) if r.random() < 0.5 else const(r.randrange(20), INDEX)
            made = binary(r.choice(COMPARISONS), binary("add", x, const(r.randrange(-2, 3), INDEX)), y)
        else:
            made = binary(r.choice(COMPARISONS[:4]), self.real(axes, depth - 1), self.leaf(axes))
        if r.random() < 0.2:
            made = Node("not", "bool", (made,))
        if depth > 0 and r.random() < 0.2:
            made = binary(r.choice(("and", "or")), made, self.condition(axes, 0))
        return made

    def real(self, axes: Sequence[Axis], depth: int) -> Node:
        """A float value in the type of computation."""
        r, dtype = self.r, self.computed
        if depth <= 0 or r.random() < 0.2:
            return self.leaf(axes)
        kind = r.random()
        if kind < 0.45:
            return binary(
                r.choice(("add", "sub", "mul", "mul", "max", "min")),
                self.real(axes, depth - 1),
                self.real(axes, depth - 1),
            )
        if kind < 0.52:
            apart = binary("add", Node("abs", dtype, (self.real(axes, depth - 1),)), const(0.5, dtype))
            return binary("div", self.real(axes, depth - 1), apart)
        if kind < 0.64:
            branches = self.real(axes, depth - 1), self.real(axes, depth - 1)
            return Node("select", dtype, (self.condition(axes, depth - 1), *branches))
        if kind < 0.74:
            between = r.choice(("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float32"))
            return cast(cast(Node("tanh", dtype, (self.real(axes, depth - 1),)), between), dtype)
        if kind < 0.8:
            return Node(r.choice(("neg", "abs")), dtype, (self.real(axes, depth - 1),))
        return self.function(self.real(axes, depth - 1))

    def function(self, x: Node) -> Node:
        """A function of ``x``, with the argument limited to where the function is defined and its value moderate."""
        r, dtype = self.r, self.computed
        name = r.choice((*FUNCTIONS, "pow"))
        if name == "exp":
            x = binary("min", x, const(3, dtype))
        if name in ("log", "log1p", "sqrt", "rsqrt", "pow"):
            x = binary("add", Node("abs", dtype, (x,)), const(0.25, dtype))
        if name == "pow":
            return binary("pow", x, const(r.choice((0.5, -0.5, 1.5, -1.0)), dtype))
        return Node(name, dtype, (x,))

    def whole(self, axes: Sequence[Axis], depth: int) -> Node:
        """An int32 value."""
        r = self.r
        if depth <= 0 or r.random() < 0.25:
            if axes and r.random() < 0.2:
                return cast(axis(r.choice(axes)[0]), "int32")
            known = self.tensors(False)
            fresh = not known or r.random() < 0.4
            shape = tuple(n for _, n in r.sample(list(axes), min(len(axes), 2)))
            tensor = (
                self.input(shape[:1] if math.prod(shape) > ELEMENTS else shape, r.choice(("int8", "int32", "uint8")))
                if fresh
                else r.choice(known)
            )
            return cast(self.load(tensor, axes), "int32")
        kind = r.random()
        if kind < 0.5:
            return binary(
                r.choice(("add", "sub", "max", "min")), self.whole(axes, depth - 1), self.whole(axes, depth - 1)
            )
        if kind < 0.6:
            return binary("mul", self.whole(axes, depth - 1), self.whole(axes, 0))
        if kind < 0.8:
            return binary(
                r.choice(("floordiv", "mod")),
                self.whole(axes, depth - 1),
                const(r.choice((2, 3, 5, 7, 8, 16)), "int32"),
            )
        if kind < 0.9:
            return cast(cast(self.whole(axes, depth - 1), r.choice(("int8", "uint8"))), "int32")
        return Node(r.choice(("neg", "abs")), "int32", (self.whole(axes, depth - 1),))

    # ------------------------------------------------------------------ stages

    def axes(self) -> tuple[Axis, ...]:
        """Axes of a new stage, often with sizes of the last stage."""
        before = self.stages[-1].shape if self.stages else ()
        if before and self.r.random() < 0.5:
            shape = before if self.r.random() < 0.6 or len(before) < 2 else self.r.choice((before[:-1], before[1:]))
        else:
            shape = self.shape(self.r.choice((1, 2, 2, 2, 3, 3, 4)), 4000)
        return tuple((f"a{d}", n) for d, n in enumerate(shape))

    def reduction(self, axes: Sequence[Axis], count: int) -> tuple[Axis, ...]:
        room = POINTS // math.prod(n for _, n in axes)
        found: list[Axis] = []
        for k in range(count):
            size = self.r.choice([n for n in (*SIZES, 200, 257) if n <= max(1, room)])
            found.append((f"k{k}", size))
            room //= size
        return tuple(found)

    def add(
        self, kind: str, axes: tuple[Axis, ...], *body: Node, dtype: str = "", how: str = "",
        reduced: tuple[Axis, ...] = (), along: int = 0, index: Node | None = None,
    ) -> Stage:  # fmt: skip
        own = "int64" if kind == "arg" else body[0].dtype
        made = Stage(f"s{len(self.stages)}", kind, axes, body, dtype or own, how, reduced, along, index)
        self.stages.append(made)
        return made

    def stage(self) -> None:
        r, axes = self.r, self.axes()
        made = r.choices(
            (self.map, self.reduce, self.product, self.rows, self.scan, self.others), (24, 18, 20, 10, 8, 16)
        )[0]
        made(axes)

    def narrow(self) -> str:
        """The type that a stage is converted to; mostly none."""
        usual = self.r.random() < 0.6 or self.computed == "float64"
        return "" if usual else self.r.choice((self.dtype, "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"))

    def map(self, axes: tuple[Axis, ...]) -> None:
        value = self.real(axes, self.r.choice((1, 2, 3, 4)))
        if self.stages and self.stages[-1].dtype not in WHOLE and self.r.random() < 0.5:
            value = binary(
                self.r.choice(("add", "mul", "sub")), value, cast(self.load(self.stages[-1], axes), self.computed)
            )
        self.add("map", axes, value, dtype=self.narrow())

    def reduce(self, axes: tuple[Axis, ...]) -> None:
        reduced, how = (
            self.reduction(axes, self.r.choice((1, 1, 1, 2, 3))),
            self.r.choice(("sum", "sum", "max", "min", "prod")),
        )
        every = (*axes, *reduced)
        if how != "prod" and self.r.random() < 0.15:
            self.add("reduce", axes, self.whole(every, 1), how=how, reduced=reduced)
            return
        value = self.real(every, self.r.choice((0, 1, 1, 2, 3)))
        if how == "prod":
            value = binary(
                "add",
                binary("mul", Node("tanh", self.computed, (value,)), const(0.2, self.computed)),
                const(1, self.computed),
            )
        if how == "sum" and self.r.random() < 0.25:
            value = Node("select", self.computed, (self.condition(every, 0), value, const(0, self.computed)))
        self.add("reduce", axes, value, how=how, reduced=reduced, dtype=self.narrow())

    def product(self, axes: tuple[Axis, ...]) -> None:
        reduced = self.reduction(axes, self.r.choice((1, 1, 2)))
        every = (*axes, *reduced)
        bits = self.r.random() < 0.15
        dtype = "int32" if bits else self.computed

        def operand() -> Node:
            known = [t for t in self.tensors(not bits) if t.shape]
            if known and self.r.random() < 0.3:
                return cast(self.load(self.r.choice(known), every), dtype)
            chosen = {*reduced[:1], *self.r.sample(every, min(len(every), 2))}
            at = [a for a in every if a in chosen]
            if self.r.random() < 0.4:
                self.r.shuffle(at)
            if math.prod(n for _, n in at) > 2 * ELEMENTS:
                at = at[:1]
            made = self.input(tuple(n for _, n in at), self.r.choice(("int8", "uint8")) if bits else None)
            return cast(Node("load", made.dtype, tuple(axis(a) for a, _ in at), made.name), dtype)

        value = binary("mul", operand(), operand())
        if not bits and self.r.random() < 0.2:
            value = Node("select", dtype, (self.condition(every, 0), value, const(0, dtype)))
        self.add("reduce", axes, value, how="sum", reduced=reduced, dtype="" if bits else self.narrow())

    def rows(self, _: tuple[Axis, ...]) -> None:
        """Softmax or a norm over the last axis, in stages."""
        last = self.stages[-1] if self.stages else None
        tensor: Input | Stage
        if last is not None and last.shape and last.dtype in REALS and self.r.random() < 0.6:
            tensor = last
        else:
            tensor = self.input(self.shape(self.r.choice((1, 2, 2, 3)), 6000))
        dtype, shape = self.computed, tensor.shape
        axes = tuple((f"a{d}", n) for d, n in enumerate(shape))
        outer, along = axes[:-1], (("k0", shape[-1]),)
        heads = tuple(axis(a) for a, _ in outer)

        def element(a: str) -> Node:
            return cast(Node("load", tensor.dtype, (*heads, axis(a)), tensor.name), dtype)

        def row(s: Stage) -> Node:
            return Node("load", s.dtype, heads, s.name)

        inner, here, count = element("k0"), element(axes[-1][0]), const(shape[-1], dtype)
        if self.r.random() < 0.5:
            top = self.add("reduce", outer, inner, how="max", reduced=along)
            power = Node("exp", dtype, (binary("sub", inner, row(top)),))
            total = self.add("reduce", outer, power, how="sum", reduced=along)
            value = binary("div", Node("exp", dtype, (binary("sub", here, row(top)),)), row(total))
        else:
            total = self.add("reduce", outer, inner, how="sum", reduced=along)
            mean = self.add("map", outer, binary("div", row(total), count))
            apart = binary("sub", inner, row(mean))
            square = self.add("reduce", outer, binary("mul", apart, apart), how="sum", reduced=along)
            spread = binary("add", binary("div", row(square), count), const(0.01, dtype))
            value = binary("mul", binary("sub", here, row(mean)), Node("rsqrt", dtype, (spread,)))
        if self.r.random() < 0.5:
            value = binary(self.r.choice(("add", "mul")), value, self.leaf(axes))
        self.add("map", axes, value, dtype=self.narrow())

    def scan(self, axes: tuple[Axis, ...]) -> None:
        how, along = self.r.choice(("sum", "sum", "max", "min", "prod", "linear")), self.r.randrange(len(axes))
        value = self.real(axes, self.r.choice((0, 1, 2)))
        small = Node("tanh", self.computed, (value,))
        if how == "prod":
            value = binary("add", binary("mul", small, const(0.1, self.computed)), const(1, self.computed))
        body = (small, self.real(axes, 1)) if how == "linear" else (value,)
        self.add("scan", axes, *body, how=how, along=along)

    def others(self, axes: tuple[Axis, ...]) -> None:
        """Adds a stage of integers, conditions, argmax positions, monoids or scatters."""
        kind = self.r.choice(("whole", "bool", "arg", "monoid", "scatter"))
        if kind == "whole":
            self.add("map", axes, self.whole(axes, self.r.choice((1, 2, 3))))
        elif kind == "bool":
            self.add("map", axes, self.condition(axes, 2))
        elif kind == "arg":
            reduced = self.reduction(axes, 1)
            self.add(
                "arg", axes, self.real((*axes, *reduced), 0), how=self.r.choice(("argmax", "argmin")), reduced=reduced
            )
        elif kind == "monoid":
            reduced, how = self.reduction(axes, self.r.choice((1, 2))), self.r.choice(MONOIDS)
            value = self.real((*axes, *reduced), self.r.choice((0, 1)))
            self.add(
                "monoid", axes, binary("mul", value, value) if how == "mean_square" else value, how=how, reduced=reduced
            )
        else:
            reduced, along = self.reduction(axes, 1), self.r.randrange(len(axes))
            sources = self.input((reduced[0][1],), self.r.choice(("int32", "int64")), below=axes[along][1])
            index = Node("load", sources.dtype, (axis("k0"),), sources.name)
            others = (*(a for d, a in enumerate(axes) if d != along), *reduced)
            how = self.r.choice(("sum", "sum", "max", "min"))
            self.add("scatter", axes, self.real(others, 1), how=how, reduced=reduced, along=along, index=index)
