"""Constant folding: values that follow from a model's constants and shapes are computed at import, within limits.

A file of a few hundred bytes can state constants of any size and any number of operations on them. Values beyond the
limits are computed when the model runs.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.closing import Closing
from tilewright.core import TilewrightError, UsageError
from tilewright.models.isolated import IsolatedRuntime
from tilewright.models.model_file import STANDARD, Array, Model, subgraphs
from tilewright.models.sessions import Session, dtype_name, fixed_shape, part_of

LARGEST_FOLDED = 1 << 24
"""Most elements of a computed constant."""

FREE, TIMES = 256 << 20, 4
"""Limit of all computed constants: ``FREE`` bytes plus ``TIMES`` the bytes of the model's own constants."""

SECONDS, SECONDS_A_NODE = 30.0, 10.0
"""Seconds that constant folding may take for a model, and for a node that is computed in a child."""

LINEAR = (
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "ConstantOfShape", "CumSum",
    "DequantizeLinear", "Div", "Equal", "Erf", "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "Max", "Min",
    "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot", "Or", "Pad", "Pow", "QuantizeLinear", "Range", "Reciprocal",
    "Relu", "Reshape", "Round", "ScatterElements", "ScatterND", "Sigmoid", "Sign", "Slice", "Split", "Sqrt", "Squeeze",
    "Sub", "Tanh", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
)  # fmt: skip
"""Operators that are folded in this process, as their time and memory are proportional to inputs and outputs.

Other operators run in a child, unless they read and give at most ``FEW`` elements.
"""

FEW = 256

LONGEST = 1024
"""Most characters of a string that is copied, and most elements of an array of strings."""

FOUND = ("NonZero", "Compress", "Unique")
"""Operators whose number of results depends on values, and is at most the number of elements of their input."""

DRAWN = (
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip
"""Operators that draw random numbers."""

_log = logging.getLogger("tilewright.models")


class Folding(Closing):
    """Computes constants from a model's own, within limits.

    ``constants``: the known constants by name; the caller adds the results to them. ``shape_of``: returns a value's
    shape, or ``None``. ``left``: bytes that may still be computed.
    """

    def __init__(
        self, model: Model, constants: Mapping[str, Array], shape_of: Callable[[str], tuple[int, ...] | None]
    ) -> None:
        self._model, self._constants, self._shape_of = model, constants, shape_of
        self._end = time.monotonic() + SECONDS
        self._isolated = IsolatedRuntime()
        self._stopped = False
        self.left = FREE + TIMES * sum(a.nbytes for a in constants.values())

    def close(self) -> None:
        self._isolated.close()

    def fold(self, node: Any, inferred: Mapping[str, Any] | None) -> dict[str, Array] | None:
        """A node's outputs as constants by name, or ``None``. onnxruntime computes them, so results agree with a run.

        ``inferred``: the types of the node's outputs.
        """
        constants = self._constants
        outputs = [n for n in node.output if n]
        reads = list(dict.fromkeys(n for n in node.input if n))
        if node.domain not in STANDARD or not outputs or node.op_type in DRAWN or any(subgraphs(node)):
            return None
        shape = self._shape_of(reads[0]) if node.op_type in ("Shape", "Size") else None
        if shape is not None:
            taken = {a.name: a.i for a in node.attribute}
            part = np.array(shape[taken.get("start", 0) : taken.get("end", len(shape))], np.int64)
            return {outputs[0]: part if node.op_type == "Shape" else np.array(math.prod(shape), np.int64)}
        if node.op_type == "EyeLike" and inferred and (size := self._shape_of(reads[0])) is not None:
            kind = inferred[outputs[0]].tensor_type.elem_type
            read = {reads[0]: np.zeros(size, dtype_name(kind))} if math.prod(size) <= LARGEST_FOLDED else {}
        else:
            read = {n: constants[n] for n in reads if n in constants}
        if len(read) < len(reads):
            return None
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            return {outputs[0]: self._model.array(node.attribute[0].t)}
        if node.op_type == "Identity":
            return {outputs[0]: constants[reads[0]]}
        elements = self._elements(node, read, outputs, inferred)
        if elements is None or not self._fits(elements, read):
            return None
        made = self._computed(node, read, outputs, elements)
        if made is None or not all(isinstance(a, np.ndarray) for a in made.values()):
            return None
        self.left -= sum(a.nbytes for a in made.values())
        return made

    def dense(self, tensor: Any) -> Array:
        """A sparse weight as a dense array. Raises ``UsageError`` where that exceeds the memory limit."""
        values, at = self._model.array(tensor.values), self._model.array(tensor.indices)
        size = math.prod(tensor.dims) * values.dtype.itemsize
        if size > self.left:
            raise UsageError(
                f"the sparse weight {tensor.values.name} has {size >> 20} MiB with its zeros, more than the "
                f"{self.left >> 20} MiB that are left for computed constants",
                "Export the model with dense weights",
            )
        self.left -= size
        made = np.zeros(math.prod(tensor.dims), values.dtype)
        made[at if at.ndim == 1 else np.ravel_multi_index(tuple(at.T), tuple(tensor.dims))] = values
        return made.reshape(tuple(tensor.dims))

    @staticmethod
    def _elements(
        node: Any, read: Mapping[str, Array], outputs: list[str], inferred: Mapping[str, Any] | None
    ) -> int | None:
        """An upper bound of the number of elements of all results, or ``None`` if unknown or above
        :data:`LARGEST_FOLDED`."""
        if node.op_type in FOUND:
            (first, *_) = read.values()
            return first.size * (max(1, first.ndim) + len(outputs))
        total = 0
        for name in outputs:
            shape = fixed_shape((inferred or {}).get(name))
            if shape is None or math.prod(shape) > LARGEST_FOLDED:
                return None
            total += math.prod(shape)
        return total

    def _fits(self, elements: int, read: Mapping[str, Array]) -> bool:
        """Whether memory and time are left for results with this number of elements; warns once where they are not."""
        texts = [a for a in read.values() if a.dtype.kind in "OSU"]
        if texts:
            longest = max((len(x) for a in texts for x in a.reshape(-1)), default=0)
            return elements <= LONGEST and longest <= LONGEST and all(a.size <= LONGEST for a in texts)
        if elements * 8 <= self.left and time.monotonic() < self._end:
            return True
        if not self._stopped:
            self._stopped = True
            _log.warning(
                "constants that the model computes from its own take more than %d MiB or %g s: the others are computed "
                "when it runs. Simplify the model when it is exported",
                FREE >> 20, SECONDS,
            )  # fmt: skip
        return False

    def _computed(
        self, node: Any, read: Mapping[str, Array], outputs: list[str], elements: int
    ) -> dict[str, Array] | None:
        try:
            proto, large = part_of(self._model, [node], [], outputs, read)
            if node.op_type in LINEAR or elements + sum(a.size for a in read.values()) <= FEW:
                return Session(proto, large, optimised=False).run({})
        except TilewrightError:  # computed when the model runs, or refused then
            return None
        if any(a.dtype.kind in "OSU" for a in read.values()):
            return None
        return self._isolated.run(proto, large, min(SECONDS_A_NODE, self._end - time.monotonic()))
