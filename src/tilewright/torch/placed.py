"""Kernels in compiled graphs: ``torch.ops.tilewright.kernel(number, inputs)`` runs one of those that were placed.

Weights that a kernel wants rearranged are, at the first call, and again when they are other memory or their version
says that they changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tilewright.runtime.serving import Served
from tilewright.torch.native import Answer, Watched
from tilewright.torch.operators import Registration
from tilewright.torch.serving import serving

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import LoadedKernel, Memory


@dataclass(frozen=True)
class Packed:
    """Weights as a kernel has rearranged them. ``memory``: by the input's number.

    ``held`` are the tensors that were read: while they live, no other lies at their addresses.
    """

    watched: tuple[Watched, ...]
    memory: Mapping[int, Memory]
    held: tuple[torch.Tensor, ...]


class Placed:
    """A kernel in the place of a part of a graph. ``shape`` and ``dtype``: of its output."""

    def __init__(self, served: Served, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.served = served
        self.shape = shape
        self.dtype = dtype
        kernel = served.kernel
        self._align = max(1, 1 if kernel is None else kernel.program.align, served.checked.align)
        self._rearranged = () if kernel is None else tuple(number for number, *_ in kernel.prepacks)
        self._packed: Packed | None = None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        generation = serving.generation
        out = torch.empty(self.shape, dtype=self.dtype)
        given = [t.detach().contiguous() for t in inputs]
        given = [t.clone() if t.data_ptr() % self._align else t for t in given]
        kernel, packed = self.served.kernel, None
        if kernel is None:
            self.served.checked(*given, out=out)
            return out
        if self._rearranged:
            packed = self._of(kernel, given)
            at = [packed.memory[n].address if n in packed.memory else t.data_ptr() for n, t in enumerate(given)]
            kernel.run_packed([*at, out.data_ptr()])
            self.served.tally.add()
        else:
            self.served.checked(*given, out=out)
        if all(a.data_ptr() == b.data_ptr() for a, b in zip(given, inputs, strict=True)):
            serving.settle(generation, self._answer(kernel, packed, len(inputs)), self.served, packed)
        return out

    def _of(self, kernel: LoadedKernel, given: Sequence[torch.Tensor]) -> Packed:
        """The rearranged weights, made anew where those given are not those that were read."""
        watched = tuple(
            Watched(n, given[n].data_ptr(), -1 if given[n].is_inference() else given[n]._version)
            for n in self._rearranged
        )
        packed = self._packed
        if packed is None or packed.watched != watched or any(w.version < 0 for w in watched):
            memory = kernel.pack([*(t.data_ptr() for t in given), 0])
            packed = self._packed = Packed(watched, memory, tuple(given[n] for n in self._rearranged))
        return packed

    def _answer(self, kernel: LoadedKernel, packed: Packed | None, count: int) -> Answer:
        if packed is None:
            return Answer(kernel, range(count), self.shape, self.dtype, self._align)
        bound = [packed.memory[n].address if n in packed.memory else 0 for n in range(count)]
        inputs = [-1 if at else n for n, at in enumerate(bound)]
        return Answer(kernel, inputs, self.shape, self.dtype, self._align, bound, packed.watched)


_placed: list[Placed] = []


def add(placed: Placed) -> int:
    """The number by which graphs call a kernel in this process."""
    _placed.append(placed)
    return len(_placed) - 1


def _run(number: int, inputs: list[torch.Tensor]) -> torch.Tensor:
    return _placed[number](inputs)


def _fake(number: int, inputs: list[torch.Tensor]) -> torch.Tensor:
    shown = _placed[number]
    return inputs[0].new_empty(shown.shape, dtype=shown.dtype)


GRAPHS = (Registration("kernel(int number, Tensor[] inputs) -> Tensor", _run, _fake),)
"""``tilewright::kernel``."""
