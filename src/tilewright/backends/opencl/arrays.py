"""Arrays of pyopencl: in a buffer or in shared virtual memory, each with its own queue."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.backends.arrays import GpuArray, dense
from tilewright.core import TensorSpec
from tilewright.dtypes import numpy_dtype


def backend_of(a: object) -> str | None:
    """``opencl`` for an array of pyopencl, ``None`` for any other argument."""
    module = sys.modules.get("pyopencl.array")
    return "opencl" if module is not None and isinstance(a, module.Array) else None


def view(a: Any) -> GpuArray:
    """The array's description. A slice of a buffer becomes a sub-buffer, which must be aligned."""
    if a.queue is None:
        raise TypeError("the array has no queue. Give it one: with_queue(queue)")
    offset, handle = int(a.offset), a.base_data
    address = getattr(handle, "svm_ptr", None)
    if address is not None:
        where, base, handle = int(address) + offset, None, None
    else:
        where, base = offset, handle.int_ptr
        handle = handle.get_sub_region(offset, a.nbytes) if offset else handle
    return GpuArray(
        where, tuple(int(n) for n in a.shape), np.dtype(a.dtype).name, dense(a.shape, a.strides, a.dtype.itemsize),
        True, a.context, a.queue, "pyopencl", base, handle,
    )  # fmt: skip


def make_output(like: Any, spec: TensorSpec) -> Any:
    """A new array in the context of ``like``."""
    return sys.modules["pyopencl.array"].empty(like.queue, spec.shape, numpy_dtype(spec.dtype))


def captured(like: Any) -> bool:
    """``False``: OpenCL has no graphs."""
    return False


def lends_scratch(like: Any) -> bool:
    """``False``: its memory is not freed in the order of the queue."""
    return False
