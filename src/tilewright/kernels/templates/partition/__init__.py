"""Programs in pieces: contiguous runs of stages, each computed by another template's kernel."""

from tilewright.kernels.templates.partition.template import CpuPartition, CudaPartition

__all__ = ["CpuPartition", "CudaPartition"]
