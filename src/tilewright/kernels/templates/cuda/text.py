"""C++ of index arithmetic and of values, for kernels on a GPU.

Indices are ``int`` wherever they fit: 64-bit arithmetic takes several instructions on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tilewright.dtypes import C_BYTES, DTYPES
from tilewright.kernels.codegen.printer import Printer
from tilewright.kernels.codegen.ranges import Range, index_range
from tilewright.kernels.expression.expr import INDEX, SIXTEEN, Expr, holds, whole
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cuda.match import CudaContraction

STORAGE = {d.name: d.gpu for d in DTYPES.values() if d.gpu}
"""C type of a tensor's elements in memory."""

VALUE = {name: STORAGE[DTYPES[name].computed] for name in STORAGE} | {"bool": "int"}
"""C type of a value between memory and use: in registers and shared memory."""

VALUE_BYTES = {name: C_BYTES[ctype] for name, ctype in VALUE.items()}

NARROW = 1 << 31


def load_text(dtype: str, pointer: str) -> str:
    """Text of one element read from global memory, in its computed type."""
    text = f"tw::load_global<{STORAGE[dtype]}>({pointer})"
    return from_storage(dtype, text)


def from_storage(dtype: str, text: str) -> str:
    """Text of a stored value in its computed type."""
    if dtype in SIXTEEN:
        return f"tw::to_float({text})"
    if dtype == "bool":
        return f"({text} != 0)"
    return f"(long)({text})" if dtype == "int64" else text


def to_storage(dtype: str, text: str) -> str:
    """Text of a computed value in its storage type."""
    if dtype in SIXTEEN:
        return f"{STORAGE[dtype].replace('::', '::to_')}((float)({text}))"
    return f"({STORAGE[dtype]})({text})"


def stored(e: Expr, dtype: str) -> Expr:
    """A value without its last cast from float32 to a 16-bit type, which the store does instead."""
    last = e.op == "cast" and e.dtype == dtype and dtype in SIXTEEN and e.args[0].dtype != "float64"
    return e.args[0] if last else e


def digits(extents: Mapping[str, int], fused: str, wide: bool = False) -> dict[str, str]:
    """Text of every axis, outermost first, given the text of their fused index.

    The fused index is at least 0, and an ``int`` unless ``wide``.
    """
    unit, step, found = "L" if wide else "u", 1, dict.fromkeys(extents, "0")
    outermost = next((a for a, n in extents.items() if n > 1), None)
    for a, n in reversed([x for x in extents.items() if x[1] > 1]):
        text = fused if wide else f"unsigned({fused})"
        text += (f" / {step}{unit}" if step > 1 else "") + (f" % {n}{unit}" if a != outermost else "")
        whole = step == 1 and a == outermost
        found[a] = fused if whole else text if wide else f"int({text})"
        step *= n
    return found


def split(group: Group, fused: str) -> dict[str, str]:
    """Text of every axis of a group, given the text of its fused index (an ``int``, at least 0)."""
    out: dict[str, str] = {}
    step = 1
    for number, (axis, extent) in enumerate(zip(reversed(group.axes), reversed(group.extents), strict=True)):
        text = f"unsigned({fused})" if step == 1 else f"unsigned({fused}) / {step}u"
        last = number == len(group.axes) - 1
        whole = step == 1 and last
        out[axis] = f"({fused})" if whole else f"int({text})" if last else f"int({text} % {extent}u)"
        step *= extent
    return out


class Names(dict[str, str]):
    """Texts by name for a printer, which record their use.

    A look-up adds the text to ``used`` if the text is an identifier, else the name.
    """

    def __init__(self, texts: Mapping[str, str], used: set[str]) -> None:
        super().__init__(texts)
        self.used = used

    def __getitem__(self, name: str) -> str:
        text = super().__getitem__(name)
        self.used.add(text if text.isidentifier() else name)
        return text


class AxisTexts(dict[str, str]):
    """Text of every axis of a contraction, given texts of the fused indices ``batch``, ``m``, ``n`` and ``k``.

    An axis is "0" if it has one element or ``fused`` lacks its group.
    """

    def __init__(self, c: CudaContraction, fused: Mapping[str, str]) -> None:
        super().__init__()
        self.c, self.fused = c, fused

    def __missing__(self, axis: str) -> str:
        text = "0"
        for name, group in self.c.groups:
            if axis in group.axes and name in self.fused:
                text = split(group, self.fused[name])[axis]
        self[axis] = text
        return text


Others = tuple[tuple[Expr, int], ...]
"""Non-linear terms of a position: index expressions, each with its stride in elements."""


