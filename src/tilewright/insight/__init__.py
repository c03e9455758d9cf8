"""What stored trials say: curves, failures, calibration, importance, rooflines, comparisons, explanations."""
