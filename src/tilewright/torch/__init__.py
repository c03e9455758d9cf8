"""Tilewright for PyTorch: operators with gradients, and a backend of ``torch.compile``, both served by tuned kernels.

Importing it imports PyTorch (2.4 or newer) and defines ``torch.ops.tilewright``.
"""

from __future__ import annotations

from tilewright.torch.operators import register
from tilewright.torch.optimize import optimize
from tilewright.torch.placed import KERNEL
from tilewright.torch.serving import library, use

register(KERNEL)

__all__ = ["library", "optimize", "use"]
