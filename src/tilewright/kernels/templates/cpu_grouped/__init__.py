"""Grouped contractions on the CPU: rows are gathered by group, and a contraction's kernel computes each group."""
