"""Helpers that several tests and benchmarks share: simulated farms and their faults, a filled database, GPU
programs."""
