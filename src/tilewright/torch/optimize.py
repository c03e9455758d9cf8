"""``tilewright.torch.optimize``: tunes the parts of a module and serves them by the kernels found."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch.fx import GraphModule

from tilewright.backends import get_backend, parse_target
from tilewright.backends.arrays import TORCH_DEVICES
from tilewright.caching import cached_property
from tilewright.core import Target, TilewrightError, UsageError, Workload
from tilewright.graph import GraphTask, Group, refusal, tasks_of
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.ranges import at
from tilewright.measure import comparing
from tilewright.runtime import Library
from tilewright.runtime.gpu import DeviceKey
from tilewright.runtime.serving import Served
from tilewright.torch.backend import Rest, compiled, of_aten, prepared, run_eagerly, weights_of
from tilewright.torch.captured import Captured, Compile, DynamoGraph, Form, Uncompiled
from tilewright.torch.devices import has_kernels, place_of
from tilewright.torch.dynamic import marked
from tilewright.torch.placed import Kernels
from tilewright.torch.placing import Find, Placing, changing
from tilewright.torch.recurrent import Unplaced, lowered
from tilewright.tuner.many import TunedTask, TuneTask, tune_many
from tilewright.tuner.ranges import RangeResult, tune_tasks

EAGER = "eager alone"
"""The form that runs the module eagerly, operator by operator, without compilation."""

TOLERANCES = {
    torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 5e-2, torch.complex128: 1e-6,
    torch.complex64: 1e-3,
}  # fmt: skip
"""Largest allowed difference from the module's own result, relative to its largest magnitude; 0 for other types."""

FACTOR = 4.0
"""Factor of the module's own float64 error that another result may have."""

_log = logging.getLogger("tilewright.torch")


def optimize(
    module: torch.nn.Module,
    example: Sequence[Any],
    *,
    db: str | os.PathLike[str] | None = None,
    trials: int | None = None,
    time_budget: float | None = None,
    threads: int = 1,
    rest: str = "inductor",
    compare: bool = True,
    dynamic_shapes: Any = None,
    **settings: Any,
) -> Any:
    """``module`` compiled for arguments like ``example`` (a tuple), with tuned kernels for the parts that have any.

    The parts of its graph are tuned as tasks of one common budget (``trials``, or ``time_budget`` in seconds) and
    stored in ``db``. Stored parts are not tuned again, and an interrupted run is resumed. Ctrl-C ends the search and
    keeps what was found. ``rest``: the compiler of the remaining operators, ``inductor`` or ``eager``.

    ``compare``: keep the kernels only where the module is not slower with them. The module is timed on the example,
    alternately with all kernels, with ``rest`` alone, with kernels but for elementwise chains, and uncompiled. The
    returned module has the outcome as its ``comparison``: see :class:`~tilewright.measure.comparing.Comparison`. It is
    ``None`` without a comparison: no kernel was placed, or a call changes the example or the module's parameters or
    buffers.

    ``settings`` are the settings of :func:`tilewright.tuner.tune_many`. Weights are prepacked at the first call, and
    again after changes that PyTorch counts (not changes of their ``.data``). The module computes no gradients: training
    compiles ``backend="tilewright"``.

    ``dynamic_shapes``: axes of arguments that change from call to call, as ``torch.export`` takes them (by the name of
    an argument or in their order): ``{"x": {0: torch.export.Dim("batch", min=2, max=32)}}``, or ``(2, 32)`` in place of
    the ``Dim``. Their tasks are ranges, and one kernel, or a few, serve all sizes. An ``ExportedProgram`` may take the
    place of the module; its own dynamic axes are used.

    The module and the example are on one device, a processor or a GPU, for which the parts are tuned. ``threads`` is
    the number of the processor's threads.

    Raises ``UsageError`` for bad arguments, ``TargetUnavailable`` for a device that cannot be reached, and
    ``TilewrightError`` where the result differs from the module's own.
    """
    if not isinstance(example, (tuple, list)):
        raise UsageError(f"example is a {type(example).__name__}", "Give the module's arguments as a tuple: (x,)")
    others = Rest(rest)
    module, example = marked(module, example, dynamic_shapes)
    device = _device(module, example)
    place = place_of(device)
    if place is not None and threads != 1:
        raise UsageError(f"threads={threads} is for processors, and the module is on {device}", "Leave it out")
    settings = {**_site(place, "farm" in settings), **settings}
    before = _versions(module, example)
    wanted = _Wanted(module, example)
    lasting = _versions(module, example) == before
    served = Library(db, missing_ok=True, count_misses=False, watch=False)
    captured, parts = _captured(module, example, others, _target(settings, place))
    tasks = [
        TuneTask(from_program(t.workload.op, t.workload.program), {"dtype": dict(t.workload.params)["dtype"]},
                 float(t.calls), threads, t.choice)
        for t in parts
        if not _served(served, t.workload, place)
    ]  # fmt: skip
    if tasks:
        tune = tune_tasks if any(t.workload.ranges for t in parts) else tune_many
        _say_untuned(tune(tasks, db=db, trials=trials, time_budget=time_budget, resume=True, **settings))
    library = Library(db, missing_ok=True, watch=False)

    def find(workload: Workload, device: DeviceKey | None) -> Served | None:
        return library.resolver.find(workload, device).served

    def form(compile: Compile, kernels: Collection[Kernels] = ()) -> Form:
        made = Form(captured, compile, kernels)
        wanted.check(made.result)
        return made

    def placing(find: Find) -> Form:
        placed = WeakSet[Kernels]()

        def compile(graph: DynamoGraph) -> Any:
            whole = partial(graph.whole, others.whole)
            return compiled(graph.module, graph.inputs, find, others, True, placed.add, whole)

        return form(compile, placed)

    with_all = placing(find)
    forms: dict[str, Form | Uncompiled] = {"all kernels": with_all}
    if compare and lasting and with_all.calls:
        forms[EAGER] = Uncompiled(module, example)
        if others.fuses:
            forms[f"{rest} alone"] = form(lambda graph: graph.whole(others.whole))
        chains = {t.workload.key for t in parts if t.family == "elementwise"}
        if 0 < len(with_all.workloads - chains) < len(with_all.workloads):
            forms["kernels but for elementwise chains"] = placing(
                lambda w, at: None if w.key in chains else find(w, at)
            )
    made, outcome = _fastest(forms, partial(torch.accelerator.synchronize, device) if place else lambda: None, threads)
    if outcome is not None:
        library.restart_stats()
    made.library, made.comparison = library, outcome
    return made


