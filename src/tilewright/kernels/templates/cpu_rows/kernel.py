"""The kernel of a row program: one loop nest a pass, with tasks over blocks of rows, or over chunks of one long row."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial

from tilewright.extent import ctext
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.row_reduction import ELEMENT, RowStage
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads
from tilewright.kernels.templates.cpu_rows.monoids import lane_types
from tilewright.kernels.templates.cpu_rows.passes import Passes, partial_name
from tilewright.kernels.templates.cpu_rows.program import RowProgram
from tilewright.kernels.templates.cpu_rows.space import AHEAD, MEMORY, REGISTERS, RowTiling
from tilewright.kernels.templates.tiles import ceildiv

ROW = "row"
"""Name of the axis into which all row axes are fused."""


def kernel(plan: RowTiling) -> Kernel:
    """The kernel of a schedule."""
    p = plan.program
    nests = _nests(plan)
    return Kernel(
        text=Emitted(nests, 1, partial(_text, plan)),
        static=_static(plan),
        launches=entry(p.program, "block"),
        workspace=Workspace(tuple(_arrays(plan, nests[0]))),
    )


def _static(plan: RowTiling) -> CpuStatic:
    p, ahead, output = plan.program, 0, False
    if plan.prefetch:
        ahead = plan.prefetch * AHEAD if plan.within_row else plan.row_bytes * plan.rows
        output = plan.prefetch > 1 and not plan.within_row and p.result.kind == ELEMENT
    return CpuStatic(prefetch=ahead, prefetch_output=output, inverted=plan.reciprocal)


def _arrays(plan: RowTiling, every: LoopNest) -> Iterator[Array]:
    """Arrays in the workspace: partial results of each chunk of a row, then the maps kept between passes."""
    p = plan.program
    for s in p.stages if plan.pieces > 1 else ():
        if p.accumulates(s):
            for c, lane in enumerate(lane_types(s.reduction)):
                yield Array(partial_name(s, c), lane, _cut(plan, every).trips)
    for name in plan.buffered:
        size, copies = plan.rows * int(p.width), 1 if plan.pieces > 1 else plan.threads
        yield Array(f"k_{name}", computed(p.stage[name].dtype), size, copies)


def _cut(plan: RowTiling, every: LoopNest) -> Loop:
    """The parallel loop over chunks of a row."""
    (cut,) = (x for x in every.loops if x.axis == plan.program.inner and x.kind == "parallel")
    return cut


# --------------------------------------------------------------------------- loops


def _nests(plan: RowTiling) -> tuple[LoopNest, ...]:
    """The loop nests of all passes over the rows, in order."""
    return tuple(_nest(plan, n) for n in range(plan.program.passes))


def _nest(plan: RowTiling, n: int) -> LoopNest:
    """The loop nest of pass ``n``."""
    p = plan.program
    loops: list[Loop] = []
    rows, side_by_side = p.height, []
    if plan.threads > 1 and plan.pieces == 1:
        loops.append(Loop(ROW, rows, plan.block, "parallel", "l2", "block"))
        rows = plan.block
    loops.append(Loop(ROW, rows, plan.rows, level="register"))
    # Rows are either interleaved in one loop over columns, or computed in sequence. With blocks of columns they run in
    # sequence, and the last pass takes one block of columns of several rows at a time.
    if plan.rows > 1 and not plan.columns:
        side_by_side = [Loop(ROW, plan.rows, 1, "unroll", "register")]
    loops += [Loop(a, n, 1) for a, n in p.columns[:-1]]
    inner, length = p.inner, p.run
    if plan.columns:
        if n == p.passes - 1:
            loops.append(Loop(inner, length, plan.columns, level="l1"))
            length = plan.columns
        loops.append(Loop(ROW, plan.rows, 1))
    if plan.pieces > 1:
        step = ceildiv(ceildiv(length, plan.lanes), plan.pieces) * plan.lanes
        loops.append(Loop(inner, length, step, "parallel", "l2"))
        length = step
    step = plan.vectors * plan.lanes
    held = plan.keep == REGISTERS
    whole = ceildiv(length, plan.lanes) * plan.lanes
    loops += [Loop(inner, length, whole if held else step, level="register"), *side_by_side]
    if held:
        loops.append(Loop(inner, length, step, "unroll", "register"))
    if plan.vectors > 1:
        loops.append(Loop(inner, step, plan.lanes, "unroll", "register"))
    loops.append(Loop(inner, plan.lanes, 1, "vector", "register"))
    accesses, flops, after, name, dtype = _pass(p, n, plan.keep)
    axes = {ROW: p.height, **dict(p.columns)}
    return LoopNest(name, axes, tuple(loops), accesses, (), flops, ITEMSIZE[dtype], after)


@lru_cache(maxsize=256)
def _pass(p: RowProgram, n: int, keep: str) -> tuple[tuple[Access, ...], int, int, str, str]:
    """Accesses of a pass, operations per element and per row, and name and element type of the stored stage."""
    own, final = p.reductions(n), p.final(n)
    left: Container[str] = p.kept if keep == MEMORY else p.needed if keep == REGISTERS else ()
    stages = p.computed(n, left)
    exprs = [e for s in stages if not p.known(s.name, n, left) for e in s.body]
    kept = [s for s in stages if keep == MEMORY and p.known(s.name, n, left)]
    accesses = [*reads(exprs), *(Access(s.name, (p.element,), s.dtype) for s in kept)]
    flops = count_ops(*exprs) + sum(_combining(p, s) for s in own)
    after = sum(count_ops(s.reduction.finish) for s in own)
    if final is not None:
        target, at = final, p.element
    else:
        target, at = own[-1], p.place
    accesses.append(Access(target.name, (at,), target.dtype, store=True))
    fused = Group(p.row_axes, tuple(n for _, n in p.rows)).indices(ROW)
    accesses = [replace(x, indices=tuple(i.substitute(fused) for i in x.indices)) for x in accesses]
    return tuple(accesses), flops, after, target.name, target.dtype


def _combining(p: RowProgram, s: RowStage) -> int:
    """Number of operations that accumulate one element."""
    # Moments need four: add, subtract the block's mean, square, add the square.
    return 4 if s.name in p.moments else max(1, count_ops(*s.reduction.combine))


# --------------------------------------------------------------------------- text


def _text(plan: RowTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    p = plan.program
    kinds = {t.name: storage(t.dtype) for t in p.inputs}
    emitter.tensors({**kinds, "out": storage(p.result.dtype)})
    emitter.local("char *", "space", "(char *)workspace")
    emitter.arguments(kernel.arguments)
    passes = Passes(plan, emitter, nests, kernel.workspace, kernel.numbers)
    (_split if plan.pieces > 1 else _whole)(passes)
    return passes.merges()


def _buffers(w: Writer, passes: Passes, worker: str) -> None:
    """Declare pointers to a thread's buffers of maps that are kept between passes."""
    for a in passes.workspace:
        if a.copies:
            at = f"{passes.workspace.offset(a.name)} + {worker} * {passes.workspace.each(a.name)}L"
            w.line(f"{a.ctype} *const {a.name} = ({a.ctype} *)(space + {at});")


