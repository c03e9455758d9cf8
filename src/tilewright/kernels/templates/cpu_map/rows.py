"""Vectors along the innermost axis, row by row."""

from __future__ import annotations

from tilewright.kernels.codegen.access import flat_index
from tilewright.kernels.codegen.emitter import Scope, Tile, plus
from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.templates.cpu_map.segments import Segment
from tilewright.kernels.templates.cpu_map.text import Text


def rows(t: Text) -> None:
    """The loops over rows, or pieces of them."""
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
    """A row, or a part of it, in vectors."""
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
                t.take_apart(w, printer, s, count)
                if m.short:
                    t.store_together(w, printer, s, count, t.streamed)
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
    """C text of how many points lie before the first whose results start at a whole vector; 0 where none does."""
    p, n = t.p, t.p.m.components
    even = n & -n
    count = f"(-(long)({at}) & {p.target.vector_bytes - 1}) / {p.item * even}"
    if n == even:
        return count
    period = max(1, p.target.vector_bytes // (p.item * even))
    return f"{count} * {pow(n // even, -1, period)} % {period}"


def _prefetch(t: Text, w: Writer, s: Segment, printer: Printer) -> None:
    """Ask for the lines that a later trip reads; a prefetch past the end is harmless."""
    m = t.p.m
    for tensor, at, size in _streams(t, s, printer):
        span = size * t.p.lanes * ITEMSIZE[m.program.tensors[tensor].dtype]
        for line in range(0, span, 64):
            w.line(f"__builtin_prefetch((const char *)({tensor} + ({at})) + {t.prefetch + line});")


def _streams(t: Text, s: Segment, printer: Printer) -> list[tuple[str, str, int]]:
    """Tensors, positions and how many vectors a trip reads from there."""
    m = t.p.m
    found: dict[tuple[str, str, int], None] = {}
    reads = [(x, 1) for v in s.values for x in v.loads() if flat_step(x.args, (1,), m.inner) == 1]
    for x, size in (*reads, *((run.first, run.size) for run in s.runs)):
        tensor = str(x.value)
        found[tensor, flat_index(x.args, m.tensors[tensor], printer), size] = None
    return list(found)
