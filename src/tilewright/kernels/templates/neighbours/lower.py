"""A whole kernel: for each box of the result, every stage over what that needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.codegen.access import MemoryPrinter, storage, write
from tilewright.kernels.codegen.emitter import Emitter, Scope
from tilewright.kernels.codegen.printer import Memo, Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.neighbours import Link, edge
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.neighbours.interior import Interior, interior
from tilewright.kernels.templates.neighbours.nests import boxes
from tilewright.kernels.templates.neighbours.space import ChainTiling


def kernel(p: ChainTiling, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    emitter, program = Emitter(symbol), p.n.program
    emitter.tensors({x.name: storage(x.dtype) for x in (*program.inputs, program.output)})
    emitter.local("char *", "scratch", "(char *)workspace")
    arguments = ("tasks",) if p.target.threads > 1 else ()
    emitter.arguments(arguments)
    text = _Text(p, emitter)
    emitter.nest(emitter.entry, boxes(p), text.box, tasks="tasks" if p.target.threads > 1 else "1L")
    launch = LaunchProgram((Launch(symbol, arguments),), workspace=p.target.threads * p.regions.bytes)
    return LoweredKernel(symbol, emitter.unit(), launch)


@dataclass
class _Text:
    """Prints one kernel."""

    p: ChainTiling
    emitter: Emitter
    memo: Memo = field(default_factory=Memo)

    @property
    def tensors(self) -> dict[str, Tensor]:
        scratch = {x.name: self.p.regions.of[x.name].scratch for x in self.p.n.links[:-1]}
        return {**self.p.n.program.tensors, **scratch}

    def box(self, w: Writer, scope: Scope) -> None:
        """All stages of a box."""
        links = self.p.n.links
        for link in reversed(links):
            self._edges(w, link, scope)
        for link in links[:-1]:
            self._pointer(w, link, scope)
        for link in links:
            with w.block():
                self._rows(w, link)

    def _edges(self, w: Writer, link: Link, scope: Scope) -> None:
        """Declare what is needed of a stage, and for its readers' sake under the names that they know."""
        names = {edge(x.name, d, e): edge(x.name, d, e) for x in self.p.n.links for d in range(len(x.axes)) for e in (False, True)}  # fmt: skip
        printer = Printer(names)
        for d, a in enumerate(link.axes):
            if link is self.p.n.result:
                first, last = scope.tiles[a].start, f"{scope.tiles[a].end} - 1"
            else:
                first, last = printer.scalar(link.first[d]), printer.scalar(link.last[d])
            w.line(f"const long {edge(link.name, d)} = {first}, {edge(link.name, d, last=True)} = {last};")

    def _pointer(self, w: Writer, link: Link, scope: Scope) -> None:
        """Declare a pointer to where position 0 of a stage would lie in the scratch."""
        region = self.p.regions.of[link.name]
        ctype, item = storage(link.stage.dtype), ITEMSIZE[link.stage.dtype]
        array = region.scratch
        moved = [
            f"{edge(link.name, d)}*{s * item}L"
            for d, (n, s) in enumerate(zip(array.shape, array.strides, strict=True))
            if n > 1
        ]
        at = " - ".join([f"{scope.worker}*{self.p.regions.bytes}L + {region.at}L", *moved])
        w.line(f"{ctype} *const {link.name} = ({ctype} *)(scratch + ({at}));")

    def _rows(self, w: Writer, link: Link) -> None:
        """A stage, row by row: inside, where no condition on positions is left, and at the edges of its axes."""
        at: dict[str, str] = {}
        inside = interior(link.value, dict(zip(link.axes, link.extents, strict=True)))

        def level(d: int) -> None:
            if d == len(link.axes) - 1:
                self._row(w, link, at, inside)
                return
            i = at[link.axes[d]] = self.emitter.fresh("i")
            with w.block(f"for (long {i} = {edge(link.name, d)}; {i} <= {edge(link.name, d, last=True)}; {i}++)"):
                level(d + 1)

        level(0)

    def _row(self, w: Writer, link: Link, at: Mapping[str, str], inside: Interior) -> None:
        d = len(link.axes) - 1
        first, end = edge(link.name, d), f"{edge(link.name, d, last=True)} + 1"
        if not inside.ranges:
            self._vectors(w, link, at, link.value, first, end)
            return
        low, high = inside.ranges[link.axes[-1]]
        a, b = self.emitter.fresh("a"), self.emitter.fresh("b")
        w.line(f"const long {a} = tw::imin(tw::imax({first}, {low}), {end});")
        w.line(f"const long {b} = tw::imax({a}, tw::imin({end}, {high + 1}));")
        if low > 0:
            self._vectors(w, link, at, link.value, first, a, edges=True)
        rows = [
            f"{at[x]} >= {lo} && {at[x]} <= {hi}"
            for x, n in zip(link.axes[:-1], link.extents[:-1], strict=True)
            for lo, hi in (inside.ranges[x],)
            if (lo, hi) != (0, n - 1)
        ]
        if rows:
            with w.block(f"if ({' && '.join(rows)})"):
                self._vectors(w, link, at, inside.value, a, b)
            with w.block("else"):
                self._vectors(w, link, at, inside.along, a, b)
        else:
            self._vectors(w, link, at, inside.value, a, b)
        if high < link.extents[-1] - 1:
            self._vectors(w, link, at, link.value, b, end, edges=True)

    def _vectors(
        self, w: Writer, link: Link, at: Mapping[str, str], value: Expr, low: str, high: str, edges: bool = False
    ) -> None:
        """A row's part in vectors. Fewer elements than one are masked; more end with one that overlaps the last."""
        p, j = self.p, self.emitter.fresh("j")
        with w.block():
            w.line(f"long {j} = {low};")
            w.line(f"const long end_ = {high};")
            if not edges:
                for count in dict.fromkeys((p.vectors, 1)):
                    step = count * p.lanes
                    with w.block(f"for (; {j} + {step} <= end_; {j} += {step})"):
                        for v in range(count):
                            self._vector(w, link, at, value, f"({j} + {v * p.lanes}L)" if v else j)
                with w.block(f"if ({j} < end_ && end_ - {low} >= {p.lanes})"):
                    w.line(f"{j} = end_ - {p.lanes};")
                    self._vector(w, link, at, value, j)
                    w.line(f"{j} = end_;")
            with w.block(f"for (; {j} < end_; {j} += {p.lanes})"):
                w.line(f"const long n_ = tw::imin({p.lanes}L, end_ - {j});")
                self._vector(w, link, at, value, j, "n_")

    def _vector(
        self, w: Writer, link: Link, at: Mapping[str, str], value: Expr, j: str, count: str | None = None
    ) -> None:
        printer = MemoryPrinter(
            axis={**at, link.axes[-1]: j}, lanes=self.p.lanes, vector=link.axes[-1],
            ranges={a: (0, n - 1) for a, n in zip(link.axes, link.extents, strict=True)}, memo=self.memo,
            tensors=self.tensors, count=count,
        )  # fmt: skip
        with w.block():
            printer.bind((value,), w.line, self.emitter.fresh)
            target = self.tensors[link.name]
            w.line(write(printer, target, tuple(axis(a) for a in link.axes), value, count))
