"""One kernel for each part of a program: parameters, intermediates, indices, values.

A part that is not a result stores to the workspace. Each kernel takes exactly the pointers that it uses, named as the
program's tensors, and ``out``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.ranges import Range
from tilewright.kernels.expression.expr import Expr, const
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor, strides_of
from tilewright.kernels.families.parts import Part
from tilewright.kernels.kernel import Array, Workspace
from tilewright.kernels.templates.cuda.launches import Parameter
from tilewright.kernels.templates.cuda.text import NARROW, STORAGE, DevicePrinter, Names, bound, narrow, printer

ALIGN = 256
"""Bytes to which an intermediate is aligned in the workspace."""

ROOM = 1 << 16
"""Largest excess of a fused index over its extent."""


def supported(program: Program) -> bool:
    """Whether CUDA kernels can read, compute and store every element type of a program."""
    types = {t.dtype for t in program.tensors.values()}
    for s in program.stages:
        exprs = (*s.body, *((*s.monoid.identity, *s.monoid.combine, s.monoid.finish) if s.monoid else ()))
        types |= {n.dtype for e in exprs for n in e.walk()}
    return types <= {*STORAGE, "index"}


def intermediates(program: Program, parts: Sequence[Part]) -> Workspace:
    """Workspace with an array for each part that is not a result; no two parts share memory."""
    outputs = {t.name for t in program.outputs}
    kept = [program.tensors[p.target] for p in parts if p.target not in outputs]
    return Workspace(tuple(Array(t.name, storage(t.dtype), t.size) for t in kept), ALIGN)


def given(program: Program, part: Part, used: Collection[str], where: Workspace) -> tuple[Parameter, ...]:
    """Parameters of a part's kernel: the tensors in ``used``, and ``out``."""
    numbers = {t.name: n for n, t in enumerate((*program.inputs, *program.outputs))}

    def pointer(declared: str, name: str) -> Parameter:
        return (declared, "tensor", numbers[name]) if name in numbers else (declared, "workspace", where.offset(name))

    read = (n for n in program.tensors if n in used)
    taken = (pointer(f"const {STORAGE[program.tensors[n].dtype]} *__restrict__ {n}", n) for n in read)
    return (*taken, pointer(f"{STORAGE[part.dtype]} *__restrict__ out", part.target))


# --------------------------------------------------------------------------- indices


def is_narrow(program: Program, part: Part) -> bool:
    """Whether ``int`` holds every index and position of a part, including fused indices up to ``ROOM`` too large."""
    total = part.outputs
    reduced = part.points // max(1, total)
    if max(total, reduced) + ROOM >= NARROW:
        return False
    return narrow(program, part.expressions, {n: (0, e - 1) for n, e in part.ranges.items()})


def fits(tensors: Mapping[str, Tensor], exprs: Sequence[Expr], ranges: Mapping[str, int], sizes: Sequence[int]) -> bool:
    """Whether ``int`` holds every index and position of expressions, except 64-bit indices read from memory.

    A printer computes expressions with 64-bit indices in 64 bits.
    """
    if max((*sizes, *(t.size for t in tensors.values()))) >= NARROW - ROOM:
        return False
    bounds: dict[str, Range] = {n: (0, e - 1) for n, e in ranges.items()}
    known = [e.map(lambda x: const(0, x.dtype) if x.op == "load" and x.dtype == "int64" else None) for e in exprs]
    return narrow(Program(tuple(tensors.values()), ()), tuple(known), bounds)


def refusal(
    program: Program, tensors: Mapping[str, Tensor], exprs: Sequence[Expr], ranges: Mapping[str, int],
    sizes: Sequence[int] = (),
) -> str:  # fmt: skip
    """Reason why no kernel can compute expressions of flat tensors; empty if one can."""
    if not supported(program):
        return "has an element type that is not known here"
    return "" if fits(tensors, exprs, ranges, sizes) else "has indices that no int holds"


# --------------------------------------------------------------------------- values


def part_printer(
    program: Program, part: Part, used: set[str], var: Mapping[str, str] | None = None
) -> DevicePrinter:  # fmt: skip
    """A printer of a part's values, with axes under their own names; adds names of axes and tensors to ``used``."""
    made = printer(program, part.ranges, names(part, used), var or {}, part.expressions, used=used)
    made.narrow = is_narrow(program, part)
    return made


def names(part: Part, used: set[str]) -> Names:
    """Texts of a part's axes: each axis under its own name."""
    return Names({a: a for a in part.ranges}, used)


def evaluated(p: DevicePrinter, exprs: Sequence[Expr], pad: str, prefix: str = "t") -> tuple[str, list[str]]:
    """Statements that compute repeated subexpressions once, and the texts of all values."""
    lines: list[str] = []
    texts = bound(p, exprs, lines, prefix)
    return "".join(f"{pad}{line}\n" for line in lines), texts


def place(part: Part) -> Linear:
    """An output's position in the part's tensor, in elements."""
    steps = zip(part.axes, part.extents, strides_of(part.extents), strict=True)
    return Linear(0, {a: step for a, n, step in steps if n > 1})


def place_text(part: Part, names: Mapping[str, str], unit: str = "") -> str:
    """Text of an output's position, given the texts of axes; ``unit`` is a suffix of integer literals."""
    terms = ((names[a], step) for a, step in place(part).coef.items())
    return " + ".join(a if step == 1 else f"{a} * {step}{unit}" for a, step in terms) or "0"
