"""Matching of attentions for GPUs, the units that compute them, and the layout of queries, keys and values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.kernels.expression.expr import ITEMSIZE, SIXTEEN, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.families.attention import Attention
from tilewright.kernels.families.attention import match as attention
from tilewright.kernels.families.flatten import position
from tilewright.kernels.templates.cuda.kernels import supported
from tilewright.kernels.templates.cuda.runs import Run
from tilewright.kernels.templates.cuda_attention.pack import joined, packed

WIDEST = 256
"""Most elements of a query or of a value: the result's row is held in registers."""


@dataclass(frozen=True, eq=False)
class Side:
    """Queries, keys or values as rows in memory.

    ``value``: an element as it is multiplied, over the axes ``row`` and ``along`` and outer axes. ``load``: its read;
    ``None`` where the value is not a single read. ``vector``: elements of one copy, or 0 where adjacent elements are
    not contiguous. ``limit``: valid length: rows from this number on are zeros.
    """

    value: Expr
    row: str
    along: str
    rows: int
    length: int
    load: Expr | None
    tensor: Tensor | None
    where: Linear | None
    vector: int
    limit: Expr | None = None

    @property
    def gathered(self) -> bool:
        """Whether another tensor gives the place of a row."""
        return self.load is not None and any(e.loads() for e in self.load.args)

    @property
    def dtype(self) -> str:
        """Element type in memory."""
        return self.tensor.dtype if self.tensor is not None else "float32"


@dataclass(frozen=True, eq=False)
class Form:
    """A matched program and its three operands. ``tensor_cores``: all operands are 16-bit and go to Tensor Cores.

    ``packed``: the form in which heads that share keys are rows of one head (``pack``); ``None``: no heads share keys.
    """

    a: Attention
    q: Side
    k: Side
    v: Side
    tensor_cores: bool
    packed: Form | None = None

    @property
    def sides(self) -> tuple[Side, Side, Side]:
        return self.q, self.k, self.v


@lru_cache(maxsize=128)
def match(program: Program) -> Form | None:
    """The attention that a program computes, or ``None``; the same object at each call."""
    a = attention(program)
    if a is None or not supported(a.program) or max(a.depth, a.width) > WIDEST or a.outer_size * a.queries >= 1 << 30:
        return None
    other = packed(a)
    return _form(a, None if other is None else _form(other))


def _form(a: Attention, other: Form | None = None) -> Form:
    q = _side(a, a.q, a.query, "r0", a.queries, a.depth)
    k = _side(a, _cast(a.k.load), a.key, "r0", a.keys, a.depth)
    v = replace(_side(a, _cast(a.v.load), a.key, "e", a.keys, a.width), limit=a.v.limit)
    types = {s.dtype for s in (q, k, v)}
    cores = len(types) == 1 and types <= set(SIXTEEN) and all(s.vector > 1 for s in (q, k, v))
    return Form(a, q, k, v, cores, other)


def _cast(load: Expr) -> Expr:
    return load if load.dtype == "float32" else Expr("cast", "float32", (load,))


def _side(a: Attention, value: Expr, row: str, along: str, rows: int, length: int) -> Side:
    load = value.args[0] if value.op == "cast" and value.dtype == "float32" else value
    if load.op != "load" or any(along in x.axes() for e in load.args for x in e.loads()):
        return Side(value, row, along, rows, length, None, None, None, 0)
    tensor = a.program.tensors[str(load.value)]
    where = joined(a, position(load, tensor))
    return Side(value, row, along, rows, length, load, tensor, where, _vector(where, along, length, tensor.dtype))


def _vector(where: Linear, along: str, length: int, dtype: str) -> int:
    """The most adjacent elements, a power of two, of a copy of at most 16 bytes; 0 where elements are not
    contiguous."""
    run = Run(((along, length),))
    return run.widest(where, ITEMSIZE[dtype]) if length == 1 or run.step(where) == 1 else 0
