"""Device functions that take only the parameters that they use, so that a kernel prints no unused ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.text import STORAGE


def pointers(program: Program) -> dict[str, str]:
    """Parameter declarations of a program's inputs and of its symbolic size, by name."""
    found = {t.name: f"const {STORAGE[t.dtype]} *{t.name}" for t in program.inputs}
    return found | {n: f"int {n}" for n in sizes.arguments(program)}


@dataclass(frozen=True)
class Function:
    """A function of a kernel's namespace.

    ``parameters``: possible parameter declarations by name; the function takes the parameters named in ``used``.
    """

    name: str
    returns: str
    parameters: Mapping[str, str]
    body: str
    used: Collection[str]

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the parameters that the function takes."""
        return tuple(n for n in self.parameters if n in self.used)

    def define(self) -> str:
        """Text of the function's definition."""
        taken = ", ".join(self.parameters[n] for n in self.taken)
        return f"TW_DEVICE {self.returns} {self.name}({taken}) {{\n{self.body}}}\n"

    def call(self, **values: str) -> str:
        """Text of a call; a parameter without a value here is passed under its own name."""
        return f"{self.name}({', '.join(values.get(n, n) for n in self.taken)})"
