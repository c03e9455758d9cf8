"""Operators made from a program's text, such as groups of a model's operations, which no operator file defines."""

from __future__ import annotations

import json
import re

from tilewright.core import OperatorError, Workload
from tilewright.dtypes import DTYPES
from tilewright.kernels import te
from tilewright.kernels.expression.expr import Expr, load
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator, as_workload
from tilewright.kernels.parameters import Kind, Parameter
from tilewright.kernels.te.tensors import Definition


def from_program(name: str, text: str) -> Operator:
    """An operator without sizes whose only workload is the program ``text`` (``Program.dumps``), inputs ``x0, x1,
    ...``.

    Raises ``OperatorError`` for a text that is not a program.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise OperatorError(f"{name!r} is not an operator's name", "Letters, digits and _ make one")
    try:
        program = Program.from_json(json.loads(text))
        stated = bool(program.stages) and stating(program) is not None
    except OperatorError:
        raise
    except Exception as error:  # a damaged text fails in many ways
        raise OperatorError(f"the program of {name} is damaged ({type(error).__name__}: {error})", _MEND) from error
    if not stated:
        raise OperatorError(f"the program of {name} has no stages", _MEND)
    dtype = _dtype(program)
    parameters = (Parameter("dtype", Kind.STR, dtype, tuple(DTYPES)), Parameter("constant", Kind.STR, ""))
    return Operator(name, lambda: stating(program), parameters, (dtype,))


def program_workload(name: str, program: Program) -> Workload:
    """Equals the workload of ``from_program(name, program.dumps())``; ``program`` must be normalised by
    ``te.trace``."""
    attributes = {"dtype": _dtype(program), "constant": ""}
    return as_workload(name, attributes, attributes, program, [t.name for t in program.inputs])


def _dtype(program: Program) -> str:
    return next((t.dtype for t in program.inputs if t.dtype.startswith(("float", "bfloat"))), "float32")


_MEND = "Extract the tasks again"


def stating(program: Program) -> te.TensorRef | tuple[te.TensorRef, ...]:
    """The ``te`` expression of a normalised program; tracing it yields the program again."""
    refs = {t.name: te.input(t.name, t.shape, t.dtype, t.constant, t.low, t.high) for t in program.inputs}

    def named(e: Expr) -> Expr | None:
        return load(refs[str(e.value)], e.dtype, e.args) if e.op == "load" else None

    for s in program.stages:
        made = s.renamed(s.name, lambda e: e.map(named))
        definition = Definition(made.reduce, made.body, made.monoid, made.scan, made.step)
        refs[s.name] = te.TensorRef(s.name, s.extents, s.dtype, definition)
    outputs = tuple(refs[t.name] for t in program.outputs)
    return outputs if program.results else outputs[0]
