"""A whole kernel: tasks over units of work, with the loops around blocks."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile
from tilewright.kernels.codegen.stream import STREAM
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.reduce_window.block import COUNT, Block, Place
from tilewright.kernels.templates.reduce_window.nests import STRIP, nest
from tilewright.kernels.templates.reduce_window.space import Span, WindowTiling

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
        w.line(f"const long {a}_end = {block.p.end(a)};")
    for rows in block.p.r_spans:
        with w.block(_rows(block.p, rows)):
            if rows.extent:
                w.line(f"const long {block.p.second} = edge_;")
            _row(block, w, scope, rows)


def _row(block: Block, w: Writer, scope: Scope, rows: Span) -> None:
    """All blocks and vectors of one position along the second axis, or of all where there is none."""
    p, size = block.p, block.p.s.ranges[block.p.s.inner]
    vectors = [v for v in p.v_spans if not v.extent]
    if p.order == "v":
        w.line(f"const long v_ = {scope.at(p.s.inner)};")
    # Vectors at edges that calls know are walked by themselves: their lanes are counted once.
    for v in p.v_spans if p.order != "bv" else [v for v in p.v_spans if v.extent]:
        head = _head(v, "v_")
        if p.order == "v":
            head = (
                f"if (v_ {'<' if v.size == p.lanes else '=='} {size // p.lanes * p.lanes}L)" if size % p.lanes else ""
            )
        with w.block(head):
            if v.extent:
                block.count(w, _place(p, rows, p.b_spans[0], v), v.extent)
            found = block.hoisted(w, _place(p, rows, p.b_spans[0], v))
            for span in _blocks(p, w):
                block.print(w, _place(p, rows, span, v), *found)
    if p.order == "bv":
        for span in _blocks(p, w):
            for v in vectors:
                with w.block(_head(v, "v_")):
                    place = _place(p, rows, span, v)
                    block.print(w, place, *block.hoisted(w, place))


def _blocks(p: WindowTiling, w: Writer) -> Iterator[Span]:
    """The runs of blocks along the block's axis, each inside of its loop."""
    if p.block in p.open_axes:
        w.line(f"long at_ = {p.b_spans[-1].start}L;")
    for span in p.b_spans:
        with w.block(_strip(p, span)):
            yield span


def _head(span: Span, name: str) -> str:
    """The loop over a run of blocks; nothing for a block at a known place."""
    if span.count == 1:
        return ""
    if name == "v_" and span.end:
        first, past = (span.end, span.extent) if span.extent else (f"{span.start}L", span.end)
        return f"for (long v_ = {first}; v_ < {past}; v_ += {span.size}L)"
    if span.extent:
        return f"for (long b_ = 0; (b_ = b_ == at_ ? {span.end} : b_) < {span.extent}; b_++)"
    if span.end:
        return f"for (; at_ + {span.size}L <= {span.end}; at_ += {span.size}L)"
    end = span.start + span.count * span.size
    return f"for (long {name} = {span.start}L; {name} < {end}L; {name} += {span.size}L)"


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
    name = "at_" if span.end and not span.extent else "b_"
    for axis, along, at in ((p.second, rows, p.second), (p.block, span, name)):
        if axis is not None:
            first[axis] = along.start if along.count == 1 else str(at)
            outputs[axis] = along.size
    count = COUNT if v.extent else str(v.size) if v.size < p.lanes else None
    return Place(first, outputs, v.inside, count, v.size, edges)
