"""The kernel of a map: tasks over rows, in vectors along the innermost axis, or over blocks of transposed tiles."""

from __future__ import annotations

from functools import lru_cache, partial

from tilewright.extent import ctext
from tilewright.kernels.codegen.access import flat_index
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile, plus
from tilewright.kernels.codegen.nontemporal import NON_TEMPORAL
from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.linear import flat_step, linearise
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.kernel import CpuStatic, Emitted, Kernel, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads, vectors
from tilewright.kernels.templates.cpu_map.program import Map
from tilewright.kernels.templates.cpu_map.segments import Segment
from tilewright.kernels.templates.cpu_map.space import ElementwiseTiling
from tilewright.kernels.templates.cpu_map.text import Text, ctype
from tilewright.kernels.templates.cpu_map.transpose import transpose


def kernel(p: ElementwiseTiling) -> Kernel:
    """The kernel of a schedule: one loop nest over the fused axes."""
    ahead = p.ahead * p.lanes * _transposed_strides(p.m)[p.along_output] if p.tiled else p.prefetch
    return Kernel(
        text=Emitted((_nest(p),), p.tasks, partial(_text, p)),
        static=CpuStatic(prefetch=ahead, streamed=p.stream),
        launches=entry(p.m.program, *(("tile_in", "tile_out") if p.tiled else ()), tasks=p.target.threads > 1),
    )


