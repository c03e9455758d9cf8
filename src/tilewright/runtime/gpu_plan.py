"""One kernel on one device as a callable, with cached argument checks.

Arrays of a new kind (``backends.arrays.Face``) are checked in full, with errors that name the array. Later calls only
read addresses, and compare kinds, alignment and overlap.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.backends.arrays import LOOKS, Arrays, Face, GpuArray, arrays_of, backend_name, fits
from tilewright.backends.launches import Memory
from tilewright.core import LaunchProgram, TensorSpec, TilewrightError, UsageError
from tilewright.forking import ForkLock
from tilewright.runtime.binding import constants_of, merged, require, rest, unbound
from tilewright.runtime.checked import Signed, each_out, returned
from tilewright.runtime.entry import Entry
from tilewright.runtime.missed import warn
from tilewright.runtime.stats import Tally

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, NativeLaunch, Prepared
    from tilewright.backends.launches import Call, DeviceKernel

_KEPT = 256  # kinds of arrays that a plan has checked; beyond, all are cleared and checked again


class GpuKernel:
    """A loaded kernel on a device: a backend's name, and the number or object that the backend opens. Thread-safe.

    ``bound``: the kernel for calls with prepacked constant inputs; this object if the kernel prepacks no input.
    """

    def __init__(
        self, entry: Entry, kernel: DeviceKernel, device: tuple[str, Any], bound: GpuKernel | None = None
    ) -> None:
        self.entry = entry
        self.bound = bound or self
        self.backend, self.device = device
        self.arrays: Arrays = arrays_of(self.backend)
        self.workspace, self.zero_fill = kernel.workspace, kernel.zero_fill
        self.context: Context = kernel.context
        self.loaded = kernel  # launches the kernel
        self._tensors = len(entry.inputs) + len(entry.outputs)
        self._calls: list[Call] = [kernel.prepare(self._tensors)]

    def queue(self, pointers: Sequence[Any], workspace: int, stream: Any) -> None:
        """Queues the kernel once. Concurrent calls use separate prepared launches, which are kept for later calls."""
        try:
            call = self._calls.pop()
        except IndexError:
            call = self.loaded.prepare(len(pointers))
        try:
            call.point(pointers, workspace)
            call.queue(stream)
        finally:
            self._calls.append(call)

    def native(self) -> list[tuple[NativeLaunch, Prepared]] | None:
        """The kernel's launches for C code (``DeviceKernel.native``)."""
        return self.loaded.native(self._tensors)

    @property
    def rearranges(self) -> tuple[int, ...]:
        """Numbers of the constant inputs that bound calls read as :meth:`hold` packed them."""
        return tuple(self.bound.loaded.packed)

    def hold(self, constants: Mapping[int, GpuArray], memory: Memory, copies: bool = True) -> dict[int, Any]:
        """Constant inputs, by their numbers, in the form that bound calls take. Waits for the device.

        Packed inputs, and with ``copies`` all inputs, are stored in ``memory``; remaining inputs are used in place.
        """
        kernel, stream = self.bound.loaded, next(iter(constants.values())).stream
        self.context.synchronize()  # another stream may still write them
        tensors = [0] * self._tensors
        for n, a in constants.items():
            tensors[n] = a.pointer
        taken = kernel.pack(tensors, memory.packed(kernel)[0], stream)
        for n, a in constants.items():
            if copies and n not in kernel.packed:
                taken[n] = memory.allocate(a.nbytes)
                self.context.copy(taken[n], a.pointer, a.nbytes, stream)
        self.context.synchronize()  # any stream may read them
        return {n: taken[n] for n in constants}


# --------------------------------------------------------------------------- scratch memory


class Lent:
    """Scratch memory for one call, allocated by the framework of ``owner``, an array of the call."""

    def __init__(self, kernel: GpuKernel) -> None:
        self._kernel = kernel

    @contextmanager
    def of(self, owner: Any, stream: Any) -> Iterator[int]:
        """The address of the scratch memory, valid while the call is queued."""
        kernel = self._kernel
        if kernel.arrays.lends_scratch(owner):
            made, address = kernel.arrays.make_scratch(owner, kernel.workspace)
            yield address
            del made  # freed in stream order: the framework reuses it only for later work
            return
        address = kernel.context.allocate(kernel.workspace)
        try:
            yield address
            kernel.context.synchronize()  # it must not be freed before the kernel ends
        finally:
            kernel.context.free(address)


