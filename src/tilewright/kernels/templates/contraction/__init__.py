"""Contractions on a CPU: matmuls, convolutions by packing, distances, any two-sided reduction.

``match`` recognises one and names its axes (outer, M, N, K) and sides (A, B); ``space`` spans the
schedules and picks a default; ``geometry`` derives every size from a schedule; ``micro`` prints the
register tile, ``packing`` the copies of operand blocks (im2col happens there), ``store`` what is
done to finished sums; ``lower`` puts the blocking loops around them; ``nests`` describes the result.
"""

from tilewright.kernels.templates.contraction.template import CpuContraction

__all__ = ["CpuContraction"]
