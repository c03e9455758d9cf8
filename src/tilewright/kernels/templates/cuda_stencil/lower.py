"""Source of a stencil: a thread reads a stretch of the input once and uses it for the windows of several outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import INDEX, Expr
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.flatten import unconditional
from tilewright.kernels.families.reduce_window import at_offset
from tilewright.kernels.templates.cuda.kernels import evaluated, names, place, place_text
from tilewright.kernels.templates.cuda.reduction import Accumulators
from tilewright.kernels.templates.cuda.text import DevicePrinter, Names, declarations, digits, printer, stored
from tilewright.kernels.templates.cuda.vectors import Vector
from tilewright.kernels.templates.cuda_stencil.plan import WindowTiling


def body(p: WindowTiling) -> str:
    """The kernel's statements."""
    return _Kernel(p).body()


class _Kernel:
    """Prints the kernel of one tiling. ``<axis>`` is a thread's first output along each axis; ``j`` counts along the
    vector."""

    def __init__(self, p: WindowTiling) -> None:
        self.p, self.s, self.part = p, p.s, p.s.part
        self.flat = Program(tuple(self.s.tensors[t.name] for t in self.s.program.inputs), ())
        self.inner = self.s.inner
        self.acc = p.accumulators
        self.used = set[str]()

    def body(self) -> str:
        p = self.p
        text = self._start() + self._taps() + "".join(self._finish(n) for n in range(p.outputs))

        def placed(pad: str) -> str:
            places = digits(p.grid.extents, "e")
            for a, by in p.grid.own.items():
                places[a] = f"({places[a]}) * {by}" if by > 1 and places[a] != "0" else places[a]
            return declarations(places, self.used, pad=pad) + text

        return f"    (void)ws;\n{p.grid.walk(placed)}"

    def printer(
        self, exprs: tuple[Expr, ...], reads: Mapping[int, str], var: Mapping[str, str] | None = None,
        output: int = 0, tap: int | None = None, base: bool = False,
    ) -> DevicePrinter:  # fmt: skip
        """A printer for a thread's output number ``output`` along the tiled axis; ``base``: for a vector's first
        element."""
        p = self.p
        names = {a: a for a in self.s.ranges} | {r: "0" for r in self.part.reduce_axes if self.s.ranges[r] == 1}
        if p.vector > 1 and not base:
            names[self.inner] = f"({self.inner} + j)"
        if output:
            names[p.axis] = f"({p.axis} + {output})"
        if tap is not None:
            names[p.window.tap] = f"{tap}"
        return printer(
            self.flat, self.s.ranges, Names(names, self.used), var or {}, exprs,
            lambda e: reads.get(self.s.numbers.of(e)),
        )  # fmt: skip

    def _along(self) -> str:
        """The name of a thread's first output along the tiled axis."""
        self.used.add(self.p.axis)
        return self.p.axis

    def _vector(self, pad: str, scoped: bool = False) -> Vector:
        return Vector(self.s.run, self.p.vector, pad, scoped)

    def _start(self) -> str:
        """Statements that declare and initialise the accumulators."""
        shape = f"[{self.p.outputs}][{self.p.vector}]"
        out = "".join(f"    {t} {x}{shape};\n" for t, x in zip(self.acc.types, self.acc.names, strict=True))
        sets = "".join(f" {x}[i][j] = {e};" for x, e in zip(self.acc.names, self.acc.neutral, strict=True))
        return (
            f"{out}    TW_UNROLL\n    for (int i = 0; i < {self.p.outputs}; i++)\n        TW_UNROLL\n"
            f"        for (int j = 0; j < {self.p.vector}; j++) {{{sets} }}\n"
        )

    # ------------------------------------------------------------------ the window

    def _taps(self) -> str:
        p, pad, text = self.p, "    ", ""
        for r, n in zip(self.part.reduce_axes, self.part.reduce, strict=True):
            if r != p.window.tap and n > 1:
                text += f"{pad}TW_UNROLL\n" if p.unroll else f"{pad}TW_KEEP_LOOP\n"
                text += f"{pad}for (int {r} = 0; {r} < {n}; {r}++) {{\n"
                pad += "    "
        text += "".join(self._place(n, offset, pad) for offset in p.offsets for n in range(len(p.shared)))
        for tap in range(p.taps):
            text += self._tap(tap, pad)
        while pad != "    ":
            pad = pad[4:]
            text += f"{pad}}}\n"
        return text

    def _place(self, number: int, offset: int, pad: str) -> str:
        """Statements that read one shared value at an offset in the window into ``g<number>_<offset>``, an array of a
        vector."""
        p, w = self.p, self.p.window
        value = at_offset(p.shared[number], w, offset)
        name, kind = f"g{number}_{offset}", computed(value.dtype)
        tests, inner_value, other = [], value, None
        # The first output that reads this offset may lie beyond the last output.
        first = min(j for j in range(p.outputs) for t in range(p.taps) if w.stride * j + w.dilation * t == offset)
        if first and self.s.ranges[p.axis] % p.outputs:
            tests.append(f"{self._along()} + {first} < {self.s.ranges[p.axis]}")
            other = f"({kind})0"
        if value.op == "select" and value.args[2].op == "const" and self.inner_free(value.args[0]):
            filler = self.printer((value.args[2],), {}).scalar(value.args[2])
            bounds: dict[str, Range] = {a: (0, n - 1) for a, n in self.s.ranges.items()}
            tests += [self.printer((c,), {}).scalar(c) for c in conditions(value.args[0]) if not always(c, bounds)]
            inner_value, other = value.args[1], filler
        inner = self._vector(pad + "    " if tests else pad)
        reads = self._reads((inner_value,), {}, f"{name}q", inner)
        inner.within, (text,) = evaluated(self.printer((inner_value,), reads), (inner_value,), inner.inner, f"{name}t")
        inner.line(f"{name}[{inner.j}] = {text};")
        out = f"{pad}{kind} {name}[{p.vector}];\n"
        if not tests:
            return out + inner.text()
        fill = f"{inner.pad}TW_UNROLL\n{inner.pad}for (int j = 0; j < {p.vector}; j++) {name}[j] = {other};\n"
        if p.vector == 1:
            fill = f"{inner.pad}{name}[0] = {other};\n"
        return f"{out}{pad}if ({' && '.join(tests)}) {{\n{inner.text()}{pad}}} else {{\n{fill}{pad}}}\n"

    def inner_free(self, e: Expr) -> bool:
        """Whether an expression has one value for all elements of a vector."""
        return self.p.vector == 1 or self.inner not in e.axes()

    def _reads(
        self, exprs: tuple[Expr, ...], var: Mapping[str, str], prefix: str, into: Vector, output: int = 0,
        tap: int | None = None,
    ) -> dict[int, str]:  # fmt: skip
        """The texts of reads that are made before the loop over a vector."""
        found = {self.s.numbers.of(x): x for e in exprs for x in unconditional(e)}
        return into.reads(found, {}, prefix, lambda e: self.printer((e,), {}, var, output, tap, base=True).scalar(e))

    def _tap(self, tap: int, pad: str) -> str:
        """Statements that fold one tap of the window along the tiled axis into every output of the thread."""
        p, w = self.p, self.p.window
        names = {self.s.numbers.of(x): n for n, x in enumerate(p.shared)}

        def replaced(x: Expr) -> Expr | None:
            number = names.get(self.s.numbers.of(x))
            return None if number is None else Expr("var", x.dtype, (), f"g{number}")

        body = tuple(_topdown(e, replaced) for e in self.part.body)
        mine = any(p.axis in e.axes() for e in body)
        text = ""
        fixed = self._vector(pad + "    ")
        reads = {} if mine else self._reads(body, {}, "wq", fixed, 0, tap)
        for j in range(p.outputs):
            one = self._vector(pad + "    ", scoped=True)
            var = {f"g{n}": f"g{n}_{w.stride * j + w.dilation * tap}[{one.j}]" for n in range(len(p.shared))}
            own = self._reads(body, var, "wq", one, j, tap) if mine else reads
            lines, values = evaluated(self.printer(body, own, var, j, tap), body, one.inner)
            acc = Accumulators(self.acc.program, self.acc.monoid, "a", f"[{j}][{one.j}]")
            one.within = acc.fold(lines, values, one.inner)
            text += one.text()
        return f"{pad}{{\n{fixed.before}{text}{pad}}}\n"

    # ------------------------------------------------------------------ results

    def _finish(self, number: int) -> str:
        """Statements that compute output ``number`` along the tiled axis from its accumulators and store it."""
        p, part = self.p, self.part
        out = self._vector("        ")
        value = stored(part.value, part.dtype)
        var = Accumulators(self.acc.program, self.acc.monoid, "a", f"[{number}][{out.j}]").var
        reads = self._reads((value,), var, "fq", out, number)
        out.within, (text,) = evaluated(self.printer((value,), reads, var, number), (value,), out.inner)
        axes = names(part, self.used)
        if number:
            axes[p.axis] = f"({p.axis} + {number})"
        out.store(place(part), part.dtype, text, lambda _: place_text(part, axes))
        ragged = number and self.s.ranges[p.axis] % p.outputs
        test = f"if ({self._along()} + {number} < {self.s.ranges[p.axis]}) " if ragged else ""
        return f"    {test}{{\n{out.text()}    }}\n"


def conditions(e: Expr) -> list[Expr]:
    """The operands of a conjunction."""
    return [x for a in e.args for x in conditions(a)] if e.op == "and" else [e]


def always(e: Expr, bounds: Mapping[str, Range]) -> bool:
    """Whether a comparison of indices holds wherever the axes are within their bounds."""
    if e.op not in ("lt", "le", "gt", "ge"):
        return False
    less, more = e.args if e.op in ("lt", "le") else e.args[::-1]
    if less.dtype != INDEX:
        return False
    high, low = index_range(less, bounds)[1], index_range(more, bounds)[0]
    return high < low or (high == low and e.op in ("le", "ge"))


def _topdown(e: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with the largest replaceable subexpressions replaced, from the root down."""
    found = replace(e)
    if found is not None:
        return found
    if not e.args:
        return e
    return Expr(e.op, e.dtype, tuple(_topdown(a, replace) for a in e.args), e.value)
