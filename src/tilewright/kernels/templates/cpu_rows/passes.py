"""Prints the passes over one row, or over several interleaved rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tilewright.extent import Extent, ctext
from tilewright.kernels.codegen.access import MemoryPrinter, Values, loaded, stored, write
from tilewright.kernels.codegen.accumulators import ACROSS, merged, pairwise
from tilewright.kernels.codegen.emitter import Emitter, Hook, Scope, plus, whole
from tilewright.kernels.codegen.printer import Printer, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.program import Tensor, count_ops
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, SCALAR, RowStage
from tilewright.kernels.kernel import Workspace
from tilewright.kernels.loopnest import Loop, LoopNest
from tilewright.kernels.templates.chains import CHAIN, cut, widened
from tilewright.kernels.templates.cpu_rows import blocks
from tilewright.kernels.templates.cpu_rows.hoist import Hoist, value_text
from tilewright.kernels.templates.cpu_rows.monoids import in_order, lane_types
from tilewright.kernels.templates.cpu_rows.space import NEXT_ROW, REGISTERS, RowTiling
from tilewright.kernels.templates.tiles import ceildiv

LINE = 64
"""Size of a cache line in bytes."""

Bodies = Mapping[str, tuple[Expr, ...]]


@dataclass
class Passes:
    """Prints the passes of one schedule. C names that belong to interleaved row ``q`` end in ``_q``."""

    plan: RowTiling
    emitter: Emitter
    nests: tuple[LoopNest, ...]
    workspace: Workspace
    numbers: Mapping[str, float]
    held: dict[tuple[str, int, str], str] = field(default_factory=dict)  # maps in registers

    def __post_init__(self) -> None:
        p = self.p = self.plan.program
        self.values = Values({t.name: t for t in p.inputs}, p.extents, self.plan.lanes)
        self.in_output = self.plan.in_output
        self.stored = frozenset(self.plan.stored)
        weights = [sum(count_ops(*s.body) for s in self.p.computed(n, self.stored)) for n in range(p.passes)]
        self.busiest = max(range(p.passes), key=lambda n: (weights[n], n))

    def known(self, s: RowStage, n: int) -> bool:
        """Whether a row's scalar is known before pass ``n``."""
        level = self.p.level[s.name]
        return level < n if s.kind == REDUCTION else level <= n

    # ------------------------------------------------------------------ rows

    def before(self, w: Writer, last: int, rows: int, scope: Scope) -> None:
        """Print the passes before pass ``last`` over ``rows`` rows from ``row`` on, and the scalars it reads."""
        self.held.clear()
        self.coordinates(w, rows)
        for n in range(last + 1):
            self.scalars(w, n, rows)
            if n < last:
                hoist, bodies = self.hoisted(n)
                self.declare(w, n, hoist, rows)
                self.over(w, n, rows, hoist, bodies, scope)
                for s in self.p.reductions(n):
                    for q in range(rows):
                        self._finished(w, s, q, self._across(w, s, q))

    def coordinates(self, w: Writer, rows: int) -> None:
        """Declare the positions along the row axes, if there are several."""
        if len(self.p.rows) < 2:
            return
        for q in range(rows):
            step = 1
            for a, n in reversed(self.p.rows):
                at = f"(row + {q})" if q else "row"
                at = at if step == 1 else f"{at} / {ctext(step)}"
                w.line(f"const long {a}_{q} = {at if a == 'i0' else f'{at} % {ctext(n)}'};")
                step *= n

    def scalars(self, w: Writer, n: int, rows: int) -> None:
        """Declare the row scalars that are first known before pass ``n``; store the scalar that is the result."""
        for s in self.p.stages:
            if s.kind == SCALAR and self.p.level[s.name] == n:
                for q in range(rows):
                    printer = self._scalar_printer(q)
                    w.line(f"const {computed(s.dtype)} {s.name}_{q} = {printer.scalar(s.body[0])};")
                    self._store_scalar(w, s, q)

    def _store_scalar(self, w: Writer, s: RowStage, q: int) -> None:
        if s is self.p.result:
            out = Tensor("out", (self.p.height,), s.dtype)
            value = Expr("var", s.dtype, (), s.name)
            w.line(write(self._scalar_printer(q), out, (self.p.place,), value, None))

    def _row_axes(self, q: int) -> dict[str, str]:
        if len(self.p.rows) == 1:
            return {"i0": f"(row + {q})" if q else "row"}
        return {a: f"{a}_{q}" for a in self.p.row_axes}

    def _names(self, q: int) -> dict[str, str]:
        return {s.name: f"{s.name}_{q}" for s in self.p.stages if s.kind != ELEMENT}

    def _scalar_printer(self, q: int, extra: Mapping[str, str] | None = None) -> Printer:
        var = {**self._names(q), **(extra or {})}
        return self.values.at(self._row_axes(q), None, var)

    # ------------------------------------------------------------------ one pass

    def hoisted(self, n: int) -> tuple[Hoist, Bodies]:
        """The bodies that pass ``n`` evaluates, by stage, and the row-invariant values hoisted from them."""
        hoist = Hoist(self.p.moving, self.numbers["inverted"] > 0)
        stages = [s for s in self.p.computed(n, self.stored) if not self.p.known(s.name, n, self.stored)]
        return hoist, {s.name: tuple(hoist.rewrite(e) for e in s.body) for s in stages}

    def declare(self, w: Writer, n: int, hoist: Hoist, rows: int) -> None:
        """Declare the hoisted row-invariant values of pass ``n``."""
        for name, (e, use) in hoist.found.items():
            ctype = computed(e.dtype)
            for q in range(rows):
                text = value_text(self._scalar_printer(q).scalar(e), use, ctype)
                w.line(f"const {ctype} p{n}{name}_{q} = {text};")

    def over(self, w: Writer, n: int, rows: int, hoist: Hoist, bodies: Bodies, scope: Scope) -> None:
        """Print pass ``n`` over all columns, or over the scope's tile of the innermost axis."""
        plan = self.plan
        names = [{name: f"p{n}{name}_{q}" for name in hoist.found} for q in range(rows)]
        loops, around = self._loops(n)
        long = [s for s in self.p.reductions(n) if around is not None and self._widened(s)]
        for s in self.p.reductions(n):
            if s in long:
                for q in range(rows):
                    w.line(f"{self.vec('double')} {s.name}t_{q} = {{}};")
            else:
                self._start(w, [s], rows)
        point = _Point(self, n, self.p.computed(n, self.stored), bodies, names, rows)
        every = self.nests[n]
        if plan.keep == REGISTERS:
            self.emitter.nest(w, every, point.held, loops=(), scope=scope)
            return
        length = scope.tiles.get(self.p.inner, whole(self.p.run)).known
        sizes: tuple[int, ...] = (plan.lanes * plan.vectors, plan.lanes)
        if plan.symbolic:
            # Block sizes halve down to one vector, so that a row's rest is not a long loop over single vectors.
            sizes = tuple(plan.lanes * v for v in sorted(plan.sizes, reverse=True))
        elif length is not None and point.moments:
            # One block for the rest: a chain of dependent blocks of one vector each would be slow.
            sizes = (sizes[0], length % sizes[0] // plan.lanes * plan.lanes)
        printed = {self.p.inner: tuple(dict.fromkeys(x for x in sizes if x))}
        before: dict[int, Hook] = {}
        after: dict[int, Hook] = {}
        if around is not None and long:
            before[around] = lambda w, _: self._start(w, long, rows)
            after[around] = lambda w, _: self._add_blocks(w, long, rows)
        self.emitter.nest(w, every, point.vectors, loops=loops, blocks=printed, scope=scope, before=before, after=after)

    def _loops(self, n: int) -> tuple[tuple[Loop, ...], int | None]:
        """The loops over columns of pass ``n``, and the number of loops around one block of a long sum, or ``None``."""
        columns = [Loop(a, extent, 1) for a, extent in self.p.columns[:-1]]
        walk = [x for x in self.nests[n].loops if x.axis == self.p.inner and x.level == "register"][:1]
        held = self.plan.keep == REGISTERS or not any(self._widened(s) for s in self.p.reductions(n))
        return cut([*columns, *walk], None if held else CHAIN)

    def _wide(self, s: RowStage) -> str:
        """C type of the lanes that sum a row's moments: ``double`` for long rows."""
        lane = self.types(s)[0]
        trips = prod(x.trips for x in self._loops(self.p.level[s.name])[0])
        return "double" if trips > 2 * CHAIN and self.plan.keep != REGISTERS else lane

    def _widened(self, s: RowStage) -> bool:
        """Whether a reduction that is summed in blocks keeps its total in float64."""
        return s.monoid is not None and s.name not in self.p.moments and widened(s.monoid)

    def _add_blocks(self, w: Writer, long: list[RowStage], rows: int) -> None:
        """Print the addition of a block of each long sum to the sum's total."""
        for s in long:
            for q in range(rows):
                block = pairwise([f"{s.name}a0_{q}_{v}" for v in range(self.plan.vectors)])
                w.line(f"{s.name}t_{q} += tw::convert<{self.vec('double')}>({block});")

    # ------------------------------------------------------------------ reductions

    def types(self, s: RowStage) -> tuple[str, ...]:
        """C types of the lanes of a reduction's accumulators."""
        return lane_types(s.reduction)

    def vec(self, lane: str) -> str:
        return f"tw::vec<{lane}, {self.plan.lanes}>"

    def _start(self, w: Writer, stages: list[RowStage], rows: int) -> None:
        """Declare the accumulators of reductions."""
        for s, q in product(stages, range(rows)):
            if s.name in self.p.moments:
                lane = self.types(s)[0]
                blocks.start(w, s, q, lane, self.vec(lane), self.vec(self._wide(s)))
                continue
            for v in range(self.plan.vectors):
                for c, (t, e) in enumerate(zip(self.types(s), s.reduction.identity, strict=True)):
                    w.line(f"{self.vec(t)} {s.name}a{c}_{q}_{v} = {_identity(self.vec(t), e)};")

    def merges(self) -> str:
        """C++ functions that merge two vectors of partial results, or accumulate a vector of elements or a block."""
        w = Writer()
        if self.p.moments:
            w.lines += blocks.functions(self.plan.sizes)
        for s in self.p.stages:
            if s.monoid is None or simple_operator(s.monoid) is not None or not self.p.accumulates(s):
                continue
            if s.name in self.p.moments and self.plan.pieces == 1:
                continue
            self._function(w, s, "merge", s.monoid.combine)
            self._function(w, s, "take", in_order(s.monoid, s.body, self.p.columns))
        return w.text() if w.lines else ""

    def _function(self, w: Writer, s: RowStage, name: str, combine: tuple[Expr, ...]) -> None:
        types = self.types(s)
        left = ", ".join(f"tw::vec<{t}, L> &a{c}" for c, t in enumerate(types))
        right = ", ".join(f"tw::vec<{t}, L> b{c}" for c, t in enumerate(types))
        names = {f"l{c}": f"a{c}" for c in range(len(types))} | {f"r{c}": f"b{c}" for c in range(len(types))}
        printer = Printer({}, var=names, lanes="L", vector="", varying=frozenset(names), ranges=self.values.ranges)
        with w.block(f"template <int L> TW_INLINE void {name}_{s.name}({left}, {right})"):
            printer.bind(combine, w.line, self.emitter.fresh)
            for c, (t, e) in enumerate(zip(types, combine, strict=True)):
                w.line(f"const tw::vec<{t}, L> n{c} = {printer.held(e)};")
            w.line(" ".join(f"a{c} = n{c};" for c in range(len(types))))

    def _merge(self, s: RowStage, into: list[str], other: list[str], lanes: int, how: str = "merge") -> str:
        """C statement that merges partial results ``other`` into ``into``.

        ``how``: ``merge``, or ``take`` where ``other`` is a vector of elements in the order of the columns.
        """
        operator = simple_operator(s.monoid)
        if operator is None:
            return f"{how}_{s.name}<{lanes}>({', '.join((*into, *other))});"
        a, b = into[0], other[0]
        if operator in ("max", "min"):
            return f"{a} = {merged(operator, b, a)};"  # keeps the test for NaN off the chain of dependent operations
        return f"{a} = {merged(operator, a, b)[1:-1]};"

    def _across(self, w: Writer, s: RowStage, q: int) -> list[str]:
        """Merge a row's accumulators and their lanes; returns C texts of the row's partial result, by component."""
        types, lanes = self.types(s), self.plan.lanes
        if self._widened(s) and self._loops(self.p.level[s.name])[1] is not None:
            return [f"(float)tw::hsum({s.name}t_{q})"]
        if s.name in self.p.moments:
            wide = self._wide(s)
            return blocks.across(
                w, s, q, (types[0], wide), (self.vec(types[0]), self.vec(wide)), lanes, self.plan.tails
            )
        parts = [[f"{s.name}a{c}_{q}_{v}" for c in range(len(types))] for v in range(self.plan.vectors)]
        while len(parts) > 1:
            half = len(parts) // 2
            for a, b in zip(parts[:half], parts[half:], strict=True):
                w.line(self._merge(s, a, b, lanes))
            parts = parts[:half]
        operator = simple_operator(s.monoid)
        if operator is not None:
            return [f"{ACROSS[operator]}({parts[0][0]})"]
        now = parts[0]
        while lanes > 1:
            lanes //= 2
            low = [self.emitter.fresh("m") for _ in types]
            for t, name, x in zip(types, low, now, strict=True):
                w.line(f"tw::vec<{t}, {lanes}> {name} = tw::low({x});")
            w.line(self._merge(s, low, [f"tw::high({x})" for x in now], lanes))
            now = low
        return [f"{x}[0]" for x in now]

    def _finished(self, w: Writer, s: RowStage, q: int, results: list[str]) -> None:
        """Declare the values of all reductions that are finished from the partial results of ``s``."""
        for own in self.p.stages:
            if own is s or self.p.moments.get(own.name) == s.name:
                self._value(w, own, q, results)

    def _value(self, w: Writer, s: RowStage, q: int, results: list[str]) -> None:
        names = {}
        for c, (text, e) in enumerate(zip(results, s.reduction.identity, strict=True)):
            ctype = computed(e.dtype)
            w.line(f"const {ctype} {s.name}f{c}_{q} = {text if ctype != 'bool' else f'({text}) != 0'};")
            names[f"l{c}"] = f"{s.name}f{c}_{q}"
        printer = self._scalar_printer(q, names)
        w.line(f"const {computed(s.dtype)} {s.name}_{q} = {printer.scalar(s.reduction.finish)}; (void){s.name}_{q};")
        self._store_scalar(w, s, q)

    # ------------------------------------------------------------------ pieces of a row

    def _partial(self, s: RowStage, component: int, lane: str) -> str:
        """C text of the array of the partial results of all chunks of a row."""
        return f"(({lane} *)(space + {self.workspace.offset(partial_name(s, component))}))"

    def piece(self, w: Writer, n: int, scope: Scope) -> None:
        """Print pass ``n`` over one chunk of a row, ``begin`` to ``end``; its partial results go to the workspace."""
        self.coordinates(w, 1)
        hoist, bodies = self.hoisted(n)
        self.declare(w, n, hoist, 1)
        self.over(w, n, 1, hoist, bodies, scope)
        for s in self.p.reductions(n):
            for c, (t, text) in enumerate(zip(self.types(s), self._across(w, s, 0), strict=True)):
                w.line(f"{self._partial(s, c, t)}[piece] = {text};")

    def merge_pieces(self, w: Writer, n: int, pieces: int) -> None:
        """Print the merge of the partial results of a row's chunks, in order."""
        for s in self.p.reductions(n):
            types = self.types(s)
            into = [f"{s.name}t{c}" for c in range(len(types))]
            other = [f"{self._partial(s, c, t)}[k]" for c, t in enumerate(types)]
            for t, name, text in zip(types, into, other, strict=True):
                w.line(f"tw::vec<{t}, 1> {name} = {{{text.replace('[k]', '[0]')}}};")
            with w.block(f"for (long k = 1; k < {pieces}; k++)"):
                single = [f"tw::vec<{t}, 1>{{{text}}}" for t, text in zip(types, other, strict=True)]
                w.line(self._merge(s, into, single, 1))
            self._finished(w, s, 0, [f"{name}[0]" for name in into])


@dataclass
class _Point:
    """Prints a pass's work on one vector of elements of each interleaved row."""

    passes: Passes
    number: int
    stages: list[RowStage]
    bodies: Bodies
    hoisted: list[dict[str, str]]
    rows: int
    columns: Mapping[str, str] = field(default_factory=dict)  # positions along the outer column axes
    taken: dict[tuple[str, int], list[str]] = field(default_factory=dict)  # vectors of moments, not yet accumulated

    @property
    def moments(self) -> bool:
        """Whether the pass accumulates moments."""
        return any(s.name in self.passes.p.moments for s in self.stages)

    def held(self, w: Writer, _: Scope) -> None:
        """Print all vectors of a row; maps over elements stay in registers."""
        plan, run = self.passes.plan, self.passes.p.run
        last = ceildiv(int(run), plan.lanes) - 1
        for v in range(last + 1):
            rest = run - v * plan.lanes
            some = rest < plan.lanes or (v == last and isinstance(rest, Extent))
            self.print(w, f"{v * plan.lanes}L", v % plan.vectors, ctext(rest) if some else None)

    def vectors(self, w: Writer, scope: Scope) -> None:
        """Print the vectors of a tile of the innermost axis, or its one partial vector."""
        plan = self.passes.plan
        tile, lanes = scope.tiles[self.passes.p.inner], plan.lanes
        self.columns = {a: scope.at(a) for a in self.passes.p.column_axes[:-1]}
        if not tile.whole:
            self.print(w, tile.start, 0, tile.count)
            self.accumulate(w, blocks.TAIL)
            return
        if tile.size == lanes * plan.vectors:
            self.prefetch(w, tile.start, tile.size)
        count = tile.size // lanes
        # Where the row length is symbolic, each smaller size of block has separate accumulators.
        first = count if plan.symbolic and count < plan.vectors else 0
        for v in range(count):
            self.print(w, plus(tile.start, v * lanes), first + v, None)
        self.accumulate(w, blocks.WHOLE)

    def accumulate(self, w: Writer, part: int) -> None:
        """Accumulate the vectors of moments that were printed since the last call, as one block."""
        for (name, q), vectors in self.taken.items():
            blocks.update(w, self.passes.p.stage[name], q, part, vectors)
        self.taken.clear()

    def print(self, w: Writer, at: str, accumulator: int, count: str | None) -> None:
        """Print the vector at position ``at`` of the innermost axis.

        ``count``: C text of its number of active lanes; ``None``: all lanes are active.
        """
        for q in range(self.rows):
            if self.passes.plan.keep == REGISTERS or self.moments:
                self._row(w, q, at, accumulator, count)
            else:
                with w.block():
                    self._row(w, q, at, accumulator, count)

    def _row(self, w: Writer, q: int, at: str, accumulator: int, count: str | None) -> None:
        passes, p = self.passes, self.passes.p
        axes = {**passes._row_axes(q), **self.columns, p.inner: at}
        names = {**passes._names(q), **self.hoisted[q]}
        printer = MemoryPrinter(
            axes, var=names, lanes=passes.plan.lanes, vector=p.inner, varying=frozenset(p.needed),
            ranges=passes.values.ranges, memo=passes.values.memo, tensors=passes.values.tensors, count=count,
        )  # fmt: skip
        for s in self.stages:
            key = s.name, q, at
            if s is p.final(self.number):
                printer.bind(self.bodies[s.name], w.line, passes.emitter.fresh)
                out = Tensor("out", (p.height * p.width,), s.dtype)
                w.line(write(printer, out, (p.element,), self.bodies[s.name][0], count))
            elif s.kind == REDUCTION:
                self._combine(w, printer, s, q, accumulator, count)
            elif key in passes.held:
                names[s.name] = passes.held[key]
            else:
                names[s.name] = self._map(w, printer, s, q, count)
                if passes.plan.keep == REGISTERS:
                    passes.held[key] = names[s.name]

    def _map(self, w: Writer, printer: Printer, s: RowStage, q: int, count: str | None) -> str:
        """Compute a map over elements, or load it where an earlier pass stored it; returns its C name."""
        passes, p = self.passes, self.passes.p
        name = passes.emitter.fresh("e")
        if s.name in passes.stored:
            where = printer.scalar(p.element if s.name == passes.in_output else p.position)
            base = "out" if s.name == passes.in_output else f"k_{s.name}"
            if q and base != "out":
                where = f"{where} + {q * p.width}L"
            vector = passes.vec(computed(s.dtype))
            if p.known(s.name, self.number, passes.stored):
                w.line(f"const {vector} {name} = {loaded(vector, f'{base} + {where}', count)};")
                return name
        printer.bind(self.bodies[s.name], w.line, passes.emitter.fresh)
        w.line(f"const auto {name} = {printer.text(self.bodies[s.name][0])};")
        if s.name in passes.stored:
            w.line(stored(f"{base} + {where}", s.dtype, name, count))
        return name

    def _combine(self, w: Writer, printer: Printer, s: RowStage, q: int, accumulator: int, count: str | None) -> None:
        passes, body = self.passes, self.bodies[s.name]
        printer.bind(body, w.line, passes.emitter.fresh)
        moments = s.name in passes.p.moments  # only component 1, the element, is computed
        values = []
        for c, (e, t, start) in enumerate(zip(body, passes.types(s), s.reduction.identity, strict=True)):
            if moments and c != 1:
                continue
            vector, text = passes.vec(t), printer.held(e)
            if count is not None:
                rest = f"{vector}{{}}" if moments else _identity(vector, start)
                text = f"tw::select(tw::first<tw::mask<{vector}>>({count}), {text}, {rest})"
            values.append(passes.emitter.let(w, "b", vector, text))
        if moments:
            self.taken.setdefault((s.name, q), []).extend(values)
            return
        into = [f"{s.name}a{c}_{q}_{accumulator}" for c in range(len(body))]
        w.line(passes._merge(s, into, values, passes.plan.lanes, "take"))

    def prefetch(self, w: Writer, at: str, step: int) -> None:
        """Print prefetches: for short rows of the next rows, in the busiest pass; for long rows of later elements."""
        passes, plan, p = self.passes, self.passes.plan, self.passes.p
        ahead = int(passes.numbers["prefetch"])
        if not ahead:
            return
        if not plan.within_row and (self.number != passes.busiest or len(p.rows) != 1):
            return
        wanted = [(str(x.value), x.args[0], ITEMSIZE[x.dtype], 0) for x in p.streams]
        if passes.numbers["prefetch_output"]:
            wanted.append(("out", p.element, ITEMSIZE[p.result.dtype], 1))
        for q in range(self.rows):
            later = {"i0": f"(row + {q + (plan.rows if plan.columns else self.rows)})"}
            row = passes._row_axes(q) if plan.within_row else later
            for base, index, size, writes in wanted:
                near = 3 if plan.within_row or p.width * size <= NEXT_ROW // 4 else 2
                further = ahead // size if plan.within_row else 0
                for k in range(0, step, max(1, LINE // size)):
                    axes = {**row, **self.columns, p.inner: plus(at, k + further)}
                    text = Printer(axes, ranges=passes.values.ranges).scalar(index)
                    w.line(f"__builtin_prefetch({base} + {text}, {writes}, {near});")


def partial_name(s: RowStage, component: int) -> str:
    """Name of the workspace array that holds one component of a reduction's partial results of all chunks."""
    return f"part_{s.name}_{component}"


def _identity(vector: str, e: Expr) -> str:
    text = Printer({}).scalar(e)
    return f"tw::splat<{vector}>({f'{text} ? -1 : 0' if e.dtype == 'bool' else text})"
