"""Grouped contractions on GPUs: a product's kernel whose tiles hold rows of one group, sorted by a first launch."""
