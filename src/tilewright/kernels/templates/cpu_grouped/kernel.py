"""The kernel of a grouped contraction: gathers rows by group, calls a kernel for each group, and scatters rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tilewright.core import Launch
from tilewright.kernels.codegen.access import MemoryPrinter, Values, flat_index, storage
from tilewright.kernels.codegen.emitter import Body, Emitter, Scope
from tilewright.kernels.codegen.integers import named
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, axis
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.families.grouped import CHOSEN, ROWS, Source
from tilewright.kernels.kernel import Array, Kernel, Opaque, Workspace, entry
from tilewright.kernels.loopnest import Access, Loop, LoopNest, divided
from tilewright.kernels.templates.cpu_grouped.plan import GroupedPlan

PAGE = 4096
ROW, GROUP, ALONG = "row", "group", "j"


def kernel(p: GroupedPlan) -> Kernel:
    """The kernel of a schedule: loops around calls of a group's kernel, which takes any number of rows."""
    return Kernel(
        text=Opaque(partial(_nests, p), partial(_source, p)),
        static=p.typical.static,
        launches=entry(p.g.program, *p.typical.arguments),
        workspace=partial(_workspace, p),
        align=p.typical.align,
    )


def _nests(p: GroupedPlan) -> tuple[LoopNest, ...]:
    """All nests in order. Loops that copy rows are divided among the threads."""
    found = [_gather_nest(p, n) for n, s in enumerate(p.g.sources) if s.how == ROWS]
    around = [replace(n, loops=divided(n.loops, p.target.threads)) for n in (*found, _scatter_nest(p))]
    inner = [_of_every_group(p, n) for n in p.typical.nests]
    return (*around[:-1], *inner, around[-1])


def _gather_nest(p: GroupedPlan, number: int) -> LoopNest:
    """The nest that gathers rows, sorted by group, for input ``number`` of the group's kernel."""
    s, rows = p.g.sources[number], p.g.rows
    assert s.read is not None
    sizes = dict(s.others)
    loops = [Loop(ROW, rows.size, 1, "chunked"), *(Loop(a, n, 1) for a, n in s.others)]
    read = tuple(i.substitute(rows.indices(ROW)) for i in s.read.args)
    out = Access(_copy(number), (axis(ROW), *map(axis, sizes)), s.dtype, store=True)
    return LoopNest(
        _copy(number), {ROW: rows.size, **sizes}, tuple(loops), (Access(s.tensor, read, s.dtype), out),
        flops_per_point=0, itemsize=ITEMSIZE[s.dtype],
    )  # fmt: skip


def _scatter_nest(p: GroupedPlan) -> LoopNest:
    """The nest that scatters the groups' results to their rows."""
    g, out = p.g, p.g.program.output
    loops = (Loop(ROW, g.rows.size, 1, "chunked"), Loop(ALONG, g.row, 1))
    at = (axis(ROW) * g.row + axis(ALONG),)
    accesses = (Access("sorted", at, out.dtype), Access(out.name, at, out.dtype, store=True))
    axes = {ROW: g.rows.size, ALONG: g.row}
    return LoopNest("placed", axes, loops, accesses, flops_per_point=0, itemsize=ITEMSIZE[out.dtype])


def _copy(number: int) -> str:
    return f"rows{number}"


def _of_every_group(p: GroupedPlan, nest: LoopNest) -> LoopNest:
    """A nest of the group's kernel inside a loop over the groups, with accesses to the current group's rows."""
    names = {f"x{n}": s for n, s in enumerate(p.g.sources)}
    result = p.g.one.output.name

    def name(tensor: str) -> str:
        s = names.get(tensor)
        if s is None:
            return "sorted" if tensor == result else tensor
        return _copy(int(tensor[1:])) if s.how == ROWS else s.tensor

    def indices(a: Access, s: Source | None) -> tuple[Expr, ...]:
        if s is not None and s.how == CHOSEN:
            return (axis(GROUP), *a.indices)
        if (s is None and a.tensor == result) or (s is not None and s.how == ROWS):
            return (axis(GROUP) * p.g.typical + a.indices[0], *a.indices[1:])
        return a.indices

    return replace(
        nest,
        axes={GROUP: p.g.chosen, **nest.axes},
        loops=(Loop(GROUP, p.g.chosen, 1), *nest.loops),
        accesses=tuple(
            replace(a, tensor=name(a.tensor), indices=indices(a, names.get(a.tensor))) for a in nest.accesses
        ),
        staged=tuple(
            replace(x, tensor=name(x.tensor), depth=None if x.depth is None else x.depth + 1) for x in nest.staged
        ),
    )


