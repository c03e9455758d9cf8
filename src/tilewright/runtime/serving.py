"""Makes callables of kernels: a builtin where this interpreter allows it, else a call checked in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.backends.cpu.loader import LoadedKernel, process_host
from tilewright.core import TensorSpec, Workload
from tilewright.kernels.expression.expr import FLOAT8
from tilewright.runtime import numpy_fallback, pycall
from tilewright.runtime.binding import ConstantPlan, merged, rest
from tilewright.runtime.checked import Checked, address, empty, signature
from tilewright.runtime.explain import Explanation
from tilewright.runtime.gpu_plan import GpuKernel, GpuPlan
from tilewright.runtime.range_checks import RangeCheck, with_check
from tilewright.runtime.stats import Tally

Array = np.ndarray[Any, Any]

RELEASE_SECONDS = 20e-6
"""Seconds of expected run time above which a kernel releases the GIL."""

_MALLOC_ALIGNMENT = 16  # bytes; numpy.empty guarantees it


@dataclass(frozen=True)
class Served:
    """An answer for fixed parameters.

    ``call``: the users' callable, ``(inputs..., out=None)``. ``checked``: a slower callable with equal results, which
    gives the reasons of errors. ``native``: whether ``call`` is a builtin that a dispatcher's table accepts.
    ``kernel``: the kernel, for callers that launch it themselves; ``None`` for NumPy. ``tally``: the counter for calls
    of ``kernel``. ``checks_ranges``: whether ``call`` checks the inputs' values first.

    On a device ``call`` and ``checked`` are one plan for arrays on the device, which runs on their owner's current
    stream. ``on_device`` replaces ``kernel``.
    """

    explanation: Explanation
    call: Callable[..., Any]
    checked: Checked | GpuPlan
    native: bool
    tally: Tally
    kernel: LoadedKernel | None = None
    checks_ranges: bool = False
    on_device: GpuKernel | None = None


@dataclass(frozen=True)
class Answer:
    """The answer to a kind of call: the kernel ``served``, or none, so that the caller uses its own means.

    ``tally``: the counter of calls of this kind. ``why``: without a kernel, a reason for messages, or empty.
    """

    tally: Tally
    served: Served | None = None
    why: str = ""

    @classmethod
    def of(cls, served: Served) -> Answer:
        return cls(served.tally, served)


def serve_kernel(
    explanation: Explanation,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    kernel: LoadedKernel,
    expected_seconds: float,
    tally: Tally,
    check: RangeCheck | None = None,
) -> Served:
    """A loaded kernel as a callable, which keeps the kernel's library loaded. ``check``: of the inputs' values."""

    def run(arrays: Sequence[Array], outs: Sequence[Array]) -> None:
        kernel.run([address(a) for a in (*arrays, *outs)])

    align = kernel.program.align
    checked = Checked(explanation.op, inputs, outputs, with_check(check, run), align=align, tally=tally)
    if not any(s.constant for s in inputs):
        if check is not None:
            return Served(explanation, checked, checked, False, tally, kernel, checks_ranges=True)
        return _native(explanation, checked, kernel, expected_seconds, tally)

    def bind(held: Mapping[int, Array]) -> Callable[..., Any]:
        places = [address(held[n]) if n in held else 0 for n in range(len(inputs))]
        packed = kernel.pack([*places, *([0] * len(outputs))])
        for number, memory in packed.items():
            places[number] = memory.address

        def run_bound(arrays: Sequence[Array], outs: Sequence[Array]) -> None:
            if check is not None:
                check(merged(held, arrays))
            given = iter(arrays)
            kernel.run_packed([p or address(next(given)) for p in places] + [address(a) for a in outs])

        bound = Checked(explanation.op, rest(inputs), outputs, run_bound, align=align, tally=tally)
        bound.keep = held, packed
        if check is not None:
            return bound
        return _native(explanation, bound, kernel, expected_seconds, tally, [*places, *([0] * len(outputs))]).call

    return Served(explanation, ConstantPlan(checked, bind), checked, False, tally, kernel, check is not None)


def _native(
    explanation: Explanation,
    checked: Checked,
    kernel: LoadedKernel,
    expected_seconds: float,
    tally: Tally,
    bound: Sequence[int] = (),
) -> Served:
    """The call as a builtin, if this interpreter allows it.

    ``bound``: addresses of tensors that were given once, 0 for tensors of each call.
    """
    align, inputs = kernel.program.align, checked.inputs
    native = pycall.builtins_in(process_host().handle._handle) or pycall.builtins_in(kernel.library.handle._handle)
    unsaid = any(s.dtype in FLOAT8 for s in checked.outputs)  # C would return 8-bit reals as integers
    tensors = max(len(inputs) + len(checked.outputs), len(bound))
    if native is None or unsaid or tensors > pycall.MAX_TENSORS:
        return Served(explanation, checked, checked, False, tally, kernel)
    call = native.plan(
        explanation.op,
        _doc(explanation, inputs),
        inputs,
        checked.outputs,
        kernel=kernel.described(tally.address, expected_seconds > RELEASE_SECONDS),
        keep=(kernel, tally),
        empty=np.empty if align <= _MALLOC_ALIGNMENT else partial(empty, align=align),
        fallback=checked,
        bound=bound,
    )
    return Served(explanation, call, checked, True, tally, kernel)


def serve_numpy(explanation: Explanation, workload: Workload, tally: Tally, check: RangeCheck | None = None) -> Served:
    """A workload answered without a kernel, with the usual checks of arguments."""
    run = with_check(check, numpy_fallback.runner(workload)[0])
    op, inputs, outputs = workload.op, workload.inputs, workload.outputs

    def bind(held: Mapping[int, Array]) -> Callable[..., Any]:
        return Checked(op, rest(inputs), outputs, lambda given, outs: run(merged(held, given), outs), tally=tally)

    checked = Checked(op, inputs, outputs, run, tally=tally)
    call = ConstantPlan(checked, bind) if any(s.constant for s in inputs) else checked
    return Served(explanation, call, checked, False, tally)


def _doc(explanation: Explanation, inputs: Sequence[TensorSpec]) -> str:
    head = signature(explanation.op, inputs).replace(", out=", ", /, out=" if inputs else "out=")
    shown = ", ".join(f"{s.name} {s.shape} {s.dtype}" for s in inputs)
    # inspect.signature reads a first line of this form.
    return f"{head}\n--\n\n{explanation}\n\nTakes {shown}."
