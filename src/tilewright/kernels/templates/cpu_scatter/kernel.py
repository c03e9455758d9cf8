"""The kernel of a scatter: fill with the identity, accumulate all sources, combine private copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from tilewright.kernels.codegen.access import Values, loaded, storage, stored, write
from tilewright.kernels.codegen.emitter import Body, Emitter, Scope, plus
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.families.scatter import Scatter
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, reads, vectors
from tilewright.kernels.templates.cpu_scatter.space import ScatterTiling

FLAT = "e"
"""Name of the flat axis over all elements of the result, or of all private copies."""


def kernel(p: ScatterTiling) -> Kernel:
    """The kernel of a schedule: the pass over the sources, and with private copies the pass that combines them."""
    nests = (_sources(p), *((_results(p),) if p.kept else ()))
    return Kernel(
        text=Emitted(nests, p.target.threads, partial(_text, p)),
        static=CpuStatic(fused=p.copies * p.ways),
        launches=entry(p.s.program, "piece"),
        workspace=Workspace((Array("sums", p.held, p.kept * p.stride),) if p.kept else ()),
    )


def _text(p: ScatterTiling, kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]) -> str:
    s = p.s
    emitter.tensors({x.name: storage(x.dtype) for x in (*s.program.inputs, s.program.output)})
    emitter.local(f"{p.held} *", "sums", f"({p.held} *){'workspace' if kernel.workspace else s.output.name}")
    emitter.arguments(kernel.arguments)
    text = _Text(p, emitter, nests[0])
    text.nest(_cleared(p), text.clear)
    # The body prints the loops along a row; a source's index replaces the loop over a range's elements.
    inside = {a for a, _ in s.row} | ({s.chosen[0].name} if p.ranges > 1 else set())
    text.nest(nests[0], text.land, tuple(x for x in nests[0].around if x.kind == "chunked" or x.axis not in inside))
    for combined in nests[1:]:
        text.nest(combined, text.results)
    return ""


# --------------------------------------------------------------------------- loops


def _cleared(p: ScatterTiling) -> LoopNest:
    """The loops that fill the private copies, or the result, with the reduction's identity."""
    total = p.stride * max(1, p.kept)
    loops = (Loop(FLAT, total, max(4 * p.lanes, 1 << 14), "chunked"), *vectors(FLAT, min(total, 1 << 14), p.lanes, 4))
    return LoopNest("cleared", {FLAT: total}, loops, ())


