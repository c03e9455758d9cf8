"""A whole kernel: the neutral value everywhere, a walk over the sources, and the copies combined into the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilewright.core import Launch, LaunchProgram
from tilewright.dtypes import C_BYTES
from tilewright.kernels.codegen.access import MemoryPrinter, storage, write
from tilewright.kernels.codegen.emitter import Body, Emitter, Scope, plus
from tilewright.kernels.codegen.printer import Memo, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.scatter.nests import FLAT, cleared, length, results, sources
from tilewright.kernels.templates.scatter.space import ScatterTiling


def kernel(p: ScatterTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    emitter, s = Emitter(symbol), p.s
    emitter.tensors({x.name: storage(x.dtype) for x in (*s.program.inputs, s.program.output)})
    emitter.local(f"{p.held} *", "sums", f"({p.held} *){'workspace' if p.kept else s.output.name}")
    emitter.arguments(("piece",))
    text = _Text(p, emitter)
    text.fill()
    text.walk()
    if p.kept:
        text.combine()
    size = p.kept * p.stride * C_BYTES[p.held]
    return LoweredKernel(symbol, emitter.unit(), LaunchProgram((Launch(symbol, ("piece",)),), workspace=size))


@dataclass
class _Text:
    """Prints what stands inside of the loops."""

    p: ScatterTiling
    emitter: Emitter
    memo: Memo = field(default_factory=Memo)

    def fill(self) -> None:
        """The neutral value in all copies, or in the result."""
        self._nest(cleared(self.p), self._clear, FLAT, (4 * self.p.lanes, self.p.lanes))

    def walk(self) -> None:
        """All sources: loops along a row, and those over a range's elements, belong to a source."""
        p, every = self.p, sources(self.p)
        inside = {a for a, _ in p.s.row} | ({p.s.chosen[0].name} if p.ranges > 1 else set())
        loops = tuple(x for x in every.loops if x.kind == "dealt" or x.axis not in inside)
        self._nest(replace(every, loops=loops), self._land, p.s.sources[-1][0], (p.ways, 1))

    def combine(self) -> None:
        """All copies, in order, and what follows them."""
        p = self.p
        self._nest(results(p), self._results, p.s.after[-1][0], (p.lanes * p.vectors, p.lanes))

    def _nest(self, nest: LoopNest, body: Body, blocked: str, sizes: tuple[int, ...]) -> None:
        loops = tuple(x for x in nest.loops if x.kind not in ("unroll", "vector"))
        self.emitter.nest(
            self.emitter.entry, nest, body, loops=loops, blocks={blocked: tuple(dict.fromkeys(sizes))},
            tasks=f"{self.p.target.threads}L",
        )  # fmt: skip

    # -- inside of the walks
    def _clear(self, w: Writer, scope: Scope) -> None:
        """The neutral value in a block of elements."""
        tile = scope.tiles[FLAT]
        printer = self._printer({}, None, {})
        value = printer.scalar(self.p.s.monoid.identity[0])
        vec = f"tw::vec<{self.p.held}, {self.p.lanes}>"
        for v in range(max(1, tile.size // self.p.lanes)):
            at = f"sums + {plus(tile.start, v * self.p.lanes)}"
            if tile.whole:
                w.line(f"tw::store({at}, tw::splat<{vec}>({value}));")
            else:
                w.line(f"tw::store_n({at}, tw::splat<{vec}>({value}), {tile.count});")

    def _land(self, w: Writer, scope: Scope) -> None:
        """A source, or one for each of the ways."""
        p, s = self.p, self.p.s
        last = s.sources[-1][0]
        for k in range(scope.tiles[last].size if p.ways > 1 else 1):
            with w.block():
                places = {a: scope.at(a) for a in s.extents}
                places[last] = plus(places[last], k)
                self._source(w, scope, places, k)

    def _results(self, w: Writer, scope: Scope) -> None:
        """All copies of a block of elements, in order, and what follows them."""
        p, s = self.p, self.p.s
        name = s.after[-1][0]
        tile = scope.tiles[name]
        count = None if tile.whole else tile.count
        for v in range(max(1, tile.size // p.lanes)):
            with w.block():
                places = {a: scope.at(a) for a, _ in s.after}
                places[name] = plus(places[name], v * p.lanes)
                at = _position(s.where, places)
                w.line(f"tw::vec<{p.held}, {p.lanes}> total = {self._sums(at, count)};")
                if p.kept > 1:
                    with w.block(f"for (long k_ = 1; k_ < {p.kept}; k_++)"):
                        more = self._sums(f"k_ * {p.stride}L + {at}", count)
                        w.line(f"const tw::vec<{p.held}, {p.lanes}> more = {more};")
                        merge = self._printer(places, name, {"l0": "total", "r0": "more"})
                        w.line(f"total = {merge.vector_text(s.monoid.combine[0])};")
                printer = self._printer(places, name, {"l0": "total"}, count)
                printer.bind((s.value,), w.line, self.emitter.fresh)
                w.line(write(printer, s.output, (s.where.expr(),), s.value, count))

    # -- a source
    def _source(self, w: Writer, scope: Scope, places: Mapping[str, str], way: int) -> None:
        p, s = self.p, self.p.s
        printer = self._printer(places, None, {})
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
            copy = f"({lead} / {length(p)}L * {p.ways}L + {way})"
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
                merge = self._printer(places, None, {"l0": f"(*{base})", "r0": "b"})
                w.line(f"*{base} = {merge.scalar(s.monoid.combine[0])};")

    def _row(self, w: Writer, scope: Scope, places: Mapping[str, str], base: str) -> None:
        """The elements of a source along its row."""
        p, s = self.p, self.p.s
        name, _ = s.row[0]
        lane = f"tw::vec<{p.held}, {p.lanes}>"

        def vectors(w: Writer, here: Scope) -> None:
            tile = here.tiles[name]
            count = None if tile.whole else tile.count
            for v in range(max(1, tile.size // p.lanes)):
                with w.block():
                    start = plus(tile.start, v * p.lanes)
                    printer = self._printer({**places, name: start}, name, {}, count)
                    printer.bind((s.element,), w.line, self.emitter.fresh)
                    w.line(f"const {lane} b = {printer.vector_text(s.element)};")
                    at = f"{base} + {start}"
                    loaded = f"tw::load<{lane}>({at})" if count is None else f"tw::load_n<{lane}>({at}, {count})"
                    merge = self._printer({}, name, {"l0": "a", "r0": "b"})
                    w.line(f"const {lane} a = {loaded};")
                    text = merge.vector_text(s.monoid.combine[0])
                    w.line(f"tw::store({at}, {text});" if count is None else f"tw::store_n({at}, {text}, {count});")

        walk = [x for x in sources(p).loops if x.axis == name and x.kind == "serial"]
        blocks = {name: tuple(dict.fromkeys((p.lanes * p.vectors, p.lanes)))}
        self.emitter.nest(w, sources(p), vectors, loops=walk, blocks=blocks, scope=scope)

    # -- text
    def _sums(self, at: str, count: str | None) -> str:
        vec = f"tw::vec<{self.p.held}, {self.p.lanes}>"
        return f"tw::load<{vec}>(sums + {at})" if count is None else f"tw::load_n<{vec}>(sums + {at}, {count})"

    def _printer(
        self, places: Mapping[str, str], vector: str | None, var: Mapping[str, str], count: str | None = None
    ) -> MemoryPrinter:
        p, s = self.p, self.p.s
        varying = frozenset(var) if vector is not None else frozenset()
        ranges = {a: (0, n - 1) for a, n in (*s.extents.items(), *s.after)}
        return MemoryPrinter(
            axis=places, var=dict(var), lanes=p.lanes if vector else None, vector=vector, varying=varying,
            ranges=ranges, memo=self.memo, tensors=s.tensors, count=count if vector else None,
        )  # fmt: skip


def _position(where: Linear, places: Mapping[str, str]) -> str:
    """C text of a position, given the texts of the axes."""
    terms = [t if c == 1 else f"{t} * {c}L" for a, c in where.axes.items() if (t := places[a]) not in ("0", "0L")]
    return " + ".join([*terms, *([f"{where.const}L"] if where.const else [])]) or "0L"
