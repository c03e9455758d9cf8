"""Arrays on a GPU of any framework: CuPy, PyTorch, or any object with ``__cuda_array_interface__``.

A framework is only looked up in ``sys.modules``: its arrays cannot exist before its import, and
importing it here would cost seconds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewright.backends.arrays import LOOKS, NOWHERE, TORCH_DEVICES, Face, GpuArray, Look, dense, gradient_error
from tilewright.core import TensorSpec
from tilewright.dtypes import DTYPES, numpy_dtype

TORCH_DTYPES = tuple(d.name for d in DTYPES.values() if d.gpu)


def backend_of(a: object) -> str | None:
    """The backend whose device memory holds an array, or ``None``; fast, and imports nothing."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return "cuda" if a.is_cuda else TORCH_DEVICES.get(a.device.type)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(a, cupy.ndarray):
        return "cuda"
    # The type is not enough: all of JAX's arrays have the attribute, but only those on a GPU a value.
    return "cuda" if not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__") else None


def view(a: Any) -> GpuArray:
    """The description of an array on a GPU. Raises ``TypeError`` for a dtype that no kernel takes."""
    address, _, stream, kind = LOOKS[type(a)](a)
    if kind is None:
        raise TypeError(f"a {type(a).__name__} is not an array on a GPU")
    shape, dtype, laid, writable, device = _described(kind)
    return GpuArray(int(address), shape, dtype, laid, writable, device, stream, kind[0], seen=kind)


def look_of(kind: type) -> Look:
    """The fastest inspection for arrays of a type; a kind begins with the framework's name."""
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return _look_at_tensors(torch)
    cupy = sys.modules.get("cupy")
    return _look_at_cupy(cupy) if cupy is not None and issubclass(kind, cupy.ndarray) else _look


def _look(a: Any) -> Face:
    face = getattr(a, "__cuda_array_interface__", None)
    if face is None:
        return NOWHERE
    address, read_only = face["data"]
    strides = face.get("strides")
    stream = face.get("stream")
    # Version 3 of the interface: stream 1 is the legacy default stream, which is also 0; None means no stream.
    stream = 0 if stream is None or stream == 1 else int(stream)
    laid = None if strides is None else tuple(strides)
    return address, address, stream, ("other", tuple(face["shape"]), face["typestr"], laid, read_only)


def _look_at_cupy(cupy: Any) -> Look:
    current = cupy.cuda.get_current_stream

    def look(a: Any) -> Face:
        data = a.data
        kind = ("cupy", a.shape, a.dtype, a.strides, data.device_id)
        return data.ptr, data.ptr, current().ptr, kind

    return look


def _look_at_tensors(torch: Any) -> Look:
    # The function of torch.compile's launchers; torch.cuda.current_stream makes an object each time.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    current = raw or (lambda device: torch.cuda.current_stream(device).cuda_stream)
    recording = torch.is_grad_enabled

    def look(a: Any) -> Face:
        if a.is_cuda:
            device = a.get_device()
            stream = current(device)
        else:
            device = a.device
            if device.type not in TORCH_DEVICES:
                return NOWHERE
            stream = torch.accelerator.current_stream(device).native_handle
        address = a.data_ptr()
        recorded = a.requires_grad and recording()
        kind = ("torch", a.shape, a.dtype, a.stride(), device, recorded, a.is_neg())
        return address, address, stream, kind

    return look


def _described(kind: Any) -> tuple[tuple[int, ...], str, bool, bool, int | None]:
    """Shape, dtype, whether the array is dense, whether it is writable, and its device, from its kind."""
    maker, shape, dtype, strides, *more = kind
    shape = tuple(int(n) for n in shape)
    if maker == "torch":
        device, recorded, lazy = more
        if recorded:
            raise gradient_error("a tensor")
        if lazy:
            raise TypeError("a tensor is negated lazily. Pass its resolve_neg()")
        name = str(dtype).removeprefix("torch.")
        if name not in TORCH_DTYPES:
            raise TypeError(f"no kernel takes arrays of {dtype}. Convert it with .to() first")
        return shape, name, dense(shape, strides, 1), True, getattr(device, "index", device)
    dtype = np.dtype(dtype)
    laid = dense(shape, strides, dtype.itemsize)
    if maker == "cupy":
        return shape, dtype.name, laid, True, more[0]
    return shape, dtype.name, laid, not more[0], None


def make_output(like: Any, spec: TensorSpec) -> Any:
    """A new array of ``spec`` on the device of ``like``, by the framework that made ``like``.

    Raises ``TypeError`` for an array of another framework: the caller must pass ``out``.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=like.device)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(like, cupy.ndarray):
        with cupy.cuda.Device(like.device.id):
            return cupy.empty(spec.shape, dtype=numpy_dtype(spec.dtype))
    raise TypeError(f"an output cannot be made for a {type(like).__name__}. Pass out=")


def lends_scratch(like: Any) -> bool:
    """Whether the framework that made ``like`` allocates memory in stream order."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    made_by_torch = torch is not None and isinstance(like, torch.Tensor)
    return made_by_torch or (cupy is not None and isinstance(like, cupy.ndarray))


def captured(like: Any) -> bool:
    """Whether the current stream is being captured into a graph of PyTorch, which then also owns its memory. CuPy's
    allocator does not support graphs."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(like, torch.Tensor):
        return False
    if not like.is_cuda:
        return bool(torch.accelerator.current_stream(like.device).is_capturing())
    with torch.cuda.device_of(like):
        return bool(torch.cuda.is_current_stream_capturing())


def make_scratch(like: Any, size: int) -> tuple[Any, int]:
    """``size`` bytes of scratch memory in the order of the current stream: owner and address.

    The frameworks' allocators reuse memory in stream order, so the owner may be dropped as soon
    as the launch is queued.
    """
    made = make_output(like, TensorSpec("workspace", (size,), "uint8"))
    return made, view(made).address
