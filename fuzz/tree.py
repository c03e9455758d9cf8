"""The fuzzer's representation of programs: inputs, stages, and trees of operations on their elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

INDEX = "index"
REALS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
WHOLE = ("int64", "int32", "int8", "uint8")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
FUNCTIONS = ("exp", "log", "log1p", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos", "floor")

Axis = tuple[str, int]
"""Name and extent of an axis."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operation of ``dtype`` on its operands; leaves are ``const``, ``axis`` and ``load`` (of indices)."""

    op: str
    dtype: str
    args: tuple[Node, ...] = ()
    value: float | int | bool | str = 0

    def walk(self) -> Iterator[Node]:
        """This node and all its descendants."""
        todo = [self]
        while todo:
            n = todo.pop()
            yield n
            todo.extend(n.args)

    def map(self, change: Callable[[Node], Node | None]) -> Node:
        """Rebuilds the tree bottom-up; ``change`` returns a node's replacement or ``None``."""
        made = replace(self, args=tuple(a.map(change) for a in self.args))
        return change(made) or made


def const(value: float, dtype: str) -> Node:
    return Node("const", dtype, (), float(value) if dtype in REALS else bool(value) if dtype == "bool" else int(value))


def axis(name: str) -> Node:
    return Node("axis", INDEX, (), name)


def binary(op: str, a: Node, b: Node) -> Node:
    return Node(op, "bool" if op in COMPARISONS else a.dtype, (a, b))


def cast(a: Node, dtype: str) -> Node:
    """Converts ``a`` to ``dtype``; a condition becomes 1 or 0."""
    if a.dtype == dtype:
        return a
    if a.dtype == "bool":
        return Node("select", dtype, (a, const(1, dtype), const(0, dtype)))
    return Node("cast", dtype, (a,))


@dataclass(frozen=True)
class Input:
    """A program's input. ``below``: its values are indices in [0, below)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    below: int | None = None


@dataclass(frozen=True)
class Stage:
    """A tensor over ``axes``: ``kind`` is ``map``, ``reduce``, ``arg``, ``monoid``, ``scan`` or ``scatter``.

    ``how``: the reduction. ``along``: number of the axis of a scan, or of the axis that a scatter's ``index``
    addresses. ``dtype``: the type that the stage is converted to.
    """

    name: str
    kind: str
    axes: tuple[Axis, ...]
    body: tuple[Node, ...]
    dtype: str
    how: str = ""
    reduced: tuple[Axis, ...] = ()
    along: int = 0
    index: Node | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for _, n in self.axes)

    @property
    def trees(self) -> tuple[Node, ...]:
        return (*self.body, *(() if self.index is None else (self.index,)))

    def reads(self) -> set[str]:
        return {str(n.value) for t in self.trees for n in t.walk() if n.op == "load"}

    def map(self, change: Callable[[Node], Node | None]) -> Stage:
        index = None if self.index is None else self.index.map(change)
        return replace(self, body=tuple(b.map(change) for b in self.body), index=index)


@dataclass(frozen=True)
class Case:
    """A program. ``outputs``: names of the stages that are its results."""

    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    seed: int = 0
    number: int = 0

    def pruned(self) -> Case:
        """The program without the inputs and stages that no result needs."""
        needed, kept = set(self.outputs), list[Stage]()
        for s in reversed(self.stages):
            if s.name in needed:
                kept.append(s)
                needed |= s.reads()
        return replace(self, inputs=tuple(t for t in self.inputs if t.name in needed), stages=tuple(kept[::-1]))

    @property
    def results(self) -> tuple[Stage, ...]:
        found: Mapping[str, Stage] = {s.name: s for s in self.stages}
        return tuple(found[n] for n in self.outputs)

    def size(self) -> int:
        """A measure of the program's size, to choose the smaller of two failing programs."""
        nodes = sum(1 for s in self.stages for t in s.trees for _ in t.walk())
        extents = sum(n for s in self.stages for _, n in (*s.axes, *s.reduced)) + sum(
            n for t in self.inputs for n in t.shape
        )
        return 20 * (len(self.stages) + len(self.inputs) + len(self.outputs)) + 4 * nodes + extents
