"""Row programs (CUDA): stages over the same rows, fused into one kernel."""

from tilewright.kernels.templates.cuda_rows.template import CudaRows

__all__ = ["CudaRows"]
