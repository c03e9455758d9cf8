"""From candidates to artifacts: printed, compiled, kept (docs/measurement.md)."""
