"""Dropping axes of extent 1 from stages, and index arithmetic that only they needed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import INDEX, Expr, axis, const
from tilewright.kernels.expression.program import Program
from tilewright.kernels.rewrite.simplify import simplified


def squeezed(program: Program) -> Program:
    """The same program without axes of extent 1; a stage keeps one output axis and, reducing, one reduce axis.

    Programs with scans stay as they are.
    """
    if any(s.scan is not None for s in program.stages):
        return program
    kept = {s.name: _kept(s.extents) for s in program.stages}
    made = []
    for s in program.stages:
        reduced = _kept(s.reduce)
        names: dict[str, Expr] = {f"{p}{d}": const(0, INDEX) for p, n in (("i", s.extents), ("r", s.reduce))
                                  for d in range(len(n))}  # fmt: skip
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
    """Positions of the extents above 1; the last position where there are none."""
    wide = [d for d, n in enumerate(extents) if n > 1]
    return wide or list(range(len(extents)))[-1:]
