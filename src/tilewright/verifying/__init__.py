"""Verifies results: inputs, float64 references, and tolerances for rounding."""
