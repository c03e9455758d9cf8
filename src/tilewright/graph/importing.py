"""The base of importers: a graph that the handlers of operators add to (``operations/handlers.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import TensorSpec
from tilewright.graph.ir import Array, GraphBuilder
from tilewright.graph.operations import OPERATIONS
from tilewright.graph.operations.pointwise import promoted
from tilewright.kernels.expression.expr import INTEGERS
from tilewright.kernels.nn.dims import computed


class Importing:
    """The base of importers: the program's values by name, and a graph builder."""

    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self.constants: dict[str, Array] = {}
        self._made = 0

    def known_as(self, name: str, array: Array) -> str:
        """Adds a constant of the program and returns its name."""
        self.constants[name] = array
        one_number = not any(array.strides)  # all elements share one address
        return self.builder.constant(name, array if one_number else np.ascontiguousarray(array).reshape(array.shape))

    def constant(self, array: Array) -> str:
        """Adds a constant that is not in the program, under a fresh name, and returns the name."""
        return self.known_as(self._fresh(), array)

    def spec(self, name: str) -> TensorSpec:
        return self.builder.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.spec(name).shape

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """Adds a node and returns its output. Operands are converted to PyTorch's promoted element type."""
        first = OPERATIONS[operation].promotes if operation in OPERATIONS else None
        if first is not None:
            inputs = [*inputs[:first], *self._alike(inputs[first:])]
        return self.builder.add(operation, inputs, attributes, output=output or self._fresh())

    def _fresh(self) -> str:
        """A name that no program uses."""
        self._made += 1
        return f"made/{self._made}"

    def reshaped(self, name: str, shape: Sequence[int], output: str | None = None) -> str:
        """A value in another shape; a reshaped constant stays a constant."""
        if output is None and name in self.constants:
            return self.constant(self.constants[name].reshape(tuple(shape)))
        return self.add("reshape", [name], output, shape=tuple(shape))

    def same(self, name: str, output: str) -> str:
        """A value under another name."""
        return self.reshaped(name, self.shape(name), output)

    def transposed_source(self, name: str) -> str | None:
        """See ``handlers.Build``."""
        return None

    def _alike(self, names: Sequence[str]) -> list[str]:
        """The operands in one element type. Scalars that the importer made follow PyTorch's promotion of Python
        numbers."""
        made = {n: self.constants[n] for n in names if n in self.constants and n.startswith("made/")}
        numbers = {n: a.item() for n, a in made.items() if a.size == 1}
        tensors = [self.spec(n) for n in names if n and n not in numbers]
        if not tensors:
            return list(names)
        dtype = promoted(tensors, list(numbers.values()))

        def alike(name: str) -> str:
            if not name or self.spec(name).dtype == dtype:
                return name
            if name in numbers:  # a number out of the type's range wraps, as in PyTorch
                number = np.asarray(numbers[name])
                number = number.astype(dtype) if dtype in INTEGERS else number
                return self.constant(number.astype(computed(dtype)))
            return self.builder.add("to", [name], {"dtype": dtype}, output=self._fresh())

        return [alike(n) for n in names]
