"""The catalogue of example programs under labels, by which contract tests and benchmarks select them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.core import UsageError
from tilewright.errors import nearest
from tilewright.kernels.expression.program import Program

Build = Callable[[], Program]

CATALOGUE: dict[str, dict[str, Build]] = {}
"""Builders of programs by label and name. A program may have several labels."""


def enter(label: str, programs: Mapping[str, Build]) -> None:
    """Enters programs under a label. Raises ``UsageError`` if the label has a program of an equal name."""
    known = CATALOGUE.setdefault(label, {})
    if taken := known.keys() & programs.keys():
        raise UsageError(f"the label {label!r} has a program {min(taken)!r} already", "Choose another name")
    known.update(programs)


def examples(*labels: str) -> dict[str, Build]:
    """The programs with any of ``labels``, by name. If two labels have a name, the last label's program counts.

    Raises ``UsageError`` for an unknown label.
    """
    if unknown := [label for label in labels if label not in CATALOGUE]:
        raise UsageError(
            f"no program has the label {unknown[0]!r}", f"{nearest(unknown[0], CATALOGUE)}Import its module"
        )
    return {name: build for label in labels for name, build in CATALOGUE[label].items()}
