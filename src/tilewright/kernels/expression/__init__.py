"""The expression language: nodes, programs of stages, bounds of indices, and NumPy's representation of values."""
