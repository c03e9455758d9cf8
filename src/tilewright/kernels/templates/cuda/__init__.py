"""Code that the CUDA templates share: matching, operands, epilogues, raster order, split-K, static features, grids.

For contractions: ``match`` recognises one, ``operand`` describes the reads of a side, ``epilogue`` prints the work on
finished sums. ``raster`` maps blocks to tiles, ``splitk`` merges partial results. ``static`` computes features of a
schedule before it is compiled. ``sizes`` turns symbolic sizes into expressions of launch arguments. ``text`` prints
index arithmetic and values, ``functions`` prints device functions. For kernels without tiles of K: ``grid`` maps
outputs to threads, as loops and as text; ``runs`` finds vectorisable accesses; ``vectors`` prints vector accesses.
"""
