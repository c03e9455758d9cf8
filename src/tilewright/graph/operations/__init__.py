"""The table of graph operations, one file for each kind of operation. ``FILES`` lists the files."""

from __future__ import annotations

from importlib import import_module

from tilewright.graph.operations.handlers import ATEN, ONNX, REFUSED, Left
from tilewright.graph.operations.moves import VIEWS
from tilewright.graph.operations.table import OPERATIONS, Kind, Operation, infer, operand, register, state

FILES = (
    "activations", "elementwise", "fused", "gathers", "moves", "products", "quantising", "recurrent", "resizing",
    "rows", "tiling", "windows",
)  # fmt: skip
for _name in FILES:
    import_module(f"{__name__}.{_name}")

__all__ = [
    "ATEN",
    "ONNX",
    "OPERATIONS",
    "REFUSED",
    "VIEWS",
    "Kind",
    "Left",
    "Operation",
    "infer",
    "operand",
    "register",
    "state",
]