def _text(p: ElementwiseTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    m = p.m
    t = Text(p, kernel, emitter, nests[0])
    emitter.tensors({x.name: ctype(m.tensors[x.name].dtype) for x in (*m.program.inputs, m.output)})
    emitter.arguments(kernel.arguments)
    (tiles if p.tiled else rows)(t)
    helpers = NON_TEMPORAL if t.streamed else ""
    return helpers + tile(t, False) + tile(t, True) if p.tiled else helpers


def _nest(p: ElementwiseTiling) -> LoopNest:
    found, flops = _body(p.m)
    loops = _tile_loops(p) if p.tiled else _row_loops(p)
    return LoopNest(p.m.program.output.name, dict(p.m.extents), loops, found, flops_per_point=flops, itemsize=p.item)


@lru_cache(maxsize=256)
def _body(m: Map) -> tuple[tuple[Access, ...], int]:
    stored = Access(m.program.output.name, (m.position,), m.program.output.dtype, store=True)
    return (*reads((m.value,), m.program.tensors), stored), count_ops(m.value)


# --------------------------------------------------------------------------- rows, in vectors along the innermost axis


def _row_loops(p: ElementwiseTiling) -> tuple[Loop, ...]:
    m, inner, size = p.m, p.m.inner, p.m.extents[p.m.inner]
    loops = [Loop(a, m.extents[a], 1, "chunked") for a in p.order]
    if p.piece < size or not loops:
        loops.append(Loop(inner, size, p.piece, "chunked"))
        size = p.piece
    block = vectors(inner, size, p.lanes, p.vectors)
    short = (Loop(a, m.extents[a], 1, "unroll", "register") for a in m.short)
    return (*loops, *block[:-1], *short, block[-1])


def rows(t: Text) -> None:
    """Print the loops over rows, or over chunks of long rows."""
    p = t.p

    def unit(w: Writer, scope: Scope) -> None:
        for s in p.m.segments:
            with w.block():
                part = scope
                if len(p.m.segments) > 1:
                    part = scope.with_tile(p.m.inner, Tile(f"{s.low}L", f"{s.high}L", s.high - s.low))
                _segment(t, w, s, part)

    t.tasks(unit)


def _segment(t: Text, w: Writer, s: Segment, scope: Scope) -> None:
    """Print one segment of a row (or of a chunk of a row) in vectors."""
    p, m = t.p, t.p.m
    names = t.hoisted(w, s.values, t.places(scope), frozenset((m.inner,)))

    def vectors(w: Writer, here: Scope, count: str | None = None) -> None:
        tile = here.tiles[m.inner]
        count = count if tile.whole else tile.count
        for v in range(1 if count else tile.size // p.lanes):
            with w.block():
                printer = t.printer({**t.places(here), m.inner: plus(tile.start, v * p.lanes)}, names, count=count)
                if t.prefetch and tile.size == p.lanes * p.vectors:
                    _prefetch(t, w, s, printer)
                t.load_deinterleaved(w, printer, s, count)
                if m.short:
                    t.store_interleaved(w, printer, s, count, t.streamed)
                else:
                    t.store(w, printer, s.values[0], count, stream=t.streamed)

    if t.streamed:
        start, tile = t.emitter.fresh("j"), scope.tiles[m.inner]
        base = flat_index((m.position,), m.output, t.printer(t.places(scope), {}, vector=False))
        w.line(f"long {start} = {tile.start};")
        w.line(f"const long gap = {_gap(t, f'{m.output.name} + ({base})')};")
        with w.block(f"if (gap && gap < {tile.end} - {start})"):
            vectors(w, scope.with_tile(m.inner, Tile(start, tile.end, p.lanes)), "gap")
            w.line(f"{start} += gap;")
        scope = scope.with_tile(m.inner, Tile(start, tile.end, tile.size, False))
    walk = [x for x in t.nest.loops if x.kind == "serial"]
    t.emitter.nest(w, t.nest, vectors, loops=walk, scope=scope)


def _gap(t: Text, at: str) -> str:
    """C text of the number of points before the first point whose results are aligned to a vector.

    The text is 0 where the first point is aligned, or where no point is.
    """
    p, n = t.p, t.p.m.components
    even = n & -n
    count = f"(-(long)({at}) & {p.target.vector_bytes - 1}) / {p.item * even}"
    if n == even:
        return count
    period = max(1, p.target.vector_bytes // (p.item * even))
    return f"{count} * {pow(n // even, -1, period)} % {period}"


def _prefetch(t: Text, w: Writer, s: Segment, printer: Printer) -> None:
    """Print prefetches of the cache lines that a later iteration reads; a prefetch past the end is harmless."""
    m = t.p.m
    for tensor, at, size in _streams(t, s, printer):
        span = size * t.p.lanes * ITEMSIZE[m.program.tensors[tensor].dtype]
        for line in range(0, span, 64):
            w.line(f"__builtin_prefetch((const char *)({tensor} + ({at})) + {t.prefetch + line});")


def _streams(t: Text, s: Segment, printer: Printer) -> list[tuple[str, str, int]]:
    """Tensor, position and number of vectors of each contiguous read of one iteration."""
    m = t.p.m
    found: dict[tuple[str, str, int], None] = {}
    reads = [(x, 1) for v in s.values for x in v.loads() if flat_step(x.args, (1,), m.inner) == 1]
    for x, size in (*reads, *((run.first, run.size) for run in s.runs)):
        tensor = str(x.value)
        found[tensor, flat_index(x.args, m.tensors[tensor], printer), size] = None
    return list(found)


# --------------------------------------------------------------------------- square tiles transposed in registers
# Tiles are read along one axis and written along another.


@lru_cache(maxsize=256)
def _transposed_strides(m: Map) -> tuple[int, int]:
    """Byte strides of the first transposed read: along the axis it is contiguous in, and along the output's axis."""
    read = m.transposed[0]
    item = ITEMSIZE[m.program.tensors[str(read.value)].dtype]
    return item, item * abs(linearise(read.args[0]).step(m.inner) or 0)


def _tile_loops(p: ElementwiseTiling) -> tuple[Loop, ...]:
    m = p.m
    assert m.across is not None
    loops = [Loop(a, m.extents[a], 1, "chunked") for a in p.free]
    pair = [(m.across, p.tile_in, "tile_in"), (m.inner, p.tile_out, "tile_out")]
    pair = pair if p.along_output else pair[::-1]
    loops += [Loop(a, m.extents[a], size, "chunked", "l2", name) for a, size, name in pair]
    loops += [Loop(a, min(m.extents[a], size), p.lanes, level="l1") for a, size, _ in pair]
    loops.append(Loop(m.across, min(m.extents[m.across], p.lanes), 1, "unroll", "register"))
    return (*loops, Loop(m.inner, min(m.extents[m.inner], p.lanes), 1, "vector", "register"))


def tile(t: Text, edge: bool) -> str:
    """C++ function that computes one tile. ``edge``: a partial tile of ``ni`` by ``no`` elements."""
    p, m = t.p, t.p.m
    members = [f"const {ctype(m.tensors[x.name].dtype)} *{x.name}" for x in m.program.inputs]
    axes = "".join(f", long {a}" for a in (*p.free, m.across, m.inner, *m.program.size_arguments))
    more = ", long ni, long no" if edge else ""
    w = Writer()
    kind = "TW_NOINLINE" if edge else "TW_INLINE"
    head = (
        f"{kind} void {'edge' if edge else 'tile'}({', '.join((*members, f'{ctype(m.output.dtype)} *d_'))}{axes}{more})"
    )
    with w.block(head):
        for name in (*(x.name for x in m.program.inputs), *p.free, *m.program.size_arguments):
            w.line(f"(void){name};")
        columns = [_columns(t, w, x, n, edge) for n, x in enumerate(m.transposed)]
        numbers = [t.numbers.of(x) for x in m.transposed]
        assert m.across is not None
        # Transposed reads go by value number: the printer would load them again for each row position.
        for k in range(p.lanes):
            here = {a: a for a in m.names} | {m.across: f"({m.across} + {k})" if k else m.across}
            with w.block(f"if ({k} < ni)" if edge else ""):
                printer = t.printer(here, {}, count="no" if edge else None)
                t.known(printer, dict(zip(numbers, (c[k] for c in columns), strict=True)))
                to = f"d_ + {ctext(k * m.where.of(m.across))}" if k else "d_"
                t.store(w, printer, m.value, "no" if edge else None, to, t.streamed)
    return w.text()


def _columns(t: Text, w: Writer, x: Expr, number: int, edge: bool) -> list[str]:
    """Print the load and transposition of one tensor's tile; returns the vectors along the innermost axis by name."""
    p, m = t.p, t.p.m
    scalar = t.printer({a: a for a in m.names}, {}, vector=False)
    tensor = m.tensors[str(x.value)]
    step = linear(x.args[0]).of(m.inner)
    lane = t.printer({}, {}).lane_type(x) if x.dtype != "bool" else "int"
    vector = f"tw::vec<{lane}, {p.lanes}>"
    base = f"(const signed char *){tensor.name}" if x.dtype == "bool" else tensor.name
    kind = "signed char" if x.dtype == "bool" else ctype(x.dtype)
    w.line(f"const {kind} *const p{number} = {base} + ({flat_index(x.args, tensor, scalar)});")
    names = []
    for r in range(p.lanes):
        name = f"r{number}_{r}"
        at = f"p{number} + {ctext(r * step)}" if r else f"p{number}"
        text = f"tw::load<{vector}>({at})"
        if edge:
            text = f"{r} < no ? tw::load_n<{vector}>({at}, ni) : {vector}{{}}"
        w.line(f"const {vector} {name} = {text};")
        if t.prefetch and not edge:
            # Prefetches this row of a later tile; an address past the end is harmless.
            far = p.ahead * p.lanes * (step if p.along_output else 1)
            w.line(f"__builtin_prefetch(p{number} + {ctext(r * step + far)}, 0, 2);")
        names.append(name)
    item = {"double": 8, "long": 8, "signed char": 1, "short": 2}.get(lane, 4)
    lines, columns = transpose(names, item, vector, f"c{number}_")
    for line in lines:
        w.line(line)
    return columns


def tiles(t: Text) -> None:
    """Print the loops over blocks of tiles, and over the tiles of a block."""
    p, m = t.p, t.p.m
    assert m.across is not None
    offsets, sizes = {m.across: "si", m.inner: "so"}, {m.across: "ni", m.inner: "no"}
    for name, text in zip(offsets.values(), _shifts(t), strict=True):
        t.emitter.local("long", name, text)
    walk = {x.axis: x.step for x in t.nest.loops if x.kind == "serial"}

    def block(w: Writer, scope: Scope) -> None:
        here = {a: scope.at(a) for a in p.free} | {a: a for a in walk}
        where = flat_index((m.position,), m.output, t.printer(here, {}, vector=False))
        inputs = ", ".join(x.name for x in m.program.inputs)
        given = ", ".join(
            (
                inputs,
                f"{m.output.name} + ({where})",
                *(here[a] for a in (*p.free, str(m.across), m.inner)),
                *m.program.size_arguments,
            )
        )
        for a, step in walk.items():
            part, size, shift = scope.tiles[a], sizes[a], offsets[a]
            w.line(f"for (long {a} = {part.start}, {size}; {a} < {part.end}; {a} += {size}) {{")
            w.line(f" {size} = {a} == 0 && {shift} ? {shift} : tw::imin({step}L, {part.end} - {a});")
        whole = f"ni == {walk[str(m.across)]} && no == {walk[m.inner]}"
        w.line(f"if ({whole}) tile({given}); else edge({given}, ni, no);")
        w.line("} }")

    t.tasks(block, offsets)


def _shifts(t: Text) -> tuple[str, str]:
    """C texts of the offsets, in elements, of the first full tiles, which make reads and writes aligned."""
    p, m = t.p, t.p.m
    assert m.across is not None
    out = _unaligned(m.output.name, [m.where.of(a) for a in m.outer], p.item, p.lanes, m.extents[m.inner])
    x = m.transposed[0]
    s = linear(x.args[0])
    item = ITEMSIZE[m.program.tensors[str(x.value)].dtype]
    # A read that does not start at a whole row is not aligned.
    steps = [s.of(a) for a in m.names if a != m.across] + [s.const] + ([1] if s.rest else [])
    into = _unaligned(str(x.value), steps, item, p.lanes, m.extents[m.across])
    return into, out


def _unaligned(name: str, steps: list[int], item: int, lanes: int, extent: int) -> str:
    if any(s % lanes for s in steps) or extent < 2 * lanes:
        return "0L"
    return f"(-(long){name} & {item * lanes - 1}) / {item}"