def _sources(p: ScatterTiling) -> LoopNest:
    """The loops over sources, with the loops along a source's row inside."""
    s = p.s
    first = s.chosen[0]
    loops = [Loop(a, n, 1, "chunked") for a, n in s.outer]
    axes = dict(s.extents)
    if p.ranges > 1:
        # The loop over ranges has the name of the result's axis: each range goes over all sources.
        axes[first.name] = first.extent
        loops.append(Loop(first.name, first.extent, -(-first.extent // p.ranges), "chunked"))
    along = dict(s.sources)
    lead, last = s.sources[0][0], s.sources[-1][0]
    if p.copies > 1:
        step = _length(p)
        loops.append(Loop(lead, along[lead], step, "chunked"))
        along[lead] = min(along[lead], step)
    for a, n in s.row:
        if p.piece < n:
            loops.append(Loop(a, n, p.piece, "chunked", argument="piece"))
    loops += [Loop(a, n, 1) for a, n in along.items() if a != last or p.ways == 1]
    if p.ways > 1:
        loops.append(Loop(last, along[last], p.ways, level="register"))
        loops.append(Loop(last, min(p.ways, along[last]), 1, "unroll", "register"))
    if p.ranges > 1:
        loops.append(Loop(first.name, -(-first.extent // p.ranges), 1, level="register"))
    for a, n in s.row:
        loops += vectors(a, min(n, p.piece), p.lanes, p.vectors)
    accesses, flops = _landing(s)
    return LoopNest(
        s.output.name, axes, tuple(loops), accesses, flops_per_point=flops, itemsize=ITEMSIZE[s.output.dtype]
    )


@lru_cache(maxsize=256)
def _landing(s: Scatter) -> tuple[tuple[Access, ...], int]:
    """Accesses of a source, the store to its element included, and operations per source element."""
    accesses = list(reads((*(c.index for c in s.chosen), s.element), s.program.tensors))
    place = s.place
    for c in s.chosen:
        place = place.without(c.name)
    index = place.expr()
    for c in s.chosen:
        if s.place.of(c.name):
            index = index + c.index * s.place.of(c.name)
    accesses.append(Access(s.output.name, (index,), s.output.dtype, store=True))
    return tuple(accesses), count_ops(s.element) + count_ops(*s.monoid.combine)


def _length(p: ScatterTiling) -> int:
    """Number of sources per private copy along the first source axis, a multiple of the ways."""
    turn = p.ways if len(p.s.sources) == 1 else 1
    return -(-p.s.sources[0][1] // (p.copies * turn)) * turn


def _results(p: ScatterTiling) -> LoopNest:
    """The loops that combine private copies and apply the epilogue."""
    s = p.s
    name, size = s.after[-1]
    loops = [Loop(a, n, 1, "chunked") for a, n in s.after[:-1]]
    if not loops:
        piece = max(p.lanes * p.vectors, 4096)
        loops.append(Loop(name, size, piece, "chunked"))
        size = min(size, piece)
    loops += vectors(name, size, p.lanes, p.vectors)
    accesses = list(reads((s.value,), s.program.tensors))
    accesses.append(Access(s.output.name, (s.where.expr(),), s.output.dtype, store=True))
    flops = count_ops(s.value) + (p.kept - 1) * count_ops(*s.monoid.combine)
    return LoopNest(
        s.output.name, dict(s.after), tuple(loops), tuple(accesses), flops_per_point=flops,
        itemsize=ITEMSIZE[s.output.dtype],
    )  # fmt: skip


# --------------------------------------------------------------------------- text


@dataclass
class _Text:
    """Prints the bodies of the loops."""

    p: ScatterTiling
    emitter: Emitter
    sources: LoopNest

    def __post_init__(self) -> None:
        s = self.p.s
        self.values = Values(s.tensors, {**s.extents, **dict(s.after)}, self.p.lanes)

    def nest(self, nest: LoopNest, body: Body, loops: tuple[Loop, ...] | None = None) -> None:
        """Print a nest, or some of its loops, divided into one task a thread."""
        self.emitter.nest(self.emitter.entry, nest, body, loops=loops, tasks=f"{self.p.target.threads}L")

    # -- bodies of the passes
    def clear(self, w: Writer, scope: Scope) -> None:
        """Print the stores of the reduction's identity to a block of elements."""
        tile = scope.tiles[FLAT]
        printer = self.values.at({})
        identity = self.p.s.monoid.identity[0]
        value = printer.scalar(identity)
        vec = f"tw::vec<{self.p.held}, {self.p.lanes}>"
        for at in tile.vectors(self.p.lanes):
            w.line(stored(f"sums + {at}", identity.dtype, f"tw::splat<{vec}>({value})", tile.partial))

    def land(self, w: Writer, scope: Scope) -> None:
        """Print the accumulation of one source, or of one source for each of the ways."""
        p, s = self.p, self.p.s
        last = s.sources[-1][0]
        for k in range(scope.tiles[last].size if p.ways > 1 else 1):
            with w.block():
                places = {a: scope.at(a) for a in s.extents}
                places[last] = plus(places[last], k)
                self._source(w, scope, places, k)

    def results(self, w: Writer, scope: Scope) -> None:
        """Print the sum of all copies of a block of elements, in order, and the epilogue."""
        p, s = self.p, self.p.s
        name = s.after[-1][0]
        count = scope.tiles[name].partial
        for start in scope.tiles[name].vectors(p.lanes):
            with w.block():
                places = {a: scope.at(a) for a, _ in s.after} | {name: start}
                at = _position(s.where, places)
                w.line(f"tw::vec<{p.held}, {p.lanes}> total = {self._sums(at, count)};")
                if p.kept > 1:
                    with w.block(f"for (long k_ = 1; k_ < {p.kept}; k_++)"):
                        more = self._sums(f"k_ * {p.stride}L + {at}", count)
                        w.line(f"const tw::vec<{p.held}, {p.lanes}> more = {more};")
                        merge = self.values.at(places, name, {"l0": "total", "r0": "more"})
                        w.line(f"total = {merge.vector_text(s.monoid.combine[0])};")
                printer = self.values.at(places, name, {"l0": "total"}, count)
                printer.bind((s.value,), w.line, self.emitter.fresh)
                w.line(write(printer, s.output, (s.where.expr(),), s.value, count))

    # -- a source
    def _source(self, w: Writer, scope: Scope, places: Mapping[str, str], way: int) -> None:
        p, s = self.p, self.p.s
        printer = self.values.at(places)
        landed, checks = dict(places), []
        for n, c in enumerate(s.chosen):
            w.line(f"const long c{n} = {printer.scalar(c.index)};")
            low, high = "0L", f"{c.extent}L"
            if n == 0 and p.ranges > 1:
                low, high = scope.tiles[c.name].start, scope.tiles[c.name].end
            checks.append(f"c{n} >= {low} && c{n} < {high}")
            landed[c.name] = f"c{n}"
        copy = str(way)
        if p.copies > 1:
            lead = scope.at(s.sources[0][0])
            copy = f"({lead} / {_length(p)}L * {p.ways}L + {way})"
        base = self.emitter.fresh("at")
        with w.block(f"if ({' && '.join(checks)})"):
            for a, _ in s.row:
                landed[a] = "0"
            text = _position(s.place, landed)
            w.line(f"{p.held} *const {base} = sums + {copy} * {p.stride}L + {text};")
            if s.row:
                self._row(w, scope, places, base)
            else:
                printer.bind((s.element,), w.line, self.emitter.fresh)
                w.line(f"const {computed(s.element.dtype)} b = {printer.scalar(s.element)};")
                merge = self.values.at(places, None, {"l0": f"(*{base})", "r0": "b"})
                w.line(f"*{base} = {merge.scalar(s.monoid.combine[0])};")

    def _row(self, w: Writer, scope: Scope, places: Mapping[str, str], base: str) -> None:
        """Print the accumulation of a source's elements along its row."""
        p, s = self.p, self.p.s
        name, _ = s.row[0]
        lane = f"tw::vec<{p.held}, {p.lanes}>"

        def block(w: Writer, here: Scope) -> None:
            count = here.tiles[name].partial
            for start in here.tiles[name].vectors(p.lanes):
                with w.block():
                    printer = self.values.at({**places, name: start}, name, {}, count)
                    printer.bind((s.element,), w.line, self.emitter.fresh)
                    w.line(f"const {lane} b = {printer.vector_text(s.element)};")
                    at = f"{base} + {start}"
                    merge = self.values.at({}, name, {"l0": "a", "r0": "b"})
                    w.line(f"const {lane} a = {loaded(lane, at, count)};")
                    w.line(stored(at, s.element.dtype, merge.vector_text(s.monoid.combine[0]), count))

        walk = [x for x in self.sources.around if x.axis == name and x.kind == "serial"]
        self.emitter.nest(w, self.sources, block, loops=walk, scope=scope)

    # -- text
    def _sums(self, at: str, count: str | None) -> str:
        return loaded(f"tw::vec<{self.p.held}, {self.p.lanes}>", f"sums + {at}", count)


def _position(where: Linear, places: Mapping[str, str]) -> str:
    """C text of an affine position. ``places``: C texts of the positions along its axes."""
    terms = [t if c == 1 else f"{t} * {c}L" for a, c in where.axes.items() if (t := places[a]) not in ("0", "0L")]
    return " + ".join([*terms, *([f"{where.const}L"] if where.const else [])]) or "0L"
