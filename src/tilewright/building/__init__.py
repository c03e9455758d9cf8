"""Builds candidates into artifacts: printed, compiled, cached (docs/measurement.md)."""
