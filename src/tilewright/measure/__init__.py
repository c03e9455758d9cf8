"""Building, checking and timing candidates (docs/measurement.md)."""
