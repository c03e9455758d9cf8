"""The values of a sequence of kernels by name, and their positions in memory; shared by host and device sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from tilewright.caching import Recent
from tilewright.core import TensorSpec, UsageError
from tilewright.dtypes import numpy_dtype
from tilewright.extent import Extent, Sizes, bounds, shape_at, symbolic_sizes
from tilewright.graph import BufferAssignment
from tilewright.runtime.checked import address, empty
from tilewright.runtime.memory_plan import PAGE, Lifetime

Array = np.ndarray[Any, Any]
K = TypeVar("K")
B = TypeVar("B")

NO_SIZES: Sizes = MappingProxyType({})

BOUND = 256
"""Number of size bindings whose prepared calls a sequence keeps, the most recently used."""


@dataclass(frozen=True, eq=False)
class Step(Generic[K]):
    """A kernel on named values: ``inputs`` in the order of the workload's inputs, and ``output``.

    ``kernel``: returns the kernel for sizes of the sequence's values.
    """

    kernel: Callable[[Sizes], K]
    inputs: tuple[str, ...]
    output: str

    @property
    def names(self) -> tuple[str, ...]:
        """The values in the order in which the kernel takes them."""
        return (*self.inputs, self.output)


class Slots:
    """Shape and dtype of values by name, constants included; ``buffers``: values that lie in other values' memory.

    A *root* is a value that lies in no other value.
    """

    def __init__(
        self, values: Mapping[str, TensorSpec], constants: Mapping[str, Array], buffers: BufferAssignment | None = None
    ) -> None:
        self.values, self.constants = dict(values), constants
        self.buffers = buffers or BufferAssignment(values)

    def root(self, name: str) -> str:
        return self.buffers.of(name).value

    def offset(self, name: str, sizes: Sizes) -> int:
        """Offset of a value in its root, in bytes."""
        (offset,) = shape_at([self.buffers.of(name).offset], sizes)
        return offset * self.dtype(name).itemsize

    def fits(self, name: str, align: int) -> bool:
        """Whether a value's offset in its root is a multiple of ``align`` bytes at every size."""
        offset = self.buffers.of(name).offset
        return not isinstance(offset, Extent) and offset * self.dtype(name).itemsize % align == 0

    def dtype(self, name: str) -> np.dtype[Any]:
        """The NumPy dtype in which a value is stored."""
        return numpy_dtype(self.values[name].dtype)

    def shape(self, name: str, sizes: Sizes) -> tuple[int, ...]:
        return shape_at(self.values[name].shape, sizes)

    def most_bytes(self, name: str) -> int:
        """Bytes of a value at the greatest sizes."""
        return bounds(math.prod(self.values[name].shape))[1] * self.dtype(name).itemsize

    def symbolic_sizes(self, names: Iterable[str]) -> dict[str, Extent]:
        """The symbolic sizes of values, by name."""
        return symbolic_sizes(n for v in names for n in self.values[v].shape)

    def lifetimes(self, uses: Mapping[str, Sequence[int]]) -> list[Lifetime]:
        """The lifetimes of roots, from the steps that use them."""
        return [Lifetime(n, self.most_bytes(n), min(at), max(at)) for n, at in uses.items()]

    def stored(self, array: Array, name: str) -> Array:
        """A dense copy of an array in the dtype in which the value is stored."""
        out = empty(array.shape, self.dtype(name), PAGE)
        out[...] = array if array.dtype.name == out.dtype.name else array.view(out.dtype)
        return out

    def checked(self, name: str, inputs: Mapping[str, Array], shape: tuple[int, ...], align: int = 1) -> Array:
        """An input as a dense array aligned to ``align`` bytes. Raises ``UsageError`` for an array that does not
        fit."""
        spec, dtype = self.values[name], self.dtype(name)
        array = inputs.get(name)
        typed = array is not None and (array.dtype == dtype or array.dtype.name in (spec.dtype, dtype.name))
        if array is None or array.shape != shape or not typed:
            found = "nothing" if array is None else f"{array.shape} {array.dtype}"
            raise UsageError(f"the input {name} is {found}", f"Give an array {shape} of {spec.dtype}")
        dense = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        aligned = align == 1 or address(array) % align == 0
        return array if dense and aligned else self.stored(array, name)


class BySize(Recent[B]):
    """A cache of objects by the sizes ``names``, least recently used dropped first."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(BOUND)
        self._names = tuple(names)

    def of(self, sizes: Sizes, make: Callable[[Sizes], B]) -> B:
        """The object for these sizes, made if necessary."""
        return self.get(tuple(sizes[n] for n in self._names), make, sizes)
