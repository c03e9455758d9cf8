"""Elements that whole numbers choose."""

from __future__ import annotations

from typing import Any

from tilewright.graph.operations.handlers import Left, OnnxBuild, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX


def _embedding(input: te.TensorRef, weight: te.TensorRef, *, wrap: bool = False) -> te.TensorRef:
    """``wrap``: negative numbers count from the last row, as ONNX has it."""
    made = nn.embedding(input, weight)  # checks
    rows = weight.shape[0]
    if not wrap:
        return made
    return te.compute(made.shape, lambda *i: weight[(te.cast(input[i[:-1]], INDEX) + rows) % rows, i[-1]])


register("embedding", "gather", _embedding)


@onnx("Gather")
def _onnx_gather(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    table, index = node.input
    shape = build.shape(table)
    axis = a.get("axis", 0) % len(shape)
    if index in build.constants and build.known(index).size == 1:
        at = int(build.known(index).item())
        at += shape[axis] if at < 0 else 0
        row = build.add("slice", [table], dim=axis, start=at, end=at + 1)
        out = (*shape[:axis], *build.shape(index), *shape[axis + 1 :])
        build.reshaped(row, out, node.output[0])
        return
    if axis or len(shape) != 2 or table not in build.constants:
        raise Left("only rows of a constant table are gathered")
    build.add("embedding", [index, table], node.output[0], wrap=True)
