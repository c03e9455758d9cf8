"""Static features of CPU kernels as plain numbers."""

from __future__ import annotations

from typing import Any

from tilewright.kernels.kernel.static import STATIC, CpuStatic

__all__ = ["STATIC", "numbers"]


def numbers(**known: Any) -> dict[str, float]:
    """The numbers of :data:`STATIC`, in order."""
    return CpuStatic(**known).numbers()
