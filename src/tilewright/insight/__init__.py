"""What stored trials say: curves, failures, calibration, importance, rooflines and comparisons, as values to draw."""
