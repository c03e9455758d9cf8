"""Attention on a GPU: softmax(Q K^T) V in one pass over the keys, without storing the scores.

``match`` selects programs and their units, and ``space`` spans the schedules. ``geometry`` derives sizes from a
schedule. ``text`` prints what all kernels share: positions, scores, masks, the result. ``simt`` is the kernel for CUDA
cores. ``mma`` and ``wgmma`` are the kernels for Tensor Cores, by warps and by warp groups; both use ``softmax``.
``boxes`` describes operands that TMA can copy for ``wgmma``. ``pack`` turns heads that share keys into queries of one
head. ``merge`` sums splits of the keys.
"""
