"""Prints one block of a stencil: neighbouring vectors of outputs that share reads and are reduced in registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from tilewright.core import cached_property
from tilewright.extent import Extent, Spans, bounds, constant_term, ctext
from tilewright.kernels.codegen.access import Values, write
from tilewright.kernels.codegen.emitter import Emitter
from tilewright.kernels.codegen.printer import Printer, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import FUNCTIONS, Expr, ValueNumbers, same
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cpu_stencil.match import Read
from tilewright.kernels.templates.cpu_stencil.space import WindowTiling, hoistable, inside
from tilewright.kernels.templates.cpu_stencil.spans import bounds_within

COUNT = "count_"
"""C name of the number of active lanes of a vector at an edge of symbolic position."""


@dataclass(frozen=True)
class BlockPosition:
    """Position and size of one block.

    ``first``: the block's first position along its axes and the innermost axis, as C text or number. ``outputs``:
    number of outputs along each of the block's axes. ``inside``: axes along which all conditions hold. ``count``: C
    text of the number of active lanes, or ``None`` if all lanes are active. ``lanes``: largest number of active
    lanes. ``least``: smallest number of active lanes where ``count`` is symbolic. ``sizes``: bounds of the symbolic
    sizes with which the block occurs.
    """

    first: Mapping[str, str | int]
    outputs: Mapping[str, int]
    inside: frozenset[str]
    count: str | None
    lanes: int
    sizes: Spans = ()
    least: int = 0

    @property
    def steps(self) -> list[dict[str, int]]:
        """Offset of each output from the block's first output, by axis."""
        return [dict(zip(self.outputs, k, strict=True)) for k in product(*map(range, self.outputs.values()))]


