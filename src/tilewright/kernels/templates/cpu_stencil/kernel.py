"""The kernel of a stencil: tasks over units of work, and the loops over blocks in a unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod

from tilewright.extent import Extent, ctext
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile
from tilewright.kernels.codegen.nontemporal import NON_TEMPORAL
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import count_ops, flops_per_point
from tilewright.kernels.kernel import CpuStatic, Emitted, Kernel, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads
from tilewright.kernels.templates.cpu_stencil.block import COUNT, Block, BlockPosition
from tilewright.kernels.templates.cpu_stencil.match import Stencil
from tilewright.kernels.templates.cpu_stencil.space import WindowTiling, hoistable
from tilewright.kernels.templates.cpu_stencil.spans import Level, Span

REPEAT = "template <class V, class H, class F> TW_INLINE V repeat(H h, F f) { return f(h); }\n"
STRIP = "strip"
"""Name of the axis of strips: chunks of the block's axis."""


def kernel(p: WindowTiling) -> Kernel:
    """The kernel of a schedule: one loop nest over outer axes, vectors, blocks and reduce axes."""
    taps = prod(p.s.ranges[a] for a in p.unrolled)
    return Kernel(
        text=Emitted((_nest(p),), p.tasks, partial(_text, p)),
        static=CpuStatic(hoisted=len(hoistable(p.s, p.blocked)) * taps if p.hoist else 0, streamed=p.stream),
        launches=entry(p.s.program, *(("strips",) if p.stripped else ()), tasks=p.target.threads > 1),
    )


