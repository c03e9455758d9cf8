"""Grouped contractions on GPUs: a first launch sorts rows by group, so each tile of the product has a single group."""