def _device(module: torch.nn.Module, example: Sequence[Any]) -> torch.device:
    """The device of a call's tensors. Raises ``UsageError`` for several devices, and for a device without kernels."""
    devices = {str(t.device): t.device for t in _tensors(module, example)} or {"cpu": torch.device("cpu")}
    if len(devices) > 1:
        names = sorted(devices)
        raise UsageError(
            f"the module and the example are on {' and '.join(names)}", f"Move both, as by .to({names[-1]!r})"
        )
    ((name, device),) = devices.items()
    if not has_kernels(device):
        raise UsageError(
            f"there are no kernels for the device {name}", f"Move the module to cpu, or {' or '.join(TORCH_DEVICES)}"
        )
    return device


def _site(place: DeviceKey | None, on_farm: bool) -> dict[str, str]:
    """Settings of ``tune_many`` for where tasks are tuned, unless the caller's settings say otherwise."""
    if on_farm:
        return {}
    return {"target": "cpu"} if place is None else {"device": f"{place[0]}:{place[1]}"}


def _target(settings: Mapping[str, Any], place: DeviceKey | None) -> Target:
    """The target of kernels. Raises ``TargetUnavailable`` for a missing device."""
    if place is None:
        return parse_target("cpu")
    name = settings.get("target", "auto")
    return get_backend(place[0]).place(name, f"{place[0]}:{place[1]}", 1)[0]


def _say_untuned(found: Sequence[TunedTask | RangeResult]) -> None:
    """Warns of parts without a kernel, which PyTorch computes, with the reason of the first one."""
    why = []
    for one in found:
        if isinstance(one, TunedTask) and one.problem is not None:
            why.append(f"{one.task.name}: {one.problem.message}")
        elif isinstance(one, TunedTask) and one.result is not None and one.result.all_failed:
            why.append(f"{one.task.name}: {one.result.no_success}")
    if why:
        _log.warning(
            "PyTorch computes %d of %d parts, because no kernel was found for them. %s", len(why), len(found), why[0]
        )


