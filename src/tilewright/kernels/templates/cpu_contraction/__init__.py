"""Contractions on a CPU: matmuls, convolutions of every kind, distances, any two-sided reduction.

Matching and search: ``match`` recognises a contraction (after the rewrites of ``kernels.rewrite``) and names its axes
(outer, M, N, K) and sides (A, B). ``window`` replaces the guard of a read by a padded copy or by skipped steps.
``space`` spans the search space and ``defaults`` picks the default schedule. ``geometry`` derives every size and loop
from a schedule.

Printing: ``micro`` prints the register tile, and ``clip`` its bounds where steps are skipped. ``packing`` copies
operand blocks (with im2col), ``prepack`` packs constant operands once, and ``image`` makes padded copies.
``valid_length`` and ``triangle`` skip steps of zeros, and ``finite`` checks the operands for them. ``store`` prints the
epilogue, and ``text`` holds C text that several modules share. ``lower`` prints the blocking loops. ``kernel`` states
loops, static features, launch and workspace, and prints the entry point.

``steps`` is the micro kernel for elements in the type of the sums. For narrower elements
(:mod:`tilewright.kernels.templates.cpu_dot`), ``kinds`` names the instruction, ``unit_steps`` prints it, and
``unit_packing`` interleaves operands into the units that the instruction takes.
"""
