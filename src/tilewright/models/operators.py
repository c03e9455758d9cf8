"""What ONNX's operators are in a graph, by name: the table of operations as models read it."""

from __future__ import annotations

from tilewright.graph.operations import ONNX

HANDLERS = ONNX
"""See :data:`tilewright.graph.operations.handlers.ONNX`."""
