"""The language in which operators are written.

>>> from tilewright import te
>>> x, y = te.input("x", (64, 32)), te.input("y", (48, 32))
>>> d = te.compute((64, 48), lambda i, j: te.sum(32, lambda k: (x[i, k] - y[j, k]) ** 2))
>>> d.shape
(64, 48)

``compute`` takes a shape and a function from axes to an expression, or to one reduction
(``sum``, ``prod``, ``max``, ``min``, ``argmax``, ``argmin`` or ``reduce`` with a monoid of your
own) or one ``scan`` along an axis. Maps over a computed tensor are further ``compute`` calls; templates fuse them.
"""

from __future__ import annotations

from typing import NoReturn

from tilewright.errors import NoFunction
from tilewright.kernels.expression.expr import Expr, cast, select
from tilewright.kernels.expression.functions import (
    abs,
    cos,
    erf,
    exp,
    floor,
    fmod,
    log,
    log1p,
    maximum,
    minimum,
    pow,
    round_tf32,
    rsqrt,
    sin,
    sqrt,
    tanh,
    truncate_tf32,
)
from tilewright.kernels.expression.program import Monoid, left, right
from tilewright.kernels.parameters import Ints, Shape
from tilewright.kernels.te.declarations import compute, input, scalar
from tilewright.kernels.te.programs import program
from tilewright.kernels.te.programs import trace as trace
from tilewright.kernels.te.reductions import (
    Reduction,
    argmax,
    argmin,
    max,
    min,
    monoid,
    prod,
    reduce,
    scan,
    scatter,
    sum,
)
from tilewright.kernels.te.tensors import TensorRef, default_dtype

__all__ = [
    "Expr", "Ints", "Monoid", "Reduction", "Shape", "TensorRef", "abs", "argmax", "argmin", "cast", "compute", "cos",
    "default_dtype", "erf", "exp", "floor", "fmod", "input", "left", "log", "log1p", "max", "maximum", "min", "minimum",
    "monoid", "pow", "prod", "program", "reduce", "right", "round_tf32", "rsqrt", "scalar", "scan", "scatter", "select",
    "sin", "sqrt", "sum", "tanh", "truncate_tf32",
]  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    raise NoFunction("te", name, [n for n in __all__ if n.islower()])
