"""What rows and tiles share in printing: pointers, values, stores, units of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tilewright.kernels.codegen.printer import Memo, Printer, computed
from tilewright.kernels.codegen.writer import Writer
from tilewright.kernels.expression.expr import FUNCTIONS, INDEX, Expr, ValueNumbers
from tilewright.kernels.templates.generic.access import Reader, flat_index, storage
from tilewright.kernels.templates.map.space import Plan

RAW_TYPES = {"raw1": "signed char", "raw2": "short", "raw4": "int", "raw8": "long"}

STREAM = """// Stores past the caches, where the address allows it.
template <class T, class V> TW_INLINE void stream(T *p, V v) {
    if (((unsigned long)p & (sizeof(V) - 1)) != 0) tw::store(p, v);
#if defined(__AVX512F__)
    else if constexpr (sizeof(V) == 64) __builtin_ia32_movntps512((float *)p, (tw::vec<float, 16>)v);
#endif
#if defined(__AVX__)
    else if constexpr (sizeof(V) == 32) __builtin_ia32_movntps256((float *)p, (tw::vec<float, 8>)v);
#endif
#if defined(__SSE2__)
    else if constexpr (sizeof(V) == 16) __builtin_ia32_movntps((float *)p, (tw::vec<float, 4>)v);
#endif
    else tw::store(p, v);
}
TW_INLINE void streamed() {
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}"""


class MovePrinter(Printer):
    """Prints elements that are only moved: lanes hold their bits."""

    def lane_type(self, e: Expr) -> str:
        return RAW_TYPES.get(e.dtype) or super().lane_type(e)


def ctype(dtype: str) -> str:
    """C type of a stored element."""
    return RAW_TYPES.get(dtype) or storage(dtype)


@dataclass
class Text:
    """Prints values of one kernel."""

    p: Plan
    memo: Memo = field(default_factory=Memo)
    _count: int = 0

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def printer(
        self, at: Mapping[str, str], names: Mapping[int, str], vector: bool = True, count: str | None = None
    ) -> Printer:
        """For the point (or the vector along the innermost axis) at the positions ``at``."""
        m = self.p.m
        found = MovePrinter(
            axis=at, load=_unset, lanes=self.p.lanes if vector else None, vector=m.inner if vector else None,
            ranges=m.ranges(), names=dict(names), memo=self.memo,
        )  # fmt: skip
        return Reader(m.tensors, count if vector else None).attach(found)

    def store(
        self, w: Writer, printer: Printer, value: Expr, count: str | None, to: str | None = None, stream: bool = False
    ) -> None:
        """Compute a vector of the result and store it: at ``to``, or where it belongs."""
        m = self.p.m
        printer.bind((value,), w.line, self.fresh)
        text = printer.vector_text(value)
        at = to or f"{m.output.name} + ({flat_index((m.position,), m.output, printer)})"
        if m.output.dtype == "bool":
            at, text = f"(signed char *)({at})", f"({text} & 1)"
        if count is not None:
            w.line(f"tw::store_n({at}, {text}, {count});")
        else:
            w.line(f"{'stream' if stream else 'tw::store'}({at}, {text});")

    def hoisted(self, w: Writer, value: Expr, at: Mapping[str, str], fixed: frozenset[str]) -> dict[int, str]:
        """Compute what does not depend on the axes ``fixed`` and is worth it; names by value number."""
        printer = self.printer(at, {}, vector=False)
        names: dict[int, str] = {}
        for e in invariants(value, fixed, self.memo.numbers):
            name = self.fresh("h")
            printer.names = names
            w.line(f"const {computed(e.dtype)} {name} = {printer.scalar(e)};")
            names[self.memo.numbers.of(e)] = name
        return names

    def context(self) -> tuple[list[str], list[str]]:
        """Members of the context that tasks receive, and the locals that a task makes of them."""
        m = self.p.m
        members, local = [], []
        for t in m.program.inputs:
            kind = ctype(m.tensors[t.name].dtype)
            members.append(f"const {kind} *{t.name};")
            local.append(f"const {kind} *const {t.name} = c.{t.name}; (void){t.name};")
        kind = ctype(m.output.dtype)
        members.append(f"{kind} *{m.output.name};")
        local.append(f"{kind} *const {m.output.name} = c.{m.output.name};")
        return members, local

    def pointers(self) -> list[str]:
        """The context's pointers, as values of its initialiser."""
        m = self.p.m
        inputs = [f"(const {ctype(m.tensors[t.name].dtype)} *)tensors[{n}]" for n, t in enumerate(m.program.inputs)]
        return [*inputs, f"({ctype(m.output.dtype)} *)tensors[{len(inputs)}]"]


def invariants(value: Expr, moving: frozenset[str], numbers: ValueNumbers) -> Iterable[Expr]:
    """Largest parts that read or compute something, do not depend on ``moving`` axes, and are always evaluated."""
    found: dict[int, Expr] = {}

    def visit(e: Expr) -> None:
        if not e.axes() & moving:
            if any(n.op in ("load", "div", *FUNCTIONS) for n in e.walk()):
                found.setdefault(numbers.of(e), e)
            return
        for a in e.args[:1] if e.op == "select" else e.args:
            visit(a)

    visit(value)
    return tuple(found.values())


def units(w: Writer, digits: Mapping[str, str]) -> None:
    """Positions of a task's first unit of work: ``digits`` are loop variables with extents, outermost first."""
    names = list(digits)
    w.line("long q_ = u0;")
    for n, name in reversed(list(enumerate(names))):
        w.line(f"long {name} = {'q_' if n == 0 else f'q_ % {digits[name]}'};")
        if n:
            w.line(f"q_ /= {digits[name]};")


def advance(digits: Mapping[str, str]) -> str:
    """The statement that moves those variables on to the next unit."""
    text = ""
    for n, (name, extent) in enumerate(digits.items()):
        text = f"{name}++;" if n == 0 else f"if (++{name} == {extent}) {{ {name} = 0; {text} }}"
    return text


def _unset(e: Expr, guard: str | None) -> str:
    raise AssertionError("no reader attached")


__all__ = ["INDEX", "STREAM", "Text", "advance", "ctype", "invariants", "units"]
