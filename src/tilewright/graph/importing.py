"""What importers of programs share: a graph that handlers of operators add to (``operations/handlers.py``)."""

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
    """The base of importers: values by the program's names, and a builder."""

    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self.constants: dict[str, Array] = {}
        self._made = 0

    def known_as(self, name: str, array: Array) -> str:
        """A value of the program that is known now."""
        self.constants[name] = array
        one_number = not any(array.strides)  # all elements are the same memory
        return self.builder.constant(name, array if one_number else np.ascontiguousarray(array).reshape(array.shape))

    def constant(self, array: Array) -> str:
        """A constant that the program does not have; its name."""
        return self.known_as(self._fresh(), array)

    def spec(self, name: str) -> TensorSpec:
        return self.builder.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.spec(name).shape

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """A node; operands of several element types become the one that PyTorch computes in."""
        first = OPERATIONS[operation].promotes if operation in OPERATIONS else None
        if first is not None:
            inputs = [*inputs[:first], *self._alike(inputs[first:])]
        return self.builder.add(operation, inputs, attributes, output=output or self._fresh())

    def _fresh(self) -> str:
        """A name that no program has."""
        self._made += 1
        return f"made/{self._made}"

    def reshaped(self, name: str, shape: Sequence[int], output: str | None = None) -> str:
        """A value in another shape; a constant is one again."""
        if output is None and name in self.constants:
            return self.constant(self.constants[name].reshape(tuple(shape)))
        return self.add("reshape", [name], output, shape=tuple(shape))

    def same(self, name: str, output: str) -> str:
        """A value under another name."""
        return self.reshaped(name, self.shape(name), output)

    def turned(self, name: str) -> str | None:
        """See ``handlers.Build``."""
        return None

    def _alike(self, names: Sequence[str]) -> list[str]:
        """The operands in one element type; numbers of the program's (constants of ours) too."""
        made = {n: self.constants[n] for n in names if n in self.constants and n.startswith("made/")}
        numbers = {n: a.item() for n, a in made.items() if a.size == 1}
        tensors = [self.spec(n) for n in names if n and n not in numbers]
        if not tensors:
            return list(names)
        dtype = promoted(tensors, list(numbers.values()))

        def alike(name: str) -> str:
            if not name or self.spec(name).dtype == dtype:
                return name
            if name in numbers:  # one that the type does not hold wraps, as in PyTorch
                number = np.asarray(numbers[name])
                number = number.astype(dtype) if dtype in INTEGERS else number
                return self.constant(number.astype(computed(dtype)))
            return self.builder.add("to", [name], {"dtype": dtype}, output=self._fresh())

        return [alike(n) for n in names]
