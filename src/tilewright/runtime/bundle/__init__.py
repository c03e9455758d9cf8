"""Reads bundles: one signed, immutable file of kernels (docs/bundles.md)."""
