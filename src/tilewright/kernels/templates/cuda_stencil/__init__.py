"""Windowed reductions without a shared axis (CUDA): depthwise convolution, pooling."""

from tilewright.kernels.templates.cuda_stencil.template import CudaStencil

__all__ = ["CudaStencil"]
