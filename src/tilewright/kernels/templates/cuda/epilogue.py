"""From accumulators to the output: the monoid's finish, the stages after it, conversion, the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.caching import cached_property
from tilewright.kernels.codegen.integers import text
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression.expr import SHORT, SIXTEEN, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.sizes import divisor, expression
from tilewright.kernels.templates.cuda.sizes import used as sizes_used
from tilewright.kernels.templates.cuda.text import (
    STORAGE,
    VALUE,
    AxisTexts,
    Names,
    affine_text,
    bound,
    from_storage,
    printer,
    stored,
    to_storage,
)

PLACE = {x: x for x in ("batch", "m", "n")}
"""Texts of an output element's indices in the functions of a kernel's namespace."""


@dataclass(frozen=True)
class Epilogue:
    """The work on a contraction's finished sums: later stages, conversion, store.

    ``values``: number of sums that one call of ``store`` takes, a power of two. ``edges``: the axes out of ``"mn"``
    along which a call may lie outside the output.
    """

    c: CudaContraction
    values: int = 1
    edges: str = "mn"

    @property
    def acc(self) -> str:
        """C type of the accumulators."""
        return VALUE[self.c.acc]

    @property
    def out(self) -> str:
        """C type of the output's elements."""
        return STORAGE[self.c.output.dtype]

    def offset(self, batch: str, m: str, n: str, used: set[str] | None = None) -> str:
        """Text of an element's position in the output; adds the names of its indices to ``used``."""
        fused = Names({"batch": batch, "m": m, "n": n, "k": "0"}, set() if used is None else used)
        return affine_text(self.c, Linear(0, self.c.out_strides), fused)

    def value(self, acc: str, used: set[str]) -> tuple[list[str], str]:
        """Statements, and the text of the output's value in its storage type; adds the names in both to ``used``."""
        c = self.c
        axes = AxisTexts(c, Names(PLACE, used))
        held: dict[str, str] = {}
        lines: list[str] = []
        for number, (stage, dtype, e) in enumerate(c.chain):
            last = number == len(c.chain) - 1
            if last:
                e = stored(e, c.output.dtype)
            p = printer(c.program, c.stage.ranges, axes, {"l0": acc}, (e,), lambda x: held.get(str(x.value)), used)
            (text,) = bound(p, (e,), lines)
            if last:
                return lines, to_storage(c.output.dtype, text)
            held[stage] = f"s{number}"
            ctype = "bool" if dtype == "bool" else computed(dtype)
            if dtype in SIXTEEN:
                text = from_storage(dtype, to_storage(dtype, text))
            elif dtype in SHORT:
                text = f"({STORAGE[dtype]})({text})"
            lines.append(f"const {ctype} s{number} = {text};")
        raise AssertionError("unreachable")

    # ------------------------------------------------------------------ functions of the kernel's namespace

    def _function(self, name: str, returns: str, own: Mapping[str, str], body: str, used: set[str]) -> Function:
        taken = {**pointers(self.c.program), **own, **{x: f"int {x}" for x in PLACE}}
        return Function(name, returns, taken, body, used.union(own))

    @cached_property
    def finished(self) -> Function:
        """``finish(inputs..., v, batch, m, n)``: returns the value to store for the accumulator ``v``."""
        used = set[str]()
        lines, text = self.value("v", used)
        body = "".join(f"    {line}\n" for line in [*lines, f"return {text};"])
        return self._function("finish", self.out, {"v": f"{self.acc} v"}, body, used)

    @cached_property
    def stored(self) -> Function:
        """``store(inputs..., out, v, batch, m, n)``: finishes and stores the array ``v`` of ``values`` at n, n+1, ...

        n is a multiple of ``values``, a power of two. Elements outside the output are not stored.
        """
        c, v = self.c, self.values
        body, used = "", set[str]()
        inner = "n" in self.edges and divisor(c.n.size) % v != 0
        for x, size in (("m", c.m.size), ("n", c.n.size)):
            if x in self.edges and not (x == "n" and inner):
                body += f"    if ({x} >= {text(expression(size))}) return;\n"
                used |= {x, *sizes_used(size)}
        own = {"out": f"{self.out} *out", "v": f"const {self.acc} (&v)[{v}]"}
        return self._function("store", "void", own, body + self.write(v, used, edge=inner), used)

    def define(self) -> str:
        """Definitions of both functions, ``finish`` and ``store``."""
        return self.finished.define() + self.stored.define()

    def _exists(self, n: str, used: set[str]) -> str:
        """Text of the condition, besides the bounds of M and N, that the element at ``n`` exists; "" if all do."""
        c = self.c
        axes = AxisTexts(c, Names({**PLACE, "n": n}, used))
        p = printer(c.program, c.stage.ranges, axes, {}, c.clips, used=used)
        return " && ".join(f"({p.scalar(e)})" for e in c.clips)

    def write(
        self, values: int, used: set[str], at: str | None = None, pad: str = "    ", edge: bool = False
    ) -> str:  # fmt: skip
        """Statements that finish and store the array ``v`` of ``values`` at ``n``, ``n + 1``, ...

        ``at``: text of the first element's position in the output, if known; the elements lie contiguously from there.
        ``edge``: the array may reach beyond N. Adds the names that the statements use to ``used``.
        """
        w = min(values, self.c.store_width)
        many = w < values
        n = "n + i" if many else "n"
        place = self.offset("batch", "m", f"({n})", used) if at is None else f"{at} + i" if many else at
        skipped = []
        if many and edge:
            skipped.append(f"n + i >= {text(expression(self.c.n.size))}")
            used |= {"n", *sizes_used(self.c.n.size)}
        if self.c.clips:
            skipped.append(f"!({self._exists(f'({n})', used)})")
        used |= set(self.finished.taken)

        def value(number: str) -> str:
            return self.finished.call(v=f"v[{number}]", n="n" if number == "0" else f"n + {number}")

        return in_packs(self.out, values, w, f"out + ({place})", value, skipped, pad, w == 1)


