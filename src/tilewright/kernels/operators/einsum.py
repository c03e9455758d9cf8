"""General contractions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.core import Value
from tilewright.kernels import nn, te
from tilewright.kernels.nn.einsum import parse
from tilewright.kernels.operator import operator
from tilewright.kernels.operators.numeric import REALS, Array, rounded

NAMES = ("a", "b", "c", "d")


@rounded
def _floats(*inputs: Array, equation: str) -> Array:
    return np.asarray(np.einsum(equation, *inputs, optimize=len(inputs) > 2))


def _numpy(*inputs: Array, equation: str = "mk,kn->mn", **_: object) -> Array:
    if inputs[0].dtype == np.int8:
        return np.asarray(np.einsum(equation, *(v.astype(np.int32) for v in inputs)))
    return _floats(*inputs, equation=equation)


def _infer(shapes: Sequence[tuple[int, ...]], equation: str = "mk,kn->mn", **_: object) -> dict[str, Value]:
    parse(equation, shapes)
    return {name: ",".join(map(str, shape)) for name, shape in zip(NAMES, shapes, strict=False)}


@operator(
    numpy=_numpy,
    infer=_infer,
    dtypes=(*REALS, "int8"),
    example={"a": "64,96", "b": "96,80"},
)
def einsum(
    a: te.Shape,
    *,
    b: te.Shape = (),
    c: te.Shape = (),
    d: te.Shape = (),
    equation: str = "mk,kn->mn",
    dtype: str = "float32",
) -> te.TensorRef:
    """The contraction ``equation`` of one to four operands, as ``torch.einsum``: ``bhqd,bhkd->bhqk``.

    Inputs in call order: ``a``, ``b``, ``c``, ``d``, of the shapes that are given. Output: the sizes of the
    letters after ``->``. Letters that are missing there are summed; one that an operand has twice walks its
    diagonal; there is no ellipsis. 16-bit reals are summed in float32 and rounded once, int8 in int32.
    """
    shapes = [s for s in (a, b, c, d) if s]
    parse(equation, shapes)
    out = nn.einsum(equation, *(te.input(n, s, dtype) for n, s in zip(NAMES, shapes, strict=False)))
    return nn.cast(out, "int32" if dtype == "int8" else dtype)
