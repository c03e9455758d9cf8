"""The generic template (CUDA): a kernel for every part of every program."""

from tilewright.kernels.templates.cuda_generic.template import CudaGeneric

__all__ = ["CudaGeneric"]
