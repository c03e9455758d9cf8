"""Arrays that live on a GPU, whoever made them: CuPy, PyTorch, or anything with ``__cuda_array_interface__``.

A framework is only ever looked up in ``sys.modules``: an array of it cannot exist unless it was
imported, and importing it here would cost seconds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.backends.arrays import GpuArray, dense, refuse_gradient
from tilewright.core import TensorSpec

TORCH_DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool",
)  # fmt: skip


def holds(a: object) -> bool:
    """Whether an argument is an array in a GPU's memory; cheap, and imports nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return bool(a.is_cuda)
    # The type alone does not tell: JAX's arrays have the attribute, and only those on a GPU its value.
    return not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__")


def view(a: Any) -> GpuArray:
    """The description of an array on a GPU. Raises ``TypeError`` for a dtype that no kernel takes."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return _torch_view(torch, a)
    face = a.__cuda_array_interface__
    cupy = sys.modules.get("cupy")
    is_cupy = cupy is not None and isinstance(a, cupy.ndarray)
    dtype = np.dtype(face["typestr"])
    shape = tuple(int(n) for n in face["shape"])
    address, read_only = face["data"]
    if is_cupy:
        device, stream = int(a.device.id), int(cupy.cuda.get_current_stream().ptr)  # type: ignore[union-attr]
    else:
        # Version 3 of the interface: 1 is the legacy default stream, which is also 0; none means none.
        device, stream = None, int(face.get("stream") or 0)
        stream = 0 if stream == 1 else stream
    return GpuArray(
        int(address), shape, dtype.name, dense(shape, face.get("strides"), dtype.itemsize), not read_only, device,
        stream, "cupy" if is_cupy else "other",
    )  # fmt: skip


def _torch_view(torch: Any, a: Any) -> GpuArray:
    refuse_gradient("a tensor", a)
    name = str(a.dtype).removeprefix("torch.")
    if name not in TORCH_DTYPES:
        raise TypeError(f"no kernel takes arrays of {a.dtype}. Convert it with .to() first")
    return GpuArray(
        int(a.data_ptr()), tuple(a.shape), name, bool(a.is_contiguous()), True, int(a.device.index or 0),
        int(torch.cuda.current_stream(a.device).cuda_stream), "torch",
    )  # fmt: skip


def make_output(like: Any, spec: TensorSpec) -> Any:
    """A new array of ``spec`` on the device of ``like``, by the framework that made ``like``.

    Raises ``TypeError`` for an array of another kind: its owner must pass ``out``.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=like.device)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(like, cupy.ndarray):
        dtype = "uint16" if spec.dtype == "bfloat16" else spec.dtype
        with cupy.cuda.Device(like.device.id):
            return cupy.empty(spec.shape, dtype=dtype)
    raise TypeError(f"an output cannot be made for a {type(like).__name__}. Pass out=")


def lends_scratch(like: Any) -> bool:
    """Whether the framework that made ``like`` allocates memory in stream order."""
    return view(like).maker != "other"


def make_scratch(like: Any, size: int) -> tuple[Any, int]:
    """``size`` bytes of scratch memory in the order of the current stream: its owner, and its address.

    The frameworks' own allocators reuse memory in stream order, so the owner may be dropped as soon
    as the launch is queued.
    """
    made = make_output(like, TensorSpec("workspace", (size,), "uint8"))
    return made, view(made).address
