"""Prints the parts of a program (stages with fused producers and epilogue) through the emitter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.core import cached_property
from tilewright.kernels.codegen.access import Values, storage, write
from tilewright.kernels.codegen.accumulators import ACROSS, merged
from tilewright.kernels.codegen.emitter import Emitter, Hook, Scope, plus
from tilewright.kernels.codegen.printer import Printer, computed, held_lane
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.parts import simple_operator
from tilewright.kernels.kernel import Array, CpuStatic, Emitted, Kernel, Workspace, entry
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.chains import widened
from tilewright.kernels.templates.cpu_generic.tiling import PartTiling, nest, reduction


def kernel(program: Program, plans: Sequence[PartTiling]) -> Kernel:
    """The kernel of a program's parts: one loop nest for each part, in sequence or inside shared outer loops."""
    outputs = {t.name for t in program.outputs}
    made = [program.tensors[p.part.target] for p in plans if p.part.target not in outputs]
    tiles = (argument for p in plans for _, argument, _ in p.tiles)
    return Kernel(
        text=Emitted(tuple(map(nest, plans)), 1, partial(_text, program, plans)),
        static=CpuStatic(fused=plans[0].share),
        launches=entry(program, *tiles),
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
    """One element, or one vector of elements, of a register block."""

    suffix: str
    axis: dict[str, str]
    count: str | None = None  # number of active lanes; None: all


@dataclass
class _PartPrinter:
    emitter: Emitter
    program: Program
    plan: PartTiling
    nest: LoopNest
    blocked: bool = False  # whether a reduction accumulates blocks of terms separately

    def __post_init__(self) -> None:
        self.values = Values(self.program.tensors, self.plan.part.ranges, self.plan.lanes)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """C types of the vector accumulators' lanes, by component."""
        m = self.plan.part.monoid
        return () if m is None else tuple(held_lane(e.dtype) for e in m.identity)

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
                after[depth + around] = self._merge_block
        with w.block():
            self.emitter.nest(w, self.nest, self._body, before=before, after=after, loops=chosen, scope=scope)

    # -- the block
    def _points(self, scope: Scope, lanewise: bool) -> list[_Point]:
        """The elements of a register block. ``lanewise``: its vectors, if the vectorised axis is an output axis."""
        plan = self.plan
        at = {a: t.start for a, t in scope.tiles.items()}
        rows = scope.tiles[plan.rows_axis].size if plan.rows_axis is not None else 1
        vectors, partial = 1, None
        if plan.vector is not None and lanewise:
            tile = scope.tiles[plan.vector]
            vectors = max(1, tile.size // plan.lanes)
            partial = tile.partial
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

    def _printer(self, point: _Point, lanewise: bool, var: Mapping[str, str] | None = None) -> Printer:
        return self.values.at(point.axis, self.plan.vector if lanewise else None, var, point.count)

    def _type(self, e: Expr, component: int, lane: str = "") -> str:
        if self.plan.vector is None:
            return lane or computed(e.dtype)
        return f"tw::vec<{lane or self.types[component]}, {self.plan.lanes}>"

    # -- reductions
    def _start(self, w: Writer, scope: Scope, block: bool = False) -> None:
        monoid = self.plan.part.reduction
        for point in self._accumulators(scope):
            printer = self._printer(point, True)
            for c, e in enumerate(monoid.identity):
                if self._wide and not block:
                    w.line(f"{self._type(e, c, 'double')} {_name(c, point)} = {{}};")
                else:
                    w.line(f"{self._type(e, c)} {_name(c, point, block)} = {printer.held(e)};")

    @property
    def _wide(self) -> bool:
        """Whether the total over blocks of terms is float64."""
        return self.blocked and self.plan.part.monoid is not None and widened(self.plan.part.monoid)

    def _merge_block(self, w: Writer, scope: Scope) -> None:
        """Print the merge of a block's accumulators into the total accumulators."""
        monoid = self.plan.part.reduction
        parts = range(len(monoid.identity))
        for point in self._accumulators(scope):
            if self._wide:
                block = self._converted(_name(0, point, True), monoid.identity[0], "double")
                w.line(f"{_name(0, point)} += {block};")
                continue
            with w.block():
                self._merge(w, point, [_name(c, point) for c in parts], [_name(c, point, True) for c in parts])

    def _converted(self, text: str, e: Expr, lane: str) -> str:
        """C text of an accumulator converted to lanes of type ``lane``."""
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
            printer = self._printer(point, True)
            if part.monoid is None:
                with w.block():
                    self._store(w, printer, point)
            else:
                self._combine(w, printer, point)
        if part.scanned is not None:
            self._finish(w, scope)

    def _combine(self, w: Writer, printer: Printer, point: _Point) -> None:
        part, monoid = self.plan.part, self.plan.part.reduction
        names = [_name(c, point, self.blocked) for c in range(len(part.body))]
        with w.block():
            printer.bind(part.body, w.line, self.emitter.fresh)
            for c, e in enumerate(part.body):
                text = printer.held(e)
                if self.plan.across and point.count is not None:
                    text = f"tw::select({self._live(point)}, {text}, {printer.held(monoid.identity[c])})"
                w.line(f"const {self._type(e, c)} b{c} = {text};")
            self._merge(w, point, names, [f"b{c}" for c in range(len(names))])

    def _merge(self, w: Writer, point: _Point, into: list[str], other: list[str]) -> None:
        """Print the merge of partial results ``other`` into ``into``; the caller opens a C block for its names."""
        monoid = self.plan.part.reduction
        var = {f"l{c}": n for c, n in enumerate(into)} | {f"r{c}": n for c, n in enumerate(other)}
        merge = self._printer(point, True, var)
        merge.bind(monoid.combine, w.line, self.emitter.fresh)
        if len(into) == 1:
            w.line(f"{into[0]} = {merge.held(monoid.combine[0])};")
            return
        for c, e in enumerate(monoid.combine):
            w.line(f"const {self._type(e, c)} n{c} = {merge.held(e)};")
        for c, n in enumerate(into):
            w.line(f"{n} = n{c};")

    def _live(self, point: _Point) -> str:
        return f"tw::first<tw::mask<tw::vec<{self.types[0]}, {self.plan.lanes}>>>({point.count})"

    def _finish(self, w: Writer, scope: Scope) -> None:
        plan, monoid = self.plan, self.plan.part.reduction
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
                        total = merged(operator, total, f"a0_{first}{v}")
                    w.line(f"const {self.types[0]} h = {ACROSS[operator]}({total});")
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
    """C name of an accumulator of all terms, or with ``block`` of one block of terms."""
    return f"{'p' if block else 'a'}{component}_{point.suffix}"
