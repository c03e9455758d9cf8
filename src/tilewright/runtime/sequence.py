"""Several kernels as one call: launches in order without Python between them, their results in one memory plan."""

from __future__ import annotations

import ctypes
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.backends.cpu.loader import Block, Call, LoadedKernel, Memory, run_calls
from tilewright.core import TensorSpec, UsageError
from tilewright.extent import Sizes, bounds, greatest, open_sizes, shape_at
from tilewright.forking import ForkLock
from tilewright.graph import Places
from tilewright.runtime.checked import LINE, address, empty, storage, writable_address
from tilewright.runtime.memory_plan import PAGE, Lifetime, planned

Array = np.ndarray[Any, Any]


NO_SIZES: Sizes = MappingProxyType({})

BOUND = 256
"""Number of size bindings whose prepared calls a sequence keeps, the most recently used."""


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel on values by name: ``inputs`` in the order of its workload's, and the one that it gives.

    ``kernel``: gives it for sizes of the sequence's values.
    """

    kernel: Callable[[Sizes], LoadedKernel]
    inputs: tuple[str, ...]
    output: str


class KernelSequence:
    """``run(inputs)``: arrays by name, to the outputs by name.

    ``values``: shape and dtype of every value. Where axes are extents each run has sizes; memory is planned once, for
    the greatest. ``constants`` are copied and rearranged once. ``inputs``: what callers give; others are not asked for.
    ``places``: values that lie in others' memory. An input that does is copied there. Calls from several threads take
    turns.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        values: Mapping[str, TensorSpec],
        constants: Mapping[str, Array],
        inputs: Sequence[str],
        outputs: Sequence[str],
        places: Places | None = None,
    ) -> None:
        self._values = dict(values)
        self._places = places or Places(values)
        self._lock = ForkLock()
        self._steps = tuple(steps)
        self.outputs = tuple(outputs)
        reads = dict.fromkeys(self._root(n) for n in (*(x for s in steps for x in s.inputs), *outputs))
        self.inputs = tuple(n for n in inputs if self._root(n) in reads)
        self._copied = tuple(n for n in self.inputs if self._root(n) != n)
        memory = {self._root(n) for n in (*(s.output for s in steps), *self._copied)}
        self._stored = tuple(dict.fromkeys(self._root(o) for o in outputs))
        self._dtypes = {n: storage(values[n].dtype) for n in (*self.inputs, *self._stored)}
        unknown = next((n for n in self._stored if n not in memory), None)
        if unknown is not None:
            raise UsageError(f"no kernel of the sequence gives {unknown}", "Name outputs of its steps")
        self._constants = {n: constants[n] for n in reads if n in constants}
        self._copies: dict[str, Array] = {}  # constants that kernels read as they are
        named = {*reads, *memory, *self.inputs, *(x for s in steps for x in s.inputs), *outputs}
        self.sizes = open_sizes(n for v in named for n in values[v].shape)
        kernels = [s.kernel(greatest(self.sizes)) for s in steps]
        self._align = max((k.program.align for k in kernels), default=1)
        self._offsets, total = planned(self._lifetimes(steps, memory.difference(self._stored)), max(self._align, LINE))
        self._memory = Memory(total)
        self._workspace = Memory(max((k.workspace_bytes for k in kernels), default=0))
        self._packed: dict[tuple[Any, ...], tuple[Block, ...]] = {}
        self._bound: OrderedDict[tuple[int, ...], _Bound] = OrderedDict()
        self._of(greatest(self.sizes))

    @property
    def bytes(self) -> int:
        """Memory for the results that kernels pass on, and for their workspace."""
        return self._memory.size + self._workspace.size

    def run(self, inputs: Mapping[str, Array], sizes: Sizes = NO_SIZES) -> dict[str, Array]:
        """The outputs for these inputs, of these sizes. Raises ``UsageError`` for arrays that do not fit,
        ``LaunchError``."""
        with self._lock:
            bound = self._of(sizes)
            given = {n: self._checked(n, inputs, bound) for n in self.inputs}
            made = {n: empty(bound.shapes[n], self._dtypes[n], LINE) for n in self._stored}
            for name, array in (*given.items(), *made.items()):
                plain = array.flags.writeable and array.dtype.isbuiltin == 1
                at = writable_address(array) if plain else address(array)
                for tensors, number, offset in bound.open[name]:
                    tensors[number] = at + offset
            for name in self._copied:
                self._within(name, made, bound)[...] = given[name]
            run_calls(bound.calls)
        return {n: made[n] if n in made else self._owned(n, made, bound) for n in self.outputs}

    # ----------------------------------------------------------------- the calls for some sizes

    def _of(self, sizes: Sizes) -> _Bound:
        """The calls for these sizes: nothing but addresses and launch arguments is worked out."""
        key = tuple(sizes[n] for n in self.sizes)
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = self._bind(sizes)
            while len(self._bound) > BOUND:
                self._bound.popitem(last=False)
        self._bound.move_to_end(key)
        return found

    def _bind(self, sizes: Sizes) -> _Bound:
        kernels = [s.kernel(sizes) for s in self._steps]
        needed = max((k.workspace_bytes for k in kernels), default=0)
        if needed > self._workspace.size:  # calls that were made before keep theirs
            self._workspace = Memory(needed)
        names = {*self.inputs, *self._stored, *self.outputs}
        bound = _Bound(
            (Call * len(kernels))(), {n: shape_at(self._values[n].shape, sizes) for n in names}, sizes,
            max((k.program.align for k in kernels), default=1), [kernels, self._workspace],
            {n: [] for n in (*self.inputs, *self._stored)},
        )  # fmt: skip
        for k, (step, kernel) in enumerate(zip(self._steps, kernels, strict=True)):
            names_of = (*step.inputs, step.output)
            packed = self._rearranged(kernel, names_of, sizes)
            pointers = [
                packed[number].address if number in packed else self._address(n, sizes)
                for number, n in enumerate(names_of)
            ]
            tensors = (ctypes.c_void_p * len(pointers))(*pointers)
            for number, name in enumerate(names_of):
                root, offset = self._root(name), self._offset(name, sizes)
                if offset % kernel.program.align:
                    raise UsageError(f"{name} lies {offset} bytes into {root}", "Give it memory of its own")
                if root in bound.open:
                    bound.open[root].append((tensors, number, offset))
            bound.calls[k] = Call(
                ctypes.addressof(kernel._launches), len(kernel._launches), ctypes.addressof(tensors),
                self._workspace.address, kernel.zero_fill, kernel._env,
            )  # fmt: skip
            bound.keep.append(tensors)
        return bound

    def _rearranged(self, kernel: LoadedKernel, names: Sequence[str], sizes: Sizes) -> Mapping[int, Block]:
        """Weights as a kernel reads them, by the input's number: once for all kernels that want the same."""
        places = {n: (self._root(names[n]), self._offset(names[n], sizes)) for n, *_ in kernel.prepacks}
        key = tuple((*places[n], size, function, *values) for n, size, function, values in kernel.prepacks)
        if key not in self._packed:
            copies = {root: self._copied_constant(root) for root, _ in places.values()}
            pointers = [0] * len(names)
            for n, (root, offset) in places.items():
                pointers[n] = address(copies[root]) + offset
            self._packed[key] = tuple(kernel.pack(pointers).values())
        return dict(zip(places, self._packed[key], strict=True))

    def _copied_constant(self, name: str) -> Array:
        copy = self._copies.get(name)
        return self._copy(self._constants[name], self._values[name].dtype) if copy is None else copy

    # ----------------------------------------------------------------- where values lie

    def _root(self, name: str) -> str:
        return self._places.of(name).value

    def _offset(self, name: str, sizes: Sizes) -> int:
        """Bytes before a value in the memory that it lies in."""
        (offset,) = shape_at([self._places.of(name).offset], sizes)
        return offset * storage(self._values[name].dtype).itemsize

    def _address(self, name: str, sizes: Sizes) -> int:
        """Where a value lies in each run; 0 where every run decides it."""
        root = self._root(name)
        if root in self._constants:
            self._copies[root] = self._copied_constant(root)
            return address(self._copies[root]) + self._offset(name, sizes)
        return self._memory.address + self._offsets[root] + self._offset(name, sizes) if root in self._offsets else 0

    def _owned(self, name: str, made: Mapping[str, Array], bound: _Bound) -> Array:
        """An output; one that is a part of memory is copied out of it."""
        array = self._within(name, made, bound)
        return array if array.size == made[self._root(name)].size else array.copy()

    def _within(self, name: str, made: Mapping[str, Array], bound: _Bound) -> Array:
        """A value as an array: of an output's memory, or of that which kernels share."""
        shape, place, dtype = bound.shapes[name], self._places.of(name), storage(self._values[name].dtype)
        begin = self._offset(name, bound.sizes) // dtype.itemsize
        if place.value in made:
            flat: Array = made[place.value].reshape(-1)[begin : begin + math.prod(shape)]
        else:
            size = math.prod(shape) * dtype.itemsize
            held = (ctypes.c_char * size).from_address(self._address(name, bound.sizes))
            flat = np.frombuffer(memoryview(held).cast("B"), dtype)
        return flat.reshape(shape)

    def _lifetimes(self, steps: Sequence[Step], roots: set[str]) -> list[Lifetime]:
        uses: dict[str, list[int]] = {self._root(n): [0] for n in self._copied}
        for k, step in enumerate(steps):
            for name in (*step.inputs, step.output):
                uses.setdefault(self._root(name), []).append(k)
        return [Lifetime(n, _most_bytes(self._values[n]), min(uses[n]), max(uses[n])) for n in uses if n in roots]

    @staticmethod
    def _copy(array: Array, dtype: str) -> Array:
        out = empty(array.shape, storage(dtype), PAGE)
        out[...] = array if array.dtype.name == out.dtype.name else array.view(out.dtype)
        return out

    def _checked(self, name: str, inputs: Mapping[str, Array], bound: _Bound) -> Array:
        spec, shape, dtype = self._values[name], bound.shapes[name], self._dtypes[name]
        array = inputs.get(name)
        typed = array is not None and (array.dtype == dtype or array.dtype.name in (spec.dtype, dtype.name))
        if array is None or array.shape != shape or not typed:
            found = "nothing" if array is None else f"{array.shape} {array.dtype}"
            raise UsageError(f"the input {name} is {found}", f"Give an array {shape} of {spec.dtype}")
        dense = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        aligned = bound.align == 1 or address(array) % bound.align == 0
        return array if dense and aligned else self._copy(array, spec.dtype)


@dataclass(frozen=True, eq=False)
class _Bound:
    """The calls for some sizes. ``shapes``: of inputs and outputs; ``open``: where addresses are written in each run,
    by value; ``keep``: what the calls point to."""

    calls: ctypes.Array[Call]
    shapes: Mapping[str, tuple[int, ...]]
    sizes: Sizes
    align: int
    keep: list[Any]
    open: dict[str, list[tuple[ctypes.Array[Any], int, int]]]


def _most_bytes(spec: TensorSpec) -> int:
    """Bytes of a value, of the greatest sizes."""
    return bounds(math.prod(spec.shape))[1] * storage(spec.dtype).itemsize
