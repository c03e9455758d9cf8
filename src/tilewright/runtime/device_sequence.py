"""Sequences of kernels on a device, with all values and constants in one allocation; each stage is one graph launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tilewright.backends.driver import Context, Graph, OutOfMemory
from tilewright.backends.launches import DeviceKernel, Memory
from tilewright.core import TensorSpec, UsageError
from tilewright.extent import Sizes, greatest
from tilewright.forking import ForkLock
from tilewright.graph import BufferAssignment
from tilewright.runtime.memory_plan import Lifetime, planned
from tilewright.runtime.slots import NO_SIZES, BySize, Slots, Step
from tilewright.units import with_unit

Array = np.ndarray[Any, Any]

ALIGN = 256
"""Alignment of values in bytes."""

Packing = tuple[tuple[Any, ...], ...]
"""The identity of a kernel's prepacked constants; kernels with equal packings share them."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Kernels that are launched together.

    ``given``: values that are copied from the host before; ``wanted``: values that are copied to the host afterwards.
    """

    steps: Sequence[Step[DeviceKernel]]
    given: Sequence[str] = ()
    wanted: Sequence[str] = ()


class DeviceSequence:
    """Runs stages of kernels: ``run(stage, inputs)`` takes host arrays by name and returns the stage's values for the
    host.

    Stages run in order; values that a later stage reads stay on the device. ``values``: shape and dtype of each value.
    With symbolic sizes each run states its sizes; memory is planned once, for the greatest. ``constants`` are copied to
    the device and prepacked once. ``buffers``: values that lie in the memory of other values.

    At given sizes, the first run of a stage queues its launches, the second captures them as a graph, and later runs
    launch the graph. Raises ``OutOfMemory``, with the number of bytes needed, where the device has no room.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        values: Mapping[str, TensorSpec],
        constants: Mapping[str, Array],
        buffers: BufferAssignment | None = None,
    ) -> None:
        self._slots = Slots(values, constants, buffers)
        self._stages = tuple(stages)
        self._lock = ForkLock()
        steps = [s for stage in stages for s in stage.steps]
        roots = {self._slots.root(n) for s in steps for n in s.names}
        self.sizes = self._slots.symbolic_sizes(
            {*roots, *(n for s in steps for n in s.names), *(n for s in stages for n in (*s.given, *s.wanted))}
        )
        self.roots = frozenset(roots.difference(constants))
        unknown = next((n for s in stages for n in s.wanted if self._slots.root(n) not in self.roots), None)
        if unknown is not None:
            raise UsageError(f"no kernel of the sequence computes {unknown}", "Name outputs of its steps")
        kernels = [s.kernel(greatest(self.sizes)) for s in steps]
        self._context: Context = kernels[0].context
        self._memory = Memory(self._context)
        self._offsets, self._planned = planned(self._lifetimes(), ALIGN)
        self._base = 0
        self._copies: dict[str, int] = {}  # addresses of constants that kernels read unpacked
        self._packed: dict[Packing, dict[int, int]] = {}
        self._workspace, self._workspace_bytes = 0, 0
        self._launches = BySize[Sequence[_Launches]](self.sizes)  # of every stage
        self._prepare(steps, kernels, greatest(self.sizes), self._planned)

    @property
    def bytes(self) -> int:
        """Bytes for the values that kernels pass on, and for the workspace."""
        return self._planned + self._workspace_bytes

    def run(
        self, stage: int, inputs: Mapping[str, Array], sizes: Sizes = NO_SIZES, wanted: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Runs a stage on ``inputs`` of these sizes, and waits for it.

        The stage reads further values as earlier stages left them. ``wanted``: the values to return; the stage's own
        unless given.

        Raises ``UsageError`` for arrays that do not fit, ``LaunchError`` and ``DeviceError``.
        """
        with self._lock:
            launches = self._launches.of(sizes, self._bind)
            for name in inputs:
                array = self._slots.checked(name, inputs, self._slots.shape(name, sizes))
                self._context.upload(self._address(name, sizes), array)
            launches[stage].launch(self._context)
            self._context.synchronize()
            return self.held(self._stages[stage].wanted if wanted is None else wanted, sizes)

    def held(self, names: Iterable[str], sizes: Sizes = NO_SIZES) -> dict[str, Array]:
        """Current values on the device, copied to the host."""
        made = {n: np.empty(self._slots.shape(n, sizes), self._slots.dtype(n)) for n in names}
        for name, array in made.items():
            self._context.download(self._address(name, sizes), array)
        return made

    # ----------------------------------------------------------------- memory

    def _lifetimes(self) -> list[Lifetime]:
        """Lifetimes of all values in memory, counted in steps; copies between a stage and the host count as steps."""
        uses: dict[str, list[int]] = {}
        apart: list[Lifetime] = []
        at = 0
        for stage in self._stages:
            for name in stage.given:
                uses.setdefault(self._slots.root(name), []).append(at)
            for step in stage.steps:
                at += 1
                for number, name in enumerate(step.names):
                    uses.setdefault(self._slots.root(name), []).append(at)
                    if not self._slots.fits(name, ALIGN):
                        apart.append(Lifetime(_apart(step, number), self._slots.most_bytes(name), at, at))
            at += 1
            for name in stage.wanted:
                uses.setdefault(self._slots.root(name), []).append(at)
        return [*self._slots.lifetimes({n: u for n, u in uses.items() if n in self.roots}), *apart]

    def _address(self, name: str, sizes: Sizes) -> int:
        root = self._slots.root(name)
        start = self._copies[root] if root in self._copies else self._base + self._offsets[root]
        return start + self._slots.offset(name, sizes)

    def _prepare(
        self, steps: Sequence[Step[DeviceKernel]], kernels: Sequence[DeviceKernel], sizes: Sizes, planned: int = 0
    ) -> None:
        """Allocates what these kernels need and do not have yet, in one allocation, and fills it with constants.

        ``planned``: bytes for values.
        """
        read: dict[str, int] = {}
        packs: dict[Packing, tuple[Step[DeviceKernel], DeviceKernel]] = {}
        for step, kernel in zip(steps, kernels, strict=True):
            for number, name in enumerate(step.inputs):
                root = self._slots.root(name)
                if root in self._slots.constants and number not in kernel.packed and root not in self._copies:
                    read[root] = self._slots.most_bytes(root)
            if kernel.packed:
                packs.setdefault(self._packing(step, kernel, sizes), (step, kernel))
        packs = {key: pair for key, pair in packs.items() if key not in self._packed}
        workspace = max((k.workspace for k in kernels), default=0)
        workspace = workspace if workspace > self._workspace_bytes else 0
        parts = {
            "values": [planned],
            "constants": [*read.values(), *(size for _, k in packs.values() for size in k.packed.values())],
            "workspace": [workspace],
        }
        total = sum(_rounded(n) for part in parts.values() for n in part)
        try:
            at = self._memory.allocate(total)
        except OutOfMemory as e:
            told = ", ".join(f"{with_unit(sum(sizes), 'byte')} of {what}" for what, sizes in parts.items())
            raise OutOfMemory(
                f"the plan needs {with_unit(total, 'byte')} on the device ({told}), which has no room for it",
                "Free memory there, or use smaller sizes",
            ) from e
        if planned:
            self._base, at = at, at + _rounded(planned)
        for root, size in read.items():
            self._copies[root], at = at, at + _rounded(size)
            self._context.upload(self._copies[root], self._slots.stored(self._slots.constants[root], root))
        for key, (step, kernel) in packs.items():
            places: dict[int, int] = {}
            for number, size in kernel.packed.items():
                places[number], at = at, at + _rounded(size)
            self._pack(step, kernel, places, sizes)
            self._packed[key] = places
        if workspace:
            self._workspace, self._workspace_bytes = at, workspace

    def _packing(self, step: Step[DeviceKernel], kernel: DeviceKernel, sizes: Sizes) -> Packing:
        """The packing of a step's constants: for each, its memory and how the kernel packs it."""
        return tuple(
            (self._slots.root(name), self._slots.offset(name, sizes), *how)
            for number, how in kernel.packing(len(step.names)).items()
            for name in [step.inputs[number]]
        )

    def _pack(self, step: Step[DeviceKernel], kernel: DeviceKernel, places: Mapping[int, int], sizes: Sizes) -> None:
        """Prepacks a step's constants. Constants that no kernel reads unpacked are on the device only meanwhile."""
        tensors = [0] * len(step.names)
        for_now = Memory(self._context)
        try:
            for number in places:
                name = step.inputs[number]
                root = self._slots.root(name)
                start = self._copies.get(root, 0)
                if not start:
                    array = self._slots.stored(self._slots.constants[root], root)
                    start = for_now.allocate(array.nbytes)
                    self._context.upload(start, array)
                tensors[number] = start + self._slots.offset(name, sizes)
            kernel.pack(tensors, places)
            self._context.synchronize()
        finally:
            for_now.close()

    # ----------------------------------------------------------------- launches at given sizes

    def _bind(self, sizes: Sizes) -> Sequence[_Launches]:
        stages = []
        for stage in self._stages:
            kernels = [s.kernel(sizes) for s in stage.steps]
            self._prepare(stage.steps, kernels, sizes)
            made = _Launches()
            for step, kernel in zip(stage.steps, kernels, strict=True):
                self._queued(step, kernel, sizes, made.queue)
            stages.append(made)
        return stages

    def _queued(
        self, step: Step[DeviceKernel], kernel: DeviceKernel, sizes: Sizes, queue: list[Callable[[], None]]
    ) -> None:
        """Adds a step's launches, with copies of values whose address is not aligned for the kernel."""
        packed = self._packed[self._packing(step, kernel, sizes)] if kernel.packed else {}
        pointers: list[int] = []
        behind: list[Callable[[], None]] = []
        for number, name in enumerate(step.names):
            if number in packed:
                pointers.append(packed[number])
                continue
            address = self._address(name, sizes)
            if address % kernel.program.align:
                size = int(np.prod(self._slots.shape(name, sizes), dtype=np.int64)) * self._slots.dtype(name).itemsize
                apart = self._base + self._offsets[_apart(step, number)]
                if number == len(step.inputs):
                    behind.append(partial(self._context.copy, address, apart, size))
                else:
                    queue.append(partial(self._context.copy, apart, address, size))
                address = apart
            pointers.append(address)
        call = kernel.prepare(len(pointers))
        call.point(pointers, self._workspace)
        queue += [call.queue, *behind]


@dataclass(eq=False)
class _Launches:
    """The launches of a stage at some sizes, and their captured graph."""

    queue: list[Callable[[], None]] = field(default_factory=list)
    graph: Graph | None = None
    ran: bool = False
    captures: bool = True

    def launch(self, context: Context) -> None:
        if self.graph is None and self.ran and self.captures:
            self.graph = context.capture(self._all)
            self.captures = self.graph is not None
        if self.graph is not None:
            self.graph.launch()
        else:
            self._all()
        self.ran = True

    def _all(self) -> None:
        for queue in self.queue:
            queue()


def _apart(step: Step[DeviceKernel], number: int) -> str:
    """The name of an aligned copy of a step's value, distinct from all values' names."""
    return f"{number} of {step.output} apart"


def _rounded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