@dataclass
class Block:
    """Prints blocks of one kernel."""

    p: WindowTiling
    emitter: Emitter
    streamed: bool
    numbers: ValueNumbers = field(default_factory=ValueNumbers)
    ends: dict[str, str] = field(default_factory=dict)  # C names of lane numbers at symbolic edges, by C text
    rows: dict[int, tuple[str, str, int]] = field(default_factory=dict)  # latest row pointer of each read

    def __post_init__(self) -> None:
        self.values = Values(self.p.s.tensors, self.p.s.ranges, self.p.lanes)

    @property
    def vector(self) -> str:
        """C type of an accumulator."""
        return f"tw::vec<{computed(self.p.s.accumulator)}, {self.p.lanes}>"

    # -- printers
    def printer(
        self, at: Mapping[str, str] | None = None, names: Mapping[int, str] | None = None,
        var: Mapping[str, str] | None = None, count: str | None = None,
    ) -> Printer:  # fmt: skip
        """A printer of vectors along the innermost axis."""
        return self.values.at(at or {}, self.p.s.inner, var, count, names)

    @cached_property
    def below(self) -> int:
        """Number of positions at the start of the innermost axis where lower-bound conditions may fail."""
        return inside(self.p.s, self.p.s.inner)[0]

    @cached_property
    def lost(self) -> int:
        """Largest number of lanes of the last vector, along the innermost axis, that upper-bound conditions exclude."""
        extent = self.p.s.ranges[self.p.s.inner]
        return max(bounds(extent - h, exactly=True)[1] for h in inside(self.p.s, self.p.s.inner)[1])

    def taps(self) -> Iterator[dict[str, int]]:
        s, names = self.p.s, self.p.unrolled
        for t in product(*(range(s.ranges[a]) for a in names)):
            yield dict(zip(names, t, strict=True))

    # -- invariants along the block's axes
    def hoisted(self, w: Writer, place: BlockPosition) -> tuple[dict[tuple[int, str], str], dict[int, str]]:
        """Print the invariants along the block's axes: reads such as weights, and subexpressions of the epilogue.

        Returns C names of reads, by read and position, and of subexpressions, by value number.
        """
        s = self.p.s
        reads: dict[tuple[int, str], str] = {}
        if self.p.hoist:
            fixed = hoistable(s, self.p.blocked)
            for tap in self.taps():
                for n, r in enumerate(s.reads):
                    if r in fixed:
                        self._load(w, n, tap, {}, place, reads)
        names: dict[int, str] = {}
        at = {a: a for a in s.axes} | {s.inner: _text(place.first[s.inner])}
        for e in _invariants(s.value, frozenset(self.p.blocked), self.values.memo.numbers):
            printer = self.printer(at, names, count=place.count)
            text = printer.text(e) if printer.varies(e) else printer.scalar(e)
            names[self.values.memo.numbers.of(e)] = self.emitter.let(w, "h", "auto", text)
        return reads, names

    # -- a read
    def _position(
        self, r: Read, tap: Mapping[str, int], step: Mapping[str, int], place: BlockPosition
    ) -> tuple[str, int]:
        """Position of a read at a tap and an output: C text of the variable part, and the constant part."""
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
            printer = self.printer({a: a for a in self.p.s.ranges})
            parts += (f"{printer.scalar(term)} * {ctext(c)}" for term, c in r.at.rest)
        if r.repeat > 1:
            start = place.first[self.p.s.inner]
            if isinstance(start, int):
                known += start // r.repeat
            else:
                parts.append(f"{start} / {r.repeat}")
        return " + ".join(parts), known

    def count(self, w: Writer, place: BlockPosition) -> None:
        """Declare the number of active lanes at a symbolic edge, and the lane ranges in which conditions hold."""
        self.ends = {}
        if place.count == COUNT:
            start, extent = place.first[self.p.s.inner], ctext(self.p.s.ranges[self.p.s.inner])
            text = extent if start == 0 else f"tw::imin({place.lanes}L, {extent} - {start})"
            if all(r.outside is None or _zero(r.outside) for r in self.p.s.reads):
                w.line(f"const long {COUNT} = {text};")
            else:
                # Without the asm, compilers compute all masks before all blocks. These masks exceed the mask
                # registers, so each use would move one back.
                w.line(f'long {COUNT} = {text}; __asm__("" : "+r"({COUNT}));')
        for r, tap in product(self.p.s.reads, self.taps()):
            for end in self._ends(r, tap, place):
                if isinstance(end, str) and end not in self.ends:
                    self.ends[end] = self.emitter.let(w, "to", "int", f"(int){end}")

    def _ends(self, r: Read, tap: Mapping[str, int], place: BlockPosition) -> tuple[int | str, int | str]:
        """Lanes ``[low, high)`` in which the conditions along the innermost axis hold: numbers or C texts."""
        inner = self.p.s.inner
        low, high, start = 0, place.lanes, place.first[inner]
        later, sooner = list[str](), [COUNT] if place.count == COUNT else []
        for g in r.guards if inner not in place.inside else ():
            c = g.of(inner)
            k = g.const + sum(f * tap[a] for a, f in g.axes.items() if a in tap)
            everywhere = bounds_within(k + min(0, c) * (self.p.s.ranges[inner] - 1), place.sizes)[0] >= 0
            if (isinstance(start, str) or place.count == COUNT) and (not c or everywhere):
                continue  # the condition holds in every active lane
            if isinstance(start, str):  # a vector at a variable position
                at = f"{ctext(k)} + {start} * {c}L"
                (later if c > 0 else sooner).append(f"({c - 1}L - ({at})) / {c}" if c > 0 else f"({-c}L + {at}) / {-c}")
                continue
            k += c * start
            least, most = bounds_within(k, place.sizes)
            if c > 0 and least < 0:
                low = max(low, -(most // c))
                if least < most:
                    later.append(f"({ctext(c - 1 - k)}) / {c}")
            elif c < 0 and least // -c + 1 < place.lanes:
                high = min(high, most // -c + 1)
                if least < most:
                    sooner.append(f"({ctext(k - c)}) / {-c}")
        return _extreme("tw::imax", low, later), _extreme("tw::imin", high, sooner)

    def _lanes(self, r: Read, tap: Mapping[str, int], place: BlockPosition) -> tuple[int | str, int | str]:
        """Lanes ``[low, high)`` in which the conditions along the innermost axis hold: numbers or C names."""
        low, high = self._ends(r, tap, place)
        return self.ends[low] if isinstance(low, str) else low, self.ends[high] if isinstance(high, str) else high

    def _condition(self, r: Read, tap: Mapping[str, int], step: Mapping[str, int], place: BlockPosition) -> str | None:
        """C text of the condition on a read that is tested at run time.

        Empty if the condition always holds, ``None`` if it never does. :meth:`runtime` tests the conditions on axes
        that are neither the block's nor the innermost axis.
        """
        low, high = self._lanes(r, tap, place)
        if isinstance(low, int) and isinstance(high, int) and low >= high:
            return None
        asked = []
        for g in r.guards:
            known, parts = g.const + sum(f * tap[a] for a, f in g.axes.items() if a in tap), list[str]()
            loose = set(g.axes) - set(tap)
            if loose & place.inside or not loose <= set(step):
                continue
            for a in sorted(loose):
                start = place.first[a]
                known += g.of(a) * (step[a] + (start if isinstance(start, int) else 0))
                parts += [] if isinstance(start, int) else [f"{start} * {g.of(a)}L"]
            least, most = bounds_within(known, place.sizes)
            if not parts and most < 0:
                return None
            if parts or least < 0:
                asked.append(f"{' + '.join([*parts, ctext(known)])} >= 0")
        return " && ".join(asked)

    def runtime(self, tap: Mapping[str, int], place: BlockPosition) -> tuple[str, ...]:
        """C texts of the conditions at a tap on axes outside the block; each holds or fails for the whole block."""
        texts = []
        known = {*self.p.blocked, self.p.s.inner}
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
        self, w: Writer, number: int, tap: Mapping[str, int], step: Mapping[str, int], place: BlockPosition,
        names: dict[tuple[int, str], str], condition: str = "",
    ) -> str:  # fmt: skip
        """C name of the vector that holds a read; prints the load unless ``names`` has it."""
        r = self.p.s.reads[number]
        text, known = self._position(r, tap, step, place)
        low, high = self._lanes(r, tap, place)
        key = number, f"{ctext(known)} {text} {low} {high} {condition}"
        if key in names:
            return names[key]
        base, text, known = self._row(w, number, text, known, names)
        rest = ctext(known)
        at = f"{base} + ({text} + {rest})" if text else f"{base} + {rest}"
        name = self.emitter.fresh("q")
        lane = computed(r.value.dtype)
        vector = f"tw::vec<{lane}, {self.p.lanes}>"
        element = self.p.s.tensors[r.tensor].dtype
        if r.at.of(self.p.s.inner) == 0 and r.repeat == 1:
            item = f"{base}[{text} + {rest}]" if text else f"{base}[{rest}]"
            printer = self.printer()
            printer.var = {"read": f"tw::widen({item})" if "float16" in element else item}
            value = f"tw::splat<{vector}>({printer.scalar(r.value)})"
        else:
            loaded = self._vector_read(r, computed(element), at, low, high, place)
            printer = self.printer(var={"read": loaded})
            value = printer.vector_text(r.value)
            used = _extreme("tw::imin", place.lanes, [COUNT] if place.count == COUNT else [])
            every = self.ends.get(used) if isinstance(used, str) else used
            if r.outside is not None and (low, high) != (0, every) and not _zero(r.outside):
                mask = self._mask(low, high, vector)
                value = f"tw::select({mask}, {value}, {printer.vector_text(r.outside)})"
        if condition:
            value = f"{condition} ? {value} : {self._constant(w, number, names)}"
        w.line(f"const {vector} {name} = {value};")
        names[key] = name
        return name

    def _row(
        self, w: Writer, number: int, text: str, known: int, names: dict[tuple[int, str], str]
    ) -> tuple[str, str, int]:
        """Base pointer of a read, and the variable and constant part of its position from there.

        With symbolic strides, the base is a pointer to the read's row, computed from the pointer to the previous row.
        An ``asm`` makes each row pointer opaque: compilers would keep the addresses of all rows in registers, and
        spill accumulators.
        """
        tensor = self.p.s.reads[number].tensor
        if not self.p.s.program.sizes:
            return tensor, text, known
        within = constant_term(known)
        row = known - within
        key = number, f"row {text} {ctext(row)}"
        if key not in names:
            at = f"{tensor} + ({' + '.join([text, ctext(row)] if text else [ctext(row)])})"
            before = self.rows.get(number)
            if before is not None and before[0] == text and (number, before[1]) in names:
                at = f"{names[number, before[1]]} + ({ctext(row - before[2])})"
            names[key] = self.emitter.fresh("p")
            w.line(f'auto {names[key]} = {at}; __asm__("" : "+r"({names[key]}));')
            self.rows[number] = text, key[1], row
        return names[key], "", within

    def _mask(self, low: int | str, high: int | str, vector: str) -> str:
        i = f"tw::iota<tw::mask<{vector}>>()"
        return f"(({i} >= {low}) & ({i} < {high}))" if low or isinstance(high, int) else f"({i} < {high})"

    def _vector_read(self, r: Read, lane: str, at: str, low: int | str, high: int | str, place: BlockPosition) -> str:
        lanes, step = self.p.lanes, r.at.of(self.p.s.inner)
        vector = f"tw::vec<{lane}, {lanes}>"
        if r.repeat > 1:
            return self._repeated(r.repeat, vector, lane, at, place)
        whole = low == 0 and high == place.lanes
        count = place.count if whole else str(high)
        if step == 1:
            if isinstance(low, str) or isinstance(high, str):
                return self._between(vector, at, low, high)
            if low:
                return f"tw::load_if<{vector}>({at}, {self._mask(low, high, vector)})"
            return f"tw::load<{vector}>({at})" if whole and count is None else f"tw::load_n<{vector}>({at}, {count})"
        plain = self.p.s.tensors[r.tensor].dtype in ("float32", "float64", "int32", "int64")
        if step == 2 and plain:
            return self._evens(vector, at, low, high, whole and count is None, place.least - self.lost, place.lanes)
        if low:
            return f"tw::load_step_if<{vector}>({at}, {step}L, {self._mask(low, high, vector)})"
        return f"tw::load_step<{vector}>({at}, {step}L{'' if whole and count is None else f', {count}'})"

    def _between(self, vector: str, at: str, low: int | str, high: int | str) -> str:
        """C text of a load of the lanes ``[low, high)`` only."""
        function, first = ("load_between", f"{low}, ") if low else ("load_n", "")
        return f"tw::{function}<{vector}>({at}, {first}{high})"

    def _evens(self, vector: str, at: str, low: int | str, high: int | str, whole: bool, least: int, most: int) -> str:
        """C text of a load with stride 2: two vectors that overlap by one element, shuffled.

        The overlap avoids reads past the last element. Between ``least`` and ``most`` lanes are active: the second
        vector is not read if the first one holds all active lanes.
        """
        n = self.p.lanes
        picks = ", ".join(str(2 * k if 2 * k < n else n + 2 * k - (n - 1)) for k in range(n))
        parts = []
        for start in (0, n - 1):
            if whole:
                parts.append(f"tw::load<{vector}>({at} + {start})")
                continue
            if 2 * most - 1 <= start:
                parts.append(f"{vector}{{}}")
                continue
            if start == 0 and isinstance(high, str) and 2 * least >= n:
                parts.append(self._between(vector, at, f"2 * {low}" if low else 0, n - 1))
                continue
            if isinstance(low, str) or isinstance(high, str):
                if isinstance(low, str):
                    first: int | str = f"2 * {low} - {start}" if 2 * self.below > start else 0
                else:
                    first = max(0, 2 * low - start)
                past = f"2 * {high} - {1 + start}" if isinstance(high, str) else min(n, 2 * high - 1 - start)
                parts.append(self._between(vector, f"{at} + {start}", first, past))
                continue
            a, b = max(0, 2 * low - start), min(n, 2 * high - 1 - start)
            if b <= a:
                parts.append(f"{vector}{{}}")
            elif a == 0:
                parts.append(f"tw::load_n<{vector}>({at} + {start}, {b})")
            else:
                parts.append(f"tw::load_if<{vector}>({at} + {start}, {self._mask(a, b, vector)})")
        return f"__builtin_shufflevector({parts[0]}, {parts[1]}, {picks})"

    def _repeated(self, repeat: int, vector: str, lane: str, at: str, place: BlockPosition) -> str:
        """C text of a load that repeats each element ``repeat`` times in consecutive lanes."""
        lanes = self.p.lanes
        if lanes % repeat == 0 and lanes > repeat:
            few = f"tw::vec<{lane}, {lanes // repeat}>"
            read = f"tw::load<{few}>({at})"
            if place.count is not None:
                read = f"tw::load_n<{few}>({at}, ({place.count} + {repeat - 1}) / {repeat})"
            picks = ", ".join(str(k // repeat) for k in range(lanes))
            return f"repeat<{vector}>({read}, [](auto h) {{ return __builtin_shufflevector(h, h, {picks}); }})"
        start = _text(place.first[self.p.s.inner])
        position = f"(tw::iota<tw::vec<int, {lanes}>>() + (int)({start} % {repeat})) / {repeat}"
        return f"tw::load_at<{vector}>({at}, {position}, tw::first<tw::vec<int, {lanes}>>({place.count or lanes}))"

    # -- the block
    def print(
        self, w: Writer, place: BlockPosition, reads: Mapping[tuple[int, str], str], names: Mapping[int, str]
    ) -> None:
        """Print one block: accumulate all taps, apply the epilogue, store the outputs."""
        s = self.p.s
        monoid = s.monoid
        acc = [self.emitter.fresh("acc") for _ in place.steps]
        start = self.printer().vector_text(monoid.identity[0])
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
            with w.block(f"if ({' && '.join(conditions)})" if conditions else ""):
                self._group(w, taps, acc, place, dict(reads))
            if conditions:
                rest = Writer(w.depth + 1)
                self._outside(rest, taps, acc, place, dict(reads))
                if rest.lines:
                    w.line("else {")
                    w.lines += rest.lines
                    w.line("}")
        if rolled:
            w.line("}" * len(rolled))
        self._store(w, acc, place, names)

    def _group(
        self,
        w: Writer,
        taps: list[dict[str, int]],
        acc: list[str],
        place: BlockPosition,
        reads: dict[tuple[int, str], str],
    ) -> None:
        """Print taps whose conditions outside the block hold, in the order of the positions that they read."""
        main = max(range(len(self.p.s.reads)), key=lambda n: len(self.p.s.reads[n].axes))
        steps = place.steps
        todo = [(self._position(self.p.s.reads[main], t, k, place)[1], n, t) for t in taps for n, k in enumerate(steps)]
        for _, k, tap in sorted(todo, key=lambda x: (x[0], x[1])):
            asked = [self._condition(r, tap, steps[k], place) for r in self.p.s.reads]
            values = {
                f"a{n}": self._constant(w, n, reads)
                if condition is None
                else self._load(w, n, tap, steps[k], place, reads, condition)
                for n, condition in enumerate(asked)
            }
            self._combine(w, acc[k], values, all(condition is None for condition in asked))

    def _outside(
        self,
        w: Writer,
        taps: list[dict[str, int]],
        acc: list[str],
        place: BlockPosition,
        reads: dict[tuple[int, str], str],
    ) -> None:
        """Print taps whose conditions outside the block fail: guarded reads give their ``outside`` constants."""
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
        """Whether the body of a failed condition equals the reduction's identity."""
        s = self.p.s
        r = s.reads[0]
        body = s.body.map(lambda n: r.outside if n.op == "var" else None)
        return len(s.reads) == 1 and r.outside is not None and same(body, s.monoid.identity[0])

    def _constant(self, w: Writer, number: int, reads: dict[tuple[int, str], str]) -> str:
        r = self.p.s.reads[number]
        assert r.outside is not None
        key = number, "outside"
        if key not in reads:
            vector = f"tw::vec<{computed(r.outside.dtype)}, {self.p.lanes}>"
            reads[key] = self.emitter.let(w, "q", vector, self.printer().vector_text(r.outside))
        return reads[key]

    def _combine(self, w: Writer, acc: str, values: Mapping[str, str], outside: bool) -> None:
        if outside and self._neutral():
            return
        monoid = self.p.s.monoid
        text = self.printer(var=values).vector_text(self.p.s.body)
        # max and min test their left operand for NaN: the test stays off the chain of dependent operations.
        ends = (text, acc) if self.p.s.monoid.name in ("max", "min") else (acc, text)
        merge = self.printer(var=dict(zip(("l0", "r0"), ends, strict=True)))
        w.line(f"{acc} = {merge.vector_text(monoid.combine[0])};")

    def _store(self, w: Writer, acc: list[str], place: BlockPosition, names: Mapping[int, str]) -> None:
        s = self.p.s
        position, walked = Linear(0, s.strides).expr(), 0
        start = {x: x for x in s.axes} | {x: _text(first) for x, first in place.first.items()}
        apart = any(isinstance(s.strides[a], Extent) for a in self.p.blocked)
        if apart:
            # The output's row pointer is computed from that of the previous row, as in _row.
            out, others = self.emitter.fresh("o"), {a: n for a, n in s.strides.items() if a != s.inner}
            index = self.printer(start).scalar(Linear(0, others).expr())
            w.line(f'long {out} = {index}; __asm__("" : "+r"({out}));')
            position = Linear(0, {out: 1, s.inner: s.strides[s.inner]}).expr()
        for step, a in zip(place.steps, acc, strict=True):
            at = start | {x: f"({start[x]} + {k})" for x, k in step.items() if k}
            if apart:
                here = sum((s.strides[x] * k for x, k in step.items()), 0)
                if here != walked:
                    w.line(f'{out} += {ctext(here - walked)}; __asm__("" : "+r"({out}));')
                walked, at[out] = here, out
            with w.block():
                printer = self.printer(at, names, {"l0": a}, place.count)
                printer.bind((s.value,), w.line, self.emitter.fresh)
                way = "stream" if self.streamed else "tw::store"
                w.line(write(printer, s.output, (position,), s.value, place.count, way))


def _text(position: str | int) -> str:
    """C text of a position, in parentheses if it is a symbolic expression."""
    return f"({ctext(position)})" if isinstance(position, Extent) else str(position)


def _extreme(function: str, known: int, texts: Sequence[str]) -> int | str:
    """Maximum or minimum of a number and C texts: the number alone, or a C text that calls ``function``."""
    text = ""
    for t in texts:
        text = f"{function}({text or f'{known}L'}, {t})"
    return text or known


def _invariants(value: Expr, blocked: frozenset[str], numbers: ValueNumbers) -> list[Expr]:
    """Largest subexpressions of the epilogue that are worth hoisting out of a block.

    They are independent of the accumulator and of the block's axes, always evaluated, and have a read, a division or
    a function.
    """
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
