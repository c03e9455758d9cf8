"""One block of a stencil: neighbouring vectors of outputs, their windows read once, reduced in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from tilewright.core import cached_property
from tilewright.extent import ctext
from tilewright.kernels.codegen.access import MemoryPrinter, write
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.codegen.printer import VECTOR_TYPE, Memo, Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.bounds import Interval
from tilewright.kernels.expression.expr import FUNCTIONS, Expr, ValueNumbers, same
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.reduce_window.match import Read
from tilewright.kernels.templates.reduce_window.space import WindowTiling, hoistable

COUNT = "count_"
"""Lanes in use of a vector at an edge that calls know."""


@dataclass(frozen=True)
class Place:
    """Where a block stands, and what it holds.

    ``first``: the C texts (or known numbers) of its first position along its axes and the innermost one. ``outputs``:
    how many it has along each of its axes. ``count``: C text of the lanes in use where not all are, and their number
    where it is known. ``edges``: axes along which the place is known to calls only, and conditions are asked there.
    """

    first: Mapping[str, str | int]
    outputs: Mapping[str, int]
    inside_v: bool
    count: str | None
    lanes: int
    edges: frozenset[str] = frozenset()

    @property
    def steps(self) -> list[dict[str, int]]:
        """Where each output stands in the block."""
        return [dict(zip(self.outputs, k, strict=True)) for k in product(*map(range, self.outputs.values()))]


@dataclass
class Block:
    """Prints blocks of one kernel."""

    p: WindowTiling
    emitter: Emitter
    memo: Memo = field(default_factory=Memo)
    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    ends: dict[str, str] = field(default_factory=dict)  # names of the lanes that end at edges, by C text

    @property
    def vector(self) -> str:
        """C type of an accumulator."""
        return f"tw::vec<{VECTOR_TYPE[self.p.s.accumulator]}, {self.p.lanes}>"

    # -- printers
    def printer(
        self, at: Mapping[str, str], names: Mapping[int, str], var: Mapping[str, str], count: str | None
    ) -> Printer:
        s = self.p.s
        return MemoryPrinter(
            axis=at, var=var, lanes=self.p.lanes, vector=s.inner, varying=frozenset(var),
            ranges=self.intervals, names=dict(names), memo=self.memo,
            tensors=s.tensors, count=count,
        )  # fmt: skip

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Where each axis runs."""
        return {a: (0, n - 1) for a, n in self.p.s.ranges.items()}

    def taps(self) -> Iterator[dict[str, int]]:
        s, names = self.p.s, self.p.unrolled
        for t in product(*(range(s.ranges[a]) for a in names)):
            yield dict(zip(names, t, strict=True))

    # -- what is the same along the block's axes
    def hoisted(self, w: Writer, place: Place) -> tuple[dict[tuple[int, str], str], dict[int, str]]:
        """Read weights and compute what the epilogue needs of them; their names."""
        s = self.p.s
        reads: dict[tuple[int, str], str] = {}
        if self.p.hoist:
            fixed = hoistable(s, self.p.blocked)
            for tap in self.taps():
                for n, r in enumerate(s.reads):
                    if r in fixed:
                        self._load(w, n, tap, {}, place, reads)
        names: dict[int, str] = {}
        at = {a: a for a in s.axes} | {s.inner: str(place.first[s.inner])}
        for e in _invariants(s.value, frozenset(self.p.blocked), self.memo.numbers):
            printer = self.printer(at, names, {}, place.count)
            name = self.emitter.fresh("h")
            w.line(f"const auto {name} = {printer.text(e) if printer.varies(e) else printer.scalar(e)};")
            names[self.memo.numbers.of(e)] = name
        return reads, names

    # -- a read
    def _position(self, r: Read, tap: Mapping[str, int], step: Mapping[str, int], place: Place) -> tuple[str, int]:
        """C text of the part of a position that is not known, and the known rest."""
        known, parts = r.at.const, []
        for a, c in sorted(r.at.axes.items()):
            if a in tap:
                known += c * tap[a]
                continue
            start = place.first.get(a, a)
            known += c * step.get(a, 0)
            if isinstance(start, int):
                known += c * start
            else:
                parts.append(start if c == 1 else f"{start} * {ctext(c)}")
        if r.at.rest:
            printer = self.printer({a: a for a in self.p.s.ranges}, {}, {}, None)
            parts += (f"{printer.scalar(term)} * {ctext(c)}" for term, c in r.at.rest)
        if r.repeat > 1:
            start = place.first[self.p.s.inner]
            if isinstance(start, int):
                known += start // r.repeat
            else:
                parts.append(f"{start} / {r.repeat}")
        return " + ".join(parts), known

    def count(self, w: Writer, place: Place, extent: str) -> None:
        """Declare how many lanes are in use of a vector at an edge that calls know, and how many conditions leave."""
        w.line(f"const long {COUNT} = tw::imin({self.p.lanes}L, {extent} - {place.first[self.p.s.inner]});")
        self.ends = {}
        for r, tap in product(self.p.s.reads, self.taps()):
            high = self._high(r, tap, place)
            if high not in self.ends:
                self.ends[high] = self.emitter.fresh("to")
                w.line(f"const int {self.ends[high]} = (int){high};")

    def _high(self, r: Read, tap: Mapping[str, int], place: Place) -> str:
        """C text of the first lane at such an edge in which a condition from above fails."""
        text, start = COUNT, place.first[self.p.s.inner]
        for g in r.guards:
            c = -g.of(self.p.s.inner)
            if c > 0:
                k = ctext(g.const + c + sum(f * tap[a] for a, f in g.axes.items() if a in tap))
                text = (
                    f"tw::imin({text}, {k} - {start})" if c == 1 else f"tw::imin({text}, ({k} - {start} * {c}L) / {c})"
                )
        return text

    def _lanes(self, r: Read, tap: Mapping[str, int], place: Place) -> tuple[int, int | str]:
        """Lanes ``[low, high)`` in which the conditions along the innermost axis hold; C text where calls know it."""
        low, high = 0, place.lanes
        start = place.first[self.p.s.inner]
        if place.inside_v or (not isinstance(start, int) and self.p.s.inner not in place.edges):
            return low, high
        for g in r.guards:
            c = g.of(self.p.s.inner)
            if c and isinstance(start, int) and (c > 0 or self.p.s.inner not in place.edges):
                k = g.const + c * start + sum(f * tap[a] for a, f in g.axes.items() if a in tap)
                low, high = (max(low, -(k // c)), high) if c > 0 else (low, min(high, k // -c + 1))
        return low, self.ends[self._high(r, tap, place)] if self.p.s.inner in place.edges else high

    def _fails(self, r: Read, tap: Mapping[str, int], step: Mapping[str, int], place: Place) -> bool:
        """Whether it is known that the read lies outside for all lanes."""
        low, high = self._lanes(r, tap, place)
        if isinstance(high, int) and low >= high:
            return True
        at = dict(tap)
        for a, n in step.items():
            start = place.first[a]
            if isinstance(start, int):
                at[a] = start + n
        return any(
            set(g.axes) <= set(at) and g.const + sum(f * at[a] for a, f in g.axes.items()) < 0 for g in r.guards
        )  # fmt: skip

    def runtime(self, tap: Mapping[str, int], place: Place) -> tuple[str, ...]:
        """Conditions on the other axes at a tap, as C texts; they are the same for the whole block."""
        texts = []
        known = {*self.p.blocked, self.p.s.inner} - place.edges | {self.p.s.inner}
        for r in self.p.s.reads:
            for g in r.guards:
                loose = set(g.axes) - set(tap)
                if loose and not loose & known:
                    k = g.const + sum(f * tap[a] for a, f in g.axes.items() if a in tap)
                    at = {a: place.first.get(a, a) for a in loose}
                    parts = [f"{at[a]} * {c}L" if c != 1 else str(at[a]) for a, c in sorted(g.axes.items()) if a in at]
                    texts.append(f"{' + '.join(parts)} >= {ctext(-k)}")
        return tuple(dict.fromkeys(texts))

    def _load(
        self, w: Writer, number: int, tap: Mapping[str, int], step: Mapping[str, int], place: Place,
        names: dict[tuple[int, str], str],
    ) -> str:  # fmt: skip
        """The name of the vector that holds a read, which is printed where it is not at hand."""
        r = self.p.s.reads[number]
        text, known = self._position(r, tap, step, place)
        low, high = self._lanes(r, tap, place)
        key = number, f"{ctext(known)} {text} {low} {high}"
        if key in names:
            return names[key]
        rest = ctext(known)
        at = f"{r.tensor} + ({text} + {rest})" if text else f"{r.tensor} + {rest}"
        name = self.emitter.fresh("q")
        lane = VECTOR_TYPE[r.value.dtype]
        vector = f"tw::vec<{lane}, {self.p.lanes}>"
        if r.at.of(self.p.s.inner) == 0 and r.repeat == 1:
            item = f"{r.tensor}[{text} + {rest}]" if text else f"{r.tensor}[{rest}]"
            element = self.p.s.tensors[r.tensor].dtype
            printer = self.printer({}, {}, {}, None)
            printer.var = {"read": f"tw::widen({item})" if "float16" in element else item}
            value = f"tw::splat<{vector}>({printer.scalar(r.value)})"
        else:
            element = self.p.s.tensors[r.tensor].dtype
            loaded = self._vector_read(r, VECTOR_TYPE[element], at, low, high, place)
            printer = self.printer({}, {}, {"read": loaded}, None)
            value = printer.vector_text(r.value)
            if r.outside is not None and (low, high) != (0, place.lanes) and not _zero(r.outside):
                mask = self._mask(low, high, vector)
                value = f"tw::select({mask}, {value}, {printer.vector_text(r.outside)})"
        w.line(f"const {vector} {name} = {value};")
        names[key] = name
        return name

    def _mask(self, low: int, high: int | str, vector: str) -> str:
        i = f"tw::iota<tw::mask<{vector}>>()"
        return f"(({i} >= {low}) & ({i} < {high}))" if low or isinstance(high, int) else f"({i} < {high})"

    def _vector_read(self, r: Read, lane: str, at: str, low: int, high: int | str, place: Place) -> str:
        lanes, step = self.p.lanes, r.at.of(self.p.s.inner)
        vector = f"tw::vec<{lane}, {lanes}>"
        if r.repeat > 1:
            return self._repeated(r.repeat, vector, lane, at, place)
        whole = low == 0 and high == place.lanes
        count = place.count if whole else str(high)
        if step == 1:
            if isinstance(high, str):
                return self._between(vector, at, low, high)
            if low:
                return f"tw::load_if<{vector}>({at}, {self._mask(low, high, vector)})"
            return f"tw::load<{vector}>({at})" if whole and count is None else f"tw::load_n<{vector}>({at}, {count})"
        plain = self.p.s.tensors[r.tensor].dtype in ("float32", "float64", "int32", "int64")
        if step == 2 and plain:
            return self._evens(vector, at, low, high, whole and count is None)
        if low:
            return f"tw::load_step_if<{vector}>({at}, {step}L, {self._mask(low, high, vector)})"
        return f"tw::load_step<{vector}>({at}, {step}L{'' if whole and count is None else f', {count}'})"

    def _between(self, vector: str, at: str, low: int, high: str) -> str:
        """Lanes from a known one to one that calls know."""
        function, first = ("load_between", f"{low}, ") if low else ("load_n", "")
        return f"tw::{function}<{vector}>({at}, {first}{high})"

    def _evens(self, vector: str, at: str, low: int, high: int | str, whole: bool) -> str:
        """Every other element: two vectors that overlap by one, so that nothing past the last is touched."""
        n = self.p.lanes
        picks = ", ".join(str(2 * k if 2 * k < n else n + 2 * k - (n - 1)) for k in range(n))
        parts = []
        for start in (0, n - 1):
            a = max(0, 2 * low - start)
            if whole:
                parts.append(f"tw::load<{vector}>({at} + {start})")
                continue
            if isinstance(high, str):
                parts.append(self._between(vector, f"{at} + {start}", a, f"2 * {high} - {1 + start}"))
                continue
            b = min(n, 2 * high - 1 - start)
            if b <= a:
                parts.append(f"{vector}{{}}")
            elif a == 0:
                parts.append(f"tw::load_n<{vector}>({at} + {start}, {b})")
            else:
                parts.append(f"tw::load_if<{vector}>({at} + {start}, {self._mask(a, b, vector)})")
        return f"__builtin_shufflevector({parts[0]}, {parts[1]}, {picks})"

    def _repeated(self, repeat: int, vector: str, lane: str, at: str, place: Place) -> str:
        """Every element ``repeat`` times, from the start of a run."""
        lanes = self.p.lanes
        if lanes % repeat == 0 and lanes > repeat:
            few = f"tw::vec<{lane}, {lanes // repeat}>"
            read = f"tw::load<{few}>({at})"
            if place.count is not None:
                read = f"tw::load_n<{few}>({at}, ({place.count} + {repeat - 1}) / {repeat})"
            picks = ", ".join(str(k // repeat) for k in range(lanes))
            return f"repeat<{vector}>({read}, [](auto h) {{ return __builtin_shufflevector(h, h, {picks}); }})"
        position = f"(tw::iota<tw::vec<int, {lanes}>>() + (int)({place.first[self.p.s.inner]} % {repeat})) / {repeat}"
        return f"tw::load_at<{vector}>({at}, {position}, tw::first<tw::vec<int, {lanes}>>({place.count or lanes}))"

    # -- the block
    def print(self, w: Writer, place: Place, reads: Mapping[tuple[int, str], str], names: Mapping[int, str]) -> None:
        """Accumulate, finish and store one block."""
        s = self.p.s
        monoid = s.monoid
        acc = [self.emitter.fresh("acc") for _ in place.steps]
        start = self.printer({}, {}, {}, None).vector_text(monoid.identity[0])
        for a in acc:
            w.line(f"{self.vector} {a} = {start};")
        rolled = [a for a in self.p.rolled if s.ranges[a] > 1]
        for a in self.p.rolled:
            if a not in rolled:
                w.line(f"const long {a} = 0;")
        for a in rolled:
            w.line(f"for (long {a} = 0; {a} < {s.ranges[a]}L; {a}++) {{")
        groups: dict[tuple[str, ...], list[dict[str, int]]] = {}
        for tap in self.taps():
            groups.setdefault(self.runtime(tap, place), []).append(tap)
        for conditions, taps in groups.items():
            if conditions:
                with w.block(f"if ({' && '.join(conditions)})"):
                    self._group(w, taps, acc, place, dict(reads))
                rest = Writer(w.depth + 1)
                self._outside(rest, taps, acc, place, dict(reads))
                if rest.lines:
                    w.line("else {")
                    w.lines += rest.lines
                    w.line("}")
            else:
                with w.block():
                    self._group(w, taps, acc, place, dict(reads))
        if rolled:
            w.line("}" * len(rolled))
        self._store(w, acc, place, names)

    def _group(
        self, w: Writer, taps: list[dict[str, int]], acc: list[str], place: Place, reads: dict[tuple[int, str], str]
    ) -> None:
        """Taps whose other conditions hold, in the order of what they read."""
        main = max(range(len(self.p.s.reads)), key=lambda n: len(self.p.s.reads[n].axes))
        steps = place.steps
        todo = [(self._position(self.p.s.reads[main], t, k, place)[1], n, t) for t in taps for n, k in enumerate(steps)]
        for _, k, tap in sorted(todo, key=lambda x: (x[0], x[1])):
            fails = [self._fails(r, tap, steps[k], place) for r in self.p.s.reads]
            values = {
                f"a{n}": self._constant(w, n, reads) if outside else self._load(w, n, tap, steps[k], place, reads)
                for n, outside in enumerate(fails)
            }
            self._combine(w, acc[k], values, all(fails))

    def _outside(
        self, w: Writer, taps: list[dict[str, int]], acc: list[str], place: Place, reads: dict[tuple[int, str], str]
    ) -> None:
        """The same taps where those conditions fail: reads that have conditions give their constants."""
        for tap in taps:
            for k, step in enumerate(place.steps):
                values = {}
                for n, r in enumerate(self.p.s.reads):
                    outside = r.outside is not None
                    if outside and self._neutral() and len(self.p.s.reads) == 1:
                        return
                    values[f"a{n}"] = (
                        self._constant(w, n, reads) if outside else self._load(w, n, tap, step, place, reads)
                    )
                self._combine(w, acc[k], values, False)

    def _neutral(self) -> bool:
        """Whether the body outside is the reduction's identity."""
        s = self.p.s
        r = s.reads[0]
        body = s.body.map(lambda n: r.outside if n.op == "var" else None)
        return len(s.reads) == 1 and r.outside is not None and same(body, s.monoid.identity[0])

    def _constant(self, w: Writer, number: int, reads: dict[tuple[int, str], str]) -> str:
        r = self.p.s.reads[number]
        assert r.outside is not None
        key = number, "outside"
        if key not in reads:
            reads[key] = self.emitter.fresh("q")
            vector = f"tw::vec<{VECTOR_TYPE[r.outside.dtype]}, {self.p.lanes}>"
            w.line(f"const {vector} {reads[key]} = {self.printer({}, {}, {}, None).vector_text(r.outside)};")
        return reads[key]

    def _combine(self, w: Writer, acc: str, values: Mapping[str, str], outside: bool) -> None:
        if outside and self._neutral():
            return
        monoid = self.p.s.monoid
        text = self.printer({}, {}, values, None).vector_text(self.p.s.body)
        merge = self.printer({}, {}, {"l0": acc, "r0": text}, None)
        w.line(f"{acc} = {merge.vector_text(monoid.combine[0])};")

    def _store(self, w: Writer, acc: list[str], place: Place, names: Mapping[int, str]) -> None:
        s = self.p.s
        position = Linear(0, s.strides).expr()
        for step, a in zip(place.steps, acc, strict=True):
            at = {x: x for x in s.axes} | {x: str(start) for x, start in place.first.items()}
            at |= {x: f"({at[x]} + {k})" for x, k in step.items() if k}
            with w.block():
                printer = self.printer(at, names, {"l0": a}, place.count)
                printer.bind((s.value,), w.line, self.emitter.fresh)
                way = "stream" if self.p.stream else "tw::store"
                w.line(write(printer, s.output, (position,), s.value, place.count, way))


def _invariants(value: Expr, blocked: frozenset[str], numbers: ValueNumbers) -> list[Expr]:
    """Largest parts that do not depend on the sum or a block's axes, read or compute something, and always happen."""
    found: dict[int, Expr] = {}

    def visit(e: Expr) -> None:
        if not any(n.op == "var" or (n.op == "axis" and n.value in blocked) for n in e.walk()):
            worth = any(n.op in ("load", "div", *FUNCTIONS) for n in e.walk())
            if worth and e.dtype not in ("bool", "index"):
                found.setdefault(numbers.of(e), e)
            if e.dtype not in ("bool", "index"):
                return
        for a in e.args[:1] if e.op == "select" else () if e.op == "load" else e.args:
            visit(a)

    visit(value)
    return list(found.values())


def _zero(e: Expr) -> bool:
    return not e.value and not str(e.value).startswith("-")
