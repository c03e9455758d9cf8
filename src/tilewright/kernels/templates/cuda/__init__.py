"""What the CUDA templates share: matching, operands, epilogues, tile order, split-K, static numbers, grids, vectors.

``match`` recognises a contraction, ``operand`` says how a side is read, ``epilogue`` what happens to
finished values, ``raster`` which tile a block computes, ``splitk`` how partial results are merged,
``static`` what is known of a schedule before it is compiled, ``sizes`` what follows from a size that
calls choose, ``text`` the C++ of index arithmetic and values, ``functions`` that of device functions. For
kernels without tiles of K, ``grid`` deals outputs to threads, as loops and as text, ``runs`` says which
accesses hold several neighbours, and ``vectors`` prints what a thread does with these.
"""
