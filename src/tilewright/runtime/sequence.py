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
from tilewright.runtime.checked import address, empty, storage
from tilewright.runtime.memory_plan import ALIGN, Lifetime, planned

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel on values by name: ``inputs`` in the order of its workload's, and the one that it gives."""

    kernel: LoadedKernel
    inputs: tuple[str, ...]
    output: str


class KernelSequence:
    """``run(inputs)``: arrays by name, to the outputs by name.

    ``values``: shape and dtype of every value. ``constants`` are copied and rearranged once. ``views``: values that are
    another's memory in another shape. Calls from several threads take turns.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        values: Mapping[str, TensorSpec],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
        views: Mapping[str, str] | None = None,
    ) -> None:
        if not steps:
            raise UsageError("a sequence has no kernels", "Give one at least")
        self._values, self._views = dict(values), dict(views or {})
        self._lock = ForkLock()
        self._align = max(s.kernel.program.align for s in steps)
        written = {s.output for s in steps}
        self.outputs = tuple(outputs)
        stored = {self._source(o) for o in outputs}
        unknown = next((o for o in stored if o not in written), None)
        if unknown is not None:
            raise UsageError(f"no kernel of the sequence gives {unknown}", "Name outputs of its steps")
        reads = [self._source(n) for s in steps for n in s.inputs]
        self._constants = {n: self._copy(n, constants[n]) for n in dict.fromkeys(reads) if n in constants}
        self.inputs = tuple(dict.fromkeys(n for n in reads if n not in written and n not in constants))
        offsets, total = planned(self._lifetimes(steps, stored))
        self._memory = Memory(total)
        self._workspace = Memory(max(s.kernel.workspace_bytes for s in steps))
        self._packed: list[Mapping[int, Block]] = []
        self._tensors: list[ctypes.Array[Any]] = []
        self._places: dict[str, list[tuple[ctypes.Array[Any], int]]] = {n: [] for n in (*self.inputs, *stored)}
        self._calls = (Call * len(steps))()
        for k, step in enumerate(steps):
            names = [self._source(n) for n in (*step.inputs, step.output)]
            pointers = [
                address(self._constants[n]) if n in self._constants
                else self._memory.address + offsets[n] if n in offsets else 0
                for n in names
            ]  # fmt: skip
            packed = step.kernel.pack(pointers)
            for place, memory in packed.items():
                pointers[place] = memory.address
            tensors = (ctypes.c_void_p * len(pointers))(*pointers)
            for place, name in enumerate(names):
                if name in self._places:
                    self._places[name].append((tensors, place))
            kernel = step.kernel
            self._calls[k] = Call(
                ctypes.addressof(kernel._launches), len(kernel._launches), ctypes.addressof(tensors),
                self._workspace.address, kernel.zero_fill, kernel._env,
            )  # fmt: skip
            self._packed.append(packed)
            self._tensors.append(tensors)
        self._keep = tuple(steps)
        self._stored = tuple(stored)

    @property
    def bytes(self) -> int:
        """Memory for the results that kernels pass on, and for their workspace."""
        return self._memory.size + self._workspace.size

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs for these inputs. Raises ``UsageError`` for arrays that do not fit, ``LaunchError``."""
        given = {n: self._checked(n, inputs) for n in self.inputs}
        made = {n: empty(self._values[n].shape, storage(self._values[n].dtype), ALIGN) for n in self._stored}
        with self._lock:
            for name, array in (*given.items(), *made.items()):
                at = address(array)
                for tensors, place in self._places[name]:
                    tensors[place] = at
            run_calls(self._calls)
        return {n: made[self._source(n)].reshape(self._values[n].shape) for n in self.outputs}

    def _source(self, name: str) -> str:
        while name in self._views:
            name = self._views[name]
        return name

    def _lifetimes(self, steps: Sequence[Step], stored: set[str]) -> list[Lifetime]:
        last = {self._source(n): k for k, s in enumerate(steps) for n in (*s.inputs, s.output)}
        return [
            Lifetime(s.output, _bytes(self._values[s.output]), k, last[s.output])
            for k, s in enumerate(steps)
            if s.output not in stored
        ]

    def _copy(self, name: str, array: Array) -> Array:
        spec = self._values[name]
        out = empty(spec.shape, storage(spec.dtype), ALIGN)
        out[...] = array.view(out.dtype) if array.dtype != out.dtype else array
        return out

    def _checked(self, name: str, inputs: Mapping[str, Array]) -> Array:
        spec = self._values[name]
        array = inputs.get(name)
        if array is None or array.shape != spec.shape or array.dtype.name not in (spec.dtype, storage(spec.dtype).name):
            found = "nothing" if array is None else f"{array.shape} {array.dtype}"
            raise UsageError(f"the input {name} is {found}", f"Give an array {spec.shape} of {spec.dtype}")
        fits = array.flags.c_contiguous and array.flags.aligned and address(array) % self._align == 0
        return array if fits else self._copy(name, array)


def _bytes(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * storage(spec.dtype).itemsize
