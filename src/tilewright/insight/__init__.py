"""Analysis of stored trials: curves, failures, calibration, importance, rooflines, comparisons, explanations."""