def _whole(passes: Passes) -> None:
    """Print tasks over blocks of rows."""
    plan, every = passes.plan, passes.nests[0]
    tasks = [x for x in every.loops if x.axis == ROW and x.kind == "parallel"]
    rows = [x for x in every.loops if x.axis == ROW and x.kind == "serial"][:1]

    def some(w: Writer, scope: Scope) -> None:
        _buffers(w, passes, scope.worker)
        if plan.columns:
            w.line(f"const long row = {scope.at(ROW)}, last = {scope.tiles[ROW].end};")
            _print_groups(w, passes, scope)
            return
        for n, shorter in enumerate(plan.shorter):
            fits = f"if ({ctext(plan.program.run)} <= {int(shorter.program.run)}L)"
            with w.block(f"else {fits}" if n else fits):
                walk(w, scope, Passes(shorter, passes.emitter, _nests(shorter), passes.workspace, passes.numbers))
        with w.block("else") if plan.shorter else nullcontext():
            walk(w, scope, passes)

    def walk(w: Writer, scope: Scope, some: Passes) -> None:
        def side_by_side(w: Writer, scope: Scope) -> None:
            w.line(f"const long row = {scope.at(ROW)};")
            some.before(w, plan.program.passes, scope.tiles[ROW].size, scope)

        some.emitter.nest(w, every, side_by_side, loops=rows, blocks={ROW: (plan.rows, 1)}, scope=scope)

    passes.emitter.nest(passes.emitter.entry, every, some, loops=tasks)


