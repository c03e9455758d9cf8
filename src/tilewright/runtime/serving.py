"""From a kernel to something to call: a builtin where this interpreter allows it, else a checked call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core import TensorSpec, Workload
from tilewright.runtime import numpy_fallback, pycall
from tilewright.runtime.checked import Checked, empty, signature, storage
from tilewright.runtime.explain import Explanation
from tilewright.runtime.stats import Counters

if TYPE_CHECKING:
    from tilewright.backends.cpu.loader import LoadedKernel

Array = np.ndarray[Any, Any]

RELEASE_SECONDS = 20e-6
"""Kernels expected to take longer let other Python threads run meanwhile."""

_MALLOC_ALIGNMENT = 16  # bytes, of what numpy.empty returns


@dataclass(frozen=True)
class Served:
    """An answer for fixed parameters.

    ``call``: what users get, ``(inputs..., out=None)``. ``checked``: the same, slower, with errors
    by reason. ``native``: whether ``call`` is a builtin that a dispatcher's table takes.
    """

    explanation: Explanation
    call: Callable[..., Array]
    checked: Checked
    native: bool


def serve_kernel(
    explanation: Explanation,
    inputs: Sequence[TensorSpec],
    output: TensorSpec,
    kernel: LoadedKernel,
    expected_seconds: float,
    counters: Counters,
) -> Served:
    """A loaded kernel as a callable; it keeps the kernel's library loaded."""
    from tilewright.backends.cpu.loader import process_host

    align = kernel.program.align

    def run(arrays: Sequence[Array], out: Array) -> None:
        kernel.run([a.__array_interface__["data"][0] for a in (*arrays, out)])

    name = explanation.op
    checked = Checked(name, inputs, output, run, align=align, tier=explanation.tier, counters=counters)
    native = pycall.builtins_in(process_host().handle._handle) or pycall.builtins_in(kernel.library.handle._handle)
    tensors = [pycall.Tensor(s.shape, storage(s.dtype)) for s in (*inputs, output)]
    if native is None or len(tensors) > pycall.MAX_TENSORS:
        return Served(explanation, checked, checked, False)
    # The array of launches lives in the kernel object; the plan copies it and keeps the object.
    launches: ctypes.Array[Any] = kernel._launches
    call = native.plan(
        name,
        _doc(explanation, inputs),
        tensors[:-1],
        tensors[-1],
        launches=len(launches),
        launch=ctypes.addressof(launches),
        workspace=kernel.workspace_bytes,
        zero_fill=kernel.zero_fill,
        align=align,
        release=expected_seconds > RELEASE_SECONDS,
        env=kernel._env,
        served=counters.address(explanation.tier),
        keep=(kernel, counters),
        empty=np.empty if align <= _MALLOC_ALIGNMENT else partial(empty, align=align),
        fallback=checked,
    )
    return Served(explanation, call, checked, True)


def serve_numpy(explanation: Explanation, workload: Workload, counters: Counters) -> Served:
    """A workload answered without a kernel, with the same checks of its arguments."""
    run, _ = numpy_fallback.runner(workload)
    checked = Checked(workload.op, workload.inputs, workload.output, run, tier=explanation.tier, counters=counters)
    return Served(explanation, checked, checked, False)


def _doc(explanation: Explanation, inputs: Sequence[TensorSpec]) -> str:
    head = signature(explanation.op, inputs).replace(", out=", ", /, out=" if inputs else "out=")
    shown = ", ".join(f"{s.name} {s.shape} {s.dtype}" for s in inputs)
    # The first line in this form is what inspect.signature reads.
    return f"{head}\n--\n\n{explanation}\n\nTakes {shown}."
