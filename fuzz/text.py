"""Writes a program as the source of an operator, which the fuzzer runs and findings show."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fuzz.tree import INDEX, Case, Node, Stage

HEAD = """\
import math

from tilewright import te
from tilewright.kernels.expression.expr import const


def welford(dtype):
    def merge(a, b):
        count, apart = a[0] + b[0], b[1] - a[1]
        share = te.select(count > 0.0, b[0] / count, 0.0)
        return count, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share
    return te.monoid("welford", (0.0, 0.0, 0.0), merge, lambda n, mean, square: square / n, dtype=dtype)


def mean_square(dtype):
    return te.monoid(
        "mean_square", (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s, n: s / n, dtype=dtype)


def runner_up(dtype):
    def merge(a, b):
        return te.maximum(a[0], b[0]), te.maximum(te.minimum(a[0], b[0]), te.maximum(a[1], b[1]))
    return te.monoid("runner_up", (-1e30, -1e30), merge, lambda first, second: first - second, dtype=dtype)


def linear(dtype):
    return te.monoid(
        "linear", (1.0, 0.0), lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), lambda slope, at: at, dtype=dtype)


def define():
"""
SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|",
}  # fmt: skip


def expression(n: Node) -> str:
    """Source of a value."""
    if n.op == "const":
        value = (
            f"{'-' if float(n.value) < 0 else ''}math.inf"
            if isinstance(n.value, float) and math.isinf(n.value)
            else repr(n.value)
        )
        return f"const({value}, {n.dtype!r})"
    if n.op == "axis":
        return str(n.value)
    args = [expression(a) for a in n.args]
    if n.op == "load":
        return f"{n.value}[{', '.join(args) or '()'}]"
    if n.op in SIGNS:
        divisor = str(int(n.args[1].value)) if n.op in ("floordiv", "mod") else args[1]
        return f"({args[0]} {SIGNS[n.op]} {divisor})"
    if n.op in ("neg", "not"):
        return f"({'-' if n.op == 'neg' else '~'}{args[0]})"
    if n.op == "cast":
        return f"te.cast({args[0]}, {n.dtype!r})"
    name = {"max": "maximum", "min": "minimum"}.get(n.op, n.op)
    return f"te.{name}({', '.join(args)})"


def stage(s: Stage) -> str:
    """Source of the statement that defines a stage."""
    axes, reduced = ([a for a, _ in group] for group in (s.axes, s.reduced))
    extents, inner = tuple(n for _, n in s.reduced), f"lambda {', '.join(reduced)}: "
    body, *more = map(expression, s.body)
    computed = s.body[0].dtype
    if s.kind == "map":
        text = body
    elif s.kind == "arg":
        text = f"te.{s.how}({extents[0]}, {inner}{body})"
    elif s.kind == "reduce":
        text = f"te.{s.how}({extents}, {inner}{body})"
    elif s.kind == "scan":
        if s.how == "linear":
            text = f"te.scan(linear({computed!r}), {axes[s.along]}, ({body}, {more[0]}))"
        else:
            text = f"te.scan({s.how!r}, {axes[s.along]}, {body})"
    elif s.kind == "scatter":
        assert s.index is not None
        text = f"te.scatter({s.how!r}, {axes[s.along]}, {extents}, {inner}({expression(s.index)}, {body}))"
    else:
        one, none, least = (f"const({v}, {computed!r})" for v in ("1.0", "0.0", "-1e30"))
        parts = {
            "welford": f"({one}, {body}, {none})",
            "mean_square": f"({body}, {one})",
            "runner_up": f"({body}, {least})",
        }
        text = f"te.reduce({s.how}({computed!r}), {extents}, {inner}{parts[s.how]})"
    return f"    {s.name} = te.compute({s.shape}, lambda {', '.join(axes)}: {text}, dtype={s.dtype!r})"


def source(case: Case) -> str:
    """Source of a module with the function ``define``, which returns the results."""
    lines = [f"    {t.name} = te.input({t.name!r}, {t.shape}, {t.dtype!r})" for t in case.inputs]
    lines += [stage(s) for s in case.stages]
    lines.append(f"    return {', '.join(case.outputs)}")
    return HEAD + "\n".join(lines) + "\n"


def definition(text: str) -> Callable[[], Any]:
    """Returns the function ``define`` of a module's source."""
    names: dict[str, Any] = {}
    exec(compile(text, "<fuzz>", "exec"), names)
    define: Callable[[], Any] = names["define"]
    return define


__all__ = ["INDEX", "definition", "expression", "source", "stage"]