def _workspace(p: GroupedPlan) -> Workspace:
    """The workspace: order of the rows, start of each group, gathered rows, their results, and a group's workspace."""
    g, out = p.g, p.g.program.output
    rows = ((_copy(n), s.dtype, g.rows.size * s.size) for n, s in enumerate(g.sources) if s.how == ROWS)
    copies = (*rows, ("sorted", out.dtype, out.size))
    most = named(p.any_rows.workspace.bytes, lambda name: int(g.varying) if name == g.varying.argument else name)
    arrays = (
        Array("order", "long", int(g.rows.size)),
        Array("first", "long", g.groups + 1),
        *(Array(name, storage(dtype), int(size)) for name, dtype, size in copies),
        Array("group", "char", most),
    )
    return Workspace(arrays, PAGE)


def _source(p: GroupedPlan, kernel: Kernel, symbol: str) -> str:
    g, group = p.g, p.any_rows.lower(f"{symbol}_group")
    emitter = Emitter(symbol)
    emitter.tensors({t.name: storage(t.dtype) for t in (*g.program.inputs, g.program.output)})
    for size in g.program.size_arguments:
        emitter.local("long", size, kernel.argument(size))
    for pointer in kernel.workspace.pointers():
        if pointer[1] != "group":
            emitter.local(*pointer)
    _Text(p, emitter, kernel).print(group.program.launches)
    return group.source + "\n" + emitter.unit()


@dataclass
class _Text:
    """Prints the code around the calls of the groups' kernel."""

    p: GroupedPlan
    emitter: Emitter
    kernel: Kernel

    def __post_init__(self) -> None:
        self.values = Values(self.p.g.program.tensors, {})

    def print(self, calls: Sequence[Launch]) -> None:
        """Prints all parts in order."""
        w = self.emitter.entry
        self._sort(w)
        for n, s in enumerate(self.p.g.sources):
            if s.how == ROWS:
                self._gather(n)
        for launch in calls:
            self._groups(w, launch)
        self._scatter()

    def _printer(self, places: dict[str, str]) -> MemoryPrinter:
        return self.values.at(places)

    def _sort(self, w: Writer) -> None:
        """Prints a stable sort: ``order`` holds the rows by group, and ``first[g]`` the start of group ``g``."""
        g = self.p.g
        index = self._printer(g.rows.split("r_")).scalar(g.index)
        rows = f"for (long r_ = 0; r_ < {g.rows.size_text}; r_++)"
        w.line(f"for (long g_ = 0; g_ <= {g.groups}L; g_++) first[g_] = 0;")
        # Counts are stored one group later, so that their prefix sums are starts. Filling moves each start to its end.
        w.line(f"{rows} first[{index} + 1]++;")
        w.line(f"for (long g_ = 0; g_ < {g.groups}L; g_++) first[g_ + 1] += first[g_];")
        w.line(f"{rows} order[first[{index}]++] = r_;")
        w.line(f"for (long g_ = {g.groups}L; g_ > 0; g_--) first[g_] = first[g_ - 1];")
        w.line("first[0] = 0;")

    def _gather(self, number: int) -> None:
        s, rows = self.p.g.sources[number], self.p.g.rows
        assert s.read is not None
        nest, tensor, read = _gather_nest(self.p, number), self.p.g.program.tensors[s.tensor], s.read
        copied = 1
        around = list(s.others)
        # The innermost axes that are contiguous in the tensor are one ``memcpy``.
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
        self._nest(nest, body, kept)

    def _scatter(self) -> None:
        g = self.p.g
        row, out = g.row, g.program.output

        def body(w: Writer, scope: Scope) -> None:
            at = scope.at(ROW)
            to = f"{out.name} + order[{at}] * {row}L"
            w.line(f"__builtin_memcpy({to}, sorted + {at} * {row}L, {row * ITEMSIZE[out.dtype]}L);")

        self._nest(_scatter_nest(self.p), body, {ROW})

    def _nest(self, nest: LoopNest, body: Body, kept: set[str]) -> None:
        """Prints the loops of a nest over the axes ``kept``, around a body that copies along all further axes."""
        loops = tuple(x for x in nest.loops if x.axis in kept)
        self.emitter.nest(self.emitter.entry, nest, body, loops=loops, tasks=f"{self.p.target.threads}L")

    def _groups(self, w: Writer, launch: Launch) -> None:
        """Prints a call for every group that has rows."""
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
                "count" if a == g.varying.argument else self.kernel.argument(a) for a in launch.arguments
            )
            w.line(f"void *const of_group[] = {{{texts}}};")
            w.line(f"const long long chosen[] = {{{values}}};")
            scratch = f"(char *)workspace + {self.kernel.workspace.offset('group')}L"
            call = f"{launch.symbol}(of_group, chosen, {scratch}, env)"
            w.line(f"if (const int code = {call}) return code;")
