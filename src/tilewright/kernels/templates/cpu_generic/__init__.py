"""The generic CPU template, which computes every program with a loop nest for each stage."""
