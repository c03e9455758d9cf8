"""Maps PyTorch's devices to the devices for which kernels are looked up."""

from __future__ import annotations

import torch

from tilewright.backends.arrays import TORCH_DEVICES
from tilewright.runtime.gpu import DeviceKey


def place_of(device: torch.device) -> DeviceKey | None:
    """The device key for a tensor's device that :func:`has_kernels`; ``None`` for the processor."""
    return None if device.type == "cpu" else (TORCH_DEVICES[device.type], device.index or 0)


def has_kernels(device: torch.device) -> bool:
    """Whether kernels can run in the memory of a device."""
    return device.type == "cpu" or device.type in TORCH_DEVICES
