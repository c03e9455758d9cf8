"""Minimises a failing program: removes stages, replaces values by constants, shrinks sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.tree import INDEX, REALS, Case, Node, Stage, const


def minimised(case: Case, fails: Callable[[Case], bool], tries: int = 120) -> Case:
    """Returns a smaller failing program, by greedy steps that keep the failure and at most ``tries`` calls of
    ``fails``."""
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for smaller in _steps(case):
            if smaller.size() >= case.size() or not smaller.stages or not smaller.inputs:
                continue
            left -= 1
            if fails(smaller):
                case, improved = smaller, True
                break
            if left <= 0:
                break
    return case


def _steps(case: Case) -> Iterator[Case]:
    """Programs that are one step smaller, in the order of decreasing steps."""
    for n in case.outputs:
        if len(case.outputs) > 1:
            yield replace(case, outputs=(n,)).pruned()
    for s in case.stages[:-1]:
        if len(s.reads()) or s.kind != "map":
            yield replace(case, outputs=(s.name,)).pruned()
            yield _without(case, s.name)
    for t in case.inputs:
        yield _without(case, t.name)
    for size in sorted(_sizes(case), reverse=True):
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < less < size:
                yield _resized(case, size, less)
    for k, s in enumerate(case.stages):
        for smaller in _shrunk(s):
            yield replace(case, stages=(*case.stages[:k], smaller, *case.stages[k + 1 :])).pruned()


def _without(case: Case, name: str) -> Case:
    """The program without a tensor, whose reads become constants."""

    def replaced(n: Node) -> Node | None:
        return _plain(n.dtype) if n.op == "load" and n.value == name else None

    stages = tuple(s.map(replaced) for s in case.stages if s.name != name)
    outputs = tuple(n for n in case.outputs if n != name) or (stages[-1].name,) if stages else ()
    inputs = tuple(t for t in case.inputs if t.name != name)
    return replace(case, inputs=inputs, stages=stages, outputs=outputs).pruned()


def _plain(dtype: str) -> Node:
    return const(1.5 if dtype in REALS else 1, dtype) if dtype != INDEX else const(0, INDEX)


def _sizes(case: Case) -> set[int]:
    return {n for t in case.inputs for n in t.shape} | {n for s in case.stages for _, n in (*s.axes, *s.reduced)}


def _resized(case: Case, n: int, m: int) -> Case:
    """The program with every size ``n`` changed to ``m``, also in the bounds of indices."""

    def sized(x: Node) -> Node | None:
        if x.op != "const" or x.dtype != INDEX or x.value not in (n, n - 1) or n < 3:
            return None
        return const(m if x.value == n else m - 1, INDEX)

    def axes(group: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((a, m if k == n else k) for a, k in group)

    inputs = tuple(
        replace(t, shape=tuple(m if k == n else k for k in t.shape), below=m if t.below == n else t.below)
        for t in case.inputs
    )
    stages = tuple(replace(s, axes=axes(s.axes), reduced=axes(s.reduced)).map(sized) for s in case.stages)
    return replace(case, inputs=inputs, stages=stages)


def _shrunk(s: Stage) -> Iterator[Stage]:
    """Variants of a stage with one node replaced by an operand of its type, or by a constant."""
    if s.dtype != s.body[0].dtype and s.kind != "arg":
        yield replace(s, dtype=s.body[0].dtype)
    for n in {id(x): x for t in s.trees for x in t.walk()}.values():
        if not n.args or n is s.index or (n.dtype == INDEX and n.op != "load"):
            continue
        others = [a for a in n.args if a.dtype == n.dtype] if n.op != "load" else []
        for other in (*others, _plain(n.dtype)):
            yield _swapped(s, n, other)


def _swapped(s: Stage, old: Node, new: Node) -> Stage:
    def within(n: Node) -> Node:
        if n is old:
            return new
        args = tuple(map(within, n.args))
        return n if all(a is b for a, b in zip(args, n.args, strict=True)) else replace(n, args=args)

    return replace(s, body=tuple(map(within, s.body)), index=None if s.index is None else within(s.index))
