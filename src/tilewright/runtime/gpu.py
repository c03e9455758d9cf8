"""Tuned CUDA kernels on arrays that live on a GPU, on their owner's current stream.

The rules are those of the CPU's calls: a kernel answers exactly the shapes, dtypes and attributes it was
tuned for; where there is none, a built-in operator goes to the array's own framework, and a user's
operator is an error. Nothing is compiled, and nothing waits for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.backends import Backend, get_backend, is_emulated
from tilewright.backends.arrays import Arrays, GpuArray, arrays_of, backend_name, fits
from tilewright.core import (
    ABI_VERSION,
    DatabaseError,
    LaunchProgram,
    TensorSpec,
    TilewrightError,
    UsageError,
)
from tilewright.kernels.parameters import agree, settled
from tilewright.runtime.entry import Entry
from tilewright.runtime.forking import ForkLock
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.stats import Counters

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Module
    from tilewright.backends.launches import DeviceKernel

_KEPT = 4096  # kinds of calls; then all are forgotten and found again
Key = tuple[Any, ...]
Opener = Callable[[int], "Context"]


@dataclass(frozen=True)
class GpuKernel:
    """A loaded kernel."""

    entry: Entry
    kernel: DeviceKernel
    arrays: Arrays

    def run(self, tensors: Sequence[GpuArray], owner: Any, stream: Any) -> None:
        """Queue it on ``stream``; ``owner`` is an array whose framework lends scratch memory."""
        size, context = self.kernel.workspace, self.kernel.context
        pointers = [t.address if t.handle is None else t.handle for t in tensors]
        if not size:
            self.kernel.bind(pointers, 0)(stream)
        elif self.arrays.lends_scratch(owner):
            scratch, address = self.arrays.make_scratch(owner, size)
            self.kernel.bind(pointers, address)(stream)
            del scratch  # freed in stream order: the framework reuses it only for later work
        else:
            address = context.allocate(size)
            try:
                self.kernel.bind(pointers, address)(stream)
                context.synchronize()  # nobody else would know when it may be freed
            finally:
                context.free(address)


class GpuRuntime:
    """Looks kernels up for arrays on GPUs and launches them. Safe from several threads."""

    def __init__(self, store: Kernels, counters: Counters, driver: Opener | None = None) -> None:
        self._store = store
        self._counters = counters
        self._open = driver
        self._contexts: dict[Key, Context] = {}
        self._modules: dict[Key, Module] = {}
        self._kernels: dict[Key, GpuKernel] = {}
        self._known: dict[Key, GpuKernel | None] = {}
        self._lock = ForkLock()

    def call(self, op: str, args: Sequence[Any], attributes: Mapping[str, Any], out: Any, built_in: bool) -> Any:
        """``op(*args, out=out, **attributes)``. Raises ``TypeError``, ``ValueError`` or ``UsageError``."""
        arrays, given = list(args), out
        kernel = self._find(op, arrays, attributes)
        if kernel is None and given is None and len(arrays) > 1:
            kernel = self._find(op, arrays[:-1], attributes)  # the last one may be the output
            if kernel is not None:
                given = arrays.pop()
        if kernel is None:
            return self._without(op, args, attributes, out, built_in)
        views = [_checked(op, a, s, kernel.entry.program) for a, s in zip(arrays, kernel.entry.inputs, strict=True)]
        if given is None:
            given = kernel.arrays.make_output(arrays[0], kernel.entry.output)
        result = _checked(op, given, kernel.entry.output, kernel.entry.program, output=True)
        _together(op, kernel.entry, [*views, result])
        kernel.run([*views, result], arrays[0], views[0].stream)
        self._counters.add(kernel.entry.tier)
        return given

    def explain(self, op: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any] | None:
        """The kernel that would answer, as JSON, or ``None``."""
        kernel = self._find(op, list(args), attributes)
        if kernel is None:
            return None
        e = kernel.entry
        return {
            "tier": e.tier, "template": e.schedule.template, "schedule": dict(e.schedule.values), "seconds": e.seconds,
            "target": e.target.name, "device_model": e.device_model, "run": e.run, "sha256": e.sha256,
            "limits": dict(e.target.limits),
        }  # fmt: skip

    # ----------------------------------------------------------------------- look-up

    def _find(self, op: str, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> GpuKernel | None:
        names = [backend_name(a) for a in arrays]
        name = next(n for n in names if n is not None)
        if set(names) != {name}:
            odd = next(a for a, n in zip(arrays, names, strict=True) if n != name)
            raise TypeError(f"{op}: {type(odd).__name__} is no array on a GPU. Move it to the device of the others")
        views = [arrays_of(name).view(a) for a in arrays]
        devices = {v.device for v in views if v.device is not None}
        if len(devices) > 1:
            shown = sorted(map(str, devices))
            raise ValueError(f"{op}: arrays are on several GPUs ({', '.join(shown)}). Move them to one")
        device = (name, devices.pop() if devices else 0)
        attributes = {k: settled(v) for k, v in attributes.items()}
        key = (op, device, tuple((v.dtype, v.shape) for v in views), tuple(sorted(attributes.items())))
        with self._lock:
            if key not in self._known:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = self._resolve(op, device, views, attributes)
            return self._known[key]

    def _resolve(
        self, op: str, device: Key, views: Sequence[GpuArray], attributes: Mapping[str, Any]
    ) -> GpuKernel | None:
        backend = get_backend(device[0])
        shapes = [v.shape for v in views]
        entries = [
            e
            for stored in self._store.entries(op, shapes=shapes)
            for e in [stored if stored.extent is None else stored.sized(shapes)]
            if e is not None
            and e.target.kind in backend.kinds
            and e.state == "verified"
            and e.program.abi == ABI_VERSION
            and len(e.inputs) == len(views)
            and all(fits(v, s) for v, s in zip(views, e.inputs, strict=True))
            and agrees(e, attributes)
        ]
        if not entries:
            return None
        context = self._context(backend, device)
        model = context.model
        # What an emulator stored ran on no device: its times mean nothing, and it is never served on one.
        fit = [e for e in entries if is_emulated(e.device_model) == is_emulated(model)]
        usable = [e for e in fit if backend.serves(e.target, context)]
        if not usable:
            return None
        best = max(usable, key=lambda e: (e.device_model == model, -e.span, e.updated))
        return self._load(best, device, context)

    def _context(self, backend: Backend, device: Key) -> Context:
        if device not in self._contexts:
            self._contexts[device] = (self._open or backend.open)(device[1])
        return self._contexts[device]

    def _load(self, entry: Entry, device: Key, context: Context) -> GpuKernel:
        key = (device, entry.sha256, entry.schedule.key)
        if key not in self._kernels:
            from tilewright.backends.launches import DeviceKernel

            try:
                values = {k: int(v) for k, v in entry.schedule.launch}
                kernel = DeviceKernel(context, self._module(entry, device, context), entry.program, values)
            except TilewrightError as e:
                raise DatabaseError(
                    f"the kernel of {entry.op} {entry.label} cannot be loaded: {e.message}", "Tune it again"
                ) from e
            self._kernels[key] = GpuKernel(entry, kernel, arrays_of(device[0]))
        return self._kernels[key]

    def _module(self, entry: Entry, device: Key, context: Context) -> Module:
        """A kernel's code on a device, loaded once for all sizes of a range."""
        key = (device, entry.sha256)
        if key not in self._modules:
            from hashlib import sha256

            code = self._store.code(entry.sha256)
            if sha256(code).hexdigest() != entry.sha256:
                raise DatabaseError(
                    f"the kernel of {entry.op} {entry.label} in {self._store.path} is damaged",
                    "Tune it again, or restore a copy of the database",
                )
            self._modules[key] = context.load(code)
        return self._modules[key]

    # ----------------------------------------------------------------------- no kernel

    def _without(self, op: str, args: Sequence[Any], attributes: Mapping[str, Any], out: Any, built_in: bool) -> Any:
        import sys

        plain = built_in and not attributes and op in ("matmul", "batch_matmul")
        for name in ("torch", "cupy"):
            framework = sys.modules.get(name)
            array = {"torch": "Tensor", "cupy": "ndarray"}[name]
            if plain and framework is not None and isinstance(args[0], getattr(framework, array)):
                self._counters.add("fallback", "untuned")
                return framework.matmul(*args) if out is None else framework.matmul(*args, out=out)
        shown = ", ".join(f"{v.shape} {v.dtype}" for v in (arrays_of(str(backend_name(a))).view(a) for a in args))
        backend = get_backend(str(backend_name(args[0])))
        others = [e for e in self._store.entries(op) if e.target.kind in backend.kinds]
        tuned = sorted({f"{e.label} ({e.target.name})" for e in others})
        raise UsageError(
            f"{op} was not tuned for this GPU and inputs {shown}",
            f"It was tuned for {'; '.join(tuned[:5])}"
            if tuned
            else f"Tune it: tilewright tune {op} --target {backend.name}",
        )


