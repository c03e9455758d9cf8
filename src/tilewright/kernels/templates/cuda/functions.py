"""Device functions that take only what they read, so that a kernel prints neither unused parameters nor values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.text import STORAGE


def pointers(program: Program) -> dict[str, str]:
    """Declarations of a program's inputs, and of the size that calls choose, as parameters, by name."""
    found = {t.name: f"const {STORAGE[t.dtype]} *{t.name}" for t in program.inputs}
    return found | {n: f"int {n}" for n in sizes.arguments(program)}


@dataclass(frozen=True)
class Function:
    """A function of a kernel's namespace: of its ``parameters``, declarations by name, it takes the ``used`` ones."""

    name: str
    returns: str
    parameters: Mapping[str, str]
    body: str
    used: Collection[str]

    @property
    def taken(self) -> tuple[str, ...]:
        """Names of the parameters that it has."""
        return tuple(n for n in self.parameters if n in self.used)

    def define(self) -> str:
        """Its definition."""
        taken = ", ".join(self.parameters[n] for n in self.taken)
        return f"TW_DEVICE {self.returns} {self.name}({taken}) {{\n{self.body}}}\n"

    def call(self, **values: str) -> str:
        """Text of a call; parameters without a value here have their own names in the caller too."""
        return f"{self.name}({', '.join(values.get(n, n) for n in self.taken)})"
