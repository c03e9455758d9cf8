"""PyTorch's devices as kernels are looked up for them."""

from __future__ import annotations

import torch

from tilewright.backends.arrays import TORCH_DEVICES
from tilewright.runtime.gpu import DeviceKey


def place_of(device: torch.device) -> DeviceKey | None:
    """Where kernels run for tensors on ``device``, one of :func:`has_kernels`; ``None`` is the processor."""
    return None if device.type == "cpu" else (TORCH_DEVICES[device.type], device.index or 0)


def has_kernels(device: torch.device) -> bool:
    """Whether kernels run in the memory of a device."""
    return device.type == "cpu" or device.type in TORCH_DEVICES
