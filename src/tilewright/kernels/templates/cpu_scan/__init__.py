"""The CPU template of scans along one axis, fused with their producers and consumers.

The state stays in registers or in the first-level cache.
"""