def reach(c: CudaContraction, where: Linear, beyond: int = 0, others: Others = ()) -> int:
    """Upper bound on the magnitude of a position and of each of its partial sums, in elements.

    ``beyond``: largest excess of a fused index over its extent.
    """
    ranges = dict(c.stage.ranges)
    for group in (c.batch, c.m, c.n, c.k):
        if beyond and group.axes:  # the outermost axis takes the excess
            ranges[group.axes[0]] += -(-beyond * group.extents[0] // group.size)
    total = abs(where.const) + sum(abs(step) * (ranges.get(axis, 1) - 1) for axis, step in where.coef.items())
    for e, step in others:
        most = max(map(abs, index_range(e, {axis: (0, n - 1) for axis, n in ranges.items()})))
        total += NARROW if most == inf else abs(step) * int(most)
    return total


def affine_text(
    c: CudaContraction, where: Linear, fused: Mapping[str, str], beyond: int = 0, others: Others = ()
) -> str:
    """Text of a position, in elements, given the fused indices ``batch``, ``m``, ``n``, ``k``.

    The position is an ``int`` if that holds it for indices up to ``beyond`` outside their extents, else 64-bit.
    """
    wide = reach(c, where, beyond, others) >= NARROW
    terms = []

    def term(text: str, step: int) -> None:
        if step:
            text = f"(long long)({text})" if wide else f"({text})"
            terms.append(text if step == 1 else f"{text} * {step}")

    for name, group in c.groups:
        step = group.stride(where)
        if step is not None:
            if step:
                term(fused[name], step)
        else:
            for axis, text in split(group, fused[name]).items():
                term(text, where.of(axis))
    if others:
        p = printer(c.program, c.stage.ranges, AxisTexts(c, fused), {}, tuple(e for e, _ in others))
        for e, step in others:
            term(p.scalar(e), step)
    if where.const or not terms:
        terms.append(f"{where.const}LL" if wide else f"({where.const})" if where.const < 0 else f"{where.const}")
    return " + ".join(terms)


@dataclass
class DevicePrinter(Printer):
    """The scalar printer for GPUs: indices are ``int`` if ``narrow``, and casts to 16-bit types round.

    ``approximate``: the special function unit computes exponentials. ``used``: collects the names of the tensors read.
    """

    narrow: bool = True
    approximate: bool = False
    used: set[str] = field(default_factory=set)

    def scalar(self, e: Expr) -> str:
        if self.narrow and e.op == "const" and e.dtype == INDEX:
            return f"{e.value}" if whole(e) >= 0 else f"({e.value})"
        if self.approximate and e.op == "exp" and e.dtype != "float64":
            return f"tw::exp_approx({self.scalar(e.args[0])})"
        return super().scalar(e)

    def _scalar_cast(self, a: Expr, dtype: str) -> str:
        text = self.scalar(a)
        if dtype in SIXTEEN and not holds(dtype, a.dtype):
            text = f"tw::to_odd({text})" if a.dtype == "float64" else text
            return f"tw::to_float({to_storage(dtype, text)})"
        if self.narrow and dtype == INDEX:
            return f"(int)({text})"
        return super()._scalar_cast(a, dtype)

    def _division(self, e: Expr, text: str) -> str:
        if not self.narrow or e.dtype != INDEX:
            return super()._division(e, text)
        d = e.args[1].value
        if index_range(e.args[0], self.ranges)[0] >= 0:
            return f"int(unsigned({text}) {'/' if e.op == 'floordiv' else '%'} {d}u)"
        return f"tw::{e.op}<int>({text}, {d})"


def printer(
    program: Program, ranges: Mapping[str, int], axis: Mapping[str, str], var: Mapping[str, str],
    exprs: tuple[Expr, ...], own: Callable[[Expr], str | None] = lambda _: None, used: set[str] | None = None,
) -> DevicePrinter:  # fmt: skip
    """A printer of scalar values: reads print as loads from their tensors, unless ``own`` returns a text.

    ``ranges``: extents of the axes. ``exprs``: the expressions to print; indices are ``int`` if all indices in
    ``exprs`` fit. ``used``: collects the names of the tensors read.
    """
    bounds: dict[str, Range] = {name: (0, extent - 1) for name, extent in ranges.items()}

    def load(e: Expr, _: str | None) -> str:
        mine = own(e)
        return mine if mine is not None else read_text(made, program.tensors[str(e.value)], e)

    made = DevicePrinter(
        axis, load, var, ranges=bounds, narrow=narrow(program, exprs, bounds), used=set() if used is None else used
    )
    return made


def bound(p: DevicePrinter, exprs: Sequence[Expr], lines: list[str], prefix: str = "t") -> list[str]:
    """Texts of values; appends statements to ``lines`` that compute repeated subexpressions once.

    A repeated subexpression gets the name ``prefix`` and a number.
    """
    p.names = {}
    p.bind(exprs, lines.append, lambda _: f"{prefix}{len(lines)}")
    return [p.scalar(e) for e in exprs]


def read_text(p: DevicePrinter, tensor: Tensor, e: Expr) -> str:
    """Text of a read at its own indices."""
    return load_text(tensor.dtype, read_place(p, tensor, e))


def read_place(p: DevicePrinter, tensor: Tensor, e: Expr) -> str:
    """Text of the pointer to the element that a read loads."""
    suffix, cast = ("", "") if p.narrow else ("L", "(long)")
    terms = []
    for index, step, extent in zip(e.args, tensor.strides, tensor.shape, strict=True):
        if extent > 1:
            text = f"{cast}({p.scalar(index)})"
            terms.append(text if step == 1 else f"{text} * {step}{suffix}")
    p.used.add(tensor.name)
    return f"{tensor.name} + ({' + '.join(terms) or '0'})"


def narrow(program: Program, exprs: tuple[Expr, ...], bounds: Mapping[str, Range]) -> bool:
    """Whether ``int`` holds every index in the expressions and every position that they read."""
    for e in exprs:
        for x in e.walk():
            if x.op == "load" and program.tensors[str(x.value)].size >= NARROW:
                return False
            if x.dtype == INDEX:
                low, high = index_range(x, bounds)
                if low < -NARROW or high >= NARROW:
                    return False
    return True


def declarations(
    texts: Mapping[str, str], used: set[str], of: str = "", pad: str = "    ", kind: str = "int"
) -> str:  # fmt: skip
    """Declarations of the variables of ``texts`` that are in ``used``.

    ``of``: the variable from which all texts but "0" are computed; added to ``used`` if a declaration reads it.
    """
    found = {name: text for name, text in texts.items() if name in used}
    if of and any(text != "0" for text in found.values()):
        used.add(of)
    return "".join(f"{pad}const {kind} {name} = {text};\n" for name, text in found.items())
