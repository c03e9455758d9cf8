"""The template of row programs (CPU): softmax, norms, and reductions of trailing axes."""

from tilewright.kernels.templates.rows.template import CpuRows

__all__ = ["CpuRows"]
