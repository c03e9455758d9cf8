"""C texts that packing and stores share: positions of axes, reads of single elements."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.mixed_precision.match import STORED, Dot


def number_of(c: Dot, tensor: str) -> int:
    """A tensor's place among the kernel's pointers."""
    return [t.name for t in c.program.inputs].index(tensor)


def declare(group: Group, fused: str, prefix: str = "") -> str:
    """Declarations of a group's axes, given the text of the fused position."""
    return "".join(f"const long {prefix}{a}={t}; (void){prefix}{a}; " for a, t in group.split(fused).items())


def axis_names(c: Dot) -> dict[str, str]:
    """Text of every axis: its own name; axes of one element are 0."""
    used = {*c.batch.axes, *c.m.axes, *c.n.axes, *c.k.axes}
    return {a: a if a in used else "0L" for a in (*c.stage.axes, *c.stage.reduce_axes)}


def linear(form: Linear, names: Mapping[str, str]) -> str:
    """C text of a linear form."""
    terms = [f"{form.const}L"] + [f"{v}L*{names[a]}" for a, v in form.coef.items() if v and names[a] != "0L"]
    return "+".join(terms)


def stored(c: Dot, load: Expr, names: Mapping[str, str]) -> str:
    """C text of one element of an input as it lies in memory."""
    tensor = c.program.tensors[str(load.value)]
    terms = [f"({scalar(c, i, names)})*{s}L" for i, s in zip(load.args, tensor.strides, strict=True)]
    return f"((const {STORED[tensor.dtype]}*)x->t[{number_of(c, tensor.name)}])[{'+'.join(terms) or '0'}]"


def element(c: Dot, load: Expr, names: Mapping[str, str]) -> str:
    """C text of one element of an input."""
    text = stored(c, load, names)
    return f"tw::widen({text})" if STORED[c.program.tensors[str(load.value)].dtype].startswith("tw::") else text


def scalar(c: Dot, e: Expr, names: Mapping[str, str]) -> str:
    """C text of a value of inputs and axes."""
    return print_expr(e, axis=names, load=lambda x: element(c, x, names), var={}, lanes=None)
