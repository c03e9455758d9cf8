"""Features of a schedule, computed from its loop nests: work, memory traffic, reuse, loop shape.

Two questions give all features: how many distinct elements an access touches in one execution of a loop's inside (from
index expressions and tile sizes), and how often that inside runs. Traffic into a cache is counted at the outermost loop
whose inside fits. It counts once per trip of the enclosing loops, but not again for trips that leave an access where it
was. Data that fits a cache as a whole is assumed to reside there (warm). Feature names do not depend on the operator;
:data:`FEATURES` documents them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from tilewright.core import Target
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, const, whole
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.loopnest import Access, LoopNest
from tilewright.kernels.loopnest.places import LINE, PAGE, Count, Extents, Places, Touched

ASSOCIATIVITY = (12, 16)
"""Associativity: lines per set of L1, and of L2."""
PAGE_CAPACITIES = (16, 64, 1536)
"""Capacities in pages: streams that hardware prefetchers track, entries of the first-level TLB, of the second-level
TLB."""

FEATURES: dict[str, str] = {
    "flops": "arithmetic operations, a multiply-add counted as two",
    "points": "evaluations of all bodies, one element each",
    "loads": "elements read by the bodies, before any reuse",
    "stores": "elements written",
    "bytes.l1": "bytes between registers and L1, reads kept in registers counted once",
    "bytes.l2": "bytes that miss L1",
    "bytes.l3": "bytes that miss L2",
    "bytes.memory": "bytes that miss the last cache",
    "sets.l2": "bytes that miss L1, where tiles that fall into few of its sets fill it sooner",
    "sets.l3": "bytes that miss L2, where tiles that fall into few of its sets fill it sooner",
    "bytes.compulsory": "bytes of all distinct elements read or written",
    "bytes.staged": "bytes copied to staged tiles",
    "moves.staged": "approximate number of instructions that copy to staged tiles",
    "pages.streams": "page visits that miss a prefetcher of 16 streams",
    "pages.first": "page visits that miss the first-level TLB",
    "pages.second": "page visits that miss the second-level TLB",
    "reads.block": "reads of vectors and of single elements by register blocks, over all nests",
    "reads.split": "reads of vectors that straddle two cache lines",
    "bytes.intermediate": "bytes of results that a later nest reads back",
    "reuse.registers": "body reads and writes, in bytes, per byte between registers and L1",
    "reuse.l1": "bytes at L1 per byte that misses it",
    "reuse.l2": "bytes at L2 per byte that misses it",
    "reuse.l3": "bytes at L3 per byte that misses it",
    "intensity.l1": "flops per byte at L1",
    "intensity.l2": "flops per byte at L2",
    "intensity.l3": "flops per byte at L3",
    "intensity.memory": "flops per byte at memory",
    "nests": "number of loop nests",
    "loops": "loops of the main nest (the one with the most work)",
    "depth.parallel": "parallel loops of the main nest",
    "parallel": "tasks of the parallel loops of the main nest",
    "parallel.share": "mean share of threads at work, over all nests, by work",
    "task.flops": "flops of one task of the main nest",
    "vector.length": "elements of a vector operation, mean over nests by work",
    "vector.share": "share of the work that is vectorised",
    "vector.useful": "share of vector lanes in use, by work",
    "vector.even": "share of vectorised accesses with unit or no step, by count",
    "vector.across": "share of the work whose vectors run along a reduced axis",
    "block.points": "points computed together in registers, main nest",
    "block.outputs": "output elements held in registers, main nest",
    "block.registers": "vector registers that hold outputs, main nest",
    "block.pressure": "registers for outputs and operands per register of the target, main nest",
    "block.useful": "share of the block's points in use, main nest",
    "unroll": "product of unrolled trips, main nest",
    "trips.inner": "trips of the innermost loop around the block, main nest",
    "trips.reduce": "reduced points per output, main nest",
    "iterations": "trips of the innermost loops around blocks, over all nests",
    "iterations.flops": "flops per trip of an innermost loop around a block",
    "overhead": "starts of loops, without the innermost loops",
    "stores.repeated": "times that an output is written in the main nest",
    "work.0": "bytes touched by one block, main nest",
    "work.1": "bytes inside the innermost loop",
    "work.2": "bytes inside the second loop from inside",
    "work.3": "bytes inside the third loop from inside",
    "work.4": "bytes inside the fourth loop from inside",
    "work.5": "bytes inside the fifth loop from inside",
    "work.l1": "share of L1 taken by the largest tile inside a loop that fits",
    "work.l2": "share of L2 taken by the largest tile inside a loop that fits",
    "work.l3": "share of L3 taken by the largest tile inside a loop that fits",
    "lines": "share of each cache line that is used, by bytes",
}
"""Every feature's name and meaning. Byte and operation counts are totals over all nests."""

