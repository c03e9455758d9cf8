"""Products of 16-bit reals and of 8-bit whole numbers on a CPU, summed in float32 or int32.

``match`` recognises a product and its operands. ``space`` spans the search space, picks the default schedule, and makes
the plan of a contraction, which :mod:`tilewright.kernels.templates.cpu_contraction` prints. The kinds in its ``kinds``
name the instructions: dot products of bfloat16 pairs and of byte quads where the target has them, else multiply-adds
of widened values.
"""
