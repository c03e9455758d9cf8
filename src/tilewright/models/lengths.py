"""Integers that a model computes from symbolic sizes: lengths of axes, and shapes put together from them.

Evaluates ONNX's operators elementwise on arrays of Python objects: numbers and :class:`~tilewright.extent.Extent`. A
result that differs within the range of sizes is treated as unknown.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.extent import Extent, for_every_size, larger, smaller
from tilewright.models.model_file import STANDARD, Array, onnx_module

MOST = 256
"""Most elements of an array of lengths."""

Shapes = Callable[[str], tuple[int, ...] | None]


@dataclass(frozen=True, eq=False)
class Lengths:
    """Integers as expressions of symbolic sizes: an array of objects, and the element type in the model."""

    values: Array
    dtype: str

    def at(self, sizes: Mapping[str, int]) -> Array:
        """The numbers at these sizes."""
        flat = [n.at(sizes) if isinstance(n, Extent) else n for n in self.values.reshape(-1)]
        return np.array(flat, self.dtype).reshape(self.values.shape)


def lengths_of(node: Any, known: Callable[[str], Array | None], shape_of: Shapes) -> Array | None:
    """A node's single result as an array of objects; ``None`` for unsupported operators and unknown inputs.

    ``known``: returns constants and lengths by name. ``shape_of``: returns a value's shape, or ``None``.
    """
    rule = RULES.get(node.op_type) if node.domain in STANDARD else None
    if rule is None or len(node.output) != 1:
        return None
    a = {x.name: x for x in node.attribute}
    try:
        with for_every_size():
            if node.op_type in ("Shape", "Size"):
                shape = shape_of(node.input[0])
                return None if shape is None else _shape(node.op_type, shape, a)
            read = [known(n) if n else None for n in node.input]
            if any(x is None and n for x, n in zip(read, node.input, strict=True)):
                return None
            if any(x is not None and (x.size > MOST or x.dtype.kind not in "iubO") for x in read):
                return None
            made = rule([None if x is None else x.astype(object) for x in read], a)
    except (ValueError, TypeError, IndexError, ArithmeticError, LookupError):
        return None
    return made if made is not None and made.size <= MOST else None


def has_symbolic_lengths(lengths: Array) -> bool:
    """Whether an array of lengths depends on symbolic sizes."""
    return any(isinstance(n, Extent) for n in lengths.reshape(-1))


def _shape(operator_name: str, shape: tuple[int, ...], a: Mapping[str, Any]) -> Array:
    start, end = (a[k].i if k in a else d for k, d in (("start", 0), ("end", len(shape))))
    return _array(list(shape[start:end])) if operator_name == "Shape" else _scalar(math.prod(shape))


def _scalar(value: Any) -> Array:
    made = np.empty((), object)
    made[()] = value
    return made


def _array(values: list[Any]) -> Array:
    made = np.empty(len(values), object)
    made[:] = values
    return made


Read = list[Any]
"""Inputs as arrays of objects, ``None`` for an absent input."""


def _axes(read: Read, a: Mapping[str, Any]) -> tuple[int, ...] | None:
    if "axes" in a:
        return tuple(a["axes"].ints)
    return None if len(read) < 2 or read[1] is None else _whole(read[1])


def _whole(values: Array) -> tuple[int, ...]:
    """Integers that are independent of symbolic sizes. Raises ``ValueError``."""
    if has_symbolic_lengths(values):
        raise ValueError("of many sizes")
    return tuple(int(n) for n in values.reshape(-1))


def _gather(read: Read, a: Mapping[str, Any]) -> Array:
    data, at = read
    index = np.array(_whole(at), np.int64).reshape(at.shape)
    found = np.take(data, index, a["axis"].i if "axis" in a else 0)
    return found if isinstance(found, np.ndarray) else _scalar(found)


def _slice(read: Read, a: Mapping[str, Any]) -> Array:
    data: Array = read[0]
    if "starts" in a:
        starts, ends = tuple(a["starts"].ints), tuple(a["ends"].ints)
        given = [tuple(a["axes"].ints) if "axes" in a else None, None]
    else:
        starts, ends = _whole(read[1]), _whole(read[2])
        given = [None if x is None else _whole(x) for x in (*read[3:], None, None)[:2]]
    axes, steps = given[0] or tuple(range(len(starts))), given[1] or (1,) * len(starts)
    index: list[Any] = [slice(None)] * data.ndim
    for begin, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice(begin, None if step < 0 and end < -data.shape[axis] else end, step)
    return np.asarray(data[tuple(index)], object)


def _elementwise(fn: Callable[..., Any]) -> Callable[[Read, Mapping[str, Any]], Array]:
    def rule(read: Read, a: Mapping[str, Any]) -> Array:
        arrays = np.broadcast_arrays(*read)
        made = np.empty(arrays[0].shape, object)
        for place in np.ndindex(made.shape):
            made[place] = fn(*(x[place] for x in arrays))
        return made

    return rule


def _quotient(x: int, y: int) -> int:
    """The quotient; ONNX rounds towards zero, so negative operands are refused."""
    if x < 0 or y <= 0:
        raise ValueError("a negative number")
    return x // y


def _equal(x: int, y: int) -> bool:
    if not isinstance(x, Extent) and not isinstance(y, Extent):
        return x == y
    return not (x - y)  # undecided where only some sizes are equal


def _ones(read: Read, a: Mapping[str, Any]) -> Array | None:
    value = onnx_module().numpy_helper.to_array(a["value"].t) if "value" in a else np.zeros(1, np.float32)
    if value.dtype.kind not in "iub":
        return None
    shape = _whole(read[0])
    return np.full(shape, value.reshape(-1)[0].item(), object) if math.prod(shape) <= MOST else None


def _range(read: Read, a: Mapping[str, Any]) -> Array | None:
    ((begin,), (end,), (step,)) = map(_whole, read)
    return _array(list(range(begin, end, step))) if -MOST <= end - begin <= MOST else None


RULES: dict[str, Callable[[Read, Mapping[str, Any]], Array | None]] = {
    "Shape": lambda read, a: None, "Size": lambda read, a: None,
    "Identity": lambda read, a: read[0], "Gather": _gather, "Slice": _slice, "ConstantOfShape": _ones, "Range": _range,
    "Cast": lambda read, a: read[0] if a["to"].i in (6, 7) else None,  # int32, int64
    "Concat": lambda read, a: np.concatenate(read, a["axis"].i),
    "Squeeze": lambda read, a: read[0].squeeze(_axes(read, a)),
    "Unsqueeze": lambda read, a: np.expand_dims(read[0], _axes(read, a) or ()),
    "Reshape": lambda read, a: read[0].reshape(_whole(read[1])),
    "Add": _elementwise(operator.add), "Sub": _elementwise(operator.sub), "Mul": _elementwise(operator.mul),
    "Div": _elementwise(_quotient), "Neg": _elementwise(operator.neg), "Equal": _elementwise(_equal),
    "Less": _elementwise(operator.lt), "Greater": _elementwise(operator.gt),
    "LessOrEqual": _elementwise(operator.le), "GreaterOrEqual": _elementwise(operator.ge),
    "Not": _elementwise(operator.not_), "And": _elementwise(lambda x, y: x and y),
    "Or": _elementwise(lambda x, y: x or y), "Where": _elementwise(lambda c, x, y: x if c else y),
    "Max": _elementwise(larger), "Min": _elementwise(smaller),
}  # fmt: skip
"""Functions of inputs, as arrays of objects, and attributes, by operator."""
