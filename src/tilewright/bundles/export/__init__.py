"""Exports bundles for programs without Tilewright: a C library with its header, and a wheel that needs only NumPy."""