def _nest(p: WindowTiling) -> LoopNest:
    """The loop nest. The printed loops over blocks have separate code for the blocks at edges."""
    s = p.s
    size = s.ranges[s.inner]
    loops = [Loop(s.inner, size, p.lanes, "chunked")] if p.order == "v" else []
    loops += [Loop(a, s.ranges[a], p.blocked.get(a, 1), "chunked") for a in p.others]
    if p.block is not None and p.stripped:
        across = s.ranges[p.block]
        pieces = (Loop(p.block, across, -(-across // p.strips), "chunked", "l1", "strips"),) if p.strips > 1 else ()
        loops.insert(len(loops) - 1, Loop(STRIP, p.strips, 1, "chunked", walked=pieces))
    vectors = [] if p.order == "v" else [Loop(s.inner, size, p.lanes, level="register")]
    span = -(-s.ranges[p.block] // p.strips) if p.block is not None else 1
    along = [] if p.block is None else [Loop(p.block, span, p.size, level="register")]
    loops += [*along, *vectors] if p.order == "bv" else [*vectors, *along]
    reduce = dict(zip(s.part.reduce_axes, s.part.reduce, strict=True))
    loops += [Loop(a, reduce[a], 1) for a in p.rolled]
    loops += [Loop(a, reduce[a], 1, "unroll", "register") for a in p.unrolled]
    loops += [Loop(a, min(n, s.ranges[a]), 1, "unroll", "register") for a, n in p.blocked.items()]
    loops.append(Loop(s.inner, min(size, p.lanes), 1, "vector", "register"))
    axes = {a: s.ranges[a] for a in (*s.axes, *s.part.reduce_axes)}
    accesses, flops, after = _body(s)
    return LoopNest(
        s.part.stage, axes, tuple(loops), accesses, flops_per_point=flops, itemsize=ITEMSIZE[s.accumulator],
        flops_per_output=after,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _body(s: Stencil) -> tuple[tuple[Access, ...], int, int]:
    accesses = [Access(r.tensor, (r.at.expr(),), s.tensors[r.tensor].dtype) for r in s.reads]
    accesses += reads((s.value,), s.tensors, outside=True)
    accesses.append(Access(s.output.name, (Linear(0, s.strides).expr(),), s.output.dtype, store=True))
    return tuple(accesses), flops_per_point(s.part), count_ops(s.value)


def _text(p: WindowTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    emitter.tensors({t.name: storage(t.dtype) for t in (*p.s.program.inputs, p.s.output)})
    emitter.arguments(kernel.arguments)
    streamed = kernel.numbers["streamed"] > 0
    # The number of strips is a launch argument.
    scope = Scope({STRIP: Tile("0", "strips", 1, False, False)}, captured=tuple(emitter.captured))

    def unit(w: Writer, scope: Scope) -> None:
        _walk(Block(p, emitter, streamed), w, scope)
        if streamed:
            w.line("streamed();")

    emitter.nest(emitter.entry, nests[0], unit, loops=nests[0].chunked, scope=scope, tasks=kernel.tasks)
    return (REPEAT if any(r.repeat > 1 for r in p.s.reads) else "") + (NON_TEMPORAL if streamed else "")


def _walk(block: Block, w: Writer, scope: Scope) -> None:
    """Print one unit of work: all blocks and vectors at one position of the outer axes."""
    p = block.p
    for a in (*p.others, *((STRIP,) if p.stripped else ())):
        w.line(f"const long {a} = {scope.at(a)};")
    for level in _reached(p, w, p.second, p.levels(p.second, p.rows)):
        for rows in _chunked(p, w, level):
            _row(block, w, scope, rows)


def _row(block: Block, w: Writer, scope: Scope, rows: AxisPosition) -> None:
    """Print all blocks and vectors at one position along the second axis, if blocks have a second axis."""
    p = block.p

    def blocks() -> Iterator[AxisPosition]:
        for level in _reached(p, w, p.block, p.levels(p.block, p.size)):
            yield from _walked(w, level, "b_", p)

    def vectors(level: Level) -> Iterator[AxisPosition]:
        for v in _walked(w, level, "v_", p):
            block.count(w, _block_position(p, rows, v, v))
            yield v

    if p.order == "v":
        w.line(f"const long v_ = {scope.at(p.s.inner)};")
    for level in _reached(p, w, p.s.inner, p.levels(p.s.inner, p.lanes)):
        if p.order == "bv":
            for b in blocks():
                for v in vectors(level):
                    place = _block_position(p, rows, b, v)
                    block.print(w, place, *block.hoisted(w, place))
            continue
        for v in vectors(level):
            found = block.hoisted(w, _block_position(p, rows, v, v))
            for b in blocks():
                block.print(w, _block_position(p, rows, b, v), *found)


@dataclass(frozen=True)
class AxisPosition:
    """Position of a block along one axis.

    ``first``: number or C text of the block's first position. ``span``: the block's span. ``inside``: whether all
    conditions along the axis hold.
    """

    first: str | int
    span: Span
    inside: bool


def _reached(p: WindowTiling, w: Writer, axis: str | None, levels: tuple[Level, ...]) -> Iterator[Level]:
    """Print an if-else chain over the levels of an axis: each branch takes the extents that reach no higher level."""
    if len(levels) == 1 or axis is None:
        yield levels[0]
        return
    for n, level in enumerate(levels):
        head = "" if n == 0 else "else "
        if n < len(levels) - 1:
            head += f"if ({ctext(p.s.ranges[axis])} >= {level.least}L)"
        with w.block(head.strip()):
            yield level


def _walked(w: Writer, level: Level, name: str, p: WindowTiling) -> Iterator[AxisPosition]:
    """Print the loops over the blocks of an axis; yields the position of each loop's block inside the loop."""
    if level.spans[0].when:
        extent = ctext(p.s.ranges[p.s.inner])
        with w.block(f"for (long {name} = 0; {name} < {extent}; {name} += {p.lanes}L)"):
            for n, span in enumerate(level.spans):
                with w.block(("else " if n else "") + (f"if ({span.when.format(name)})" if span.when else "")):
                    yield AxisPosition(name, span, span.inside)
        return
    for span in level.spans:
        if span.last:
            with w.block(f"for (long {name}at = {span.start}L; {name}at < {span.end}; {name}at += {span.size}L)"):
                yield from _run(w, span, name, f"{name}at")
            continue
        with w.block(_again(level, span) if isinstance(span.start, Extent) else _fixed(p, level, span, name)):
            yield AxisPosition(span.start if span.count == 1 else name, span, span.inside)


def _run(w: Writer, span: Span, name: str, at: str) -> Iterator[AxisPosition]:
    """Print a block of a run along a symbolic axis: code without conditions, and code that tests them if needed."""
    w.line(f"const long {name} = tw::imin({at}, {span.last});")
    if span.unless:
        with w.block(f"if ({span.unless.format(name)})"):
            yield AxisPosition(name, span, False)
    with w.block("else" if span.unless else ""):
        yield AxisPosition(name, span, True)


def _again(level: Level, span: Span) -> str:
    """C condition under which the last block is not the first block; empty if it never is."""
    first = level.spans[0]
    return f"if ({ctext(span.start)} > 0)" if first is not span and first.count == 1 else ""


def _fixed(p: WindowTiling, level: Level, span: Span, name: str) -> str:
    """C head of the loop over a span of blocks of an axis of constant extent; empty for a block at a fixed position."""
    if name == "v_" and p.order == "v":
        extent, lanes = p.s.ranges[p.s.inner], p.lanes
        return f"if (v_ {'<' if span.size == lanes else '=='} {extent // lanes * lanes}L)" if extent % lanes else ""
    if name == "b_" and p.stripped:
        return _strip(level, span)
    if span.count == 1:
        return ""
    end = span.start + span.count * span.size
    return f"for (long {name} = {span.start}L; {name} < {end}L; {name} += {span.size}L)"


def _strip(level: Level, span: Span) -> str:
    """C head of the loop over the blocks of one strip.

    Strips share the longest span; the first strip also has the spans before it, and the last strip those after it.
    """
    run = max(level.spans, key=lambda x: x.count)
    if span.start < run.start:
        return "if (strip == 0)"
    if span != run:
        return "if (strip == strips - 1)"
    ends = [f"{span.start}L + ({k}) * {span.count}L / strips * {span.size}L" for k in ("strip", "strip + 1")]
    return f"for (long b_ = {ends[0]}; b_ < {ends[1]}; b_ += {span.size}L)"


def _chunked(p: WindowTiling, w: Writer, level: Level) -> Iterator[AxisPosition]:
    """Print the position of a unit of work along the second axis: one block, or all blocks of a short axis."""
    axis = p.second
    if axis is None or (isinstance(p.s.ranges[axis], Extent) and level.spans[0].size < p.rows):
        yield from _walked(w, level, "a_", p)
        return
    for span in level.spans:
        with w.block(_among(level, span, axis)):
            if span.last:
                yield from _run(w, span, "a_", axis)
            else:
                yield AxisPosition(span.start if span.count == 1 else axis, span, span.inside)


def _among(level: Level, span: Span, axis: str) -> str:
    """C head of the condition under which a unit of work belongs to a span along the second axis."""
    if len(level.spans) == 1:
        return ""
    if not span.last and span.count == 1 and not isinstance(span.start, Extent):
        return f"if ({axis} == {span.start}L)"
    first = next((x for x in level.spans if not x.last and x is not span), None)
    if isinstance(span.start, Extent):  # a unit at 0 belongs to the first span, even if it is also the last one
        beside = f" && {axis} > 0" if first is not None else ""
        return f"if ({axis} >= {ctext(span.start)}{beside})"
    past = span.end or f"{span.start + span.count * span.size}L"
    return f"if ({axis} >= {span.start}L && {axis} < {past})"


def _block_position(p: WindowTiling, rows: AxisPosition, block: AxisPosition, v: AxisPosition) -> BlockPosition:
    first: dict[str, str | int] = {p.s.inner: v.first}
    outputs, sizes = {}, dict[str, tuple[int, int]]()
    stands = {p.s.inner: v}
    for axis, stand in ((p.second, rows), (p.block, block)):
        if axis is not None:
            stands[axis], first[axis], outputs[axis] = stand, stand.first, stand.span.size
    for stand in stands.values():
        for name, (low, high) in stand.span.sizes:
            least, most = sizes.get(name, (low, high))
            sizes[name] = max(low, least), min(high, most)
    size = v.span.size
    return BlockPosition(
        first, outputs, frozenset(a for a, x in stands.items() if x.inside),
        COUNT if v.span.masked else str(size) if size < p.lanes else None, size, tuple(sizes.items()), v.span.least,
    )  # fmt: skip
