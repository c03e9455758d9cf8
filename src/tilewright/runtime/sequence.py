"""Several kernels as one call: launches in order without Python between them, their results in one memory plan."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.cpu.loader import Block, Call, LoadedKernel, Memory, run_calls
from tilewright.core import TensorSpec, UsageError
from tilewright.forking import ForkLock
from tilewright.graph import Places
from tilewright.runtime.checked import LINE, address, empty, storage, writable_address
from tilewright.runtime.memory_plan import PAGE, Lifetime, planned

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel on values by name: ``inputs`` in the order of its workload's, and the one that it gives."""

    kernel: LoadedKernel
    inputs: tuple[str, ...]
    output: str


class KernelSequence:
    """``run(inputs)``: arrays by name, to the outputs by name.

    ``values``: shape and dtype of every value. ``constants`` are copied and rearranged once. ``inputs``: what callers
    give; others are not asked for. ``places``: values that lie in others' memory. An input that does is copied there.
    Calls from several threads take turns.
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
        self._align = max((s.kernel.program.align for s in steps), default=1)
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
        copies = {n: self._copy(n, constants[n]) for n in reads if n in constants}
        self._offsets, total = planned(self._lifetimes(steps, memory.difference(self._stored)), max(self._align, LINE))
        self._memory = Memory(total)
        self._workspace = Memory(max((s.kernel.workspace_bytes for s in steps), default=0))
        self._packed: dict[tuple[int, ...], Mapping[int, Block]] = {}
        self._tensors: list[ctypes.Array[Any]] = []
        self._open: dict[str, list[tuple[ctypes.Array[Any], int, int]]] = {n: [] for n in (*self.inputs, *self._stored)}
        self._calls = (Call * len(steps))()
        self._constants: dict[str, Array] = {}  # constants that kernels read as they are
        for k, step in enumerate(steps):
            kernel, names = step.kernel, (*step.inputs, step.output)
            pointers = [self._address(n, copies) for n in names]
            key = (id(kernel), *(pointers[number] for number, *_ in kernel.prepacks))
            if key not in self._packed:
                self._packed[key] = kernel.pack(pointers)
            for number, block in self._packed[key].items():
                pointers[number] = block.address
            tensors = (ctypes.c_void_p * len(pointers))(*pointers)
            for number, name in enumerate(names):
                root, offset = self._root(name), self._offset(name)
                if offset % kernel.program.align:
                    raise UsageError(f"{name} lies {offset} bytes into {root}", "Give it memory of its own")
                if root in self._open:
                    self._open[root].append((tensors, number, offset))
                elif root in copies and number not in self._packed[key]:
                    self._constants[root] = copies[root]
            self._calls[k] = Call(
                ctypes.addressof(kernel._launches), len(kernel._launches), ctypes.addressof(tensors),
                self._workspace.address, kernel.zero_fill, kernel._env,
            )  # fmt: skip
            self._tensors.append(tensors)
        self._keep = tuple(steps)

    @property
    def bytes(self) -> int:
        """Memory for the results that kernels pass on, and for their workspace."""
        return self._memory.size + self._workspace.size

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for these inputs. Raises ``UsageError`` for arrays that do not fit, ``LaunchError``."""
        given = {n: self._checked(n, inputs) for n in self.inputs}
        made = {n: empty(self._values[n].shape, self._dtypes[n], LINE) for n in self._stored}
        with self._lock:
            for name, array in (*given.items(), *made.items()):
                plain = array.flags.writeable and array.dtype.isbuiltin == 1
                at = writable_address(array) if plain else address(array)
                for tensors, number, offset in self._open[name]:
                    tensors[number] = at + offset
            for name in self._copied:
                self._within(name, made)[...] = given[name]
            run_calls(self._calls)
        return {n: made[n] if n in made else self._owned(n, made) for n in self.outputs}

    def _root(self, name: str) -> str:
        return self._places.of(name).value

    def _offset(self, name: str) -> int:
        """Bytes before a value in the memory that it lies in."""
        return self._places.of(name).offset * storage(self._values[name].dtype).itemsize

    def _address(self, name: str, constants: Mapping[str, Array]) -> int:
        """Where a value lies in each run; 0 where every run decides it."""
        root = self._root(name)
        if root in constants:
            return address(constants[root]) + self._offset(name)
        return self._memory.address + self._offsets[root] + self._offset(name) if root in self._offsets else 0

    def _owned(self, name: str, made: Mapping[str, Array]) -> Array:
        """An output; one that is a part of memory is copied out of it."""
        array = self._within(name, made)
        return array if array.size == made[self._root(name)].size else array.copy()

    def _within(self, name: str, made: Mapping[str, Array]) -> Array:
        """A value as an array: of an output's memory, or of that which kernels share."""
        spec, place = self._values[name], self._places.of(name)
        if place.value in made:
            flat: Array = made[place.value].reshape(-1)[place.offset : place.offset + math.prod(spec.shape)]
        else:
            held = (ctypes.c_char * _bytes(spec)).from_address(self._address(name, {}))
            flat = np.frombuffer(memoryview(held).cast("B"), storage(spec.dtype))
        return flat.reshape(spec.shape)

    def _lifetimes(self, steps: Sequence[Step], roots: set[str]) -> list[Lifetime]:
        uses: dict[str, list[int]] = {self._root(n): [0] for n in self._copied}
        for k, step in enumerate(steps):
            for name in (*step.inputs, step.output):
                uses.setdefault(self._root(name), []).append(k)
        return [Lifetime(n, _bytes(self._values[n]), min(uses[n]), max(uses[n])) for n in uses if n in roots]

    def _copy(self, name: str, array: Array) -> Array:
        spec = self._values[name]
        out = empty(spec.shape, storage(spec.dtype), PAGE)
        out[...] = array if array.dtype.name == out.dtype.name else array.view(out.dtype)
        return out

    def _checked(self, name: str, inputs: Mapping[str, Array]) -> Array:
        spec, dtype = self._values[name], self._dtypes[name]
        array = inputs.get(name)
        typed = array is not None and (array.dtype == dtype or array.dtype.name in (spec.dtype, dtype.name))
        if array is None or array.shape != spec.shape or not typed:
            found = "nothing" if array is None else f"{array.shape} {array.dtype}"
            raise UsageError(f"the input {name} is {found}", f"Give an array {spec.shape} of {spec.dtype}")
        dense = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        return array if dense and (self._align == 1 or address(array) % self._align == 0) else self._copy(name, array)


def _bytes(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * storage(spec.dtype).itemsize
