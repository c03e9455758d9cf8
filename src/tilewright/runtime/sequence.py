"""Several kernels as one call: launches in order without Python between them, with their results in one memory plan."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cpu.loader import Block, Call, LoadedKernel, Memory, run_calls
from tilewright.core import TensorSpec, UsageError
from tilewright.extent import Sizes, greatest
from tilewright.forking import ForkLock
from tilewright.graph import BufferAssignment
from tilewright.runtime.checked import LINE, address, empty, writable_address
from tilewright.runtime.memory_plan import planned
from tilewright.runtime.slots import NO_SIZES, BySize, Slots, Step

Array = np.ndarray[Any, Any]


class KernelSequence:
    """Runs kernels in order: ``run(inputs)`` takes arrays by name and returns the outputs by name.

    ``values``: shape and dtype of every value. With symbolic sizes each run states its sizes; memory is planned once,
    for the greatest. ``constants`` are copied and prepacked once. ``inputs``: values that callers give; only the inputs
    that kernels read are required. ``buffers``: values that lie in the memory of other values; an input among them is
    copied there. Concurrent calls run one after the other.
    """

    def __init__(
        self,
        steps: Sequence[Step[LoadedKernel]],
        values: Mapping[str, TensorSpec],
        constants: Mapping[str, Array],
        inputs: Sequence[str],
        outputs: Sequence[str],
        buffers: BufferAssignment | None = None,
    ) -> None:
        self._slots = Slots(values, constants, buffers)
        self._root, self._offset = self._slots.root, self._slots.offset
        self._lock = ForkLock()
        self._steps = tuple(steps)
        self.outputs = tuple(outputs)
        reads = dict.fromkeys(self._root(n) for n in (*(x for s in steps for x in s.inputs), *outputs))
        self.inputs = tuple(n for n in inputs if self._root(n) in reads)
        self._copied = tuple(n for n in self.inputs if self._root(n) != n)
        memory = {self._root(n) for n in (*(s.output for s in steps), *self._copied)}
        self._stored = tuple(dict.fromkeys(self._root(o) for o in outputs))
        unknown = next((n for n in self._stored if n not in memory), None)
        if unknown is not None:
            raise UsageError(f"no kernel of the sequence computes {unknown}", "Name outputs of its steps")
        self._constants = {n: constants[n] for n in reads if n in constants}
        self._copies: dict[str, Array] = {}  # constants that kernels read unpacked
        self.sizes = self._slots.symbolic_sizes(
            {*reads, *memory, *self.inputs, *(x for s in steps for x in s.inputs), *outputs}
        )
        kernels = [s.kernel(greatest(self.sizes)) for s in steps]
        self._align = max((k.program.align for k in kernels), default=1)
        uses: dict[str, list[int]] = {self._root(n): [0] for n in self._copied}
        for k, step in enumerate(steps):
            for name in step.names:
                uses.setdefault(self._root(name), []).append(k)
        kept = memory.difference(self._stored)
        lifetimes = self._slots.lifetimes({n: at for n, at in uses.items() if n in kept})
        self._offsets, total = planned(lifetimes, max(self._align, LINE))
        self._memory = Memory(total)
        self._workspace = Memory(max((k.workspace_bytes for k in kernels), default=0))
        self._packed: dict[tuple[Any, ...], tuple[Block, ...]] = {}
        self._bound = BySize[_Bound](self.sizes)
        self._bound.of(greatest(self.sizes), self._bind)

    @property
    def bytes(self) -> int:
        """Bytes for the results that kernels pass on, and for the workspace."""
        return self._memory.size + self._workspace.size

    def run(self, inputs: Mapping[str, Array], sizes: Sizes = NO_SIZES) -> dict[str, Array]:
        """The outputs for these inputs, of these sizes. Raises ``UsageError`` for arrays that do not fit, and
        ``LaunchError``."""
        with self._lock:
            bound = self._bound.of(sizes, self._bind)
            given = {n: self._slots.checked(n, inputs, shape, bound.align) for n, shape in bound.given.items()}
            made = {n: empty(shape, dtype, LINE) for n, (shape, dtype) in bound.made.items()}
            for name, array in (*given.items(), *made.items()):
                plain = array.flags.writeable and array.dtype.isbuiltin == 1
                at = writable_address(array) if plain else address(array)
                for tensors, number, offset in bound.open[name]:
                    tensors[number] = at + offset
            for name in self._copied:
                bound.views[name].of(made)[...] = given[name]
            run_calls(bound.calls)
        return {n: made[n] if n in made else bound.views[n].of(made, own=True) for n in self.outputs}

    # ----------------------------------------------------------------- calls at given sizes

    def _bind(self, sizes: Sizes) -> _Bound:
        kernels = [s.kernel(sizes) for s in self._steps]
        needed = max((k.workspace_bytes for k in kernels), default=0)
        if needed > self._workspace.size:  # earlier bindings keep their workspace
            self._workspace = Memory(needed)
        shape, dtype = self._slots.shape, self._slots.dtype
        bound = _Bound(
            (Call * len(kernels))(), {n: shape(n, sizes) for n in self.inputs},
            {n: (shape(n, sizes), dtype(n)) for n in self._stored},
            {n: self._view(n, sizes) for n in (*self._copied, *self.outputs)},
            max((k.program.align for k in kernels), default=1), [kernels, self._workspace],
            {n: [] for n in (*self.inputs, *self._stored)},
        )  # fmt: skip
        for k, (step, kernel) in enumerate(zip(self._steps, kernels, strict=True)):
            names_of = step.names
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
            bound.calls[k] = kernel.call(ctypes.addressof(tensors), self._workspace.address)
            bound.keep.append(tensors)
        return bound

    def _rearranged(self, kernel: LoadedKernel, names: Sequence[str], sizes: Sizes) -> Mapping[int, Block]:
        """Prepacked weights of a kernel, by the input's number; kernels with equal packings share them."""
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
        return self._slots.stored(self._constants[name], name) if copy is None else copy

    # ----------------------------------------------------------------- memory of values

    def _address(self, name: str, sizes: Sizes) -> int:
        """The constant address of a value; 0 for a value whose address each run sets."""
        root = self._root(name)
        if root in self._constants:
            self._copies[root] = self._copied_constant(root)
            return address(self._copies[root]) + self._offset(name, sizes)
        return self._memory.address + self._offsets[root] + self._offset(name, sizes) if root in self._offsets else 0

    def _view(self, name: str, sizes: Sizes) -> _View:
        """A value as a view of its memory: an output's memory, or the memory that kernels share."""
        root, shape, dtype = self._root(name), self._slots.shape(name, sizes), self._slots.dtype(name)
        begin, count = self._offset(name, sizes) // dtype.itemsize, math.prod(shape)
        if root in self._stored:
            whole = count == math.prod(self._slots.shape(root, sizes))
            return _View(shape, slice(begin, begin + count), whole, root)
        held = (ctypes.c_char * (count * dtype.itemsize)).from_address(self._address(name, sizes))
        return _View(shape, slice(None), False, "", np.frombuffer(memoryview(held).cast("B"), dtype))


@dataclass(frozen=True, eq=False)
class _View:
    """A value inside other memory: the slice ``place`` of the output ``root`` (``whole`` if it is all of it), or of
    ``memory``."""

    shape: tuple[int, ...]
    place: slice
    whole: bool
    root: str
    memory: Array | None = None

    def of(self, made: Mapping[str, Array], own: bool = False) -> Array:
        """The value as an array; with ``own`` a copy, unless it is a whole output."""
        flat = made[self.root].reshape(-1) if self.memory is None else self.memory
        found = flat[self.place].reshape(self.shape)
        return found.copy() if own and not self.whole else found


@dataclass(frozen=True, eq=False)
class _Bound:
    """The calls at some sizes.

    ``given``: shapes of inputs. ``made``: shapes and dtypes of arrays that a run allocates. ``views``: values that lie
    in other values. ``open``: for each value, the places where a run writes its address. ``keep``: objects that the
    calls point to.
    """

    calls: ctypes.Array[ctypes.Structure]
    given: Mapping[str, tuple[int, ...]]
    made: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    views: Mapping[str, _View]
    align: int
    keep: list[Any]
    open: dict[str, list[tuple[ctypes.Array[Any], int, int]]]
