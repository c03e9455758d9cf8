"""Programs without reductions (CUDA): vectors of elements, and tiles through shared memory where axes change places."""

from tilewright.kernels.templates.cuda_map.template import CudaMap

__all__ = ["CudaMap"]
