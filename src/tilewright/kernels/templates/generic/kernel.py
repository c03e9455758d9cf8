"""Prints the parts of a program through the emitter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tilewright.core import Launch
from tilewright.kernels.codegen.access import MemoryPrinter, storage, write
from tilewright.kernels.codegen.emitter import Emitter, Hook, Scope, plus
from tilewright.kernels.codegen.printer import Memo, Printer, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.chains import widened
from tilewright.kernels.templates.generic.tiling import PartTiling, nest, reduction

_ACROSS = {"add": "tw::hsum", "mul": "tw::hprod", "max": "tw::hmax", "min": "tw::hmin"}


def kernel(program: Program, plans: Sequence[PartTiling]) -> Kernel:
    """The kernel of a program's parts: a nest for each, one after the other or inside of the loops that they share."""
    outputs = {t.name for t in program.outputs}
    made = [program.tensors[p.part.target] for p in plans if p.part.target not in outputs]
    tiles = (argument for p in plans for _, argument, _ in p.tiles)
    return Kernel(
        text=Emitted(tuple(map(nest, plans)), 1, partial(_text, program, plans)),
        static=CpuStatic(fused=plans[0].share),
        launches=(Launch("", (*tiles, *(size.argument for size in program.sizes.values()))),),
        workspace=Workspace(tuple(Array(t.name, storage(t.dtype), int(t.size)) for t in made)),
    )


def _text(
    program: Program, plans: Sequence[PartTiling], kernel: Kernel, emitter: Emitter, nests: tuple[LoopNest, ...]
) -> str:
    tensors = (*program.inputs, *program.outputs)
    emitter.tensors({t.name: storage(t.dtype) for t in tensors}, len(program.outputs))
    for pointer in kernel.workspace.pointers(str):
        emitter.local(*pointer)
    emitter.arguments(kernel.arguments)
    parts = [_PartPrinter(emitter, program, p, n) for p, n in zip(plans, nests, strict=True)]
    share = plans[0].share
    if share:
        lead = nests[0].loops[:share]
        outer = LoopNest("shared", {x.axis: x.extent for x in lead}, lead, ())

        def all_parts(writer: Writer, scope: Scope) -> None:
            for p in parts:
                p.print(writer, scope)

        emitter.nest(emitter.entry, outer, all_parts)
    else:
        for p in parts:
            p.print(emitter.entry, Scope({}, captured=tuple(emitter.captured)))
    return ""


@dataclass
class _Point:
    """One element, or one vector of elements, of the block that is computed together."""

    suffix: str
    axis: dict[str, str]
    count: str | None = None  # lanes in use, where not all


