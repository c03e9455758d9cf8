"""Programs without reductions (CPU): elementwise chains, permutations, index maps, gathers."""

from tilewright.kernels.templates.map.template import CpuMap

__all__ = ["CpuMap"]
