"""Every operator's example and every unusual program of these tests, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import attention_programs
import complex_programs
import convolution_programs
import cuda_attention_programs
import grouped_programs
import map_programs
import neighbour_programs
import partition_programs
import recurrence_programs
import recurrent_programs
import row_programs
import scatter_programs
import short_programs
import stencil_programs
import triangle_programs
import winograd_programs

from harness import gpu_programs
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.testing import contractions, programs

_SETS: dict[str, dict[str, Callable[[], Program]]] = {
    "language": programs.PROGRAMS,
    "contraction": contractions.CONTRACTIONS,
    "convolution": convolution_programs.FORMS,
    "complex": complex_programs.PROGRAMS,
    "attention": attention_programs.PROGRAMS,
    "half attention": cuda_attention_programs.HALVES,
    "window": stencil_programs.PROGRAMS,
    "window on GPUs": gpu_programs.WINDOWS,
    "rows": row_programs.ROWS,
    "rows on GPUs": gpu_programs.ROWS,
    "map": map_programs.PROGRAMS,
    "short axes": short_programs.PROGRAMS,
    "map on GPUs": gpu_programs.MAPS,
    "neighbours": neighbour_programs.PROGRAMS,
    "partition": partition_programs.PROGRAMS,
    "tiled": winograd_programs.WINOGRAD,
    "triangle": triangle_programs.PROGRAMS,
    "recurrence": recurrence_programs.PROGRAMS,
    "recurrent": recurrent_programs.PROGRAMS,
    "grouped": grouped_programs.PROGRAMS,
    "scatter": scatter_programs.PROGRAMS,
}


@cache
def every_program() -> Mapping[str, Program]:
    """Names and programs."""
    found = {f"{kind} {name}": make() for kind, makers in _SETS.items() for name, make in makers.items()}
    for name in OPERATORS:
        operator = get_operator(name)
        if operator.example:
            found[f"operator {name}"] = Program.loads(operator.workload(**operator.example).program)
    return found
