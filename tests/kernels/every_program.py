"""Every operator's example and every program of the catalogue, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.testing.catalogue import CATALOGUE

for module in ("harness.gpu_programs", "tilewright.testing.contractions"):
    import_module(module)
for file in sorted(Path(__file__).parent.glob("*_programs.py")):
    import_module(file.stem)


@cache
def every_program() -> Mapping[str, Program]:
    """Names and programs."""
    found = {f"{label} {name}": make() for label, makers in CATALOGUE.items() for name, make in makers.items()}
    for name in OPERATORS:
        operator = get_operator(name)
        if operator.example:
            found[f"operator {name}"] = Program.loads(operator.workload(**operator.example).program)
    return found
