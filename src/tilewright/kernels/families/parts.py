"""Partition of a program into loop nests: which stages are merged into others.

A map stage can be *inlined*: its body replaces every read of it. A reduction can take its only reader, a map over the
same axes, as *epilogue*, computed where the sum is stored. The remaining parts are one loop nest each, in order; their
intermediate results lie in the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.expr import Expr, cast, in_place
from tilewright.kernels.expression.program import Domain, Monoid, Program, Stage

MAX_INLINE, MAX_EPILOGUE = 4, 3
"""Largest number of stages with a merging knob; further stages are not merged."""

MAX_RECOMPUTE = 64
"""Largest factor by which inlining may multiply the evaluations of a stage (no limit for bodies without arithmetic)."""


@dataclass(frozen=True, eq=False)
class Part(Domain):
    """One loop nest: for every output point, reduce ``body``, then store ``value`` in ``target``.

    ``value`` reads the reduced components as vars ``l0, l1, ...``; a map has no monoid, and its ``value`` is the body.
    ``stage`` names the stage whose knobs apply. ``scanned``: the output axis of a scan; its loop is inside the other
    output loops, and every step stores the current value.
    """

    stage: str
    target: str
    dtype: str
    extents: tuple[int, ...]
    reduce: tuple[int, ...]
    body: tuple[Expr, ...]
    monoid: Monoid | None
    value: Expr
    scanned: str | None = None

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All expressions that read tensors."""
        return self.body if self.monoid is None else (*self.body, self.value)

    def reads(self) -> set[str]:
        return {str(x.value) for e in self.expressions for x in e.loads()}


def inlinable(program: Program) -> tuple[str, ...]:
    """Map stages, except results, that may be computed where they are read."""
    names = [s.name for s in _passing(program) if s.monoid is None and recompute(program, s) <= MAX_RECOMPUTE]
    return tuple(names[:MAX_INLINE])


def _passing(program: Program) -> list[Stage]:
    """Stages whose values are intermediate only, and so need not be stored."""
    stored = {t.name for t in program.outputs}
    return [s for s in program.stages if s.name not in stored]


def recompute(program: Program, s: Stage) -> float:
    """Factor by which inlining multiplies the evaluations of a map (1 if it has no arithmetic)."""
    free = all(
        n.op in ("const", "axis", "load", "cast", "select") or n.dtype in ("index", "bool")
        for e in s.body for n in e.walk()
    )  # fmt: skip
    return 1.0 if free else program.uses.get(s.name, 0) / s.points


def reductions(program: Program) -> tuple[str, ...]:
    """Stages that may take an epilogue: reductions other than results."""
    return tuple(s.name for s in _passing(program) if s.monoid is not None)[:MAX_EPILOGUE]


def split(program: Program, inline: frozenset[str], epilogue: frozenset[str]) -> tuple[Part, ...] | None:
    """The parts of a program, or ``None`` if a stage of ``epilogue`` cannot take one.

    ``inline`` names the maps to inline, ``epilogue`` the reductions that take their reader.
    """
    bodies: dict[str, Part] = {}
    order: list[str] = []
    inlined: dict[str, Stage] = {}
    for s in program.stages:
        body = tuple(computed_inside(e, inlined) for e in s.body)
        if s.name in inline:
            inlined[s.name] = Stage(s.name, s.extents, (), body, s.dtype)
            continue
        value = s.monoid.finish if s.monoid is not None else body[0]
        bodies[s.name] = Part(
            s.name, s.name, s.dtype, s.extents, s.reduce, body, s.monoid, cast(value, s.dtype), scanned_axis(s)
        )  # fmt: skip
        order.append(s.name)
    for name in order[:]:
        if name not in epilogue:
            continue
        producer = bodies[name]
        readers = [p for p in order if name in bodies[p].reads()]
        if len(readers) != 1:
            return None
        merged = _merge(producer, bodies[readers[0]])
        if merged is None:
            return None
        order.remove(name)
        bodies[readers[0]] = merged
    return tuple(bodies[n] for n in order)


def scanned_axis(s: Stage) -> str | None:
    """The axis along which a scan runs; ``None`` if the stage is no scan."""
    return None if s.scan is None else s.axes[s.scan]


def computed_inside(e: Expr, stages: Mapping[str, Stage]) -> Expr:
    """The expression with reads of the map stages replaced by their values."""

    def replace(n: Expr) -> Expr | None:
        s = stages.get(str(n.value)) if n.op == "load" else None
        return None if s is None else cast(s.at(n), s.dtype)

    return e.map(replace) if stages else e


def _merge(producer: Part, reader: Part) -> Part | None:
    """The reduction with its reader computed at the store; ``None`` if they do not fit."""
    if reader.monoid is not None or reader.extents != producer.extents:
        return None
    if any(x.value == producer.target and not in_place(x, producer.axes) for x in reader.value.loads()):
        return None
    value = reader.value.map(lambda n: producer.value if n.op == "load" and n.value == producer.target else None)
    return Part(
        producer.stage, reader.target, reader.dtype, producer.extents, producer.reduce, producer.body,
        producer.monoid, value, producer.scanned,
    )  # fmt: skip


def shared_axes(program: Program) -> int:
    """Number of leading axes that all stages share, over which they can run together row by row."""
    last = program.stages[-1]
    depth = len(last.extents) - 1  # the last axis is vectorised
    names = {s.name for s in program.stages}
    for s in program.stages:
        depth = min(depth, len(s.extents) if s.scan is None else s.scan)
        while depth and s.extents[:depth] != last.extents[:depth]:
            depth -= 1
        for x in s.loads():
            if x.value in names:
                while any((i.op, i.value) != ("axis", f"i{d}") for d, i in enumerate(x.args[:depth])):
                    depth -= 1
    return max(0, depth) if len(program.stages) > 1 else 0


def simple_operator(monoid: Monoid | None) -> str | None:
    """``add``, ``mul``, ``max`` or ``min`` if a reduction has one component and only that operator; else ``None``."""
    if monoid is None or len(monoid.combine) != 1:
        return None
    c = monoid.combine[0]
    names = [str(a.value) for a in c.args if a.op == "var"]
    return c.op if c.op in ("add", "mul", "max", "min") and names == ["l0", "r0"] else None
