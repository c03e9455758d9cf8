"""Kernels in compiled graphs: ``torch.ops.tilewright.kernel(number, inputs)`` runs one of those that were placed.

Weights that a kernel wants rearranged are, at the first call, and again when they are other memory or their version
says that they changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from tilewright.runtime.serving import Served
from tilewright.torch.native import Answer, Watched
from tilewright.torch.operators import Registration
from tilewright.torch.serving import serving

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import Block, LoadedKernel


@dataclass(frozen=True)
class Packed:
    """Weights as a kernel has rearranged them: ``memory``, or as it reads them: ``tensors``; by the input's number.

    ``held`` are the tensors that were read: while they live, no other lies at their addresses.
    """

    watched: tuple[Watched, ...]
    memory: Mapping[int, Block]
    tensors: Mapping[int, torch.Tensor]
    held: tuple[torch.Tensor, ...]

    def address(self, number: int) -> int:
        """Where the kernel reads an input that is kept; 0 for others."""
        if number in self.memory:
            return self.memory[number].address
        return int(self.tensors[number].data_ptr()) if number in self.tensors else 0


class Placed:
    """A kernel in the place of a part of a graph. ``shape`` and ``dtype``: of its output.

    ``orders``: weights, by the input's number, and the order of their axes in which the kernel reads them; they are
    copied once, as those that the kernel rearranges are.
    """

    def __init__(
        self,
        served: Served,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        orders: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> None:
        self.served = served
        self.shape = shape
        self.dtype = dtype
        kernel = served.kernel
        self._align = max(1, 1 if kernel is None else kernel.program.align, served.checked.align)
        self._dtypes = tuple(getattr(torch, s.dtype) for s in served.checked.inputs)
        self._orders = orders
        prepacked = () if kernel is None else (number for number, *_ in kernel.prepacks)
        self._kept = tuple(sorted({*prepacked, *orders}))
        self._packed: Packed | None = None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        generation = serving.generation
        out = torch.empty(self.shape, dtype=self.dtype)
        kernel, packed = self.served.kernel, self._of(inputs) if self._kept else None
        given = [self._dense(n, t) if n not in self._kept else t for n, t in enumerate(inputs)]
        as_given = all(a.data_ptr() == b.data_ptr() for a, b in zip(given, inputs, strict=True))
        if packed is not None:
            given = [packed.tensors.get(n, t) for n, t in enumerate(given)]
        if kernel is not None and packed is not None and packed.memory:
            at = [packed.address(n) or t.data_ptr() for n, t in enumerate(given)]
            kernel.run_packed([*at, out.data_ptr()])
            self.served.tally.add()
        else:
            self.served.checked(*given, out=out)
        if kernel is not None and as_given:
            serving.settle(generation, self._answer(kernel, packed, len(inputs)), self.served, packed)
        return out

    def _dense(self, number: int, t: torch.Tensor) -> torch.Tensor:
        """An input, or a copy that lies as kernels read it, of the type that PyTorch's graph gave it.

        PyTorch's graphs are wrong of some: batch norm gives statistics of 16-bit reals as such, and they say float32.
        """
        dense = t.detach().to(self._dtypes[number]).contiguous()
        return dense.clone() if dense.data_ptr() % self._align else dense

    def _of(self, inputs: Sequence[torch.Tensor]) -> Packed:
        """The weights as the kernel reads them, made anew where those given are not those that were read."""
        watched = tuple(
            Watched(n, inputs[n].data_ptr(), -1 if inputs[n].is_inference() else inputs[n]._version) for n in self._kept
        )
        packed, kernel = self._packed, self.served.kernel
        if packed is None or packed.watched != watched or any(w.version < 0 for w in watched):
            held = {n: inputs[n].detach() for n in self._kept}
            tensors = {
                n: self._dense(n, t.permute(self._orders.get(n, tuple(range(t.dim()))))) for n, t in held.items()
            }
            at = [tensors[n].data_ptr() if n in tensors else 0 for n in range(len(inputs))]
            memory = {} if kernel is None else kernel.pack([*at, 0])
            read = {n: t for n, t in tensors.items() if n not in memory}
            packed = self._packed = Packed(watched, memory, read, tuple(held.values()))
        return packed

    def _answer(self, kernel: LoadedKernel, packed: Packed | None, count: int) -> Answer:
        if packed is None:
            return Answer(kernel, range(count), self.shape, self.dtype, self._align)
        bound = [packed.address(n) for n in range(count)]
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