@dataclass(frozen=True)
class _Held:
    address: int
    owner: Any
    lock: ForkLock


class Kept:
    """Scratch memory for each stream with calls: calls on a stream run one after the other and share it.

    Its address is constant, and nothing is allocated after the first call on a stream. It is freed with this object. A
    captured call uses memory of its CUDA graph instead: a replay may run on any stream, concurrently with calls.
    """

    def __init__(self, kernel: GpuKernel) -> None:
        self._kernel = kernel
        self._held: dict[Any, _Held] = {}
        self._lock = ForkLock()
        self._own = Memory(kernel.context)
        self._lent = Lent(kernel)

    @contextmanager
    def of(self, owner: Any, stream: Any) -> Iterator[int]:
        """The address of the stream's scratch memory; another thread's call on the stream waits until this call is
        queued."""
        if self._kernel.arrays.captured(owner):
            with self._lent.of(owner, stream) as address:
                yield address
            return
        held = self._held.get(stream)
        if held is None:
            with self._lock:
                held = self._held.get(stream) or self._make(owner)
                self._held[stream] = held
        with held.lock:
            yield held.address

    def _make(self, owner: Any) -> _Held:
        kernel = self._kernel
        if kernel.arrays.lends_scratch(owner):
            made, address = kernel.arrays.make_scratch(owner, kernel.workspace)
            return _Held(address, made, ForkLock())
        return _Held(self._own.allocate(kernel.workspace), None, ForkLock())


class Owned(Memory):
    """Long-lived memory from the allocator of an array's framework, if it is stream-ordered, as it may hold all device
    memory.

    ``like``: the array; set to ``None`` to release it, after which the driver allocates.
    """

    def __init__(self, kernel: GpuKernel, like: Any) -> None:
        super().__init__(kernel.context)
        self.like = like
        self._arrays = kernel.arrays
        self._made: list[Any] = []
        weakref.finalize(self, _release, kernel.context, self._made).atexit = False

    def allocate(self, size: int) -> int:
        if not size or self.like is None or not self._arrays.lends_scratch(self.like):
            return super().allocate(size)
        made, address = self._arrays.make_scratch(self.like, size)
        self._made.append(made)
        return address


def _release(context: Context, made: list[Any]) -> None:
    with suppress(TilewrightError):
        if made:
            context.synchronize()  # streams unknown to the allocator may still read it
    made.clear()


# --------------------------------------------------------------------------- plans


