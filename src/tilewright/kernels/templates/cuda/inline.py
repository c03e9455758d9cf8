"""Putting elementwise stages in front of a reduction into its reads: they are computed on the way in."""

from __future__ import annotations

from tilewright.kernels.expr import Expr
from tilewright.kernels.program import Program, Stage

SIXTEEN = ("float16", "bfloat16")


def inlined(program: Program) -> Program:
    """The same program without the maps in front of its first reduction.

    Maps whose result is rounded as it is stored (16-bit reals) stay.
    """
    first = next((n for n, s in enumerate(program.stages) if s.monoid is not None), 0)
    maps = {s.name: s for s in program.stages[:first]}
    if not maps or any(s.dtype in SIXTEEN and s.body[0].op != "cast" for s in maps.values()):
        return program

    def replaced(e: Expr) -> Expr | None:
        stage = maps.get(str(e.value)) if e.op == "load" else None
        if stage is None:
            return None
        at = dict(zip(stage.axes, e.args, strict=True))
        return stage.body[0].map(replaced).substitute(at)

    kept = [
        Stage(s.name, s.extents, s.reduce, tuple(e.map(replaced) for e in s.body), s.dtype, s.monoid)
        for s in program.stages[first:]
    ]
    return Program(program.inputs, tuple(kept))
