"""Attention on a GPU: softmax(Q K^T) V in one pass over the keys, without storing the scores.

``match`` says which programs, and on which units; ``space`` which schedules; ``geometry`` holds the sizes that
follow; ``text`` prints what all kernels share: positions, scores, masks, the result; ``simt`` is the kernel for
ordinary units, ``mma`` and ``wgmma`` those for Tensor Cores, by warps and by warp groups, which share ``softmax``;
``boxes`` says what the copy engine can fetch for the latter. ``pack`` makes heads that share keys queries of one;
``merge`` sums parts.
"""
