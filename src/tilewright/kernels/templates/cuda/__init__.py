"""What the CUDA templates share: matching, operands, epilogues, tile order, split-K, static numbers.

``match`` recognises a contraction, ``operand`` says how a side is read, ``epilogue`` what happens to
finished values, ``raster`` which tile a block computes, ``splitk`` how partial results are merged,
``static`` what is known of a schedule before it is compiled, ``text`` the C++ of index arithmetic
and values.
"""
