"""Scatters (CPU): the sources are walked once, into the result or into private copies of it."""
