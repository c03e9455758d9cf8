"""The expression language: nodes, programs of stages, what indices reach, and values as NumPy holds them."""
