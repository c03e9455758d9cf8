"""Contractions on a GPU's CUDA cores, for any dtype and any body."""
