"""Printing that rows and tiles share: values, stores, hoisted invariants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilewright.kernels.codegen.access import MemoryPrinter, Values, flat_index, storage, stored, unrounded
from tilewright.kernels.codegen.emitter import Body, Emitter, Scope
from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import FUNCTIONS, Expr, ValueNumbers
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.templates.cpu_map.segments import Segment
from tilewright.kernels.templates.cpu_map.short import any_order
from tilewright.kernels.templates.cpu_map.space import ElementwiseTiling, lane_bytes

BLOCK = 16
"""Size in bytes of the parts of a vector within which lanes are reordered for free (``headers/interleave.h``)."""

RAW_TYPES = {"raw1": "signed char", "raw2": "short", "raw4": "int", "raw8": "long"}


class MovePrinter(MemoryPrinter):
    """Prints pure data movement: lanes hold the bit patterns of elements as integers."""

    def lane_type(self, e: Expr) -> str:
        return RAW_TYPES.get(e.dtype) or super().lane_type(e)

    def scalar_type(self, e: Expr) -> str:
        return RAW_TYPES.get(e.dtype) or super().scalar_type(e)


def ctype(dtype: str) -> str:
    """C type of a stored element."""
    return RAW_TYPES.get(dtype) or storage(dtype)


@dataclass
class Text:
    """Prints the values of one kernel."""

    p: ElementwiseTiling
    kernel: Kernel
    emitter: Emitter
    nest: LoopNest

    def __post_init__(self) -> None:
        m = self.p.m
        self.values = Values(m.tensors, m.extents, self.p.lanes, kind=MovePrinter)
        self.numbers = self.values.memo.numbers

    @property
    def streamed(self) -> bool:
        """Whether results are stored with non-temporal stores."""
        return self.kernel.numbers["streamed"] > 0

    @property
    def prefetch(self) -> int:
        """Prefetch distance in bytes; 0: no prefetch."""
        return int(self.kernel.numbers["prefetch"])

    def tasks(self, body: Body, offsets: Mapping[str, str] | None = None) -> None:
        """Print the loops over units of work, which are distributed among tasks."""
        self.emitter.nest(
            self.emitter.entry, self.nest, body, loops=self.nest.chunked, tasks=self.kernel.tasks, offsets=offsets,
            closing="streamed();" if self.streamed else "",
        )  # fmt: skip

    def places(self, scope: Scope) -> dict[str, str]:
        """C text of the position along each axis."""
        return {a: scope.at(a) for a in self.p.m.names}

    def printer(
        self, at: Mapping[str, str], names: Mapping[int, str], vector: bool = True, count: str | None = None
    ) -> Printer:
        """A printer for the point (or the vector along the vectorised axis) at the positions ``at``."""
        return self.values.at(at, self.p.m.inner if vector else None, None, count, names)

    def known(self, printer: Printer, vectors: Mapping[int, str]) -> None:
        """Make a printer use named vectors in place of reads. ``vectors``: names by the reads' value numbers."""
        read = printer.load
        printer.load = lambda e, guard: vectors.get(self.numbers.of(e)) or read(e, guard)

    def load_deinterleaved(self, w: Writer, printer: Printer, s: Segment, count: str | None) -> None:
        """Print a segment's deinterleaving loads, and make a printer use the loaded vectors."""
        found: dict[int, str] = {}
        for run in s.runs:
            tensor, name = self.p.m.tensors[str(run.first.value)], self.emitter.fresh("g")
            at = f"{tensor.name} + ({flat_index(run.first.args, tensor, printer)})"
            tail = "" if count is None else f", {count}"
            zero = " = {}" if run.when else ""
            w.line(f"{printer.vec(printer.lane_type(run.first))} {name}[{run.size}]{zero};")
            condition = " && ".join(map(printer.scalar, run.when))
            guard = f"if ({condition}) " if run.when else ""
            w.line(f"{guard}tw::load_apart<{self.ordered(s)}, {run.spare}>({name}, {at}{tail});")
            found |= {self.numbers.of(x): f"{name}[{k}]" for k, x in run.reads}
        self.known(printer, found)

    def ordered(self, s: Segment) -> str:
        """C text of whether lanes must hold the points of a vector in memory order."""
        m = self.p.m
        widths = {lane_bytes(m, e) for e in (*s.values, *(run.first for run in s.runs))}
        within = len(widths) == 1 and len(s.values) * max(widths) <= BLOCK
        return "false" if within and any_order(s.values, s.runs, m.inner) else "true"

    def store_interleaved(self, w: Writer, printer: Printer, s: Segment, count: str | None, stream: bool) -> None:
        """Print the vectors of all components and their interleaved store."""
        m, n = self.p.m, len(s.values)
        printer.bind(s.values, w.line, self.emitter.fresh)
        name, lane = self.emitter.fresh("o"), printer.lane_type(s.values[0])
        values = ", ".join(printer.vector_text(v) for v in s.values)
        w.line(f"{printer.vec(lane)} {name}[{n}] = {{{values}}};")
        w.line(f"tw::together<{self.ordered(s)}>({name});")
        at = f"{m.output.name} + ({flat_index((m.position,), m.output, printer)})"
        for k in range(n):
            left = None if count is None else f"{count} * {n}L - {k * self.p.lanes}"
            to = f"{at} + {k * self.p.lanes}" if k else at
            w.line(stored(to, m.output.dtype, f"{name}[{k}]", left, "stream" if stream else "tw::store"))

    def store(
        self, w: Writer, printer: Printer, value: Expr, count: str | None, to: str | None = None, stream: bool = False
    ) -> None:
        """Print one vector of the result and its store: at ``to``, or at the printer's position in the output."""
        m = self.p.m
        value = unrounded(value, m.output.dtype)
        printer.bind((value,), w.line, self.emitter.fresh)
        at = to or f"{m.output.name} + ({flat_index((m.position,), m.output, printer)})"
        w.line(stored(at, m.output.dtype, printer.vector_text(value), count, "stream" if stream else "tw::store"))

    def hoisted(
        self, w: Writer, values: Iterable[Expr], at: Mapping[str, str], fixed: frozenset[str]
    ) -> dict[int, str]:
        """Print the invariants of the axes ``fixed`` that are worth hoisting; returns names by value number."""
        printer = self.printer(at, {}, vector=False)
        names: dict[int, str] = {}
        for e in invariants(values, fixed, self.numbers):
            printer.names = names
            names[self.numbers.of(e)] = self.emitter.let(w, "h", printer.scalar_type(e), printer.scalar(e))
        return names


def invariants(values: Iterable[Expr], moving: frozenset[str], numbers: ValueNumbers) -> Iterable[Expr]:
    """Largest subexpressions that are invariant along ``moving`` axes, always evaluated, and costly.

    Costly: the subexpression has a read, a division or a function.
    """
    found: dict[int, Expr] = {}

    def visit(e: Expr) -> None:
        if not e.axes() & moving:
            if any(n.op in ("load", "div", *FUNCTIONS) for n in e.walk()):
                found.setdefault(numbers.of(e), e)
            return
        for a in e.args[:1] if e.op == "select" else e.args:
            visit(a)

    for value in values:
        visit(value)
    return tuple(found.values())