def in_packs(
    ctype: str, values: int, width: int, to: str, value: Callable[[str], str], skipped: Sequence[str], pad: str,
    single: bool,
) -> str:  # fmt: skip
    """Statements that store ``values`` contiguous elements at ``to`` in packs of ``width``.

    Several packs are stored in a loop over ``i``. ``value`` returns the text of an element, given the text of its
    number. Packs for which a condition of ``skipped`` holds are not stored. ``single``: stores a scalar, not a pack.
    """
    many = width < values
    head = f"{pad}TW_UNROLL\n{pad}for (int i = 0; i < {values}; i += {width}) {{\n" if many else ""
    inner = pad + "    " if many else pad
    lines = [f"if ({x}) {'continue' if many else 'return'};" for x in skipped]
    held = "p"
    if single:
        held = value("i" if many else "0")
    else:
        each = f"p.v[j] = {value('i + j' if many else 'j')};"
        lines += [f"tw::pack<{ctype}, {width}> p;", "TW_UNROLL", f"for (int j = 0; j < {width}; j++) {each}"]
    lines.append(f"tw::store_global({to}, {held});")
    return head + "".join(f"{inner}{x}\n" for x in lines) + (f"{pad}}}\n" if many else "")


def combine(c: CudaContraction, left: str, right: str) -> str:
    """Text that combines two partial results, in the accumulator's type."""
    e: Expr = c.monoid.combine[0]
    return printer(c.program, {}, {}, {"l0": left, "r0": right}, (e,)).scalar(e)


def update(c: CudaContraction, left: str, a: str, b: str) -> str:
    """Text of a partial result after one more step of K, given the texts of the two sides' values."""
    return printer(c.program, {}, {}, {"l0": left, "a": a, "b": b}, (c.updated,)).scalar(c.updated)


def identity(c: CudaContraction) -> str:
    """Text of the reduction's identity."""
    return printer(c.program, {}, {}, {}, ()).scalar(c.monoid.identity[0])
