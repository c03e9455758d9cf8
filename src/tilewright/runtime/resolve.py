"""Resolves requests to answers: a tuned kernel, a template default or NumPy; on a device a tuned kernel.

A :class:`Resolver` refers to plans, but neither plans nor dispatchers' tables refer to the library object. So
everything is freed when its last user releases it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from tilewright.backends.arrays import stands_for
from tilewright.backends.cpu.loader import LoadedKernel, LoadedLibrary, load_bytes
from tilewright.backends.driver import LoadError
from tilewright.caching import Recent
from tilewright.core import DatabaseError, Schedule, TilewrightError, UsageError, Value, Workload
from tilewright.errors import nearest
from tilewright.extent import Sizes, greatest
from tilewright.forking import ForkLock, steady
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.parameters import agree, canonical_value, numbers, type_name
from tilewright.runtime.choice import Found, Place, Processor, choose, choose_sized, each, narrowest
from tilewright.runtime.entry import Entry
from tilewright.runtime.explain import Explanation, explained
from tilewright.runtime.gpu import DeviceKey, GpuRuntime
from tilewright.runtime.kernels import Kernels
from tilewright.runtime.misses import Misses
from tilewright.runtime.numpy_fallback import runner
from tilewright.runtime.pycall import Builtins, current
from tilewright.runtime.range_checks import range_check
from tilewright.runtime.serving import Answer, Served, serve_kernel, serve_numpy
from tilewright.runtime.stats import REASONS, UNTUNED, Cell, Counters
from tilewright.runtime.tuned import Serving, Tuned, shared

if TYPE_CHECKING:
    from tilewright.backends.launches import DeviceKernel
    from tilewright.kernels.operator import Operator

_CHOSEN = {
    "nearest": "the schedule of the nearest tuned sizes",
    "foreseen": "the cost model's choice",
    "default": "the template's default",
}
_KEPT = 1024  # plans; the least recently used are dropped first
_SLOWEST_FLOPS = 1e10  # per second and thread: expected of an untuned kernel


class Resolver:
    """Answers for operators and parameters, or arrays, from one store. Thread-safe."""

    def __init__(
        self, store: Kernels, threads: int | None, compile: bool, check: bool, counters: Counters, misses: Misses
    ) -> None:
        self.store = store
        self.counters = counters
        self.misses = misses
        self.closed = False
        self._processor = Processor(threads)
        self._compile = compile
        self._check = check
        self._lock = ForkLock()
        self._served = Recent[Served](_KEPT)
        self._defaults: bool | None = True if compile else None
        self.gpu = GpuRuntime(store, counters)
        self._passed = {reason: Answer(counters.tally("fallback", reason)) for reason in REASONS}

    # ----------------------------------------------------------------------- requests

    def plan(self, op: str | Operator | Workload, params: Mapping[str, Any]) -> Served:
        """The answer for an operator with these parameters. Raises ``UsageError``, ``DatabaseError``."""
        found, workload = self._look_up(op, params)
        for extent in (found.entry or workload).ranges.values():  # type: ignore[union-attr]
            raise UsageError(f"a plan has fixed sizes, not {extent!r}", "Name one size of the range")
        if found.entry is not None:
            return self._exact(found.entry, found.reason)
        assert workload is not None
        return self.untuned(workload, found.reason)

    def explain(self, op: str | Operator | Workload, params: Mapping[str, Any]) -> Explanation:
        """The explanation of :meth:`plan`'s answer, without loading a tuned kernel."""
        found, workload = self._look_up(op, params)
        if found.entry is not None:
            return explained(found.entry, found.reason)
        assert workload is not None
        return self.untuned(workload, found.reason).explanation

    def by_arrays(
        self,
        op: str,
        inputs: Sequence[tuple[tuple[int, ...], str]],
        given: Mapping[str, Any],
        device: DeviceKey | None = None,
    ) -> Served | None:
        """The kernel tuned for inputs of these shapes and dtypes and these attributes, or ``None``.

        A user's operator that was tuned for these inputs, but not for this machine, gets an untuned answer. Raises
        ``UsageError`` if several kernels fit that differ in sizes which the inputs do not determine, and the exceptions
        of :meth:`find`.
        """
        self.require_open()
        place, shapes = self.place(device), [shape for shape, _ in inputs]
        exact: list[Entry] = []
        ranged: list[Entry] = []
        for stored in self.store.entries(op, shapes=shapes):
            e = stored.sized(shapes) if stored.ranges else stored
            if e is not None and _takes(e, inputs, device) and e.agrees(given):
                (ranged if e.of else exact).append(e)
        found = choose(exact, place)
        entries = exact
        if found.entry is None and ranged:
            entries = narrowest(ranged)
            found = choose(entries, place)
        if not entries:
            return None
        if len({tuple(e.params.items()) for e in entries}) > 1:
            differing = sorted({n for e in entries for n, v in e.params.items() if v != entries[0].params.get(n)})
            raise UsageError(
                f"several {op} kernels take inputs of these shapes; they differ in {', '.join(differing)}",
                f"Call {op}(..., {', '.join(f'{n}=...' for n in differing)})",
            )
        if found.entry is not None:
            return self._exact(found.entry, found.reason, device)
        if op in OPERATORS or device is not None:
            return None
        return self.untuned(_stored_workload(self.store, entries[0]), found.reason)

    def serving(self, op: str, inputs: Sequence[tuple[tuple[int, ...], str]], given: Mapping[str, Any]) -> Served:
        """The answer for an operator on inputs of these shapes and dtypes, on this processor. Raises ``UsageError``."""
        served = self.by_arrays(op, inputs, given)
        if served is not None:
            return served
        built_in = get_operator(op) if op in OPERATORS else None
        if built_in is None or built_in.infer is None:
            raise self.not_tuned(op, [f"{shape} {dtype}" for shape, dtype in inputs], given)
        dtype = {"dtype": inputs[0][1]} if inputs and inputs[0][1] in built_in.dtypes else {}
        return self.plan(op, built_in.infer([s for s, _ in inputs], **{**dtype, **given}))

    def not_tuned(self, op: str, shown: Sequence[str], given: Mapping[str, Any]) -> UsageError:
        """The error for a user's operator called with arrays that no kernel takes; ``shown``: the arrays'
        descriptions."""
        with_attributes = "".join(f" {k}={v}" for k, v in given.items())
        tuned = sorted({e.label for e in self.store.entries(op)})
        return UsageError(
            f"{op} was not tuned for inputs {', '.join(shown)}{with_attributes}",
            f"It was tuned for {'; '.join(tuned[:5])}" if tuned else "Tune it first",
        )

    def near(self, op: str, shapes: Sequence[tuple[int, ...]], given: Mapping[str, Any]) -> str | None:
        """Differences between a kernel tuned for these shapes and a call's arrays, with advice; ``None`` without
        one."""
        attributes = {k: v for k, v in given.items() if k != "dtype"}
        for e in self.store.entries(op, shapes=shapes):
            constants = [s.name for s in e.inputs if s.constant]
            if e.ranges or [s for s, _ in e.shapes] != list(shapes) or not e.agrees({**attributes, **_constant(e)}):
                continue
            if choose([e], self._processor).entry is None:
                continue
            if constants and "constant" not in attributes:
                bound = ", ".join(f"{c}=..." for c in constants)
                return (
                    f"with {' and '.join(constants)} constant. Make a plan with constant={e.params['constant']!r} "
                    f"and call its bind({bound}) once"
                )
            return f"for {each(d for _, d in e.shapes)} arrays of NumPy, PyTorch or JAX. Convert them first"
        return None

    def find(self, workload: Workload, device: DeviceKey | None = None) -> Answer:
        """The answer for a workload: a tuned kernel, on the processor also a template default, or no kernel.

        ``device``: a backend's name and the number or object that the backend opens, such as ``("cuda", 0)``; ``None``
        is the processor. Raises ``NoDriver`` for a device that is missing or that no driver reaches, and
        ``DatabaseError``.
        """
        self.require_open()
        place = self.place(device)
        found = self._of_workload(workload, place)
        if found.entry is not None:
            return Answer.of(self._exact(found.entry, found.reason, device))
        if device is None and self.defaults_exist:
            served = self.untuned(workload, found.reason)
            if served.explanation.tier in UNTUNED:
                return Answer.of(served)
        why = found.reason if found.elsewhere else ""
        reason = "device" if why and device is not None else "untuned"
        return Answer(self.counters.tally("fallback", self.missed(workload, reason, place)), why=why)

    def passed(self, reason: str) -> Answer:
        """The answer for calls that no kernel can take, by a reason of ``runtime.stats.REASONS``."""
        return self._passed[reason]

    def untuned(self, workload: Workload, reason: str) -> Served:
        """An untuned kernel for a workload, else NumPy or the interpreter."""
        with self._lock:
            return self._served.get(("untuned", workload.key, workload.op), self._untuned, workload, reason)

    @property
    def defaults_exist(self) -> bool:
        """Whether template defaults were ever compiled here, or may be compiled: otherwise a look-up is useless."""
        if self._defaults is None:
            with steady:
                from tilewright.runtime.defaults import any_recorded
            try:
                self._defaults = any_recorded()
            except TilewrightError:  # the cache cannot be used
                self._defaults = False
        return self._defaults

    def builtins(self, op: str) -> Builtins | None:
        """The factory of builtins, from a loaded kernel or a kernel of ``op``; ``None`` without one."""
        if current() is None:
            found = choose(self.store.samples(op), self._processor)
            if found.entry is not None:
                ranges = found.entry.ranges
                with contextlib.suppress(DatabaseError):  # a damaged kernel is reported when it is called
                    self._exact(found.entry.at(greatest(ranges)) if ranges else found.entry, found.reason)
        return current()

    @property
    def threads(self) -> int:
        """The most threads that a kernel may use now."""
        return self._processor.threads

    def require_open(self) -> None:
        if self.closed:
            raise UsageError("the library is closed", "Open another Library; plans made before go on working")

    # ----------------------------------------------------------------------- look-up

    def _look_up(self, op: str | Operator | Workload, params: Mapping[str, Any]) -> tuple[Found, Workload | None]:
        self.require_open()
        given = {k: canonical_value(type_name(v)) for k, v in params.items()}
        if isinstance(op, Workload):
            return self._of_workload(op), op
        if isinstance(op, str) and (":" in op or op.endswith(".py")):
            op = get_operator(op)
        if not isinstance(op, str):
            workload = op.workload(**given)
            return self._of_workload(workload), workload
        known = self.store.entries(op, params=given)
        matching = [e for e in known if _means(e.params, e.defaults, given)]
        ranged = (e.named(given) for e in known if e.ranges)
        fitting = (e for e in ranged if e is not None and _means(e.params, e.defaults, given))
        found = choose_sized(matching, fitting, self._processor)
        if found.entry is not None:
            return found, None
        if op in OPERATORS:
            workload = get_operator(op).workload(**given)
            if not matching:  # written differently: "512", 512.0, or with other defaults
                full = dict(workload.params)
                same = [e for e in self.store.entries(op, params=full) if e.params == full]
                found = choose(same, self._processor)
                if found.entry is None:  # or under another operator's name
                    found = self._of_workload(workload)
            return found, workload
        for workload in self.store.workloads(op):
            if _means(dict(workload.params), dict(workload.defaults), given):
                return found, workload
        raise _unknown(op, given, self.store)

    def _of_workload(self, workload: Workload, place: Place | None = None) -> Found:
        """The kernel tuned for this program, or for a range that contains it, under any operator's name."""
        shapes = tuple((s.shape, s.dtype) for s in workload.inputs)
        ranged = (
            f for e in self.store.ranges()
            if (f := e.fitted(shapes)) is not None
            and Program.loads(_stored_workload(self.store, e).program).at(f.sizes).dumps() == workload.program
        )  # fmt: skip
        return choose_sized(self.store.entries_of(workload.key, workload.op), ranged, place or self._processor)

    # ----------------------------------------------------------------------- tiers

    @overload
    def tuned(self, workload: Workload, device: None = None) -> Tuned[LoadedKernel] | None: ...
    @overload
    def tuned(self, workload: Workload, device: DeviceKey) -> Tuned[DeviceKernel] | None: ...
    def tuned(self, workload: Workload, device: DeviceKey | None = None) -> Tuned[Any] | None:
        """The tuned kernels of a workload for callers without plans, at every size of its ranges; ``None`` without any.

        ``device``: as :meth:`find` takes it. For ranges, kernels of parts of the ranges and of single sizes are
        included. A device's kernels take constant inputs as ``DeviceKernel.pack`` packs them.
        """
        serving = self._serving(workload, self.place(device))
        libraries: dict[str, LoadedLibrary] = {}

        def load(entry: Entry, sizes: Sizes) -> LoadedKernel | DeviceKernel:
            sized = entry.at(sizes) if entry.ranges else entry
            if device is not None:
                return self.gpu.load(sized, device).bound.loaded
            library = libraries.get(entry.sha256) or libraries.setdefault(entry.sha256, self._library(entry))
            return self._kernel(library, sized)

        return Tuned(workload, serving, load) if serving else None

    def elsewhere(self, workload: Workload, device: DeviceKey | None = None) -> str:
        """Names other targets that a workload was tuned for, if no kernel runs on this device; else empty."""
        found = choose(self.store.entries_of(workload.key, workload.op), self.place(device))
        return found.reason if found.elsewhere else ""

    def place(self, device: DeviceKey | None) -> Place:
        """The place that runs kernels: a device, or the processor."""
        return self._processor if device is None else self.gpu.place(device)

    def _serving(self, workload: Workload, place: Place) -> list[Serving]:
        """The chosen kernels of a workload, each with the sizes that it serves."""
        self.require_open()
        if not workload.ranges:
            entry = self._of_workload(workload, place).entry
            return [] if entry is None else [Serving({}, entry)]
        by_spans: dict[tuple[Any, ...], list[Serving]] = {}
        known = (*self.store.ranges(), *self.store.entries(workload.op))
        for e in {(e.workload_key, e.target.key, e.device_model, e.sha256): e for e in known}.values():
            found = shared(workload, e, partial(_stored_workload, self.store))
            if found is not None:
                by_spans.setdefault(tuple(sorted(found.spans.items())), []).append(found)
        chosen = ((s[0], choose([x.entry for x in s], place).entry) for s in by_spans.values())
        return [replace(one, entry=best) for one, best in chosen if best is not None]

    def _library(self, entry: Entry) -> LoadedLibrary:
        try:
            return load_bytes(self.store.code(entry.sha256), entry.sha256)
        except LoadError as e:
            raise self._damaged(entry, e) from e

    def _kernel(self, library: LoadedLibrary, entry: Entry) -> LoadedKernel:
        try:
            launch = {k: int(v) for k, v in entry.schedule.launch}
            return library.kernel(entry.program, launch, entry.target.threads)
        except LoadError as e:
            raise self._damaged(entry, e) from e

    def _damaged(self, entry: Entry, e: LoadError) -> DatabaseError:
        return DatabaseError(
            f"the kernel of {entry.op} {entry.label} in {self.store.path} cannot be loaded: {e.message}",
            "Tune it again, or restore a copy of the database",
        )

    def _exact(self, entry: Entry, reason: str, device: DeviceKey | None = None) -> Served:
        key = ("exact", device, entry.workload_key, entry.target.key, entry.device_model, entry.sha256,
               entry.schedule.key, entry.op)  # fmt: skip
        with self._lock:
            return self._served.get(key, self._loaded, entry, reason, device)

    def _loaded(self, entry: Entry, reason: str, device: DeviceKey | None) -> Served:
        explanation = explained(entry, reason)
        if device is not None:
            return self.gpu.serve(explanation, entry, device)
        check = range_check(_stored_workload(self.store, entry)) if self._check else None
        return serve_kernel(
            explanation, entry.inputs, entry.outputs, self._kernel(self._library(entry), entry), entry.seconds,
            self.counters.tally(entry.tier), check,
        )  # fmt: skip

    def _untuned(self, workload: Workload, reason: str) -> Served:
        """The answer for a workload without a tuned kernel: a default from the cache, compiled now if requested, or
        NumPy."""
        with steady:
            from tilewright.runtime.defaults import compile_default, find_default

        explanation = Explanation("fallback", reason, workload.op, dict(workload.params))
        try:
            default = find_default(workload, self.threads) if self.defaults_exist else None
            if default is None and self._compile:
                default = compile_default(workload, self.threads, self._nearest(workload))
        except TilewrightError as e:
            explanation = replace(explanation, reason=f"{reason}; and {e.message}")
            default = None
        check = range_check(workload) if self._check else None
        if default is None:
            explanation = replace(explanation, reason=f"{explanation.reason}; {runner(workload)[1]} answers")
            tally = self.counters.tally("fallback", self.missed(workload, "untuned"))
            return serve_numpy(explanation, workload, tally, check)
        explanation = replace(
            explanation,
            tier=default.tier,
            reason=f"{reason}; {_CHOSEN[default.tier]} answers",
            template=default.schedule.template,
            schedule=dict(default.schedule.values),
            target=default.target.name,
            threads=default.target.threads,
            rounding=default.kernel.program.rounding,
        )
        expected = workload.flops / (_SLOWEST_FLOPS * default.target.threads)
        tally = self.counters.tally(self.missed(workload, default.tier))
        return serve_kernel(explanation, workload.inputs, workload.outputs, default.kernel, expected, tally, check)

    def _nearest(self, workload: Workload) -> Schedule | None:
        """The schedule tuned on this machine for the nearest sizes, with all further parameters equal; ``None`` without
        one."""
        fixed = {k: v for k, v in workload.params if k in dict(workload.defaults)}
        alike = [
            e for e in self.store.entries(workload.op)
            if all(e.params.get(k) == v for k, v in fixed.items()) and choose([e], self._processor).entry is not None
        ]  # fmt: skip
        asked = dict(workload.params)
        return min(alike, key=lambda e: _distance(e.params, asked)).schedule if alike else None

    def missed(self, workload: Workload, name: str, place: Place | None = None) -> Cell:
        """The counter of calls of a workload that was not tuned for a place, as part of ``name``."""
        target = "" if place is None else place.target
        return self.misses.cell(workload.op, dict(workload.params), dict(workload.defaults), name, target)

    def forget(self) -> None:
        """Clears cached answers; plans in use stay valid."""
        with self._lock:
            self._served.clear()


