"""A whole kernel: rows sorted by group (a counting sort) and brought together, a call a group, rows put in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilewright.core import Candidate, IntExpr, Launch, LaunchProgram
from tilewright.kernels.codegen.access import MemoryPrinter, flat_index, storage
from tilewright.kernels.codegen.emitter import Body, Emitter, Scope
from tilewright.kernels.codegen.integers import named
from tilewright.kernels.codegen.printer import Memo
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.families.grouped import CHOSEN, ROWS
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.grouped.nests import ROW, brought, put
from tilewright.kernels.templates.grouped.plan import GroupedPlan

PAGE = 4096


def kernel(p: GroupedPlan, symbol: str) -> LoweredKernel:
    """The kernel's text and its launch."""
    return _Kernel(p, symbol).lowered()


@dataclass
class _Kernel:
    p: GroupedPlan
    symbol: str
    size: int = 0
    memo: Memo = field(default_factory=Memo)

    def lowered(self) -> LoweredKernel:
        p, g = self.p, self.p.g
        one = Candidate(p.any_rows, p.schedule.at({g.varying.name: g.typical}))
        inner = p.template.lower(one)
        name = f"{self.symbol}_group"
        emitter = Emitter(self.symbol)
        tensors = (*g.program.inputs, g.program.output)
        emitter.tensors({t.name: storage(t.dtype) for t in tensors})
        arguments = [a for a in inner.program.launches[0].arguments if a != g.varying.argument]
        sizes = [s.argument for s in g.program.sizes.values()]
        for number, size in enumerate(sizes, len(arguments)):
            emitter.local("long", size, f"args[{number}]")
        self._memory(emitter, "long", "order", g.rows.size, 8)
        self._memory(emitter, "long", "first", g.groups + 1, 8)
        for n, s in enumerate(g.sources):
            if s.how == ROWS:
                self._memory(emitter, storage(s.dtype), f"rows{n}", g.rows.size * s.size, ITEMSIZE[s.dtype])
        out = g.program.output
        self._memory(emitter, storage(out.dtype), "sorted", out.size, ITEMSIZE[out.dtype])
        self._sort(emitter.entry)
        for n, s in enumerate(g.sources):
            if s.how == ROWS:
                self._bring(emitter, n)
        for launch in inner.program.launches:
            self._groups(emitter.entry, launch, launch.symbol.replace(one.symbol, name), arguments)
        self._put(emitter)

        def at_most(name: str) -> IntExpr:
            return int(g.varying) if name == g.varying.argument else name

        workspace: IntExpr = ["+", self.size, named(inner.program.workspace, at_most)]
        program = LaunchProgram((Launch(self.symbol, (*arguments, *sizes)),), workspace, align=inner.program.align)
        return LoweredKernel(self.symbol, inner.source.replace(one.symbol, name) + "\n" + emitter.unit(), program)

    def _memory(self, emitter: Emitter, kind: str, name: str, count: int, item: int) -> None:
        """Print the address of an array in the workspace, which has room for ``count`` elements."""
        emitter.local(f"{kind} *", name, f"({kind} *)((char *)workspace + {self.size}L)")
        self.size += -(-int(count) * item // PAGE) * PAGE

    def _printer(self, places: dict[str, str]) -> MemoryPrinter:
        tensors = {t.name: t for t in self.p.g.program.inputs}
        return MemoryPrinter(axis=places, lanes=None, tensors=tensors, memo=self.memo)

    def _sort(self, w: Writer) -> None:
        """``order``: the rows by group, and as they come within one; ``first[g]``: where group ``g`` begins."""
        g = self.p.g
        index = self._printer(g.rows.split("r_")).scalar(g.index)
        rows = f"for (long r_ = 0; r_ < {g.rows.size_text}; r_++)"
        w.line(f"for (long g_ = 0; g_ <= {g.groups}L; g_++) first[g_] = 0;")
        # Counts stand one group further on, so that they become beginnings; filling moves each to its group's end.
        w.line(f"{rows} first[{index} + 1]++;")
        w.line(f"for (long g_ = 0; g_ < {g.groups}L; g_++) first[g_ + 1] += first[g_];")
        w.line(f"{rows} order[first[{index}]++] = r_;")
        w.line(f"for (long g_ = {g.groups}L; g_ > 0; g_--) first[g_] = first[g_ - 1];")
        w.line("first[0] = 0;")

    def _bring(self, emitter: Emitter, number: int) -> None:
        s, rows = self.p.g.sources[number], self.p.g.rows
        assert s.read is not None
        nest, tensor, read = brought(self.p, number), self.p.g.program.tensors[s.tensor], s.read
        copied = 1
        around = list(s.others)
        # The innermost axes that lie in memory as they are copied are one piece.
        while around and flat_step(read.args, tensor.strides, around[-1][0]) == copied:
            copied *= around.pop()[1]

        def body(w: Writer, scope: Scope) -> None:
            w.line(f"const long r_ = order[{scope.at(ROW)}];")
            places = {a: scope.at(a) for a, _ in around} | {a: "0L" for a, _ in s.others[len(around) :]}
            at, step = [f"{scope.at(ROW)} * {s.size}L"], copied
            for a, n in reversed(around):
                at.append(f"{places[a]} * {step}L")
                step *= n
            from_ = flat_index(read.args, tensor, self._printer(rows.split("r_") | places))
            to = f"rows{number} + {' + '.join(at)}"
            w.line(f"__builtin_memcpy({to}, {s.tensor} + ({from_}), {copied * ITEMSIZE[s.dtype]}L);")

        kept = {ROW, *(a for a, _ in around)}
        self._nest(emitter, nest, body, kept)

    def _put(self, emitter: Emitter) -> None:
        g = self.p.g
        row, out = g.row, g.program.output

        def body(w: Writer, scope: Scope) -> None:
            at = scope.at(ROW)
            to = f"{out.name} + order[{at}] * {row}L"
            w.line(f"__builtin_memcpy({to}, sorted + {at} * {row}L, {row * ITEMSIZE[out.dtype]}L);")

        self._nest(emitter, put(self.p), body, {ROW})

    def _nest(self, emitter: Emitter, nest: LoopNest, body: Body, kept: set[str]) -> None:
        """Some of a nest's loops, around what copies along the others."""
        loops = tuple(x for x in nest.loops if x.axis in kept)
        emitter.nest(emitter.entry, nest, body, loops=loops, tasks=f"{self.p.target.threads}L")

    def _groups(self, w: Writer, launch: Launch, symbol: str, arguments: list[str]) -> None:
        """A call for every group that has rows."""
        g = self.p.g
        with w.block(f"for (long g_ = 0; g_ < {g.groups}L; g_++)"):
            w.line("const long from = first[g_], count = first[g_ + 1] - from;")
            w.line("if (count == 0) continue;")
            pointers = []
            for n, s in enumerate(g.sources):
                if s.how == ROWS:
                    pointers.append(f"rows{n} + from * {s.size}L")
                elif s.how == CHOSEN:
                    pointers.append(f"{s.tensor} + g_ * {prod(g.program.tensors[s.tensor].shape[1:])}L")
                else:
                    pointers.append(s.tensor)
            texts = ", ".join(f"(void *)({x})" for x in (*pointers, f"sorted + from * {g.row}L"))
            values = ", ".join(
                "count" if a == g.varying.argument else f"args[{arguments.index(a)}]" for a in launch.arguments
            )
            w.line(f"void *const of_group[] = {{{texts}}};")
            w.line(f"const long long chosen[] = {{{values}}};")
            call = f"{symbol}(of_group, chosen, (char *)workspace + {self.size}L, env)"
            w.line(f"if (const int code = {call}) return code;")