def _split(passes: Passes) -> None:
    """Print a loop over rows in which each pass is divided into tasks, one for each chunk of the row."""
    plan, p = passes.plan, passes.plan.program
    every = passes.nests[0]
    cut = _cut(plan, every)
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
            passes.merge_pieces(w, n, cut.trips)

    def piece(n: int, w: Writer, scope: Scope) -> None:
        _buffers(w, passes, "0")
        tile = scope.tiles[p.inner]
        w.line(f"const long begin = {tile.start}, end = {tile.end}, piece = begin / {cut.step};")
        passes.piece(w, n, scope)

    rows = [x for x in every.loops if x.axis == ROW]
    passes.emitter.nest(passes.emitter.entry, every, one, loops=rows)


def _print_groups(w: Writer, passes: Passes, scope: Scope) -> None:
    """Print all passes over the rows from ``row`` to ``last``, in groups of ``plan.rows`` rows.

    The last pass is tiled by blocks of columns. It reads operands as long as a row that all rows share, such as a
    norm's weights. Row data from the second-level cache would evict a shared operand from the first-level cache
    between two rows. So the earlier passes run over a group's rows in sequence. The last pass then computes one block
    of columns of every row of the group before the next block.
    """
    plan = passes.plan
    p = plan.program
    last, length = p.passes - 1, p.run
    hoist, bodies = passes.hoisted(last)
    kept = {name: f"p{last}{name}_0" for name in hoist.found}
    ctypes = {name: computed(e.dtype) for name, (e, _) in hoist.found.items()}
    for name in sorted({str(n.value) for body in bodies.values() for e in body for n in e.walk() if n.op == "var"}):
        if name not in kept and p.stage[name].kind != ELEMENT:
            kept[name], ctypes[name] = f"{name}_0", computed(p.stage[name].dtype)
    with w.block(f"for (long first = row; first < last; first += {plan.rows})"):
        w.line(f"const long beyond = tw::imin(first + {plan.rows}, last);")
        for name, ctype in ctypes.items():
            w.line(f"{ctype} of_{name}[{plan.rows}];")
        with w.block("for (long row = first; row < beyond; row++)"):
            passes.before(w, last, 1, scope)
            passes.declare(w, last, hoist, 1)
            for name, text in kept.items():
                w.line(f"of_{name}[row - first] = {text};")
        with w.block(f"for (long begin = 0; begin < {ctext(length)}; begin += {plan.columns})"):
            even = length % plan.columns == 0
            end = f"begin + {plan.columns}" if even else f"tw::imin(begin + {plan.columns}, {ctext(length)})"
            w.line(f"const long end = {end};")
            with w.block("for (long row = first; row < beyond; row++)"):
                passes.coordinates(w, 1)
                for name, text in kept.items():
                    w.line(f"const {ctypes[name]} {text} = of_{name}[row - first];")
                part = scope.with_tile(p.inner, Tile("begin", "end", plan.columns, even))
                passes.over(w, last, 1, hoist, bodies, part)