def _stored_workload(store: Kernels, entry: Entry) -> Workload:
    for workload in store.workloads(entry.op):
        if workload.key == entry.workload_key:
            return workload
    raise DatabaseError(f"{store.path} changed while it was read", "Try again")


def _takes(entry: Entry, inputs: Sequence[tuple[tuple[int, ...], str]], device: DeviceKey | None) -> bool:
    """Whether a kernel takes inputs of these shapes and dtypes. On a device, bfloat16 may be passed as its bits."""
    if device is None:
        return entry.shapes == tuple(inputs)
    return len(entry.inputs) == len(inputs) and all(
        stands_for(*i, s) for i, s in zip(inputs, entry.inputs, strict=True)
    )


def _constant(entry: Entry) -> dict[str, Value]:
    return {k: v for k, v in entry.params.items() if k == "constant"}


def _unknown(op: str, given: Mapping[str, Any], store: Kernels) -> UsageError:
    """The error for an unknown operator, or for an operator that is known only with other parameters."""
    known = store.workloads(op)
    if not known:
        names = sorted({*store.names(), *OPERATORS})
        return UsageError(
            f"unknown operator {op!r}",
            f"{nearest(op, names)}Known here are {', '.join(names)}; tune your own as FILE.py:function",
        )
    names = [n for n, _ in known[0].params]
    strange = [n for n in given if n not in names]
    missing = [n for n in names if n not in given and n not in dict(known[0].defaults)]
    if strange:
        cause = f"{op} has no parameter {strange[0]!r}"
    elif missing:
        cause = f"{op} needs {' and '.join(missing)}"
    else:
        cause = f"{op} is not known for {' '.join(f'{k}={v}' for k, v in given.items())}"
    closest = sorted(known, key=lambda w: _distance(dict(w.params), given))[:3]
    return UsageError(
        cause, f"It was tuned for {'; '.join(w.label.removeprefix(op).strip() for w in closest)}. Tune it for these"
    )


def _means(params: Mapping[str, Value], defaults: Mapping[str, Value], given: Mapping[str, Any]) -> bool:
    """Whether ``params`` are the given parameters completed by defaults."""
    full = {**defaults, **given}
    return full.keys() == params.keys() and all(agree(v, full[k]) for k, v in params.items())


def _distance(params: Mapping[str, Value], given: Mapping[str, Any]) -> float:
    total = 0.0
    for name, value in params.items():
        other = given.get(name, value)
        if other == value:
            continue
        ours, theirs = (() if isinstance(v, (bool, float)) else numbers(v) or () for v in (value, other))
        near = len(ours) == len(theirs) > 0 and min(*ours, *theirs) > 0
        total += sum(abs(math.log(a / b)) for a, b in zip(ours, theirs, strict=True)) if near else 10.0
    return total
