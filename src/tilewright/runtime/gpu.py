"""Tuned CUDA kernels on arrays that live on a GPU, on their owner's current stream.

The rules are those of the CPU's calls: a kernel answers exactly the shapes, dtypes and attributes it was
tuned for; where there is none, a built-in operator goes to the array's own framework, and a user's
operator is an error. Nothing is compiled, and nothing waits for the GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tilewright.backends import get_backend
from tilewright.backends.arrays import LOOKS, Face, arrays_of, backend_name, stands_for
from tilewright.backends.launches import DeviceKernel
from tilewright.core import DatabaseError, TilewrightError, UsageError
from tilewright.forking import ForkLock
from tilewright.kernels.parameters import agree, settled
from tilewright.runtime.choice import OnDevice, choose_sized
from tilewright.runtime.entry import Entry
from tilewright.runtime.explain import Explanation
from tilewright.runtime.gpu_plan import GpuKernel, GpuPlan, Kept, Lent, several
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.serving import Served
from tilewright.runtime.stats import Counters

if TYPE_CHECKING:
    from tilewright.backends.driver import Context, Module

DeviceKey = tuple[str, Any]
"""A device: a backend's name, and what that opens."""

_KEPT = 4096  # kinds of calls; then all are forgotten and found again
Key = tuple[Any, ...]
Opener = Callable[[int], "Context"]


