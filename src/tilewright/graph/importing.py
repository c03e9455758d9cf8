"""What importers of programs share: a graph that handlers of operators add to (``operations/handlers.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import TensorSpec
from tilewright.graph.ir import Array, GraphBuilder
from tilewright.graph.operations import OPERATIONS
from tilewright.graph.operations.promotion import promoted


class Importing:
    """The base of importers: values by the program's names, and a builder."""

    def __init__(self) -> None:
        self.builder = GraphBuilder()
        self.constants: dict[str, Array] = {}
        self._made = 0

    def known_as(self, name: str, array: Array) -> str:
        """A value of the program that is known now."""
        self.constants[name] = array
        return self.builder.constant(name, np.ascontiguousarray(array).reshape(array.shape))

    def constant(self, array: Array) -> str:
        """A constant that the program does not have; its name."""
        self._made += 1
        return self.known_as(f"made/{self._made}", array)

    def spec(self, name: str) -> TensorSpec:
        return self.builder.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.spec(name).shape

    def add(self, operation: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        """A node; operands of several element types become the one that PyTorch computes in."""
        first = OPERATIONS[operation].promotes if operation in OPERATIONS else None
        if first is not None:
            inputs = [*inputs[:first], *self._alike(inputs[first:])]
        return self.builder.add(operation, inputs, attributes, output=output)

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
        numbers = {n: self.constants[n].item() for n in names if n in self.constants and n.startswith("made/")}
        tensors = [self.spec(n) for n in names if n and n not in numbers]
        if not tensors:
            return list(names)
        dtype = promoted(tensors, list(numbers.values()))
        return [
            n if not n or n in numbers or self.spec(n).dtype == dtype else self.builder.add("to", [n], {"dtype": dtype})
            for n in names
        ]
