"""Prints a row program: tasks over rows, or over pieces of the row where there are few."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from tilewright.core import Launch, LaunchProgram
from tilewright.extent import ctext
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter, Scope
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.families.row_reduction import ELEMENT
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.row_reduction.columns import print_groups
from tilewright.kernels.templates.row_reduction.nests import ROW, nest
from tilewright.kernels.templates.row_reduction.passes import Passes
from tilewright.kernels.templates.row_reduction.space import RowTiling
from tilewright.kernels.templates.tiles import ceildiv

ALIGN = 64


def kernel(plan: RowTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    p, emitter = plan.program, Emitter(symbol)
    kinds = {t.name: storage(t.dtype) for t in p.inputs}
    emitter.tensors({**kinds, "out": storage(p.result.dtype)})
    emitter.local("char *", "space", "(char *)workspace")
    arguments = ("block", *(size.argument for size in p.program.sizes.values()))
    emitter.arguments(arguments)
    passes = Passes(plan, emitter)
    total = (_split if plan.pieces > 1 else _whole)(passes)
    launch = Launch(symbol, arguments)
    return LoweredKernel(symbol, emitter.unit(passes.merges()), LaunchProgram((launch,), workspace=total))


def _buffers(w: Writer, passes: Passes, start: int, worker: str) -> None:
    """Buffers of kept maps, one set a worker."""
    offset, total = start, _buffered(passes)
    for name, size in _sizes(passes).items():
        ctype = computed(passes.plan.program.stage[name].dtype)
        w.line(f"{ctype} *const k_{name} = ({ctype} *)(space + {offset} + {worker} * {total}L);")
        offset += size


def _sizes(passes: Passes) -> dict[str, int]:
    """Bytes of the buffer of each map that is kept in memory, for one worker."""
    plan, p = passes.plan, passes.plan.program
    return {n: _aligned(plan.rows * int(p.width) * ITEMSIZE[p.stage[n].dtype]) for n in passes.buffered}


def _buffered(passes: Passes) -> int:
    return sum(_sizes(passes).values())


def _aligned(size: int) -> int:
    return ceildiv(size, ALIGN) * ALIGN


def _whole(passes: Passes) -> int:
    """Tasks over blocks of rows; workspace bytes."""
    plan, every = passes.plan, nest(passes.plan, 0)
    tasks = [x for x in every.loops if x.axis == ROW and x.kind == "parallel"]
    rows = [x for x in every.loops if x.axis == ROW and x.kind == "serial"][:1]

    def some(w: Writer, scope: Scope) -> None:
        _buffers(w, passes, 0, scope.worker)
        if plan.columns:
            w.line(f"const long row = {scope.at(ROW)}, last = {scope.tiles[ROW].end};")
            print_groups(w, passes, scope)
            return
        for n, shorter in enumerate(plan.shorter):
            fits = f"if ({ctext(plan.program.run)} <= {int(shorter.program.run)}L)"
            with w.block(f"else {fits}" if n else fits):
                walk(w, scope, Passes(shorter, passes.emitter))
        with w.block("else") if plan.shorter else nullcontext():
            walk(w, scope, passes)

    def walk(w: Writer, scope: Scope, some: Passes) -> None:
        def side_by_side(w: Writer, scope: Scope) -> None:
            w.line(f"const long row = {scope.at(ROW)};")
            some.before(w, plan.program.passes, scope.tiles[ROW].size, scope)

        some.emitter.nest(w, every, side_by_side, loops=rows, blocks={ROW: (plan.rows, 1)}, scope=scope)

    passes.emitter.nest(passes.emitter.entry, every, some, loops=tasks)
    return _buffered(passes) * plan.threads


def _split(passes: Passes) -> int:
    """One row after the other, each pass over it as tasks of one piece; workspace bytes."""
    plan, p = passes.plan, passes.plan.program
    every = nest(plan, 0)
    (cut,) = (x for x in every.loops if x.axis == p.inner and x.kind == "parallel")
    offset, parts = 0, dict[tuple[str, int], int]()
    for s in p.stages:
        if p.accumulates(s):
            for c, t in enumerate(passes.types(s)):
                parts[s.name, c] = offset
                offset += _aligned(cut.trips * (8 if t in ("double", "long") else 4))
    scalars = [s for s in p.stages if s.kind != ELEMENT]

    def one(w: Writer, scope: Scope) -> None:
        w.line(f"const long row = {scope.at(ROW)};")
        passes.coordinates(w, 1)
        for n in range(p.passes + 1):
            passes.scalars(w, n, 1)
            if n == p.passes:
                break
            inner = scope.with_local("long", "row")
            for s in scalars:
                if passes.known(s, n):
                    inner = inner.with_local(computed(s.dtype), f"{s.name}_0")
            passes.emitter.nest(w, every, partial(piece, n), loops=[cut], scope=inner)
            passes.merge_pieces(w, n, cut.trips, parts)

    def piece(n: int, w: Writer, scope: Scope) -> None:
        _buffers(w, passes, offset, "0")
        tile = scope.tiles[p.inner]
        w.line(f"const long begin = {tile.start}, end = {tile.end}, piece = begin / {cut.step};")
        passes.piece(w, n, parts, scope)

    rows = [x for x in every.loops if x.axis == ROW]
    passes.emitter.nest(passes.emitter.entry, every, one, loops=rows)
    return offset + _buffered(passes)
