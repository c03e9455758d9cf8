"""Symbolic sizes in kernels whose tasks get a context structure ``x``."""

from __future__ import annotations

from tilewright.kernels.expression.program import Program


def context_sizes(program: Program, end: str = "") -> str:
    """Declarations that read the symbolic sizes from the context, each followed by ``end``."""
    return "".join(f" const long {name}=x->{name}; (void){name};{end}" for name in program.size_arguments)
