"""Putting elementwise stages in front of a reduction into its reads: they are computed on the way in."""

from __future__ import annotations

from dataclasses import replace

from tilewright.kernels.expression.expr import NARROW, Expr
from tilewright.kernels.expression.program import Program


def inlined(program: Program) -> Program:
    """The same program without the maps in front of its first reduction.

    Maps whose result is rounded as it is stored (16-bit and narrower reals) stay; those that only move elements do not.
    """
    first = next((n for n, s in enumerate(program.stages) if s.monoid is not None), 0)
    maps = {s.name: s for s in program.stages[:first]}
    if not maps or any(s.dtype in NARROW and s.body[0].op not in ("cast", "load") for s in maps.values()):
        return program

    def replaced(e: Expr) -> Expr | None:
        stage = maps.get(str(e.value)) if e.op == "load" else None
        if stage is None:
            return None
        at = dict(zip(stage.axes, e.args, strict=True))
        return stage.body[0].map(replaced).substitute(at)

    kept = [replace(s, body=tuple(e.map(replaced) for e in s.body)) for s in program.stages[first:]]
    return Program(program.inputs, tuple(kept))