def _served(library: Library, workload: Workload, place: DeviceKey | None) -> bool:
    """Whether kernels serve every size of a workload. On a device, three sizes of a range are looked up."""
    ranges = workload.ranges
    if not ranges:
        return library.resolver.find(workload, place).served is not None
    if place is not None:
        some = ({n: e.low + (e.high - e.low) * k // 2 for n, e in ranges.items()} for k in range(3))
        return all(library.resolver.find(at(workload, sizes), place).served is not None for sizes in some)
    tuned = library.resolver.tuned(workload)
    return tuned is not None and tuned.serves_all


def _fastest(
    forms: Mapping[str, Form | Uncompiled], wait: Callable[[], object], threads: int
) -> tuple[Any, comparing.Comparison | None]:
    """The fastest form, compiled, and the comparison; the remaining forms are freed."""
    if len(forms) == 1:
        return next(iter(forms.values())).finalised(), None
    with torch.no_grad():
        outcome = comparing.compared(comparing.in_turns(forms, wait=wait, threads=threads))
    _log.info("%s", outcome)
    for name, f in forms.items():
        if name != outcome.kept:
            f.release()
    return forms[outcome.kept].finalised(), outcome


def _tensors(module: torch.nn.Module, example: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that a call of the module reads."""
    leaves = torch.utils._pytree.tree_leaves(tuple(example))
    return [t for t in (*module.parameters(), *module.buffers(), *leaves) if isinstance(t, torch.Tensor)]


def _versions(module: torch.nn.Module, example: Sequence[Any]) -> list[int]:
    """PyTorch's version counters of the tensors that a call reads."""
    return [t._version for t in _tensors(module, example) if not t.is_inference()]


def _captured(
    module: torch.nn.Module, example: Sequence[Any], rest: Rest, target: Target
) -> tuple[Captured, list[GraphTask]]:
    """The module's graphs, and the tasks that kernels could compute, each once, in every possible layout."""
    found: dict[str, GraphTask] = {}

    def note(graph: GraphModule, example: Sequence[Any]) -> Any:
        placing, _ = prepared(graph, lambda *_: None, weights_of(graph), True, rest.fuses, ranges=True)
        if placing is None:
            return run_eagerly(graph)
        if any(g.family == "recurrent" and not _tunable(placing, target, g) for g in placing.channels.groups):
            raise Unplaced
        for task in tasks_of(placing.channels, partial(_tunable, placing, target)):
            if task.workload.ranges:  # with dynamic sizes, weights may differ in every call
                task = replace(task, workload=changing(task.workload))
            before = found.get(task.workload.key)
            found[task.workload.key] = task if before is None else replace(before, calls=before.calls + task.calls)
        return run_eagerly(graph)

    def listed(graph: DynamoGraph) -> Any:
        layers = lowered(graph.module, graph.inputs)
        if layers is not None:
            with suppress(Unplaced):
                of_aten(layers, graph.inputs, note, note)
                return graph.eager
        of_aten(graph.module, graph.inputs, note, note)
        return graph.eager

    captured = Captured(module, example, listed)
    return captured, list(found.values())


def _tunable(placing: Placing, target: Target, group: Group) -> bool:
    return placing.placeable(group) and not refusal(group, target)


class _Wanted:
    """The module's own result for the example, with the precision of its element types."""

    def __init__(self, module: torch.nn.Module, example: Sequence[Any]) -> None:
        self.module, self.example = module, example
        self.leaves = self._leaves(module, example)

    @staticmethod
    def _leaves(module: torch.nn.Module, example: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return list(torch.utils._pytree.tree_leaves(module(*example)))

    def check(self, got: Any) -> None:
        """Raises ``TilewrightError`` where a result differs from the module's by more than rounding explains."""
        for number, (a, b) in enumerate(zip(torch.utils._pytree.tree_leaves(got), self.leaves, strict=True)):
            if not isinstance(b, torch.Tensor):
                continue
            limit = TOLERANCES.get(b.dtype, 0.0)
            far = limit * float(b.abs().max()) if limit and b.numel() else 0.0
            if torch.allclose(a, b, rtol=limit, atol=far, equal_nan=True) or (limit and self._rounded(number, a)):
                continue
            by = f"by {float((a - b).abs().max()):.3g}" if limit else f"in {int((a != b).sum())} elements"
            raise TilewrightError(
                f"the optimized module differs from the module {by}",
                "If the module has dropout, call module.eval() first; else leave it as it is",
            )

    def _rounded(self, number: int, a: torch.Tensor) -> bool:
        """Whether a result is about as close to the module's float64 result as the module's own; true where terms
        cancel."""
        exact = self._exact
        if exact is None:
            return False
        ours, own = (float((x - exact[number]).abs().max()) for x in (a, self.leaves[number]))
        return ours <= FACTOR * own

    @cached_property
    def _exact(self) -> list[Any] | None:
        """The module's result in float64; ``None`` where the module fails in float64."""

        def wide(x: Any) -> Any:
            return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

        try:
            return self._leaves(copy.deepcopy(self.module).double(), torch.utils._pytree.tree_map(wide, self.example))
        except (RuntimeError, TypeError):  # the module makes tensors of other types, or cannot be copied
            return None
