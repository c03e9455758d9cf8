"""Checks that operands are finite, so that a kernel may skip steps of zeros, or the NaN tests of ``max`` and ``min``.

The larger of two values takes one instruction, and three if NaN must win. Sums, differences and products of two
finite values are never NaN, so a ``max`` or ``min`` over finite operands needs no test for NaN.
"""

from __future__ import annotations

from tilewright.kernels.templates.cpu_contraction import triangle
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import Operand

QUICK = {"max": "larger", "min": "smaller"}
"""The C function that ignores NaN, by the operation of the monoid."""
FEW = 16
"""Rows, or columns, up to which the check of the operands costs more than it saves."""


def extreme(p: ContractionTiling) -> str:
    """The C function that combines steps of finite operands; empty where every step tests for NaN."""
    c = p.c
    name = c.monoid.name
    if name not in QUICK or c.monoid.combine[0].op != name or p.varying or min(c.m.size, c.n.size) <= FEW:
        return ""
    plain = c.body.op in ("add", "sub", "mul") and all(x.op == "var" for x in c.body.args)
    if not plain or "prepack" in (p.a, p.b) or not all(_as_stored(p, x) for x in (c.a, c.b)):
        return ""
    return QUICK[name]


def _as_stored(p: ContractionTiling, side: Operand) -> bool:
    """Whether a side is a plain read of a tensor in the type of the sums."""
    return side.affine is not None and p.c.program.tensors[str(side.tensor)].dtype == p.c.acc


def functions(p: ContractionTiling) -> str:
    """C function ``finite``: whether all elements of ``rows`` rows of ``cols`` elements, ``ld`` apart, are finite."""
    if not triangle.guards(p) and not extreme(p) and p.c.b.valid_length is None:
        return ""
    return (
        "TW_NOINLINE bool finite(const T *b, long rows, long cols, long ld) { T r=0;\n"
        " V s=tw::splat<V>(0), t=s;\n"
        " for(long k=0;k<rows;k++,b+=ld) { long j=0;\n"
        "  for(;j+2*L<=cols;j+=2*L) { s+=tw::load<V>(b+j)*tw::splat<V>(0); t+=tw::load<V>(b+j+L)*tw::splat<V>(0); }\n"
        "  for(;j<cols;j++) r+=0*b[j]; }\n"
        " s+=t; for(long j=0;j<L;j++) r+=s[j]; return r==0; }"
    )


def checked(p: ContractionTiling) -> str:
    """C condition in the entry point: whether both operands are finite."""
    tensors = [(n, t) for n, t in enumerate(p.c.program.inputs) if t.name in (p.c.a.tensor, p.c.b.tensor)]
    return "&&".join(f"finite((const T*)tensors[{n}],1,{t.size}L,0)" for n, t in tensors)
