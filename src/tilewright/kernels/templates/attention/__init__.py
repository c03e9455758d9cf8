"""Attention on the CPU: softmax(Q K^T) V in one pass over the keys, without storing the scores."""

from tilewright.kernels.templates.attention.template import CpuAttention

__all__ = ["CpuAttention"]
