"""Attention on a GPU: softmax(Q K^T) V in one pass over the keys, without storing the scores.

``match`` says which programs, and on which units; ``space`` which schedules; ``geometry`` holds the sizes that
follow; ``text`` prints what both kernels share: positions, scores, masks, the result; ``mma`` is the kernel for
Tensor Cores, ``simt`` the one for ordinary units.
"""
