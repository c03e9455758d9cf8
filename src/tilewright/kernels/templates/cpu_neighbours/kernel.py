"""The kernel of a fused stencil chain: for each tile of the result, row by row, the regions of all stages it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tilewright.core import cached_property
from tilewright.kernels.codegen.access import Values, storage, write
from tilewright.kernels.codegen.emitter import Emitter, Scope, Tile
from tilewright.kernels.codegen.printer import Memo, Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.bounds import Interval
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis, load
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.neighbours import Link, edge
from tilewright.kernels.kernel import Array, CpuStatic, Kernel, Opaque, Workspace, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided, reads, vectors
from tilewright.kernels.templates.cpu_neighbours.interior import Interior, interior
from tilewright.kernels.templates.cpu_neighbours.regions import LINE
from tilewright.kernels.templates.cpu_neighbours.space import ChainTiling


def kernel(p: ChainTiling) -> Kernel:
    """The kernel of a schedule: the loops over tiles of the result, with a nest for each stage of the chain inside."""
    scratch = (p.regions.of[x.name].scratch for x in reversed(p.n.links[:-1]))
    arrays = (Array(x.name, storage(x.dtype), x.size, p.target.threads) for x in scratch)
    return Kernel(
        text=Opaque(tuple(_nest(p, link) for link in p.n.links), partial(_text, p)),
        static=CpuStatic(fused=len(p.tile)),
        launches=entry(p.n.program, tasks=p.target.threads > 1),
        workspace=Workspace(tuple(arrays), align=1),
    )


def _text(p: ChainTiling, kernel: Kernel, symbol: str) -> str:
    emitter, program = Emitter(symbol), p.n.program
    emitter.tensors({x.name: storage(x.dtype) for x in (*program.inputs, program.output)})
    emitter.local("char *", "scratch", "(char *)workspace")
    emitter.arguments(kernel.arguments)
    text = _Text(p, emitter, kernel.workspace)
    emitter.nest(emitter.entry, _boxes(p), text.box, tasks=kernel.tasks)
    return emitter.unit()


def _boxes(p: ChainTiling) -> LoopNest:
    """The loops over tiles of the result."""
    link = p.n.result
    loops = tuple(Loop(a, n, t, "chunked", "l2") for a, n, t in zip(link.axes, link.extents, p.tile, strict=True))
    return LoopNest(link.name, dict(zip(link.axes, link.extents, strict=True)), loops, ())


def _nest(p: ChainTiling, link: Link) -> LoopNest:
    region = p.regions.of[link.name]
    sizes = dict(zip(link.axes, region.totals, strict=True))
    spans = dict(zip(link.axes, region.widths, strict=True))
    *outer, inner = link.axes
    loops = [Loop(a, sizes[a], spans[a], "chunked", "l2") for a in link.axes]
    ring = link.along(p.rolled)
    if ring is not None:
        # One iteration computes the rows of a stage that the next ``rows`` rows of the result need in addition.
        trips = -(-p.tile[link.follows[ring] or 0] // p.rows)
        name = link.axes[ring]
        loops.append(Loop(name, spans[name], -(-spans[name] // trips), level="l1"))
        spans[name] = -(-spans[name] // trips)
    jam = min(p.jam, spans[outer[-1]]) if outer else 1
    loops += [Loop(a, spans[a], jam if a == outer[-1] else 1, level="l1") for a in outer]
    around, *block = vectors(inner, spans[inner], p.lanes, p.vectors)
    loops += [around, *((Loop(outer[-1], jam, 1, "unroll", "register"),) if jam > 1 else ()), *block]
    stored = Access(link.name, tuple(axis(a) for a in link.axes), link.stage.dtype, store=True)
    return LoopNest(
        link.name, sizes, divided(loops, p.tasks), (*reads((link.value,), p.n.program.tensors), stored),
        flops_per_point=link.flops,
        itemsize=ITEMSIZE[link.stage.dtype],
    )  # fmt: skip


@dataclass
class _Text:
    """Prints one kernel."""

    p: ChainTiling
    emitter: Emitter
    workspace: Workspace
    memo: Memo = field(default_factory=Memo)
    values: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        scratch = {x.name: self.p.regions.of[x.name].scratch for x in self.p.n.links[:-1]}
        return {**self.p.n.program.tensors, **scratch}

    def box(self, w: Writer, scope: Scope) -> None:
        """Print all stages of a tile."""
        n, rolled = self.p.n, self.p.rolled
        for link in reversed(n.links):
            for d, (a, o) in enumerate(zip(link.axes, link.follows, strict=True)):
                if rolled is None or o != rolled:
                    self._edges(w, link, d, scope.tiles[a] if link is n.result else None)
        for link in n.links[:-1]:
            self._pointer(w, link, scope)
        if rolled is None:
            for link in n.links:
                self._rows(w, link)
            return
        rolling = [x for x in n.links if rolled in x.follows]
        for link in n.links:
            if link not in rolling:
                self._rows(w, link)
        for link in rolling:
            w.line(f"long {link.name}_next = 0;")
        tile = scope.tiles[n.result.axes[rolled]]
        y = self.emitter.fresh("y")
        with w.block(f"for (long {y} = {tile.start}; {y} < {tile.end}; {y} += {self.p.rows})"):
            part = Tile(y, f"tw::imin({y} + {self.p.rows}, {tile.end})", self.p.rows)
            for link in reversed(rolling):
                self._edges(w, link, link.follows.index(rolled), part)
            for link in rolling:
                self._rows(w, link)

    def _edges(self, w: Writer, link: Link, d: int, part: Tile | None) -> None:
        """Declare the first and last needed position of a stage along its axis ``d``.

        ``part``: the positions of the result, where ``link`` is the result.
        """
        names = [edge(x.name, k, e) for x in self.p.n.links for k in range(len(x.axes)) for e in (False, True)]
        printer = Printer(dict(zip(names, names, strict=True)))
        if link is self.p.n.result and part is not None:
            first, last = part.start, f"{part.end} - 1"
        else:
            first, last = printer.scalar(link.first[d]), printer.scalar(link.last[d])
        w.line(f"const long {edge(link.name, d)} = {first}, {edge(link.name, d, last=True)} = {last};")

    def _pointer(self, w: Writer, link: Link, scope: Scope) -> None:
        """Declare a pointer to the (possibly virtual) address of a stage's position 0 in the scratch buffer."""
        region, ring = self.p.regions.of[link.name], link.along(self.p.rolled)
        ctype, item = storage(link.stage.dtype), ITEMSIZE[link.stage.dtype]
        at = [f"{scope.worker}*{self.workspace.each(link.name)}L + {self.workspace.offset(link.name)}L"]
        for d, (n, s) in enumerate(zip(region.scratch.shape, region.scratch.strides, strict=True)):
            if d != ring and n > 1:
                # The first position is rounded down to a cache line, so that rows keep the alignment of positions.
                line = f" & -{LINE // item}L" if s == 1 else ""
                at.append(f"({edge(link.name, d)}{line})*{s * item}L")
        w.line(f"{ctype} *const {link.name} = ({ctype} *)(scratch + ({' - '.join(at)}));")

    def _rows(self, w: Writer, link: Link) -> None:
        """Print a stage row by row: interior code without conditions on positions, and code for the edges."""
        at: dict[str, str] = {}
        inside = interior(link.value, dict(zip(link.axes, link.extents, strict=True)))
        ring = link.along(self.p.rolled)

        def level(d: int) -> None:
            if d == len(link.axes) - 1:
                self._row(w, link, at, inside)
                return
            a, last = link.axes[d], edge(link.name, d, last=True)
            i = at[a] = self.emitter.fresh("i")
            first = edge(link.name, d)
            if d == ring:
                first = f"tw::imax({first}, {link.name}_next)"
            with w.block():
                w.line(f"long {i} = {first};")
                if d == len(link.axes) - 2 and self.p.jam > 1:
                    self._jammed(w, link, at, inside)
                with w.block(f"for (; {i} <= {last}; {i}++)"):
                    level(d + 1)

        with w.block():
            level(0)
        if ring is not None:
            w.line(f"{link.name}_next = {edge(link.name, ring, last=True)} + 1;")

    def _jammed(self, w: Writer, link: Link, at: dict[str, str], inside: Interior) -> None:
        """Print the unroll-and-jam loop: several interior rows at a time, which share reads."""
        a = link.axes[-2]
        i, d, jam = at[a], len(link.axes) - 2, self.p.jam
        places = {x: at[x] for x in link.axes[:-1]}
        conditions = [f"{i} + {jam - 1} <= {edge(link.name, d, last=True)}"]
        if inside.ranges:
            low, high = inside.ranges[a]
            conditions.append(f"{i} >= {low} && {i} + {jam - 1} <= {high}")
            conditions += self._conditions(link, inside, places, link.axes[:-2])
        with w.block(f"for (; {' && '.join(conditions)}; {i} += {jam})"):
            rows = [{**places, a: f"({i} + {k}L)" if k else i} for k in range(jam)]
            self._row(w, link, places, inside, rows)

    def _conditions(self, link: Link, inside: Interior, at: Mapping[str, str], axes: Sequence[str]) -> list[str]:
        """C texts of the conditions under which a row's positions along ``axes`` are interior."""
        extents = dict(zip(link.axes, link.extents, strict=True))
        return [
            f"{at[x]} >= {inside.ranges[x][0]} && {at[x]} <= {inside.ranges[x][1]}"
            for x in axes if inside.ranges[x] != (0, extents[x] - 1)
        ]  # fmt: skip

    def _row(
        self, w: Writer, link: Link, at: Mapping[str, str], inside: Interior,
        jammed: Sequence[Mapping[str, str]] = (),
    ) -> None:  # fmt: skip
        """Print a row (or several jammed interior rows): the interior and the edges along the innermost axis."""
        d = len(link.axes) - 1
        rows = jammed or (at,)
        first, end = edge(link.name, d), f"{edge(link.name, d, last=True)} + 1"
        if not inside.ranges:
            self._vectors(w, link, rows, link.value, first, end)
            return
        low, high = self._aligned(inside.ranges[link.axes[-1]], link.extents[-1])
        a, b = self.emitter.fresh("a"), self.emitter.fresh("b")
        w.line(f"const long {a} = tw::imin(tw::imax({first}, {low}), {end});")
        w.line(f"const long {b} = tw::imax({a}, tw::imin({end}, {high + 1}));")
        if low > 0:
            self._edge(w, link, rows, first, a)
        conditions = [] if jammed else self._conditions(link, inside, at, link.axes[:-1])
        if conditions:
            with w.block(f"if ({' && '.join(conditions)})"):
                self._vectors(w, link, rows, inside.value, a, b)
            with w.block("else"):
                self._vectors(w, link, rows, inside.along, a, b)
        else:
            self._vectors(w, link, rows, inside.value, a, b)
        if high < link.extents[-1] - 1:
            self._edge(w, link, rows, b, end)

    def _vectors(
        self, w: Writer, link: Link, rows: Sequence[Mapping[str, str]], value: Expr, low: str, high: str
    ) -> None:
        """Print positions ``[low, high)`` of each row in vectors.

        The first and the last vector may overlap others; a range shorter than a vector is masked.
        """
        p, j, lanes = self.p, self.emitter.fresh("j"), self.p.lanes
        with w.block():
            w.line(f"long {j} = {low};")
            w.line(f"const long end_ = {high};")
            with w.block(f"if (end_ - {j} >= {lanes})"):
                with w.block(f"if ({j} & {lanes - 1})"):
                    self._vector(w, link, rows, value, j)
                    w.line(f"{j} = ({j} + {lanes - 1}) & -{lanes}L;")
                for count in dict.fromkeys((p.vectors, 1)):
                    with w.block(f"for (; {j} + {count * lanes} <= end_; {j} += {count * lanes})"):
                        for v in range(count):
                            self._vector(w, link, rows, value, f"({j} + {v * lanes}L)" if v else j)
                with w.block(f"if ({j} < end_)"):
                    w.line(f"{j} = end_ - {lanes};")
                    self._vector(w, link, rows, value, j)
            with w.block(f"else if ({j} < end_)"):
                w.line(f"const long n_ = end_ - {j};")
                self._each(w, link, rows, value, j)

    def _edge(self, w: Writer, link: Link, rows: Sequence[Mapping[str, str]], low: str, high: str) -> None:
        """Print positions ``[low, high)`` of each row at an edge of the innermost axis, with all conditions."""
        j, lanes = self.emitter.fresh("j"), self.p.lanes
        with w.block(f"for (long {j} = {low}; {j} < {high}; {j} += {lanes})"):
            w.line(f"const long n_ = tw::imin({lanes}L, {high} - {j});")
            self._each(w, link, rows, link.value, j)

    def _each(self, w: Writer, link: Link, rows: Sequence[Mapping[str, str]], value: Expr, j: str) -> None:
        """Print a masked vector of each row, of ``n_`` active lanes; several rows are a loop."""
        if len(rows) == 1:
            self._vector(w, link, rows, value, j, "n_")
            return
        a = link.axes[-2]
        i = self.emitter.fresh("i")
        with w.block(f"for (long {i} = {rows[0][a]}; {i} < {rows[0][a]} + {len(rows)}; {i}++)"):
            self._vector(w, link, ({**rows[0], a: i},), value, j, "n_")

    def _aligned(self, inside: Interval, extent: int) -> Interval:
        """Shrink an interior range to aligned full vectors, since an edge costs at least one vector anyway."""
        low, high = inside[0], inside[1] + 1
        low = -(-low // self.p.lanes) * self.p.lanes
        high = high if high == extent else high // self.p.lanes * self.p.lanes
        return (low, high - 1) if low < high else inside

    def _vector(
        self, w: Writer, link: Link, rows: Sequence[Mapping[str, str]], value: Expr, j: str, count: str | None = None
    ) -> None:
        """Print a vector of each row; all are computed before the first store, so that compilers share reads."""
        value, stores = self.wrapped(value), list[str]()
        values = Values(self.tensors, dict(zip(link.axes, link.extents, strict=True)), self.p.lanes, self.memo)
        place = self._place(link, tuple(axis(a) for a in link.axes))
        with w.block():
            for at in rows:
                printer = values.at({**at, link.axes[-1]: j}, link.axes[-1], count=count)
                printer.bind((value,), w.line, self.emitter.fresh)
                if len(rows) > 1:
                    text = printer.vector_text(value) if printer.varies(value) else printer.scalar(value)
                    printer.names[self.memo.numbers.of(value)] = self.emitter.let(w, "v", "auto", text)
                stores.append(write(printer, self.tensors[link.name], place, value, count))
            for store in stores:
                w.line(store)

    def _place(self, link: Link, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Position of a stage's element in its scratch buffer, modulo the ring along the rolled axis."""
        ring = link.along(self.p.rolled) if link is not self.p.n.result else None
        if ring is None:
            return at
        rows = self.p.regions.of[link.name].scratch.shape[ring]
        return (*at[:ring], at[ring] % rows, *at[ring + 1 :])

    @cached_property
    def _links(self) -> dict[str, Link]:
        return {x.name: x for x in self.p.n.links}

    def wrapped(self, value: Expr) -> Expr:
        """A value whose reads of other stages go to their scratch buffers."""
        found = self.values.get(id(value))
        if found is None:
            found = value, value.map(self._moved)
            self.values[id(value)] = found
        return found[1]

    def _moved(self, e: Expr) -> Expr | None:
        link = self._links.get(str(e.value)) if e.op == "load" else None
        return None if link is None else load(link.name, e.dtype, self._place(link, e.args))
