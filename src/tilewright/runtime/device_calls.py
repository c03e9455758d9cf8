"""Calls of operators with arrays on a device, by tuned kernels on the arrays' current stream.

The rules are as for calls on the CPU: a kernel answers exactly the shapes, dtypes and attributes it was tuned for.
Without a kernel, a built-in operator goes to the array's framework, and a user's operator is an error. Nothing is
compiled, and nothing waits for the device.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends import get_backend
from tilewright.backends.arrays import LOOKS, Face, arrays_of, backend_name
from tilewright.core import UsageError
from tilewright.forking import ForkLock
from tilewright.kernels.parameters import canonical_value
from tilewright.runtime.gpu import DeviceKey
from tilewright.runtime.gpu_plan import GpuPlan, several
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.resolve import Resolver

_KEPT = 4096  # kinds of calls; beyond, all are cleared and looked up again
Key = tuple[Any, ...]
Inputs = tuple[tuple[tuple[int, ...], str], ...]
"""Shape and dtype of each input."""


class DeviceCalls:
    """Answers ``op(*arrays, out=None, **attributes)`` with arrays on devices. Thread-safe."""

    def __init__(self, op: str, resolver: Resolver, built_in: bool) -> None:
        self._op, self._resolver, self._built_in = op, resolver, built_in
        self._known: dict[Key, GpuPlan | None] = {}  # device, inputs and attributes -> plan
        self._seen: dict[Key, GpuPlan] = {}  # kinds of arrays and attributes -> plan
        self._lock = ForkLock()

    def again(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """The answer to a call of a kind that :meth:`call` has answered before; ``None`` for other calls."""
        if not self._seen:
            return None
        try:
            faces = [LOOKS[type(a)](a) for a in args]
            plan = self._seen.get(_seen_key(faces, keywords))
        except Exception:  # for any error, the slower path reports it
            return None
        if plan is None:
            return None
        out = keywords.get("out")
        if len(args) == plan.count:
            return plan.run(args, out, faces)
        return plan.run(args[:-1], args[-1], faces[:-1]) if out is None else None

    def call(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The answer. Raises ``TypeError``, ``ValueError`` or ``UsageError``."""
        arrays, out = list(args), keywords.get("out")
        attributes = {k: canonical_value(v) for k, v in keywords.items() if k != "out"}
        seen = self._seen  # renew may replace the dictionary while this call runs
        plan = self._find(arrays, attributes)
        if plan is None and out is None and len(arrays) > 1:
            plan = self._find(arrays[:-1], attributes)  # the last array may be the output
            if plan is not None:
                out = arrays.pop()
        if plan is None:
            return self._without(args, attributes, out)
        faces = [LOOKS[type(a)](a) for a in args]
        result = plan.run(arrays, out, faces[: len(arrays)])
        if all(f[3] is not None for f in faces):
            if len(seen) >= _KEPT:
                seen.clear()
            seen[_seen_key(faces, keywords)] = plan
        return result

    def renew(self) -> None:
        """Looks the kernels up again. Raises ``TilewrightError``, and keeps the old kernels, if a look-up fails."""
        with self._lock:
            self._known = {key: self._resolve(*key) for key in self._known}
            self._seen = {}

    def _find(self, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> GpuPlan | None:
        """The plan for arrays of these shapes and dtypes; ``None`` without a kernel."""
        key = (*described(self._op, arrays), tuple(sorted(attributes.items())))
        with self._lock:
            if key not in self._known:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = self._resolve(*key)
            return self._known[key]

    def _resolve(self, device: DeviceKey, inputs: Inputs, attributes: tuple[tuple[str, Any], ...]) -> GpuPlan | None:
        served = self._resolver.by_arrays(self._op, inputs, dict(attributes), device)
        return None if served is None else self._resolver.gpu.plan(served, self._op, False)

    def _without(self, args: Sequence[Any], attributes: Mapping[str, Any], out: Any) -> Any:
        plain = self._built_in and not attributes and self._op in ("matmul", "batch_matmul")
        for name in ("torch", "cupy"):
            framework = sys.modules.get(name)
            array = {"torch": "Tensor", "cupy": "ndarray"}[name]
            if plain and framework is not None and isinstance(args[0], getattr(framework, array)):
                self._resolver.passed("untuned").tally.add()
                return framework.matmul(*args) if out is None else framework.matmul(*args, out=out)
        raise untuned(self._resolver.store, self._op, args)


def described(op: str, arrays: Sequence[Any]) -> tuple[DeviceKey, Inputs]:
    """The device of arrays, and the shape and dtype of each. Raises ``TypeError`` and ``ValueError``."""
    names = [backend_name(a) for a in arrays]
    name = next((n for n in names if n is not None), None)
    odd = next((a for a, n in zip(arrays, names, strict=True) if n is None or n != name), None)
    if name is None or odd is not None:
        what = "nothing" if odd is None else type(odd).__name__
        raise TypeError(f"{op}: {what} is not an array on a GPU. Move it to the device of the others")
    views = [arrays_of(name).view(a) for a in arrays]
    devices = {v.device for v in views if v.device is not None}
    if len(devices) > 1:
        raise several(op, devices)
    return (name, devices.pop() if devices else 0), tuple((v.shape, v.dtype) for v in views)


def untuned(store: Kernels, op: str, arrays: Sequence[Any]) -> UsageError:
    """The error for arrays without a tuned kernel on their device."""
    (name, _), inputs = described(op, arrays)
    backend = get_backend(name)
    others = [e for e in store.entries(op) if e.target.kind in backend.kinds]
    tuned = sorted({f"{e.label} ({e.target.name})" for e in others})
    return UsageError(
        f"{op} was not tuned for this GPU and inputs {', '.join(f'{shape} {dtype}' for shape, dtype in inputs)}",
        f"It was tuned for {'; '.join(tuned[:5])}"
        if tuned
        else f"Tune it: tilewright tune {op} --target {backend.name}",
    )


def _seen_key(faces: Sequence[Face], keywords: Mapping[str, Any]) -> Key:
    """The key of a kind of call: calls with one key take the same plan and pass the output in the same way."""
    kinds = tuple([f[3] for f in faces])
    has_out = keywords.get("out") is not None
    if len(keywords) == has_out:
        return kinds, has_out
    return kinds, has_out, tuple(sorted((k, canonical_value(v)) for k, v in keywords.items() if k != "out"))
