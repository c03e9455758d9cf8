"""Sizes that calls choose, in kernels whose tasks are given a structure ``x``, the context."""

from __future__ import annotations

from tilewright.kernels.expression.program import Program


def context_sizes(program: Program, end: str = "") -> str:
    """Declarations of the sizes, which the context has, each followed by ``end``."""
    return "".join(f" const long {name}=x->{name}; (void){name};{end}" for name in program.size_arguments)
