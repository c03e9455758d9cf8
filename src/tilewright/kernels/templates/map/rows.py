"""Vectors along the innermost axis, row by row."""

from __future__ import annotations

from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.templates.generic.access import flat_index
from tilewright.kernels.templates.map.segments import Segment
from tilewright.kernels.templates.map.text import Text, advance, units


def digits(t: Text) -> dict[str, str]:
    """Loop variables of a unit of work: the outer axes, and the piece of the row."""
    m = t.p.m
    found = {a: f"{m.extents[a]}L" for a in t.p.order}
    pieces = -(-m.extents[m.inner] // t.p.piece)
    if pieces > 1 or not found:
        found["piece_"] = f"{pieces}L"
    return found


def rows(t: Text, w: Writer) -> None:
    """The loop over units ``u0`` to ``u1``."""
    m = t.p.m
    count = digits(t)
    units(w, count)
    with w.block("for (long u_ = u0; u_ < u1; u_++)"):
        for s in m.segments:
            with w.block():
                _segment(t, w, s, "piece_" in count)
        w.line(advance(count))


def _segment(t: Text, w: Writer, s: Segment, pieces: bool) -> None:
    p, m = t.p, t.p.m
    lanes, block = p.lanes, p.lanes * p.vectors
    at = {a: a for a in m.outer} | {m.inner: "j"}
    names = t.hoisted(w, s.value, at, frozenset((m.inner,)))
    size, piece = s.high - s.low, p.piece
    cut = pieces and piece < size
    if cut:
        w.line(f"long j = piece_ * {piece}L; const long end = tw::imin({size}L, j + {piece}L);")
    else:
        w.line(f"long j = {s.low}L; const long end = {s.high}L;")
    known = size if not cut and not p.stream else None

    def vectors(number: int, count: str | None = None) -> None:
        for v in range(number):
            here = {**at, m.inner: f"(j + {v * lanes})" if v else "j"}
            with w.block():
                printer = t.printer(here, names, count=count)
                if p.prefetch and number == p.vectors:
                    _prefetch(t, w, s, printer)
                t.store(w, printer, s.value, count, stream=p.stream)

    if p.stream:
        item, width = p.item, p.target.vector_bytes
        base = flat_index((m.position,), m.output, t.printer(at, {}, vector=False))
        w.line(f"const long gap = (-(long)({m.output.name} + ({base})) & {width - 1}) / {item};")
        with w.block("if (gap && gap < end - j)"):
            vectors(1, "gap")
            w.line("j += gap;")
    if block > lanes and (known is None or known >= block):
        with w.block(f"for (; j + {block} <= end; j += {block})"):
            vectors(p.vectors)
        known = None if known is None else known % block
    if known is None or known >= lanes:
        single = known is not None and known < 2 * lanes
        with w.block(f"if (j + {lanes} <= end)" if single else f"for (; j + {lanes} <= end; j += {lanes})"):
            vectors(1)
            if single:
                w.line(f"j += {lanes};")
        known = None if known is None else known % lanes
    if known != 0:
        with w.block("if (j < end)"):
            vectors(1, "(end - j)")


def _prefetch(t: Text, w: Writer, s: Segment, printer: Printer) -> None:
    """Ask for the lines that a later trip reads; a prefetch past the end is harmless."""
    m = t.p.m
    for tensor, at in _streams(t, s, printer):
        span = t.p.lanes * ITEMSIZE[m.program.tensors[tensor].dtype]
        for line in range(0, span, 64):
            w.line(f"__builtin_prefetch((const char *)({tensor} + ({at})) + {t.p.prefetch + line});")


def _streams(t: Text, s: Segment, printer: Printer) -> list[tuple[str, str]]:
    m = t.p.m
    found: dict[tuple[str, str], None] = {}
    for x in s.value.loads():
        if flat_step(x.args, (1,), m.inner) == 1:
            tensor = str(x.value)
            found[tensor, flat_index(x.args, m.tensors[tensor], printer)] = None
    return list(found)
