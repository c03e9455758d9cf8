"""Dynamic axes of a module's arguments, as ``torch.export`` states them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tilewright.core import UsageError

_HINT = 'Write them as torch.export takes them: {"x": {0: torch.export.Dim("batch", min=2, max=32)}}'


def marked(module: Any, example: Sequence[Any], dynamic_shapes: Any) -> tuple[Any, tuple[Any, ...]]:
    """The module, and the example with its dynamic axes marked for PyTorch's compiler, as views of the same memory.

    Raises ``UsageError`` for invalid axes.
    """
    if isinstance(module, torch.export.ExportedProgram):
        if dynamic_shapes is None:
            dynamic_shapes = _of_program(module)
        module = module.module()
    if dynamic_shapes is None:
        return module, tuple(example)
    return module, tuple(_marked(x, axes, n) for n, (x, axes) in enumerate(_each(module, example, dynamic_shapes)))


def is_marked(example: Sequence[Any]) -> bool:
    """Whether an axis of an example is marked as dynamic."""
    return any(getattr(x, "_dynamo_dynamic_indices", None) for x in torch.utils._pytree.tree_leaves(tuple(example)))


def _each(module: Any, example: Sequence[Any], dynamic_shapes: Any) -> list[tuple[Any, Any]]:
    """The arguments, each with the statement of its dynamic axes."""
    if isinstance(dynamic_shapes, Mapping):
        names = list(inspect.signature(module.forward).parameters)[: len(example)]
        unknown = next((n for n in dynamic_shapes if n not in names), None)
        if unknown is not None:
            raise UsageError(f"the module has no argument {unknown!r} in the example", f"It has {', '.join(names)}")
        return [(x, dynamic_shapes.get(n)) for n, x in zip(names, example, strict=True)]
    if not isinstance(dynamic_shapes, Sequence) or len(dynamic_shapes) != len(example):
        raise UsageError(f"dynamic_shapes={dynamic_shapes!r} are not of {len(example)} arguments", _HINT)
    return list(zip(example, dynamic_shapes, strict=True))


def _marked(x: Any, axes: Any, number: int) -> Any:
    if not axes:
        return x
    if not isinstance(x, torch.Tensor):
        raise UsageError(f"argument {number} is a {type(x).__name__}, which has no axes", _HINT)
    places = axes.items() if isinstance(axes, Mapping) else enumerate(axes)
    seen = x.view(x.shape)
    for axis, given in places:
        if given is None:
            continue
        low, high = _span(given)
        if not isinstance(axis, int) or not -x.dim() <= axis < x.dim():
            raise UsageError(f"argument {number} of shape {tuple(x.shape)} has no axis {axis!r}", _HINT)
        if not 1 <= low < high or not low <= x.shape[axis] <= high:
            raise UsageError(
                f"axis {axis} of argument {number} has {x.shape[axis]} elements, outside of {low} to {high}",
                "Give an example within the range, the least size first",
            )
        torch._dynamo.mark_dynamic(seen, axis % x.dim(), min=low, max=high)
    return seen


def _span(given: Any) -> tuple[int, int]:
    """The least and the greatest size in a ``Dim`` or in two numbers."""
    if isinstance(given, tuple | list) and len(given) == 2 and all(type(n) is int for n in given):
        return given[0], given[1]
    low, high = getattr(given, "min", None), getattr(given, "max", None)
    if type(low) is int and type(high) is int:
        return low, high
    raise UsageError(f"{given!r} has no least and greatest size", _HINT)


def _of_program(program: Any) -> list[Any]:
    """The dynamic axes of an exported program's arguments."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    ranges = program.range_constraints
    found = []
    for name in program.graph_signature.user_inputs:
        axes = {}
        for axis, n in enumerate(getattr(values.get(name), "shape", ())):
            span = ranges.get(n.node.expr) if isinstance(n, torch.SymInt) else None
            if span is not None and span.lower.is_Integer and span.upper.is_Integer:
                axes[axis] = (int(span.lower), int(span.upper))
        found.append(axes or None)
    return found
