"""The kernel of a scan: the pass over the sequence, in tasks, after an optional pass for block totals.

With several blocks this is reduce-then-scan: the first pass reduces each block, the second pass scans.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod

from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.codegen.printer import held_lane
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.recurrence import Recurrence
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads
from tilewright.kernels.templates.cpu_scan.space import ScanTiling
from tilewright.kernels.templates.cpu_scan.walk import Walk, array, hoists


def kernel(p: ScanTiling) -> Kernel:
    """The kernel of a schedule: the pass that computes the result, after the pass for block totals if there is one."""
    threads = p.target.threads > 1
    return Kernel(
        text=Emitted((*((_nest(p, True),) if p.blocks > 1 else ()), _nest(p, False)), p.tasks, partial(_text, p)),
        static=CpuStatic(hoisted=len(hoists(p).once)),
        launches=entry(p.r.program, "chunk", *(("piece",) if threads else ()), tasks=threads),
        workspace=_memory(p),
    )


@lru_cache(maxsize=256)
def _memory(p: ScanTiling) -> Workspace:
    """Workspace arrays, one a component: states between chunks of the sequence (``kept``), block totals (``total``)."""
    size = p.blocks * prod(n for _, n in p.others) * p.states * p.width
    wanted = (*(("kept",) if p.chunk else ()), *(("total",) if p.blocks > 1 else ()))
    states = ((kind, s, c, e) for kind in wanted for s in p.r.scans for c, e in enumerate(s.state))
    return Workspace(tuple(Array(array(kind, s, c), held_lane(e.dtype), size) for kind, s, c, e in states))


def _text(p: ScanTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    r = p.r
    emitter.tensors({x.name: storage(x.dtype) for x in (*r.program.inputs, r.program.output)})
    told = r.program.size_arguments
    for size in told:
        emitter.local("long", size, kernel.argument(size))
    for pointer in kernel.workspace.pointers():
        emitter.local(*pointer)
    given = [a for a in kernel.arguments if a not in told]
    for name in given:
        text = kernel.argument(name)
        if told and name == "piece":  # rounded up to full vectors: the knob may have been found for another size
            text = f"({text} + {p.lanes - 1}L) / {p.lanes}L * {p.lanes}L"
        emitter.local("long", name, text)
    for nest in nests:
        _walk(p, emitter, nest, nest is not nests[-1], kernel.tasks)
    return ""


def _walk(p: ScanTiling, emitter: Emitter, nest: LoopNest, totals: bool, tasks: str) -> None:
    reduced = {a for a, _ in p.r.reduced}
    chosen = tuple(x for x in nest.around if x.axis not in reduced)
    depth = max(n for n, x in enumerate(chosen) if x.axis == p.r.sequence[0])
    walk = Walk(p, emitter, totals)
    emitter.nest(
        emitter.entry, nest, walk.step, before={depth: walk.start}, after={depth: walk.finish}, loops=chosen,
        tasks=tasks,
    )  # fmt: skip


def _nest(p: ScanTiling, totals: bool) -> LoopNest:
    """The loop nest of a pass. ``totals``: the pass for block totals, which leaves out the last block."""
    name, length = p.r.sequence
    axes = dict(p.r.extents)
    if totals:
        axes[name] = length = (-(-length // p.length) - 1) * p.length
    accesses, flops, after = _body(p.r)
    return LoopNest(
        p.r.output.name, axes, tuple(_loops(p, length, totals)), accesses, flops_per_point=flops,
        itemsize=ITEMSIZE[p.r.output.dtype], flops_per_output=after,
    )  # fmt: skip


def _loops(p: ScanTiling, length: int, totals: bool) -> list[Loop]:
    r, (sequence, _), block = p.r, p.r.sequence, p.lanes * p.vectors
    inside = p.vector in {a for a, _ in r.after}
    loops = [Loop(a, n, 1, "chunked") for a, n in r.before if a != p.vector]
    if not inside:
        loops += [Loop(a, n, 1, "chunked") for a, n in r.after]
    if p.vector in {a for a, _ in r.before}:
        loops.append(Loop(str(p.vector), r.extents[str(p.vector)], block, "chunked"))
    if p.blocks > 1:
        loops.append(Loop(sequence, length, p.length, "chunked"))
        length = p.length
    sizes = dict(r.after) if inside else {}
    if sizes and p.piece:
        first = r.after[0][0]
        loops.append(Loop(first, sizes[first], p.piece, "chunked", "l2", "piece"))
        sizes[first] = min(sizes[first], p.piece)
    if p.chunk and not totals:
        loops.append(Loop(sequence, length, p.chunk, "serial", "l2", "chunk"))
        length = min(length, p.chunk)
    loops += [Loop(a, n, 1, level="l1") for a, n in sizes.items() if a != p.vector]
    span = r.extents.get(str(p.vector), 1)
    if p.vector is not None and not p.along:
        span = sizes.get(p.vector, min(span, block))
        loops.append(Loop(p.vector, span, block, level="register"))
    loops.append(Loop(sequence, length, p.lanes if p.along else 1, level="register" if p.along else "l1"))
    if p.reduced:
        loops.append(Loop(p.reduced[0], p.states, p.unroll, level="l1"))
        loops.append(Loop(p.reduced[0], p.unroll, 1, "unroll", "register"))
    if p.vectors > 1:
        loops.append(Loop(str(p.vector), min(span, block), p.lanes, "unroll", "register"))
    if p.vector is not None:
        loops.append(Loop(p.vector, min(span, p.lanes), 1, "vector", "register"))
    return loops


@lru_cache(maxsize=256)
def _body(r: Recurrence) -> tuple[tuple[Access, ...], int, int]:
    """Accesses of a point, operations per point, and operations per element of the result."""
    found = list(reads(r.expressions, r.program.tensors))
    if r.monoid is not None:
        found += reads((r.value,), r.program.tensors, outside=True)
    found.append(Access(r.output.name, (r.where.expr(),), r.output.dtype, store=True))
    monoids = (*(s.monoid for s in r.scans), *((r.monoid,) if r.monoid else ()))
    flops = count_ops(*r.expressions) + sum(max(1, count_ops(*m.combine)) for m in monoids)
    return tuple(found), flops, count_ops(r.value) if r.monoid is not None else 0
