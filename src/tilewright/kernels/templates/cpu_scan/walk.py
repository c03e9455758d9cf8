"""Prints the bodies of a scan's loops: states before and after a pass over the sequence, and one step of the pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tilewright.extent import ctext
from tilewright.kernels.codegen.access import MemoryPrinter, Values, write
from tilewright.kernels.codegen.emitter import Emitter, Scope, plus
from tilewright.kernels.codegen.printer import Printer, computed, held_lane
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import FUNCTIONS, INDEX, Expr, ValueNumbers
from tilewright.kernels.expression.program import Monoid
from tilewright.kernels.families.flatten import linear
from tilewright.kernels.families.recurrence import Recurrence, Scan
from tilewright.kernels.templates.cpu_scan.space import ScanTiling

# --------------------------------------------------------------------------- values computed early

# Invariants of the sequence are computed once; invariants of the reduced axis are computed once a step.


@dataclass(frozen=True)
class Hoists:
    """Hoisted values: computed ``once``, before the loop over the sequence, or at every ``step``."""

    once: tuple[Expr, ...]
    step: tuple[Expr, ...]


def hoists(p: ScanTiling) -> Hoists:
    return _hoists(p.r, p.vector)


@lru_cache(maxsize=256)
def _hoists(r: Recurrence, vector: str | None) -> Hoists:
    sequence = frozenset((r.sequence[0],))
    reduced = frozenset(a for a, _ in r.reduced)
    numbers = ValueNumbers()

    def worth(e: Expr) -> bool:
        # In a loop over states, hoisting a read into an array saves nothing unless the read is strided.
        return not (reduced and e.op == "load" and linear(e.args[0]).step(str(vector)) in (0, 1))

    once = {numbers.of(e): e for e in _fixed(r.expressions, sequence) if worth(e)}
    step = {}
    if reduced:
        for e in _fixed(r.expressions, reduced):
            if numbers.of(e) not in once and e.op != "load":
                step[numbers.of(e)] = e
    return Hoists(tuple(once.values()), tuple(step.values()))


def _fixed(exprs: Iterable[Expr], moving: frozenset[str]) -> Iterable[Expr]:
    """Largest subexpressions that are worth hoisting out of loops over the ``moving`` axes.

    They depend on no ``moving`` axis and no state, are always evaluated, and have a read, a division or a function.
    """
    for e in exprs:
        if any(n.op == "var" or (n.op == "axis" and n.value in moving) for n in e.walk()):
            yield from _fixed(e.args[:1] if e.op == "select" else () if e.op == "load" else e.args, moving)
        elif e.dtype not in (INDEX, "bool") and any(n.op in ("load", "div", *FUNCTIONS) for n in e.walk()):
            yield e


BLOCK, BLOCK_ALONG = 16, 64
"""Number of elements that a wide sum's second component accumulates before it is added to the first component.

Blocks are longer where the sequence is vectorised, since a vector's elements are added pairwise.
"""


@dataclass(frozen=True)
class _Point:
    """One vector of states: vector ``v`` of a group, at position ``n`` (C text) of the reduced axis.

    ``slot``: ending of the C names that belong to this vector of states.
    """

    v: int
    n: str
    slot: str


@dataclass(frozen=True)
class _Hoisted:
    """A hoisted value, its value ``number``, and the ``stem`` of its C names.

    ``each``: the value differs between elements of the reduced axis. ``varies``: it differs between vectors of a group.
    """

    stem: str
    number: int
    each: bool
    varies: bool


def array(kind: str, s: Scan, component: int) -> str:
    """Name of the workspace array of one component of a scan's states. ``kind``: ``kept`` or ``total``."""
    return f"{kind}_{s.name}_{component}"


_Each = Callable[[Writer, Scope, _Point], None]


