"""Products of 16-bit reals and of 8-bit whole numbers on a CPU, summed in float32 or int32.

``match`` recognises one; ``kinds`` names the instructions that compute it (dot products of bfloat16
pairs and of byte quads where the target has them, multiply-adds of widened values elsewhere); ``space``
spans the schedules; ``packing`` brings operands into the units that the instructions take, ``micro``
prints the register tile, ``store`` what is done to finished sums, ``lower`` the loops around them;
``nests`` describes the result.
"""
