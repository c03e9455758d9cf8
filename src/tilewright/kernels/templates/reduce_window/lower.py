"""A whole kernel: tasks over units of work, with the loops around blocks."""

from __future__ import annotations

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile
from tilewright.kernels.codegen.stream import STREAM
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.reduce_window.block import Block, Place
from tilewright.kernels.templates.reduce_window.nests import STRIP, nest
from tilewright.kernels.templates.reduce_window.space import Span, WindowTiling, ending

COUNT = "count_"
"""Lanes in use of a vector at an edge."""

REPEAT = "template <class V, class H, class F> TW_INLINE V repeat(H h, F f) { return f(h); }\n"


def kernel(p: WindowTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    emitter, program, every = Emitter(symbol), p.s.program, nest(p)
    emitter.tensors({t.name: storage(t.dtype) for t in (*program.inputs, p.s.output)})
    arguments = (*(("strips",) if p.stripped else ()), *(("tasks",) if p.target.threads > 1 else ()))
    arguments = (*arguments, *(s.argument for s in program.sizes.values()))
    emitter.arguments(arguments)
    # How many strips there are is known at run time only.
    scope = Scope({STRIP: Tile("0", "strips", 1, False, False)}, captured=tuple(emitter.captured))
    emitter.nest(
        emitter.entry, every, lambda w, s: _unit(Block(p, emitter), w, s), loops=every.dealt, scope=scope,
        tasks="tasks" if p.target.threads > 1 else "1L",
    )  # fmt: skip
    helpers = (REPEAT if any(r.repeat > 1 for r in p.s.reads) else "") + (STREAM if p.stream else "")
    return LoweredKernel(symbol, emitter.unit(helpers), LaunchProgram((Launch(symbol, arguments),)))


def _unit(block: Block, w: Writer, scope: Scope) -> None:
    """What one unit of work computes: all blocks and vectors of the other axes' position."""
    _walk(block, w, scope)
    if block.p.stream:
        w.line("streamed();")


def _walk(block: Block, w: Writer, scope: Scope) -> None:
    for a in (*block.p.others, *((STRIP,) if block.p.stripped else ())):
        w.line(f"const long {a} = {scope.at(a)};")
    for a in block.p.open_axes:
        w.line(f"const long {a}_end = {ending(block.p.s, a, block.p.step(a))};")
    for rows in block.p.r_spans:
        with w.block(_rows(block.p, rows)):
            if rows.extent:
                w.line(f"const long {block.p.second} = edge_;")
            _row(block, w, scope, rows)


def _row(block: Block, w: Writer, scope: Scope, rows: Span) -> None:
    """All blocks and vectors of one position along the second axis, or of all where there is none."""
    p, size = block.p, block.p.s.ranges[block.p.s.inner]
    if p.order == "bv":
        for span in p.b_spans:
            with w.block(_strip(p, span)):
                for v in p.v_spans:
                    with w.block(_head(v, "v_")):
                        _count(p, w, v)
                        place = _place(p, rows, span, v)
                        block.print(w, place, *block.hoisted(w, place))
        return
    if p.order == "v":
        w.line(f"const long v_ = {scope.at(p.s.inner)};")
    for v in p.v_spans:
        head = _head(v, "v_")
        if p.order == "v":
            head = (
                f"if (v_ {'<' if v.size == p.lanes else '=='} {size // p.lanes * p.lanes}L)" if size % p.lanes else ""
            )
        with w.block(head):
            _count(p, w, v)
            found = block.hoisted(w, _place(p, rows, p.b_spans[0], v))
            for span in p.b_spans:
                with w.block(_strip(p, span)):
                    block.print(w, _place(p, rows, span, v), *found)


def _head(span: Span, name: str) -> str:
    """The loop over a run of blocks; nothing for a block at a known place."""
    if span.count == 1:
        return ""
    if span.extent:
        past = f"{name} = {name} == {span.start}L ? {span.end} : {name}"
        return f"for (long {name} = 0; ({past}) < {span.extent}; {name} += {span.size}L)"
    if span.end:
        return f"for (long {name} = {span.start}L; {name} < {span.end}; {name} += {span.size}L)"
    end = span.start + span.count * span.size
    return f"for (long {name} = {span.start}L; {name} < {end}L; {name} += {span.size}L)"


def _count(p: WindowTiling, w: Writer, v: Span) -> None:
    """Declares how many lanes of a vector at an edge are in use, where calls choose the extent."""
    if v.extent:
        w.line(f"const long {COUNT} = tw::imin({p.lanes}L, {v.extent} - v_);")


def _strip(p: WindowTiling, span: Span) -> str:
    """The blocks in the strip at hand: a share of the run; the first and last strips have those beside it."""
    if not p.stripped:
        return _head(span, "b_")
    run = max(p.b_spans, key=lambda x: x.count)
    if span.start < run.start:
        return "if (strip == 0)"
    if span != run:
        return "if (strip == strips - 1)"
    ends = [f"{span.start}L + ({k}) * {span.count}L / strips * {span.size}L" for k in ("strip", "strip + 1")]
    return f"for (long b_ = {ends[0]}; b_ < {ends[1]}; b_ += {span.size}L)"


def _rows(p: WindowTiling, span: Span) -> str:
    """The condition under which a unit of work is one of a run of blocks along the second axis."""
    if len(p.r_spans) == 1:
        return ""
    if span.end:
        run = f"{p.second} >= {span.start}L && {p.second} < {span.end}"
        last = f"tw::imin({p.second} + {p.rows}, {span.extent})"
        return f"for (long edge_ = {p.second}; edge_ < {last} && !({run}); edge_++)" if span.extent else f"if ({run})"
    if span.count == 1:
        return f"if ({p.second} == {span.start}L)"
    return f"if ({p.second} >= {span.start}L && {p.second} < {span.start + span.count * span.size}L)"


def _place(p: WindowTiling, rows: Span, span: Span, v: Span) -> Place:
    first: dict[str, str | int] = {p.s.inner: v.start if v.count == 1 else "v_"}
    outputs = {}
    found = ((p.s.inner, v), (p.second, rows), (p.block, span))
    edges = frozenset(a for a, x in found if a is not None and x.extent)
    for axis, along, name in ((p.second, rows, p.second), (p.block, span, "b_")):
        if axis is not None:
            first[axis] = along.start if along.count == 1 else str(name)
            outputs[axis] = along.size
    count = COUNT if v.extent else str(v.size) if v.size < p.lanes else None
    return Place(first, outputs, v.inside, count, v.size, edges)
