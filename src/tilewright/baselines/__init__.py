"""Tuned kernels beside other libraries: paired comparisons in processes of their own."""