class GpuRuntime:
    """Looks kernels up for arrays on GPUs and launches them. Safe from several threads."""

    def __init__(self, store: Kernels, counters: Counters, driver: Opener | None = None) -> None:
        self._store = store
        self._counters = counters
        self._open = driver
        self._places: dict[DeviceKey, OnDevice] = {}
        self._modules: dict[Key, Module] = {}
        self._kernels: dict[Key, GpuKernel] = {}
        self._known: dict[str, dict[Key, GpuPlan | None]] = {}  # operator -> device, inputs and attributes -> plan
        self._seen: dict[str, dict[Key, GpuPlan]] = {}  # operator -> kinds of arrays and attributes -> plan
        self._lock = ForkLock()

    def again(self, op: str, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """The answer to a call with arrays of kinds that :meth:`call` had before; ``None`` for any other."""
        seen = self._seen.get(op)
        if not seen:
            return None
        try:
            faces = [LOOKS[type(a)](a) for a in args]
            plan = seen.get(_seen_key(faces, keywords))
        except Exception:  # whatever an array or a keyword raises, the other way names it
            return None
        if plan is None:
            return None
        out = keywords.get("out")
        if len(args) == plan.count:
            return plan.run(args, out, faces)
        return plan.run(args[:-1], args[-1], faces[:-1]) if out is None else None

    def call(self, op: str, args: Sequence[Any], keywords: Mapping[str, Any], built_in: bool) -> Any:
        """``op(*args, **keywords)``. Raises ``TypeError``, ``ValueError`` or ``UsageError``."""
        arrays, out = list(args), keywords.get("out")
        attributes = {k: settled(v) for k, v in keywords.items() if k != "out"}
        seen = self._seen.setdefault(op, {})  # what is found now belongs here, whatever replaces it meanwhile
        plan = self._find(op, arrays, attributes)
        if plan is None and out is None and len(arrays) > 1:
            plan = self._find(op, arrays[:-1], attributes)  # the last one may be the output
            if plan is not None:
                out = arrays.pop()
        if plan is None:
            return self._without(op, args, attributes, out, built_in)
        faces = [LOOKS[type(a)](a) for a in args]
        result = plan.run(arrays, out, faces[: len(arrays)])
        if all(f[3] is not None for f in faces):
            if len(seen) >= _KEPT:
                seen.clear()
            seen[_seen_key(faces, keywords)] = plan
        return result

    def plan(self, op: str, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> GpuPlan:
        """A plan of its own for arrays like these, with scratch memory of its own. Raises ``UsageError``."""
        attributes = {k: settled(v) for k, v in keywords.items()}
        odd = next((a for a in arrays if backend_name(a) is None), None)
        if odd is not None or not arrays:
            raise TypeError(f"{op}: {'nothing' if odd is None else type(odd).__name__} is no array on a GPU")
        found = self._find(op, arrays, attributes)
        if found is None:
            raise self._untuned(op, arrays)
        return GpuPlan(op, found.kernel, Kept(found.kernel), self._counters.tally(found.kernel.entry.tier))

    def renew(self, op: str) -> None:
        """Look the kernels of an operator up again. Raises ``TilewrightError``, and keeps all, where one fails."""
        with self._lock:
            known = self._known.get(op, {})
            fresh = {key: self._resolve(op, *key) for key in known}
            self._known[op] = fresh
            self._seen.pop(op, None)

    def explain(self, op: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> dict[str, Any] | None:
        """The kernel that would answer, as JSON, or ``None``."""
        plan = self._find(op, list(args), {k: settled(v) for k, v in attributes.items()})
        if plan is None:
            return None
        e = plan.kernel.entry
        return {
            "tier": e.tier, "template": e.schedule.template, "schedule": dict(e.schedule.values), "seconds": e.seconds,
            "target": e.target.name, "device_model": e.device_model, "run": e.run, "sha256": e.sha256,
            "limits": dict(e.target.limits),
        }  # fmt: skip

    # ----------------------------------------------------------------------- look-up

    def _find(self, op: str, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> GpuPlan | None:
        """The plan for arrays like these."""
        names = [backend_name(a) for a in arrays]
        name = next(n for n in names if n is not None)
        if set(names) != {name}:
            odd = next(a for a, n in zip(arrays, names, strict=True) if n != name)
            raise TypeError(f"{op}: {type(odd).__name__} is no array on a GPU. Move it to the device of the others")
        views = [arrays_of(name).view(a) for a in arrays]
        devices = {v.device for v in views if v.device is not None}
        if len(devices) > 1:
            raise several(op, devices)
        inputs = tuple((v.shape, v.dtype) for v in views)
        key = ((name, devices.pop() if devices else 0), inputs, tuple(sorted(attributes.items())))
        with self._lock:
            known = self._known.setdefault(op, {})
            if key not in known:
                if len(known) >= _KEPT:
                    known.clear()
                known[key] = self._resolve(op, *key)
            return known[key]

    def _resolve(
        self,
        op: str,
        device: DeviceKey,
        inputs: Sequence[tuple[tuple[int, ...], str]],
        attributes: tuple[tuple[str, Any], ...],
    ) -> GpuPlan | None:
        given, shapes = dict(attributes), [shape for shape, _ in inputs]
        entries = [
            e
            for stored in self._store.entries(op, shapes=shapes)
            for e in [stored.sized(shapes) if stored.ranges else stored]
            if e is not None
            and len(e.inputs) == len(inputs)
            and all(stands_for(*i, s) for i, s in zip(inputs, e.inputs, strict=True))
            and agrees(e, given)
        ]
        if not entries:
            return None
        place = self.place(device)
        best = choose_sized([e for e in entries if not e.of], [e for e in entries if e.of], place).entry
        return None if best is None else self._planned(op, best, device)

    def place(self, device: DeviceKey) -> OnDevice:
        """A device as a place for kernels, opened once. Raises ``NoDriver`` and ``UsageError``."""
        with self._lock:
            if device not in self._places:
                backend = get_backend(device[0])
                self._places[device] = OnDevice(backend, (self._open or backend.open)(device[1]))
            return self._places[device]

    def serve(self, explanation: Explanation, entry: Entry, device: DeviceKey) -> Served:
        """A stored kernel on a device. Raises ``DatabaseError`` for one that cannot be loaded."""
        with self._lock:
            plan = self._planned(entry.op, entry, device, quiet=True)
        return Served(explanation, plan, plan, False, plan.tally, on_device=plan.kernel)

    def _planned(self, op: str, entry: Entry, device: DeviceKey, quiet: bool = False) -> GpuPlan:
        kernel = self.load(entry, device)
        return GpuPlan(op, kernel, Lent(kernel), self._counters.tally(entry.tier), quiet=quiet)

    def load(self, entry: Entry, device: DeviceKey) -> GpuKernel:
        """A stored kernel's code on a device, loaded once. Raises ``DatabaseError``."""
        key = (device, entry.sha256, entry.workload_key, entry.schedule.key)  # an artifact may hold several kernels
        if key not in self._kernels:
            context = self.place(device).context
            try:
                values = {k: int(v) for k, v in entry.schedule.launch}
                module, program = self._module(entry, device, context), entry.program
                whole = program.in_every_call(len(entry.inputs) + len(entry.outputs))
                kernel = DeviceKernel(context, module, whole, values)
                packed = kernel if whole is program else DeviceKernel(context, module, program, values)
            except TilewrightError as e:
                raise DatabaseError(
                    f"the kernel of {entry.op} {entry.label} cannot be loaded: {e.message}", "Tune it again"
                ) from e
            place = device[0], device[1]
            bound = None if packed is kernel else GpuKernel(entry, packed, place)
            self._kernels[key] = GpuKernel(entry, kernel, place, bound)
        return self._kernels[key]

    def _module(self, entry: Entry, device: Key, context: Context) -> Module:
        """A kernel's code on a device, loaded once for all sizes of a range."""
        key = (device, entry.sha256)
        if key not in self._modules:
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
        plain = built_in and not attributes and op in ("matmul", "batch_matmul")
        for name in ("torch", "cupy"):
            framework = sys.modules.get(name)
            array = {"torch": "Tensor", "cupy": "ndarray"}[name]
            if plain and framework is not None and isinstance(args[0], getattr(framework, array)):
                self._counters.add("fallback", "untuned")
                return framework.matmul(*args) if out is None else framework.matmul(*args, out=out)
        raise self._untuned(op, args)

    def _untuned(self, op: str, args: Sequence[Any]) -> UsageError:
        shown = ", ".join(f"{v.shape} {v.dtype}" for v in (arrays_of(str(backend_name(a))).view(a) for a in args))
        backend = get_backend(str(backend_name(args[0])))
        others = [e for e in self._store.entries(op) if e.target.kind in backend.kinds]
        tuned = sorted({f"{e.label} ({e.target.name})" for e in others})
        return UsageError(
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


def _seen_key(faces: Sequence[Face], keywords: Mapping[str, Any]) -> Key:
    """What tells calls apart that take different plans, or another place for the output."""
    kinds = tuple([f[3] for f in faces])
    has_out = keywords.get("out") is not None
    if len(keywords) == has_out:
        return kinds, has_out
    return kinds, has_out, tuple(sorted((k, settled(v)) for k, v in keywords.items() if k != "out"))
