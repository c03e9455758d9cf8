"""What an index may be, while a program is written."""

from __future__ import annotations

from numbers import Real

from tilewright.core import OperatorError
from tilewright.kernels.expression import expr as ex
from tilewright.kernels.expression.expr import FLOATS, INDEX, INTEGERS, Expr, ExprLike, cast
from tilewright.kernels.expression.functions import maximum, minimum
from tilewright.kernels.expression.size import check_size

_INDEX_OPS = {"const", "axis", "add", "sub", "mul", "floordiv", "mod", "min", "max", "load", "cast", "neg", "size"}
_INDEX_RULE = "Indices use axes, whole constants and whole-number tensors, with + -, and * // % by a constant"


def kept_index(value: ExprLike, extent: int) -> Expr:
    """An index into an axis; one that is read from a tensor is kept within it."""
    index = whole_index(value)
    # What a tensor holds is known at run time only: a wrong value must not read beyond the axis.
    return minimum(maximum(index, 0), extent - 1) if index.loads() else index


def whole_index(value: ExprLike) -> Expr:
    """A whole number of what indices may compute with. Raises ``OperatorError`` for anything else."""
    given: object = value
    if not isinstance(given, (Expr, Real)):
        rule = "Read one element; take several with te.sum or te.compute"
        raise OperatorError(f"the index {given!r:.60} is not one whole number", rule)
    index = ex.wrap(value)
    if index.dtype in FLOATS or index.dtype == "bool":
        raise OperatorError(f"{index!r} is {index.dtype}; an index is a whole number", _INDEX_RULE)
    index = cast(index, INDEX)
    if index.op in ("axis", "const"):  # most are
        return index
    check_size((index,), "an index")
    for node in index.walk():
        if node.op == "load":
            if node.dtype not in INTEGERS:
                raise OperatorError(f"{node!r} is {node.dtype}; an index is a whole number", _INDEX_RULE)
        elif node.dtype in FLOATS:
            raise OperatorError(f"index {index!r} does real arithmetic", _INDEX_RULE)
        elif node.op not in _INDEX_OPS:
            raise OperatorError(f"{node.op} is not allowed in the index {index!r}", _INDEX_RULE)
        elif node.op == "mul" and not any(a.op in ("const", "size") for a in node.args):
            raise OperatorError(f"index {index!r} multiplies two axes", _INDEX_RULE)
    return index
