"""Binds a user's kernel to a workload: an argument for each parameter, and the launch sizes as expressions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tilewright.core import UsageError, Value, Workload
from tilewright.errors import nearest
from tilewright.kernels.templates.user_kernel import source
from tilewright.kernels.templates.user_kernel.conditions import view
from tilewright.kernels.templates.user_kernel.expressions import Expression, NoValue, parse, parse_list
from tilewright.kernels.templates.user_kernel.kernel import UserKernel
from tilewright.kernels.templates.user_kernel.numbers import KINDS, Argument, is_narrow

_TYPED = re.compile(r"(int32|int64|float32|float64)\s*:\s*(.+)", re.DOTALL)


@dataclass(frozen=True)
class Binding:
    """A kernel bound to a workload: arguments, constraints and launch sizes.

    ``sizes``: the workload's integer parameters by name; true and false are 1 and 0.
    """

    sizes: Mapping[str, int]
    arguments: tuple[Argument, ...]
    constraints: tuple[Expression, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression | None
    returns_int: bool

    def names(self, knobs: Mapping[str, Value]) -> dict[str, Any]:
        """The names that expressions may read: sizes and values of knobs."""
        return {**self.sizes, **knobs}


def bind(kernel: UserKernel, workload: Workload, values: Mapping[str, Value]) -> Binding:
    """Bind a kernel to a workload. ``values``: values of the knobs that decide which code of the file is compiled.

    Raises ``UsageError`` that names the parameter or expression that does not fit.
    """
    if workload.more:
        raise UsageError(
            f"{workload.op} has {len(workload.outputs)} outputs, and a kernel of your own computes one",
            "Write an operator of each output, and a kernel for each",
        )
    sizes = {k: int(v) for k, v in workload.params if isinstance(v, int)}
    knobs = [name for name, _ in kernel.knobs]
    for name in knobs:
        if name in dict(workload.params):
            raise UsageError(
                f"{name} is a knob of {kernel.label} and a parameter of {workload.op}",
                "Rename the macro: sizes are given on their own",
            )
    known = (*knobs, *sizes)
    function = source.find(view(kernel.text, values), kernel.entry, kernel.label)
    if kernel.parameters:
        declared = None
        with suppress(UsageError):
            declared = source.parameters(function, kernel.label)
        arguments = _listed(kernel, workload, known, declared)
    else:
        numbers = sizes | {k: v for k, v in workload.params if isinstance(v, float)}
        arguments = _by_declaration(kernel, workload, source.parameters(function, kernel.label), numbers)
    for a in arguments:
        if a.kind.startswith("float") or (a.expression is not None and not set(a.expression.names) & set(knobs)):
            try:
                a.number(sizes)
            except NoValue as e:
                hint = "Declare the parameter with a larger type, or use other sizes"
                raise UsageError(f"{kernel.entry} in {kernel.label}: {e}", hint) from None
    constraints = tuple(parse(c, "constraint", known) for c in kernel.constraints)
    grid = parse_list(kernel.grid, "grid", known) if kernel.grid else ()
    block = parse_list(kernel.block, "block", known) if kernel.block else ()
    for name, sides in (("grid", grid), ("block", block)):
        if len(sides) > 3:
            raise UsageError(f"the {name} of {kernel.label} has {len(sides)} sides", "Give x, y and z at most")
    shared = parse(kernel.shared, "shared", known) if kernel.shared else None
    prefix = function.prefix.split()
    if kernel.kind == "cpu" and "void" not in prefix and "int" not in prefix:
        raise UsageError(
            f"{kernel.entry} in {kernel.label} returns {' '.join(prefix)}", "Return void, or int (0: done)"
        )
    return Binding(sizes, arguments, constraints, grid, block, shared, "void" not in prefix)


# --------------------------------------------------------------------------- by declaration


def _by_declaration(
    kernel: UserKernel,
    workload: Workload,
    declared: tuple[source.Parameter, ...],
    numbers: Mapping[str, int | float],
) -> tuple[Argument, ...]:
    places = _tensors(kernel, workload, [p for p in declared if p.pointer and not _is_env(p)])
    out: list[Argument] = []
    for p in declared:
        if _is_env(p):
            if kernel.kind != "cpu":
                raise UsageError(f"{p.name} of {kernel.entry} is a tw_env", "CUDA kernels get none")
            out.append(Argument("env", None))
        elif p.pointer:
            out.append(Argument("tensor", places[p.name]))
        else:
            out.append(_number(kernel, p, numbers))
    return tuple(out)


def _is_env(p: source.Parameter) -> bool:
    return p.pointer and p.type == "tw_env"


def _tensors(kernel: UserKernel, workload: Workload, pointers: list[source.Parameter]) -> dict[str, int]:
    """The tensor's number for each pointer: by name if all inputs' names occur, else by order."""
    inputs = [s.name for s in workload.inputs]
    shown = ", ".join([*inputs, "out"])
    if len(pointers) != len(inputs) + 1:
        raise UsageError(
            f"{kernel.entry} in {kernel.label} takes {len(pointers)} pointers, {workload.op} has {len(inputs) + 1} "
            f"tensors: {shown}",
            "Take a pointer to each input and to the output, or list what each parameter gets: --param",
        )
    names = [p.name for p in pointers]
    if set(inputs) < set(names):
        places = {n: inputs.index(n) if n in inputs else len(inputs) for n in names}
    else:
        writable = [p for p in pointers if not p.const]
        order = [p for p in pointers if p is not writable[0]] + writable if len(writable) == 1 else pointers
        places = {p.name: n for n, p in enumerate(order)}
    specs = [*workload.inputs, workload.output]
    for p in pointers:
        spec = specs[places[p.name]]
        fits = source.ELEMENTS.get(p.type)
        if fits is not None and spec.dtype not in fits:
            raise UsageError(
                f"{p.name} of {kernel.entry} points to {p.type}, and {spec.name} of {workload.op} is {spec.dtype}",
                "Change one of the two, or list what each parameter gets: --param",
            )
        if p.const and places[p.name] == len(inputs):
            raise UsageError(f"{p.name} of {kernel.entry} is the output and is const", f"The tensors are {shown}")
    return places


def _number(kernel: UserKernel, p: source.Parameter, numbers: Mapping[str, int | float]) -> Argument:
    kind = KINDS.get(p.type)
    if p.name in dict(kernel.knobs):
        raise UsageError(
            f"parameter {p.name} of {kernel.entry} is also a knob, a macro that would replace its name",
            "Leave the parameter out: the macro is the value",
        )
    if kind is None:
        raise UsageError(
            f"parameter {p.name} of {kernel.entry} has the type {p.type}",
            "Take int, long, float or double, or list what each parameter gets: --param",
        )
    value = numbers.get(p.name)
    if isinstance(value, int) and kind.startswith("int"):
        return Argument(kind, parse(p.name, "parameter", [p.name]), p.type, p.name)
    if value is not None:
        if kind.startswith("float"):
            return Argument(kind, float(value), p.type, p.name)
        raise UsageError(f"parameter {p.name} of {kernel.entry} is {p.type}, and its value {value}", "Take a double")
    hint = nearest(p.name, list(numbers))
    raise UsageError(
        f"parameter {p.name} of {kernel.entry} is not a size",
        f"{hint}There are {', '.join(numbers)}; or list what each parameter gets: --param",
    )


# --------------------------------------------------------------------------- by list


def _listed(
    kernel: UserKernel, workload: Workload, known: tuple[str, ...], declared: tuple[source.Parameter, ...] | None
) -> tuple[Argument, ...]:
    """Arguments as listed in ``parameters``: names of tensors, and expressions with a type where needed."""
    inputs = [s.name for s in workload.inputs]
    pieces = _pieces(kernel.parameters)
    if declared is not None and len(declared) != len(pieces):
        raise UsageError(
            f"{kernel.entry} takes {len(declared)} parameters, and {len(pieces)} are given: {kernel.parameters}",
            "List what each of them gets, in order",
        )
    out: list[Argument] = []
    for n, piece in enumerate(pieces):
        typed = _TYPED.fullmatch(piece)
        parameter = declared[n] if declared is not None and not declared[n].pointer else None
        kind = KINDS.get(parameter.type) if parameter is not None else None
        if typed:
            if parameter is not None and kind is not None and kind != typed[1]:
                what = f"parameter {parameter.name} of {kernel.entry} is {parameter.type}"
                raise UsageError(f"{what}, and --param gives {piece!r}", f"Write {kind}: {typed[2]}")
            kind, piece = typed[1], typed[2]
        if piece in (*inputs, "out") and not typed:
            out.append(Argument("tensor", inputs.index(piece) if piece in inputs else len(inputs)))
        elif piece == "env" and kernel.kind == "cpu":
            out.append(Argument("env", None))
        elif kind in ("float32", "float64"):
            out.append(Argument(kind, _real(piece), kind, parameter.name if parameter else piece))
        else:
            if parameter is not None and is_narrow(parameter.type) and kernel.kind == "cuda":
                raise UsageError(
                    f"parameter {parameter.name} of {kernel.entry} has the type {parameter.type}", "Take int, or long"
                )
            known_type = parameter is not None and (kind is not None or is_narrow(parameter.type))
            type_, name = (parameter.type, parameter.name) if parameter and known_type else ("", piece)
            value = parse(piece, "parameter", (*known, *inputs, "out"))
            out.append(Argument(kind or "int32", value, type_, name))
            if set(value.names) & ({*inputs, "out"} - set(known)):
                hint = "Name a tensor alone, and calculate with sizes"
                raise UsageError(f"--param {piece!r} calculates with a tensor", hint)
    given = {a.value for a in out if a.kind == "tensor"}
    if len(inputs) not in given:
        raise UsageError(f"no parameter gets the output: {kernel.parameters}", "Name it out")
    return tuple(out)


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"--param {text!r} is not a number", "Write float32:1.5") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise UsageError(f"--param {text!r} is beyond every number of type double", "Write inf if you mean infinity")
    return value


def _pieces(text: str) -> list[str]:
    """Split a text at commas outside of parentheses and brackets."""
    parts, depth, start = [], 0, 0
    for n, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:n].strip())
            start = n + 1
    return [*parts, text[start:].strip()]