SQUARE = 3
"""Instructions per vector of a square that is transposed in registers."""


def footprint(nests: Sequence[LoopNest], target: Target) -> dict[str, float]:
    """Features of a schedule's nests on a target: keys of :data:`FEATURES`, always in that order."""
    parts = [_Nest(n, target) for n in nests]
    main = max(parts, key=lambda p: (p.flops, p.points))
    work = [max(p.flops, p.points) for p in parts]
    total_work = sum(work)

    def mean(values: Sequence[float]) -> float:
        return sum(v * w for v, w in zip(values, work, strict=True)) / total_work

    flops = sum(p.flops for p in parts)
    loads = stores = body_bytes = 0
    for p in parts:
        for a in p.accesses:
            n = p.outputs * p.repeats if a.access.store else p.outputs if a.access.outside else p.points
            body_bytes += n * a.item
            if a.access.store:
                stores += n
            else:
                loads += n
    caches = (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    missing = [[p.misses(c) for c in caches] for p in parts]
    l1 = sum(p.traffic(p.block, dense=True) for p in parts)
    l2, l3, memory = (sum(m[n][0] for m in missing) for n in range(3))
    distinct: dict[str, int] = {}
    for p in parts:
        for a, sizes in zip(p.unique, p.dense, strict=True):
            distinct[a.access.tensor] = max(distinct.get(a.access.tensor, 0), sizes[0])
    if sum(distinct.values()) > target.l3_bytes:
        memory = max(memory, sum(distinct.values()))
    written = {a.access.tensor for p in parts for a in p.accesses if a.access.store}
    read = {a.access.tensor for p in parts for a in p.accesses if not a.access.store}
    copies = [(p, s, s.depth) for p in parts for s in p.nest.staged]
    staged = sum(s.layout.size * p.nest.itemsize * prod(p.trips[:d]) for p, s, d in copies if d is not None)
    moves = sum(s.layout.size * prod(p.trips[:d]) * s.moves for p, s, d in copies if d is not None)
    touched = sum(p.work[p.block] for p in parts)
    iterations = sum(p.iterations for p in parts)
    inner = [main.work[max(0, main.block - n)] for n in range(6)]
    reduced = prod(main.nest.axes[a] for i, a in enumerate(main.nest.axes) if i in main.reduced)
    fits = missing[parts.index(main)]
    loops = main.nest.loops
    values = (
        flops, sum(p.points for p in parts), loads, stores,
        l1, l2, l3, memory, *(sum(p.conflict_misses(c, n) for p in parts) for n, c in enumerate(caches[:2])),
        sum(distinct.values()), staged, moves,
        *(sum(p.tlb_misses(n) for p in parts) for n in PAGE_CAPACITIES),
        sum(p.reads for p in parts), sum(p.splits for p in parts),
        sum(distinct[t] for t in written & read),
        _ratio(body_bytes, l1, 1.0), _ratio(l1, l2, _far(l1)), _ratio(l2, l3, _far(l2)), _ratio(l3, memory, _far(l3)),
        _ratio(flops, l1), _ratio(flops, l2, _far(flops)), _ratio(flops, l3, _far(flops)),
        _ratio(flops, memory, _far(flops)),
        len(parts), len(loops), sum(x.kind == "parallel" for x in loops),
        main.tasks, mean([p.busy for p in parts]), main.flops / main.tasks,
        mean([p.lanes for p in parts]), mean([float(p.lanes > 1) for p in parts]),
        mean([p.useful for p in parts]), mean([p.even for p in parts]), mean([float(p.across) for p in parts]),
        main.block_points, main.block_outputs, main.block_registers,
        (main.block_registers + main.operands) / target.registers, main.block_useful,
        main._product("unroll"),
        main.trips[main.block - 1] if main.block else 1, reduced,
        iterations, _ratio(flops, iterations), sum(p.overhead for p in parts), main.repeats,
        *inner,
        fits[0][1], fits[1][1], fits[2][1],
        _ratio(sum(d[p.block] for p in parts for d in p.dense), touched, 1.0),
    )  # fmt: skip
    return dict(zip(FEATURES, map(float, values), strict=True))


# --------------------------------------------------------------------------- one nest


class _Nest:
    """Counts of one loop nest."""

    def __init__(self, nest: LoopNest, target: Target) -> None:
        self.nest = nest
        self.target = target
        names = tuple(nest.axes)
        full = tuple(nest.axes.values())
        where = {a: n for n, a in enumerate(names)}
        loops = nest.loops
        depth = len(loops)
        # Extents of each axis inside the first d loops, and the trips of each loop.
        spans = [full]
        self.trips = []
        self.rounds = []  # trips where the last one counts as the fraction that is left
        for x in loops:
            now, at = list(spans[-1]), where[x.axis]
            self.trips.append(-(-now[at] // x.step))
            self.rounds.append(now[at] / min(x.step, now[at]))
            now[at] = min(x.step, now[at])
            spans.append(tuple(now))
        block = depth
        while block and loops[block - 1].kind in ("unroll", "vector"):
            block -= 1
        self.block = block
        self.accesses = [_analyse(a, names) for a in nest.accesses]
        stored = {n for a in self.accesses if a.access.store for n in a.axes}
        self.reduced = [n for n in range(len(full)) if n not in stored]
        self.outputs = prod(full[n] for n in stored)
        self.points = prod(full)
        self.flops = self.points * nest.flops_per_point + self.outputs * nest.flops_per_output
        self.loop_axes = [where[x.axis] for x in loops]
        self.repeats = self._repeats()
        staged = {s.tensor for s in nest.staged}
        # A staged window may be a plain copy, or hold every element once per use (as im2col).
        again = {
            s.tensor for s in nest.staged for a in self.accesses
            if a.access.tensor == s.tensor and s.layout.size >= _points(a, spans[s.depth or 0])
        }  # fmt: skip
        unique = {(a.access.tensor, *map(id, a.access.indices), a.access.store): a for a in self.accesses}
        self.unique = list(unique.values())
        self.packed = [a.access.tensor in staged for a in self.unique]
        self.places = [a.places(full) for a in self.unique]
        caches = (target.l1_bytes, target.l2_bytes)
        sets = [max(1, c // LINE // ways) for c, ways in zip(caches, ASSOCIATIVITY, strict=True)]
        self.dense: list[list[int]] = []
        touched: list[list[Touched]] = []
        for a, packed, place in zip(self.unique, self.packed, self.places, strict=True):
            pairs = [a.bytes(t) for t in spans[: block + 1]]
            self.dense.append([p[0] for p in pairs])
            if packed:
                copied = [_points(a, t) * a.item for t in spans] if a.access.tensor in again else self.dense[-1]
                touched.append([Touched(b, 1 + b // PAGE, (b, b)) for b in copied[: block + 1]])
            else:
                touched.append([place.touched(t, sets, p[1]) for t, p in zip(spans, pairs, strict=False)])
        self.sizes = [[x.lines for x in found] for found in touched]
        self.pages = [[x.pages for x in found] for found in touched]
        self.work = [sum(s[d] for s in self.sizes) for d in range(block + 1)]
        self.held = [[sum(found[d].held[n] for found in touched) for d in range(block + 1)] for n in range(len(sets))]
        self.spans = spans
        self._shape()

    def _repeats(self) -> int:
        """How often an output is written: trips of the reduce loops outside the innermost loop over outputs."""
        last = max((d for d in range(self.block) if self.loop_axes[d] not in self.reduced), default=-1)
        return prod(self.trips[d] for d in range(last) if self.loop_axes[d] in self.reduced)

    def _product(self, kind: str) -> int:
        """Product of the trips of all loops of a kind."""
        return prod(t for t, x in zip(self.trips, self.nest.loops, strict=True) if x.kind == kind)

    def traffic(self, depth: int, dense: bool = False, pages: bool = False, shared: bool = True) -> float:
        """Bytes moved if the data inside the first ``depth`` loops stays resident.

        ``dense`` counts elements instead of cache lines and assumes no reuse between trips (registers). With
        ``shared``, a cache keeps the data that consecutive trips of the enclosing loop have in common.
        """
        total = 0.0
        counted: Sequence[Sequence[float]] = self.dense if dense else self.pages if pages else self.sizes
        for a, sizes in zip(self.unique, counted, strict=True):
            d, runs = depth, 1.0
            while d and self.loop_axes[d - 1] not in a.axes:
                d -= 1
            if d and not dense and shared:
                d -= 1
            once = a.access.store or a.access.outside
            for n in range(d):
                if not once or self.loop_axes[n] not in self.reduced:
                    runs *= self.rounds[n]
            if a.access.store and self.repeats > 1:
                runs *= 2 * self.repeats - 1  # read back in every round but the first
            total += sizes[d] * runs
        return total

    def misses(self, capacity: int) -> tuple[float, float]:
        """Bytes that miss a cache of this size, and the fraction of it that the largest fitting tile takes."""
        for d in range(self.block + 1):
            if self.work[d] <= capacity:
                return (0 if d == 0 else self.traffic(d)), self.work[d] / capacity
        return self.traffic(self.block), 1.0

    def conflict_misses(self, capacity: int, level: int) -> float:
        """Bytes that miss a cache, as :meth:`misses`, but tiles that fall into few sets fill the cache sooner."""
        for d in range(self.block + 1):
            if self.held[level][d] <= capacity:
                return 0 if d == 0 else self.traffic(d)
        return self.traffic(self.block, shared=False)

    def tlb_misses(self, entries: int) -> float:
        """Page visits whose address translation misses a table of ``entries`` pages."""
        for d in range(self.block + 1):
            if sum(p[d] for p in self.pages) <= entries:
                return 0 if d == 0 else self.traffic(d, pages=True)
        return self.traffic(self.block, pages=True)

    def _shape(self) -> None:
        nest, target, block = self.nest, self.target, self.block
        loops = nest.loops
        vector = [x for x in loops if x.kind == "vector"]
        self.lanes = self._product("vector")
        self.across = any(self.loop_axes[d] in self.reduced for d, x in enumerate(loops) if x.kind == "vector")
        useful, even, counted, v = 1.0, 0, 0, -1
        if vector:
            n = nest.axes[vector[0].axis]
            useful = n / (-(-n // self.lanes) * self.lanes)
            v = list(nest.axes).index(vector[0].axis)
            steps = [a.step(v) for a in self.accesses]
            even, counted = sum(s in (0, 1) for s in steps), len(steps)
        self.useful, self.even = useful, even / counted if counted else 1.0
        inside = self.spans[block]
        self.block_points = prod(inside)
        full_blocks = prod(-(-n // t) * t for n, t in zip(nest.axes.values(), inside, strict=True))
        self.block_useful = self.points / full_blocks
        outputs = prod(t for n, t in enumerate(inside) if n not in self.reduced)
        self.block_outputs = outputs * (inside[v] if self.across else 1)
        per = max(1, self.lanes)
        self.block_registers = -(-self.block_outputs // per)
        # Operands of one reduction step: the next step's operands may take the same registers.
        one = tuple([
            (self.lanes if vector and n == v else 1) if n in self.reduced else t for n, t in enumerate(inside)
        ])  # fmt: skip
        reading = [a for a in self.unique if not a.access.store]
        self.operands = sum(-(-a.elements(one) // per) for a in reading)
        steps_inside = max(1, self.block_points // max(1, prod(one)))
        blocks = prod(-(-n // t) for n, t in zip(nest.axes.values(), inside, strict=True))
        self.reads = self.splits = 0.0
        for a, packed, place in zip(self.unique, self.packed, self.places, strict=True):
            if a.access.store or a.access.outside:
                continue
            along = bool(vector) and v in a.axes
            ops = -(-a.elements(one) // per) if along else a.elements(one)
            if along and not packed and a.step(v) > 1:
                # A square tile is transposed in registers, if the block contains one.
                square = any(n != v and t >= per and a.step(n) == 1 for n, t in enumerate(inside) if n in a.axes)
                ops = ops * SQUARE if square else a.elements(one)
            self.reads += ops * (1.0 + a.access.moves) * steps_inside * blocks
            if along and not packed and place.crossing(v, per):
                self.splits += ops * steps_inside * blocks
        self.tasks = self._product("parallel")
        t = target.threads
        self.busy = self.tasks / (-(-self.tasks // t) * t) if t > 1 else 1.0
        self.iterations = prod(-(-n // t) for n, t in zip(nest.axes.values(), inside, strict=True))
        self.overhead = sum(prod(self.trips[:d]) for d in range(1, block))


def _points(a: _Indexed, t: Extents) -> int:
    """Number of element accesses of a tile, repeated elements included."""
    return prod([t[n] for n in a.order])


# --------------------------------------------------------------------------- one access


@dataclass(frozen=True, eq=False)
class _Indexed:
    """An access with functions that count what its indices touch."""

    access: Access
    counts: tuple[Count, ...]
    last_runs: Callable[[Extents], tuple[int, int]]  # of the last index: number of separate runs, and a run's span
    axes: frozenset[int]
    order: tuple[int, ...]  # ``axes``, sorted
    steps: tuple[dict[int, int] | None, ...]  # per dimension: axis -> coefficient; None if not affine
    item: int
    known: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    placed: dict[tuple[int, ...], Places] = field(default_factory=dict)

    def elements(self, t: Extents) -> int:
        """Distinct elements touched by tiles of these extents."""
        return self.bytes(t)[0] // self.item

    def bytes(self, t: Extents) -> tuple[int, int]:
        """Bytes of the distinct elements touched by tiles of these extents, and bytes of their cache lines."""
        key = tuple([t[n] for n in self.order])
        found = self.known.get(key)
        if found is None:
            if len(self.known) > 1 << 14:
                self.known.clear()
            found = self.known[key] = self._bytes(t)
        return found

    def _bytes(self, t: Extents) -> tuple[int, int]:
        points = prod([t[n] for n in self.order])
        touched, run = 1, 1
        for count in self.counts:
            _, run = count(t)
            touched *= run
        n = min(points, touched)
        if n == 1:
            return self.item, LINE
        runs, length = self.last_runs(t)
        lines = min(run, runs * -(-(length + 1) * self.item // LINE))
        return n * self.item, max(1, n // run) * lines * LINE

    def places(self, full: Extents) -> Places:
        """Placement of the access in an array that is just large enough for the nest."""
        key = tuple([full[n] for n in self.order])
        if key not in self.placed:
            self.placed[key] = Places(self.item, self.counts, self.steps, self.order, full)
        return self.placed[key]

    def step(self, axis: int) -> int:
        """Elements per step of an axis if it moves only the last index; -1 otherwise."""
        if axis not in self.axes:
            return 0
        for steps in self.steps[:-1]:
            if steps is None or axis in steps:
                return -1
        last = self.steps[-1]
        return -1 if last is None else abs(last.get(axis, 0))


_COMPILED: dict[tuple[object, ...], tuple[tuple[Expr, ...], _Indexed]] = {}


def _analyse(access: Access, names: tuple[str, ...]) -> _Indexed:
    # Templates give the same nodes for every schedule of a program, so identity is the key. The nodes are kept alive,
    # because their ids could be reused otherwise.
    key = (names, access.tensor, access.dtype, access.store, access.outside, access.moves, *map(id, access.indices))
    found = _COMPILED.get(key)
    if found is None:
        if len(_COMPILED) > 4096:
            _COMPILED.clear()
        where = {a: n for n, a in enumerate(names)}
        axes = frozenset(where[a] for e in access.indices for a in e.axes() if a in where)
        counts = [_count(e, where) for e in access.indices]
        made = _Indexed(
            access,
            tuple(counts),
            _last_runs(access.indices[-1] if access.indices else const(0, "index"), where, ITEMSIZE[access.dtype]),
            axes,
            tuple(sorted(axes)),
            tuple(_affine(e, where) for e in access.indices),
            ITEMSIZE[access.dtype],
        )
        found = _COMPILED[key] = (access.indices, made)
    return found[1]


def _affine(e: Expr, where: dict[str, int]) -> dict[int, int] | None:
    """Coefficients of an affine index by axis number; ``None`` if the index is not affine."""
    form = linearise(e)
    return None if form.rest else {where[a]: c for a, c in form.coef.items()}


def _last_runs(e: Expr, where: dict[str, int], item: int) -> Callable[[Extents], tuple[int, int]]:
    """A function from tile extents to the number of runs of an index (more than a line apart), and a run's span."""
    affine = _affine(e, where)
    if affine is None:
        count = _count(e, where)
        return lambda t: (1, count(t)[0])
    terms = sorted((abs(c), n) for n, c in affine.items())

    def counted(t: Extents) -> tuple[int, int]:
        runs, span = 1, 0
        for c, n in terms:
            if (c - span) * item <= LINE:
                span += (t[n] - 1) * c
            else:
                runs *= t[n]
        return runs, span

    return counted


def _count(e: Expr, where: dict[str, int]) -> Count:
    """A function from tile extents to an index's span (greatest minus least) and number of distinct values."""
    affine = _affine(e, where)
    if affine is not None:
        terms = [(n, abs(c)) for n, c in affine.items()]
        if not terms:
            return lambda t: (0, 1)
        if len(terms) == 1:
            ((n0, c0),) = terms
            return lambda t: ((t[n0] - 1) * c0, t[n0])

        def several(t: Extents) -> tuple[int, int]:
            span, points = 0, 1
            for n, c in terms:
                span += (t[n] - 1) * c
                points *= t[n]
            return span, min(points, span + 1)

        return several
    parts = [_count(a, where) for a in e.args]
    return _rule(e, parts)


def _rule(e: Expr, parts: list[Count]) -> Count:
    if e.op == "load":
        # The values of an index tensor are not known: at most as many places as it has entries in the tile.
        return lambda t: (1 << 40, prod(p(t)[1] for p in parts))
    if e.op in ("floordiv", "mod"):
        d = whole(e.args[1])
        inner = parts[0]
        if e.op == "floordiv":

            def divided(t: Extents) -> tuple[int, int]:
                span, n = inner(t)
                return span // d, min(n, span // d + 1)

            return divided

        def rest(t: Extents) -> tuple[int, int]:
            span, n = inner(t)
            return min(span, d - 1), min(n, d)

        return rest
    if e.op == "mul":
        inner, other = (parts[0], e.args[1]) if e.args[1].op == "const" else (parts[1], e.args[0])
        c = abs(whole(other)) if other.op == "const" else 1

        def scaled(t: Extents) -> tuple[int, int]:
            span, n = inner(t)
            return span * c, n

        return scaled

    def general(t: Extents) -> tuple[int, int]:
        span, n = 0, 1
        for p in parts:
            s, k = p(t)
            span, n = span + s, n * k
        return span, min(n, span + 1)

    return general


# --------------------------------------------------------------------------- all nests


def _ratio(a: float, b: float, empty: float = 0.0) -> float:
    return a / b if b else empty


def _far(x: float) -> float:
    """Stands for "no traffic at all": the greatest possible reuse."""
    return float(max(x, 1.0))