@dataclass
class Walk:
    """Prints one pass over the sequence. ``totals``: the pass computes block totals only, else the result."""

    p: ScanTiling
    emitter: Emitter
    totals: bool
    hoisted: list[_Hoisted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = Values(self.p.r.tensors, self.p.r.extents, self.p.lanes)

    @property
    def _looped(self) -> bool:
        """Whether every step has a loop over the reduced axis; states are then in arrays."""
        return self.p.unroll < self.p.states

    def _vectors(self, scope: Scope) -> int:
        """Number of vectors of the group in ``scope``."""
        if self.p.vector is None or self.p.along:
            return 1
        return max(1, scope.tiles[self.p.vector].size // self.p.lanes)

    def _components(self, s: Scan) -> Sequence[int]:
        """Components of the state that the pass computes: all for block totals, whose merge may read any component."""
        return range(len(s.state)) if self.totals else s.live

    # -- around the loop
    def start(self, w: Writer, scope: Scope) -> Scope:
        """Print the values hoisted out of the sequence, and the initial states."""
        p = self.p
        w.line("{")
        self.hoisted = []
        self._hoist(w, scope, hoists(p).once)
        for s in p.r.scans:
            for c in self._components(s):
                for v in range(self._vectors(scope)):
                    for n in range(1 if self._looped else p.states):
                        array = f"[{p.states}]" if self._looped else ""
                        slot = f"{v}" if self._looped else f"{v}_{n}"
                        w.line(f"{self._type(s.state[c])} {s.name}_{c}_{slot}{array};")
        self._all(w, scope, self._initial)
        if p.r.over_time and not self.totals:
            self._accumulators(w, scope)
        return scope

    def finish(self, w: Writer, scope: Scope) -> None:
        """Print the stores of final states and of results that are reduced along the sequence."""
        if self.totals or self.p.chunk:
            self._all(w, scope, self._keep)
        if self.p.r.over_time and not self.totals:
            self._results(w, scope)
        w.line("}")

    def _all(self, w: Writer, scope: Scope, each: _Each) -> None:
        """Call ``each`` for every vector of states of a group."""
        if self._looped:
            with w.block(f"for (long n_ = 0; n_ < {self.p.states}; n_++)"):
                for v in range(self._vectors(scope)):
                    each(w, scope, _Point(v, "n_", f"{v}[n_]"))
        else:
            for v in range(self._vectors(scope)):
                for n in range(self.p.states):
                    each(w, scope, _Point(v, f"{n}L", f"{v}_{n}"))

    def _initial(self, w: Writer, scope: Scope, at: _Point) -> None:
        p, (sequence, _) = self.p, self.p.r.sequence
        start = scope.at(sequence)
        for s in p.r.scans:
            printer = self._printer(scope, at)
            for c in self._components(s):
                w.line(f"{s.name}_{c}_{at.slot} = {printer.held(s.state[c])};")
        if self.totals:
            return
        head = ""
        if p.chunk:
            begins = f"{start} % {p.length}L" if p.blocks > 1 else start
            with w.block(f"if ({begins})"):
                for s in p.r.scans:
                    for c in s.live:
                        w.line(f"{s.name}_{c}_{at.slot} = {self._kept('kept', s, c, scope, at)};")
            head = "else"
        if p.blocks > 1:
            block = self._block(scope)
            with w.block(head), w.block(f"for (long k_ = 0; k_ < {block}; k_++)"):
                for s in p.r.scans:
                    every = range(len(s.state))
                    for c in every:
                        text = self._kept("total", s, c, scope, at, "k_")
                        w.line(f"const {self._type(s.state[c])} b{c} = {text};")
                    if s.wide:
                        self._add(w, s, at, "(b0 + b1)")
                        self._carry(w, s, at)
                    else:
                        self._merge(w, scope, at, s, {f"r{c}": f"b{c}" for c in every}, s.live)

    def _keep(self, w: Writer, scope: Scope, at: _Point) -> None:
        for s in self.p.r.scans:
            for c in self._components(s):
                where = self._where("total" if self.totals else "kept", s, c, scope, at, self._block(scope))
                text = f"{s.name}_{c}_{at.slot}"
                if self.p.vector is None or self.p.along:
                    w.line(f"*({where}) = {text}{'[0]' if self.p.along else ''};")
                else:
                    w.line(f"tw::store({where}, {text});")

    def _kept(self, kind: str, s: Scan, c: int, scope: Scope, at: _Point, block: str | None = None) -> str:
        where = self._where(kind, s, c, scope, at, block or self._block(scope))
        if self.p.vector is None:
            return f"*({where})"
        own = self._type(s.state[c])
        return f"tw::splat<{own}>(*({where}))" if self.p.along else f"tw::load<{own}>({where})"

    def _where(self, kind: str, s: Scan, c: int, scope: Scope, at: _Point, block: str) -> str:
        """C text of the address of a state's component."""
        p = self.p
        text = block
        for a, n in p.others:
            text = f"({text}) * {ctext(n)} + {scope.at(a)}"
        text = f"(({text}) * {p.states}L + {at.n}) * {ctext(p.width)}"
        if p.vector is not None and not p.along:
            text += f" + {plus(scope.at(p.vector), at.v * p.lanes)}"
        return f"{array(kind, s, c)} + {text}"

    def _block(self, scope: Scope) -> str:
        return f"{scope.at(self.p.r.sequence[0])} / {self.p.length}L" if self.p.blocks > 1 else "0L"

    # -- a step
    def step(self, w: Writer, scope: Scope) -> None:
        """Print one step: one element of the sequence, or one vector of elements."""
        p = self.p
        before = list(self.hoisted)
        self._hoist(w, scope, hoists(p).step)
        if p.reduced and not self.totals:
            self._accumulators(w, scope)
        vectors = range(self._vectors(scope))
        if self._looped:
            with w.block(f"for (long n_ = 0; n_ < {p.states}; n_ += {p.unroll})"):
                for u in range(p.unroll):
                    for v in vectors:
                        text = plus("n_", u)
                        self._point(w, scope, _Point(v, text, f"{v}[{text}]"))
        else:
            for n in range(p.states):
                for v in vectors:
                    self._point(w, scope, _Point(v, f"{n}L", f"{v}_{n}"))
        if p.reduced and not self.totals:
            self._results(w, scope)
        if any(s.wide for s in p.r.scans):
            block, step = (max(BLOCK_ALONG, p.lanes), p.lanes) if p.along else (BLOCK, 1)
            with w.block(f"if ({scope.at(p.r.sequence[0])} % {block}L == {block - step}L)"):
                self._all(w, scope, self._carries)
        self.hoisted = before

    def _point(self, w: Writer, scope: Scope, at: _Point) -> None:
        r = self.p.r
        values: dict[str, str] = {}
        with w.block():
            printer = self._printer(scope, at, values)
            for s in r.scans:
                printer.bind(s.body, w.line, self.emitter.fresh)
                elements = [self._held(w, f"{s.name}b{c}", printer, e) for c, e in enumerate(s.body)]
                state = self._along(w, scope, at, s, elements) if self.p.along else self._on(w, scope, at, s, elements)
                if not self.totals:
                    last = self._printer(scope, at, {f"l{c}": t for c, t in state.items()}, plain=True)
                    last.bind((s.value,), w.line, self.emitter.fresh)
                    values[s.name] = self._held(w, f"{s.name}v", last, s.value)
                    printer = self._printer(scope, at, values, printer.names)
            if self.totals:
                return
            if r.monoid is None:
                self._store(w, printer)
                return
            printer.bind(r.body, w.line, self.emitter.fresh)
            names = {f"r{c}": self._held(w, f"e{c}", printer, e) for c, e in enumerate(r.body)}
            self._merged(w, scope, at, r.monoid, f"a{{}}_{at.v}", names, range(len(r.body)))

    def _on(self, w: Writer, scope: Scope, at: _Point, s: Scan, elements: Sequence[str]) -> dict[int, str]:
        """Print the update of the states, where each lane has a separate state; returns C texts by component."""
        every = self._components(s)
        if s.wide:
            self._add(w, s, at, elements[0])
            return {0: f"({s.name}_0_{at.slot} + {s.name}_1_{at.slot})"}
        self._merge(w, scope, at, s, {f"r{c}": t for c, t in enumerate(elements)}, every)
        return {c: f"{s.name}_{c}_{at.slot}" for c in every}

    def _along(self, w: Writer, scope: Scope, at: _Point, s: Scan, elements: Sequence[str]) -> dict[int, str]:
        """Print a vector's inclusive scan by doubling shifts, combined with the carried state; returns its C texts."""
        m, now = s.monoid, list(elements)
        every = range(len(now))
        shift = 1
        while shift < self.p.lanes:
            before = self._printer(scope, at)
            names = {f"r{c}": t for c, t in enumerate(now)}
            for c in every:
                names[f"l{c}"] = f"tw::shifted<{shift}>({now[c]}, {before.held(m.identity[c])})"
                names[f"l{c}"] = self._let(w, f"{s.name}q{c}_{shift}", m.identity[c], names[f"l{c}"])
            printer = self._printer(scope, at, names, plain=True)
            printer.bind(m.combine, w.line, self.emitter.fresh)
            now = [self._let(w, f"{s.name}p{c}_{shift}", m.identity[c], printer.held(m.combine[c])) for c in every]
            shift *= 2
        if s.wide:
            zero, one, like = f"{s.name}_0_{at.slot}", f"{s.name}_1_{at.slot}", s.body[0]
            value = "" if self.totals else self._let(w, f"{s.name}w", like, f"{zero} + ({one} + {now[0]})")
            self._add(w, s, at, f"tw::splat<{self._type(like)}>({now[0]}[{self.p.lanes - 1}])")
            return {0: value}
        carried = {f"l{c}": f"{s.name}_{c}_{at.slot}" for c in self._components(s)}
        printer = self._printer(scope, at, carried | {f"r{c}": t for c, t in enumerate(now)}, plain=True)
        values = {}
        if not self.totals:
            for c in s.live:
                values[c] = self._let(w, f"{s.name}w{c}", m.identity[c], printer.held(m.combine[c]))
        lasts = {}
        for c in every:
            last = f"{now[c]}[{self.p.lanes - 1}]"
            lasts[f"r{c}"] = self._let(
                w, f"{s.name}t{c}", m.identity[c], f"tw::splat<{self._type(m.identity[c])}>({last})"
            )
        self._merge(w, scope, at, s, lasts, self._components(s))
        return values

    def _add(self, w: Writer, s: Scan, at: _Point, text: str) -> None:
        """Print the addition of ``text`` to the second component of a wide sum."""
        w.line(f"{s.name}_1_{at.slot} = {s.name}_1_{at.slot} + {text};")

    def _carries(self, w: Writer, scope: Scope, at: _Point) -> None:
        for s in self.p.r.scans:
            if s.wide:
                self._carry(w, s, at)

    def _carry(self, w: Writer, s: Scan, at: _Point) -> None:
        """Print the addition of the second component to the first; the second gets the rounding error (Dekker, 1971).

        The error of an infinite sum counts as 0.
        """
        zero, one, own = f"{s.name}_0_{at.slot}", f"{s.name}_1_{at.slot}", self._type(s.body[0])
        with w.block():
            w.line(f"const {own} s_ = {zero} + {one};")
            w.line(f"{one} = s_ - s_ == {own}{{}} ? {one} - (s_ - {zero}) : {own}{{}};")
            w.line(f"{zero} = s_;")

    def _merge(
        self, w: Writer, scope: Scope, at: _Point, s: Scan, right: Mapping[str, str], components: Sequence[int]
    ) -> None:
        template = f"{s.name}_{{}}_{at.slot}"
        self._merged(w, scope, at, s.monoid, template, right, components)

    def _merged(
        self, w: Writer, scope: Scope, at: _Point, m: Monoid, into: str, right: Mapping[str, str],
        components: Sequence[int],
    ) -> None:  # fmt: skip
        """Print the merge of ``right`` into the accumulators that the template ``into`` names."""
        names = {f"l{c}": into.format(c) for c in components} | dict(right)
        printer = self._printer(scope, at, names, plain=True)
        wanted = tuple(m.combine[c] for c in components)
        with w.block():
            printer.bind(wanted, w.line, self.emitter.fresh)
            texts = [printer.held(e) for e in wanted]
            if len(texts) > 1:
                texts = [self._let(w, f"c{c}", m.identity[c], text) for c, text in zip(components, texts, strict=True)]
            for c, text in zip(components, texts, strict=True):
                w.line(f"{into.format(c)} = {text};")

    # -- results
    def _accumulators(self, w: Writer, scope: Scope) -> None:
        for v in range(self._vectors(scope)):
            printer = self._printer(scope, _Point(v, "0L", ""))
            for c, e in enumerate(self.p.r.reduction.identity):
                w.line(f"{self._type(e)} a{c}_{v} = {printer.held(e)};")

    def _results(self, w: Writer, scope: Scope) -> None:
        r = self.p.r
        for v in range(self._vectors(scope)):
            names = {f"l{c}": f"a{c}_{v}" for c in range(len(r.body))}
            with w.block():
                self._store(w, self._printer(scope, _Point(v, "0L", ""), names, plain=True))

    def _store(self, w: Writer, printer: MemoryPrinter) -> None:
        r = self.p.r
        printer.bind((r.value,), w.line, self.emitter.fresh)
        w.line(write(printer, r.output, (r.where.expr(),), r.value, printer.count))

    # -- values
    def _hoist(self, w: Writer, scope: Scope, values: Sequence[Expr]) -> None:
        """Declare hoisted values for all vectors of states of a group."""
        p = self.p
        reduced = {a for a, _ in p.r.reduced}
        for e in values:
            each = bool(e.axes() & reduced)
            varies = self._printer(scope, _Point(0, "0L", "")).varies(e)
            stem = self.emitter.fresh("h")
            for v in range(self._vectors(scope) if varies else 1):
                if each and self._looped:
                    printer = self._printer(scope, _Point(v, "n_", f"{v}[n_]"))
                    w.line(f"{self._value_type(printer, e)} {stem}_{v}[{p.states}];")
                    with w.block(f"for (long n_ = 0; n_ < {p.states}; n_++)"):
                        w.line(f"{stem}_{v}[n_] = {printer.text(e) if varies else printer.scalar(e)};")
                    continue
                for n in range(p.states if each else 1):
                    printer = self._printer(scope, _Point(v, f"{n}L", f"{v}_{n}"))
                    text = printer.text(e) if varies else printer.scalar(e)
                    w.line(f"const {self._value_type(printer, e)} {stem}_{v}_{n} = {text};")
            self.hoisted.append(_Hoisted(stem, self.values.memo.numbers.of(e), each, varies))

    def _names(self, at: _Point) -> dict[int, str]:
        """C names of the hoisted values, by value number."""
        found = {}
        for h in self.hoisted:
            name = f"{h.stem}_{at.v if h.varies else 0}"
            if self._looped and h.each:
                found[h.number] = f"{name}[{at.n}]"
            else:
                found[h.number] = f"{name}_{at.n.removesuffix('L') if h.each else 0}"
        return found

    def _held(self, w: Writer, stem: str, printer: Printer, e: Expr) -> str:
        """Declare a value; returns its C name."""
        return self._let(w, stem, e, printer.held(e))

    def _let(self, w: Writer, stem: str, like: Expr, text: str) -> str:
        return self.emitter.let(w, stem, self._type(like), text)

    def _type(self, e: Expr) -> str:
        if self.p.vector is None:
            return computed(e.dtype)
        return f"tw::vec<{held_lane(e.dtype)}, {self.p.lanes}>"

    def _value_type(self, printer: Printer, e: Expr) -> str:
        return printer.vec(printer.lane_type(e)) if printer.varies(e) else computed(e.dtype)

    def _printer(
        self, scope: Scope, at: _Point, var: Mapping[str, str] | None = None, names: Mapping[int, str] | None = None,
        plain: bool = False,
    ) -> MemoryPrinter:  # fmt: skip
        """A printer for a vector of states. ``plain``: for an expression of states, without names of hoisted values."""
        p = self.p
        places = {a: t.start for a, t in scope.tiles.items()}
        count = None
        if p.vector is not None:
            tile = scope.tiles[p.vector]
            places[p.vector] = plus(tile.start, at.v * p.lanes)
            count = tile.partial
        if p.reduced:
            places[p.reduced[0]] = at.n
        known = {} if plain else dict(self._names(at) if names is None else names)
        return self.values.at(places, p.vector, var, count, known)
