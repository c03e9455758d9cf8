"""Timing candidates in an isolated child, each checked first (docs/measurement.md)."""
