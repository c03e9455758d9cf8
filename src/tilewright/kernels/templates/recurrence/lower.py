"""A whole kernel: the walk over the sequence, in tasks, and before it the one for the totals of its blocks."""

from __future__ import annotations

from tilewright.core import Launch, LaunchProgram
from tilewright.extent import ctext, intexpr
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.recurrence.memory import Memory
from tilewright.kernels.templates.recurrence.nests import nest
from tilewright.kernels.templates.recurrence.space import ScanTiling
from tilewright.kernels.templates.recurrence.walk import Walk


def kernel(p: ScanTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    emitter, r = Emitter(symbol), p.r
    emitter.tensors({x.name: storage(x.dtype) for x in (*r.program.inputs, r.program.output)})
    memory, split = Memory.of(p), ("piece", "tasks") if p.target.threads > 1 else ()
    arguments = ("chunk", *split)
    told = [s.argument for s in r.program.sizes.values()]
    for n, size in enumerate(told, len(arguments)):
        emitter.local("long", size, f"args[{n}]")
    for ctype, name, at in memory.pointers:
        emitter.local(f"{ctype} *", name, f"({ctype} *)((char *)workspace + {ctext(at)})")
    emitter.arguments(arguments if not told else ("chunk",))
    if told and split:  # whole vectors, whatever the size that the piece was found for
        emitter.local("long", "piece", f"(args[1] + {p.lanes - 1}L) / {p.lanes}L * {p.lanes}L")
        emitter.local("long", "tasks", "args[2]")
    for totals in (True, False) if p.blocks > 1 else (False,):
        _walk(p, emitter, memory, totals)
    launch = Launch(symbol, (*arguments, *told))
    return LoweredKernel(symbol, emitter.unit(), LaunchProgram((launch,), workspace=intexpr(memory.bytes)))


def _walk(p: ScanTiling, emitter: Emitter, memory: Memory, totals: bool) -> None:
    every = nest(p, totals)
    reduced = {a for a, _ in p.r.reduced}
    chosen = tuple(x for x in every.loops if x.kind not in ("unroll", "vector") and x.axis not in reduced)
    depth = max(n for n, x in enumerate(chosen) if x.axis == p.r.sequence[0])
    walk = Walk(p, emitter, memory, totals)
    blocks = {}
    if p.vector is not None:
        blocks[p.vector] = tuple(dict.fromkeys((p.lanes * p.vectors, p.lanes)))
    emitter.nest(
        emitter.entry, every, walk.step, before={depth: walk.start}, after={depth: walk.finish}, loops=chosen,
        blocks=blocks, tasks="tasks" if p.target.threads > 1 else "1L",
    )  # fmt: skip
