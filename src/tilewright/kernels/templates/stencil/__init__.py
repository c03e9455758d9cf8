"""Windowed reductions (CPU): depthwise convolution, pooling."""

from tilewright.kernels.templates.stencil.template import CpuStencil

__all__ = ["CpuStencil"]
