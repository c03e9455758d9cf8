"""Grouped contractions on the CPU: rows brought together by group, each group computed by a contraction's kernel."""
