"""Reads the modules that a process imported, for tests that frequent start-ups stay light."""

from __future__ import annotations


def imported(said: str) -> set[str]:
    """The modules that ``python -X importtime`` names on stderr."""
    return {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