@dataclass
class _PartPrinter:
    emitter: Emitter
    program: Program
    plan: PartTiling
    nest: LoopNest
    types: tuple[str, ...] = field(init=False)
    memo: Memo = field(default_factory=Memo)
    blocked: bool = False  # whether accumulators of a block take in elements

    def __post_init__(self) -> None:
        self.ranges = {a: (0, n - 1) for a, n in self.plan.part.ranges.items()}
        m = self.plan.part.monoid
        self.types = (
            tuple("int" if i.dtype == "bool" else computed(i.dtype) for i in m.identity)
            if (m is not None and self.plan.vector is not None)
            else ()
        )

    def print(self, w: Writer, scope: Scope) -> None:
        plan = self.plan
        chosen = self.nest.around[plan.share :]
        before: dict[int, Hook] = {}
        after: dict[int, Hook] = {}
        if plan.part.monoid is not None:
            depth = next((n for n, x in enumerate(chosen) if x.axis in plan.reduce), len(chosen))
            before[depth] = self._start
            if plan.part.scanned is None:
                after[depth] = self._finish
            around = reduction(plan)[1]
            if around is not None:
                self.blocked = True
                before[depth + around] = partial(self._start, block=True)
                after[depth + around] = self._take_in
        with w.block():
            self.emitter.nest(w, self.nest, self._body, before=before, after=after, loops=chosen, scope=scope)

    # -- the block
    def _points(self, scope: Scope, lanewise: bool) -> list[_Point]:
        """Elements (or vectors along an output axis, with ``lanewise``) of the block."""
        plan = self.plan
        at = {a: t.start for a, t in scope.tiles.items()}
        rows = scope.tiles[plan.rows_axis].size if plan.rows_axis is not None else 1
        vectors, partial = 1, None
        if plan.vector is not None and lanewise:
            tile = scope.tiles[plan.vector]
            vectors = max(1, tile.size // plan.lanes)
            partial = None if tile.whole else tile.count
        points = []
        for r in range(rows):
            for v in range(vectors):
                here = dict(at)
                if plan.rows_axis is not None:
                    here[plan.rows_axis] = plus(at[plan.rows_axis], r)
                if plan.vector is not None and lanewise:
                    here[plan.vector] = plus(at[plan.vector], v * plan.lanes)
                points.append(_Point(f"{r}_{v}", here, partial))
        return points

    def _printer(self, point: _Point, lanewise: bool, var: dict[str, str]) -> Printer:
        plan = self.plan
        vector = lanewise and plan.vector is not None
        return MemoryPrinter(
            axis=point.axis,
            var=var,
            lanes=plan.lanes if vector else None,
            vector=plan.vector if vector else None,
            varying=frozenset(var) if vector else frozenset(),
            ranges=self.ranges,
            memo=self.memo,
            tensors=self.program.tensors,
            count=point.count if vector else None,
        )

    def _type(self, e: Expr, component: int, lane: str = "") -> str:
        if self.plan.vector is None:
            return lane or computed(e.dtype)
        return f"tw::vec<{lane or self.types[component]}, {self.plan.lanes}>"

    def _value(self, printer: Printer, e: Expr) -> str:
        """Text of an accumulator's value; conditions are kept as masks of int lanes."""
        if printer.lanes is not None and e.dtype == "bool":
            return f"tw::as_mask<{printer.vec('int')}>({printer.mask(e)})"
        return printer.text(e)

    # -- reductions
    def _start(self, w: Writer, scope: Scope, block: bool = False) -> None:
        monoid = self.plan.part.monoid
        assert monoid is not None
        for point in self._accumulators(scope):
            printer = self._printer(point, True, {})
            for c, e in enumerate(monoid.identity):
                if self._wide and not block:
                    w.line(f"{self._type(e, c, 'double')} {_name(c, point)} = {{}};")
                else:
                    w.line(f"{self._type(e, c)} {_name(c, point, block)} = {self._value(printer, e)};")

    @property
    def _wide(self) -> bool:
        """Whether totals of blocks are float64."""
        return self.blocked and self.plan.part.monoid is not None and widened(self.plan.part.monoid)

    def _take_in(self, w: Writer, scope: Scope) -> None:
        """Combine the accumulators of a block with those of the whole."""
        monoid = self.plan.part.monoid
        assert monoid is not None
        parts = range(len(monoid.identity))
        for point in self._accumulators(scope):
            if self._wide:
                block = self._converted(_name(0, point, True), monoid.identity[0], "double")
                w.line(f"{_name(0, point)} += {block};")
                continue
            with w.block():
                self._merge(w, point, [_name(c, point) for c in parts], [_name(c, point, True) for c in parts])

    def _converted(self, text: str, e: Expr, lane: str) -> str:
        """Lanes of an accumulator in another C type."""
        vector = self.plan.vector is not None
        return f"tw::convert<{self._type(e, 0, lane)}>({text})" if vector else f"({lane}){text}"

    def _accumulators(self, scope: Scope) -> list[_Point]:
        if not self.plan.across:
            return self._points(scope, True)
        points = self._points(scope, False)
        return [
            _Point(p.suffix[:-1] + str(v), {**p.axis, str(self.plan.vector): "0L"})
            for p in points for v in range(self.plan.vectors)
        ]  # fmt: skip

    def _body(self, w: Writer, scope: Scope) -> None:
        part = self.plan.part
        for point in self._points(scope, True):
            printer = self._printer(point, True, {})
            if part.monoid is None:
                with w.block():
                    self._store(w, printer, point)
            else:
                self._combine(w, printer, point)
        if part.scanned is not None:
            self._finish(w, scope)

    def _combine(self, w: Writer, printer: Printer, point: _Point) -> None:
        part = self.plan.part
        monoid = part.monoid
        assert monoid is not None
        names = [_name(c, point, self.blocked) for c in range(len(part.body))]
        with w.block():
            printer.bind(part.body, w.line, self.emitter.fresh)
            for c, e in enumerate(part.body):
                text = self._value(printer, e)
                if self.plan.across and point.count is not None:
                    text = f"tw::select({self._live(point)}, {text}, {self._value(printer, monoid.identity[c])})"
                w.line(f"const {self._type(e, c)} b{c} = {text};")
            self._merge(w, point, names, [f"b{c}" for c in range(len(names))])

    def _merge(self, w: Writer, point: _Point, into: list[str], other: list[str]) -> None:
        """Combine partial results with others, inside a block of their own."""
        monoid = self.plan.part.monoid
        assert monoid is not None
        var = {f"l{c}": n for c, n in enumerate(into)} | {f"r{c}": n for c, n in enumerate(other)}
        merge = self._printer(point, True, var)
        merge.bind(monoid.combine, w.line, self.emitter.fresh)
        if len(into) == 1:
            w.line(f"{into[0]} = {self._value(merge, monoid.combine[0])};")
            return
        for c, e in enumerate(monoid.combine):
            w.line(f"const {self._type(e, c)} n{c} = {self._value(merge, e)};")
        for c, n in enumerate(into):
            w.line(f"{n} = n{c};")

    def _live(self, point: _Point) -> str:
        return f"tw::first<tw::mask<tw::vec<{self.types[0]}, {self.plan.lanes}>>>({point.count})"

    def _finish(self, w: Writer, scope: Scope) -> None:
        plan, monoid = self.plan, self.plan.part.monoid
        assert monoid is not None
        count = len(plan.part.body)
        for point in self._points(scope, not plan.across):
            with w.block():
                names = {f"l{c}": f"a{c}_{point.suffix}" for c in range(count)}
                if plan.across:
                    operator = simple_operator(monoid)
                    assert operator is not None
                    first = point.suffix[:-1]
                    total = f"a0_{first}0"
                    for v in range(1, plan.vectors):
                        total = _merged(operator, total, f"a0_{first}{v}")
                    w.line(f"const {self.types[0]} h = {_ACROSS[operator]}({total});")
                    names = {"l0": "h"}
                elif self._wide:
                    e = monoid.identity[0]
                    w.line(f"const {self._type(e, 0)} h = {self._converted(names['l0'], e, 'float')};")
                    names = {"l0": "h"}
                printer = self._printer(point, not plan.across, names)
                self._store(w, printer, point)

    def _store(self, w: Writer, printer: Printer, point: _Point) -> None:
        part = self.plan.part
        printer.bind((part.value,), w.line, self.emitter.fresh)
        tensor = self.program.tensors[part.target]
        count = point.count if printer.lanes is not None else None
        w.line(write(printer, tensor, tuple(axis(a) for a in part.axes), part.value, count))


def _name(component: int, point: _Point, block: bool = False) -> str:
    """The name of an accumulator: of all terms, or of a block of them."""
    return f"{'p' if block else 'a'}{component}_{point.suffix}"


def _merged(operator: str, a: str, b: str) -> str:
    if operator in ("max", "min"):
        return f"tw::{operator}({a}, {b})"
    return f"({a} {'+' if operator == 'add' else '*'} {b})"
