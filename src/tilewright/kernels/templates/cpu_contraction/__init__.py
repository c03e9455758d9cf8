"""Contractions on a CPU: matmuls, convolutions of every kind, distances, any two-sided reduction.

``match`` recognises one (after the rewrites of ``kernels.rewrite``) and names its axes (outer, M, N, K) and sides
(A, B); ``window`` says how a guarded read is made without its guard, from a padded copy or by skipping; ``space``
spans the schedules and ``defaults`` picks one; ``geometry`` derives every size and loop from a schedule.
Printing: ``micro`` the register tile, ``clip`` its bounds where steps are skipped, ``packing`` the copies of operand
blocks (im2col happens there), ``prepack`` the panels of constant operands, ``image`` padded copies, ``store`` what
is done to finished sums, ``text`` what these share; ``lower`` puts the blocking loops around them; ``kernel``
states loops, static features, launch and workspace, and prints the entry point. ``steps`` is the micro kernel of
elements in the type of the sums; of narrower ones (:mod:`tilewright.kernels.templates.cpu_dot`) ``kinds`` names the
instruction, ``unit_steps`` prints it, and ``unit_packing`` weaves operands into the units that it takes.
"""
