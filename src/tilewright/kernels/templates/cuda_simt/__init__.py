"""Contractions on a GPU's ordinary arithmetic units, for any dtype and any body."""

from tilewright.kernels.templates.cuda_simt.template import CudaSimt

__all__ = ["CudaSimt"]
