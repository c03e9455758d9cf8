"""Contractions on a GPU's ordinary arithmetic units, for any dtype and any body."""
