"""Runners and builders: what a farm's machines run."""
