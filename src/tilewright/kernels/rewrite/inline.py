"""Normalisations before matching: inlining of maps into a reduction, unrolling of short reductions, dropping of unit
axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.extent import Extent
from tilewright.kernels.expression.expr import INDEX, NARROW, Expr, axis, cast, const
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.rewrite.simplify import simplified


def inlined(program: Program) -> Program:
    """The program with the maps in front of its first reduction inlined into their readers.

    Keeps maps whose result is rounded when it is stored (16-bit and narrower reals), unless they only move elements.
    """
    first = next((n for n, s in enumerate(program.stages) if s.monoid is not None), 0)
    maps = {s.name: s for s in program.stages[:first]}
    if not maps or any(s.dtype in NARROW and s.body[0].op not in ("cast", "load") for s in maps.values()):
        return program

    def replaced(e: Expr) -> Expr | None:
        stage = maps.get(str(e.value)) if e.op == "load" else None
        return None if stage is None else replace(stage, body=(stage.body[0].map(replaced),)).at(e)

    kept = [replace(s, body=tuple(e.map(replaced) for e in s.body)) for s in program.stages[first:]]
    return Program(program.inputs, tuple(kept))


# --------------------------------------------------------------------------- short reductions

# Reductions over all of a short innermost axis are unrolled: over colours, or real and imaginary parts.


SHORT = 4
"""Largest extent of a short axis: a longer axis fills a fair part of a vector itself."""


def unrolled(program: Program) -> Program:
    """The program with a map in place of every one-component reduction over a short innermost axis.

    The reduced axis must be the last one of a tensor that the stage reads. The axis before it in that tensor must be
    the result's innermost axis that is not short. Then adjacent results are computed from adjacent groups of elements.
    """
    stages = tuple(_map(s) if _along_short_axis(s, program.tensors) else s for s in program.stages)
    return replace(program, stages=stages) if stages != program.stages else program


def short(extent: int) -> bool:
    """Whether an axis is short: fixed, and at most :data:`SHORT` elements."""
    return extent <= SHORT and not isinstance(extent, Extent)


def _along_short_axis(s: Stage, tensors: Mapping[str, Tensor]) -> bool:
    if s.monoid is None or s.scan is not None or len(s.body) != 1 or len(s.reduce) != 1 or not short(s.reduce[0]):
        return False
    inner = next((a for a, n in zip(reversed(s.axes), reversed(s.extents), strict=True) if not short(n)), None)
    return any(_groups(x, s, inner) for x in s.loads() if tensors[str(x.value)].shape[-1:] == s.reduce)


def _groups(x: Expr, s: Stage, inner: str | None) -> bool:
    """Whether a read's last two indices are the innermost result axis and the reduced axis."""
    last = [(a.op, a.value) for a in x.args[-2:]]
    return last == [("axis", inner), ("axis", s.reduce_axes[0])]


def _map(s: Stage) -> Stage:
    (body,), (combine,), (axis,) = s.body, s.reduction.combine, s.reduce_axes
    value = body.substitute({axis: const(0, INDEX)})
    for k in range(1, s.reduce[0]):
        value = combine.substitute({"l0": value, "r0": body.substitute({axis: const(k, INDEX)})})
    return Stage(s.name, s.extents, (), (cast(s.reduction.finish.substitute({"l0": value}), s.dtype),), s.dtype)


# --------------------------------------------------------------------------- axes of one point

# Axes of extent 1 are dropped from stages, with the index arithmetic that only they needed.


def squeezed(program: Program) -> Program:
    """The program without axes of extent 1; a stage keeps one output axis and, if it reduces, one reduce axis.

    A program with scans is returned unchanged.
    """
    if any(s.scan is not None for s in program.stages):
        return program
    kept = {s.name: _kept(s.extents) for s in program.stages}
    made = []
    for s in program.stages:
        reduced = _kept(s.reduce)
        names: dict[str, Expr] = {a: const(0, INDEX) for a in s.ranges}
        names |= {f"i{d}": axis(f"i{n}") for n, d in enumerate(kept[s.name])}
        names |= {f"r{d}": axis(f"r{n}") for n, d in enumerate(reduced)}

        def replaced(e: Expr, names: dict[str, Expr] = names) -> Expr | None:
            if e.op == "axis":
                return names[str(e.value)]
            if e.op == "load" and e.value in kept:
                return Expr("load", e.dtype, tuple(e.args[d] for d in kept[str(e.value)]), e.value)
            return None

        extents = tuple(s.extents[d] for d in kept[s.name])
        plain = replace(s, extents=extents, reduce=tuple(s.reduce[d] for d in reduced), body=())
        body = tuple(simplified(e.map(replaced), plain.ranges) for e in s.body)
        made.append(replace(plain, body=body))
    return Program(program.inputs, tuple(made))


def _kept(extents: tuple[int, ...]) -> list[int]:
    """Positions of the extents above 1; the last position if all are 1."""
    wide = [d for d, n in enumerate(extents) if n > 1]
    return wide or list(range(len(extents)))[-1:]
