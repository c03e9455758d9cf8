"""Answers without a kernel: NumPy's functions, or the interpreter for a user's operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.core import IMPLICIT, Workload
from tilewright.forking import steady
from tilewright.kernels.operators import find_numpy
from tilewright.runtime.checked import Run

Array = np.ndarray[Any, Any]

DIRECT: dict[str, Callable[..., Any]] = {"matmul": np.matmul, "batch_matmul": np.matmul}
"""Operators that, without attributes, are a single NumPy function with an ``out`` argument."""


def runner(workload: Workload) -> tuple[Run, str]:
    """A function that computes a workload into given outputs, and its name.

    The arrays must fit the workload, and no output may overlap another array.
    """
    plain = all(v == dict(workload.defaults).get(k, v) for k, v in workload.params if k not in IMPLICIT)
    plain = plain and workload.output.dtype in ("float32", "float64") and workload.precision == "ieee"
    run = find_numpy(workload)
    function = DIRECT.get(workload.op)
    if run is not None and function is not None and plain:

        def direct(inputs: Sequence[Array], outs: Sequence[Array]) -> None:
            function(*inputs, out=outs[0])

        return direct, "numpy"
    if run is not None:

        def by_numpy(inputs: Sequence[Array], outs: Sequence[Array]) -> None:
            found = run(*inputs)
            for out, value in zip(outs, found if len(outs) > 1 else [found], strict=True):
                np.copyto(out, value, casting="unsafe")

        return by_numpy, "numpy"

    with steady:
        from tilewright.kernels.expression.expr import BITS
        from tilewright.kernels.expression.numerics import encode
        from tilewright.kernels.expression.program import Program
        from tilewright.kernels.reference import evaluate

    program = Program.loads(workload.program)

    def interpret(inputs: Sequence[Array], outs: Sequence[Array]) -> None:
        for one, out in zip(program.of_each(), outs, strict=True):
            value = evaluate(one, inputs)
            if one.output.dtype in BITS:
                value = encode(value, one.output.dtype)
            np.copyto(out, value, casting="unsafe")

    return interpret, "the interpreter"