def agrees(entry: Entry, given: Mapping[str, Any]) -> bool:
    """Whether a call with these keywords means this entry; its arrays already say sizes and dtype."""
    return all(n in entry.params and agree(entry.params[n], settled(v)) for n, v in given.items()) and all(
        entry.params[n] == v for n, v in entry.defaults.items() if n not in given and n != "dtype"
    )


def _checked(op: str, a: Any, spec: TensorSpec, program: LaunchProgram, output: bool = False) -> GpuArray:
    name = f"{op}: {spec.name if not output else 'out'}"
    holder = backend_name(a)
    if holder is None:
        raise TypeError(f"{name} is no array on a GPU. Move it to the device of the others")
    v = arrays_of(holder).view(a)
    if v.shape != spec.shape:
        raise ValueError(f"{name} has shape {v.shape}, not {spec.shape}")
    if not fits(v, spec):
        raise TypeError(f"{name} has dtype {v.dtype}, not {spec.dtype}. Convert it first")
    if not v.dense:
        raise ValueError(f"{name} is not dense and row-major. Pass a contiguous copy of it")
    if v.address % program.align:
        raise ValueError(f"{name} starts at an address that is no multiple of {program.align} bytes. Pass a copy of it")
    if output and not v.writable:
        raise ValueError(f"{name} is read-only. Pass an array that can be written")
    return v


def _together(op: str, entry: Entry, views: Sequence[GpuArray]) -> None:
    devices = {v.device for v in views if v.device is not None}
    if len(devices) > 1:
        raise ValueError(f"{op}: arrays are on several GPUs ({', '.join(sorted(map(str, devices)))}). Move them to one")
    *inputs, out = views
    for v, spec in zip(inputs, entry.inputs, strict=True):
        if v.base == out.base and v.address < out.address + out.nbytes and out.address < v.address + v.nbytes:
            raise ValueError(f"{op}: out shares memory with {spec.name}. Pass another array, or none")