class GpuPlan(Signed):
    """``(inputs..., out=None)`` on one device, as :meth:`tilewright.Library.plan_gpu` returns it.

    Takes dense, row-major arrays on the plan's device, of exactly its shapes and dtypes. Queues the kernel on the
    current stream of the first array's owner, and returns the output, or a tuple of several outputs, without waiting.
    Without ``out`` the framework of the first array allocates the outputs. Constant inputs can be given once, to
    :meth:`bind`.

    Raises ``TypeError`` for a wrong number, type or dtype, ``ValueError`` for a wrong shape, layout, device or overlap.
    Thread-safe.
    """

    def __init__(
        self, op: str, kernel: GpuKernel, scratch: Lent | Kept, tally: Tally,
        held: tuple[Memory, Mapping[int, Any]] | None = None, quiet: bool = False,
    ) -> None:  # fmt: skip
        entry = kernel.entry
        super().__init__(op, rest(entry.inputs) if held else entry.inputs, entry.outputs)
        self.kernel = kernel
        self._held = held  # bound constant inputs, and their memory
        self.constants = () if held else constants_of(entry.inputs)
        self.count = len(self.inputs)
        self._several = len(self.outputs) > 1
        self.align = kernel.entry.program.align
        self.tally = tally
        self._sizes = [_bytes(s) for s in (*self.inputs, *self.outputs)]
        self._scratch = scratch if kernel.workspace else None
        self._checked: dict[tuple[Any, ...], set[Any]] = {}  # kinds of inputs -> kinds of outputs
        self._said = quiet  # whether it has warned of constant inputs in calls

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} on {self.kernel.backend}>"

    def __call__(self, *args: Any, out: Any = None) -> Any:
        if len(args) != self.count:
            if len(args) != self.count + 1 or out is not None:
                raise TypeError(self.wrong_number(len(args)))
            *args, out = args  # type: ignore[assignment]
        return self.run(args, out, [LOOKS[type(a)](a) for a in args])

    def bind(self, **constants: Any) -> GpuPlan:
        """``(other inputs..., out=None)`` with the current values of all constant inputs, given by name.

        The values are prepacked or copied into memory that is freed with the returned plan. Waits for the device.

        Raises ``UsageError`` for a missing or unknown name, ``TypeError`` and ``ValueError`` for an array that does not
        fit.
        """
        op = self.__name__
        if not self.constants:
            raise UsageError(f"{op}: no input is constant", "Tune it with constant=NAME, and pass that to plan_gpu")
        require(op, self.constants, constants)
        if len(self.constants) == self.count:
            raise UsageError(
                f"{op}: every input is constant, so no array determines the stream of a call",
                "Tune it with fewer constant inputs",
            )
        return self._holding({n: constants[s.name] for n, s in enumerate(self.inputs) if s.constant}, True, Kept)

    def keeping(self, constants: Mapping[int, Any]) -> GpuPlan:
        """``(other inputs..., out=None)`` with every constant input given by number.

        Inputs that the kernel prepacks are packed; remaining inputs are read in place, and the caller keeps them alive.
        The framework allocates scratch memory. Waits for the device. Raises ``TypeError`` and ``ValueError`` for an
        array that does not fit.
        """
        return self._holding(constants, False, Lent)

    def _holding(
        self, constants: Mapping[int, Any], copies: bool, scratch: Callable[[GpuKernel], Lent | Kept]
    ) -> GpuPlan:
        kernel, memory = self.kernel, Owned(self.kernel, next(iter(constants.values())))
        views = {n: self._view(a, self.inputs[n]) for n, a in constants.items()}
        self._placed(list(views.values()))
        held = kernel.hold(views, memory, copies)
        memory.like = None
        return GpuPlan(self.__name__, kernel.bound, scratch(kernel.bound), self.tally, (memory, held))

    @property
    def held(self) -> Mapping[int, Any]:
        """Addresses or handles of the bound inputs, by number."""
        return {} if self._held is None else self._held[1]

    def run(self, args: Sequence[Any], out: Any, faces: list[Face]) -> Any:
        """The call's output, allocated if ``out`` is ``None``. ``faces``: of ``args``, one for each input."""
        known = self._checked.get(tuple([f[3] for f in faces]))
        if known is None:
            return self._first(args, out)
        outs = self._outs(args[0], out) if self._several or out is None else (out,)
        written, kind = self._looked(outs)
        if kind not in known:
            return self._first(args, returned(outs))
        align, sizes, count = self.align, self._sizes, self.count
        every = [*faces, *written]
        doubtful = False
        for n, face in enumerate(every):
            at = face[0]
            if not at or at % align:
                doubtful = True
            if n >= count:
                end = at + sizes[n]
                for m in range(n):
                    other = every[m][0]
                    if at < other + sizes[m] and other < end:
                        doubtful = True
        if doubtful:  # the full check names the error, or accepts the call
            return self._first(args, returned(outs))
        self._queue([f[1] for f in every], args[0], faces[0][2])
        return returned(outs)

    def _looked(self, outs: Sequence[Any]) -> tuple[tuple[Face, ...], Any]:
        """Faces of the arrays to write, and the key of their kinds."""
        if not self._several:
            face = LOOKS[type(outs[0])](outs[0])
            return (face,), face[3]
        faces = tuple([LOOKS[type(a)](a) for a in outs])
        return faces, tuple([f[3] for f in faces])

    def _outs(self, owner: Any, out: Any) -> Sequence[Any]:
        """The arrays to write: the given arrays, or new arrays of ``owner``'s framework."""
        count = len(self.outputs)
        if out is None:
            return [self.kernel.arrays.make_output(owner, s) for s in self.outputs]
        outs = each_out(out)
        if len(outs) != count or (count > 1 and not isinstance(out, tuple | list)):
            raise TypeError(f"{self.__name__} has {count} outputs, and out has {len(outs)}. Pass a tuple of {count}")
        return outs

    def _first(self, args: Sequence[Any], out: Any) -> Any:
        """A call with arrays of a new kind: checked in full, and the kind is remembered."""
        if self.constants and not self._said:
            self._said = True
            warn(unbound(self.__name__, self.constants))
        views = [self._view(a, s) for a, s in zip(args, self.inputs, strict=True)]
        made = self._outs(args[0], out)
        results = [self._view(a, s, True) for a, s in zip(made, self.outputs, strict=True)]
        self._together([*views, *results])
        if len(self._checked) >= _KEPT:
            self._checked.clear()
        outs = self._checked.setdefault(tuple(v.kind for v in views), set())
        if len(outs) >= _KEPT:
            outs.clear()
        outs.add(tuple(v.kind for v in results) if self._several else results[0].kind)
        self._queue([v.pointer for v in (*views, *results)], args[0], views[0].stream)
        return returned(made)

    def _queue(self, pointers: list[Any], owner: Any, stream: Any) -> None:
        if self._held is not None:
            pointers = merged(self._held[1], pointers)
        if self._scratch is None:
            self.kernel.queue(pointers, 0, stream)
        else:
            with self._scratch.of(owner, stream) as workspace:
                self.kernel.queue(pointers, workspace, stream)
        self.tally.add()

    # ----------------------------------------------------------------------- full checks

    def _view(self, a: Any, spec: TensorSpec, output: bool = False) -> GpuArray:
        name = f"{self.__name__}: {spec.name}"
        if backend_name(a) != self.kernel.backend:
            raise TypeError(f"{name} is not an array on a GPU. Move it to the device of the others")
        return _fitting(name, self.kernel.arrays.view(a), spec, self.kernel.entry.program, output)

    def _placed(self, views: Sequence[GpuArray]) -> None:
        """Raises ``ValueError`` for arrays that are not on the plan's device."""
        op, device = self.__name__, self.kernel.device
        devices = {v.device for v in views if v.device is not None}
        if len(devices) > 1:
            raise several(op, devices)
        if devices and devices != {device}:
            raise ValueError(f"{op}: arrays are on GPU {devices.pop()}, the plan on {device}. Make another plan")

    def _together(self, views: Sequence[GpuArray]) -> None:
        self._placed(views)
        op, specs = self.__name__, (*self.inputs, *self.outputs)
        for n, (out, name) in enumerate(zip(views, [s.name for s in specs], strict=True)):
            for v, spec in zip(views[:n] if n >= self.count else (), specs, strict=False):
                if v.base == out.base and v.address < out.address + out.nbytes and out.address < v.address + v.nbytes:
                    raise ValueError(f"{op}: {name} shares memory with {spec.name}. Pass another array, or none")


def several(op: str, devices: set[Any]) -> ValueError:
    """The error for arrays on more than one device."""
    return ValueError(f"{op}: arrays are on several GPUs ({', '.join(sorted(map(str, devices)))}). Move them to one")


def _fitting(name: str, v: GpuArray, spec: TensorSpec, program: LaunchProgram, output: bool) -> GpuArray:
    if v.shape != spec.shape:
        raise ValueError(f"{name} has shape {v.shape}, not {spec.shape}")
    if not fits(v, spec):
        raise TypeError(f"{name} has dtype {v.dtype}, not {spec.dtype}. Convert it first")
    if not v.dense:
        raise ValueError(f"{name} is not dense and row-major. Pass a contiguous copy of it")
    if not v.address and v.handle is None and v.nbytes:
        raise ValueError(f"{name}: its memory was freed")
    if v.address % program.align:
        raise ValueError(
            f"{name} starts at an address that is not a multiple of {program.align} bytes. Pass a copy of it"
        )
    if output and not v.writable:
        raise ValueError(f"{name} is read-only. Pass an array that can be written")
    return v


def _bytes(spec: TensorSpec) -> int:
    return GpuArray(0, spec.shape, spec.dtype, True, True, None, None, "").nbytes
