"""Graphs of named operations on tensors of fixed or symbolic shapes, and their grouping into kernels.

Importers (ONNX, PyTorch) build a :class:`~tilewright.graph.ir.Graph`. :func:`~tilewright.graph.groups.grouped` cuts it
into kernels, each with a workload that can be tuned and served. The package needs NumPy and the standard library only.
"""

from __future__ import annotations

from tilewright.graph.buffers import BufferAssignment, BufferSlice, in_place
from tilewright.graph.channels import Channels, channels_last, named_last, original
from tilewright.graph.fold import distribute, fold_batch_norms
from tilewright.graph.groups import Group, grouped
from tilewright.graph.ir import Graph, GraphBuilder, Node
from tilewright.graph.layouts import cheapest
from tilewright.graph.operations import OPERATIONS, Operation, register
from tilewright.graph.tasks import GraphTask, refusal, tasks_of

__all__ = [
    "OPERATIONS",
    "BufferAssignment",
    "BufferSlice",
    "Channels",
    "Graph",
    "GraphBuilder",
    "GraphTask",
    "Group",
    "Node",
    "Operation",
    "channels_last",
    "cheapest",
    "distribute",
    "fold_batch_norms",
    "grouped",
    "in_place",
    "named_last",
    "original",
    "refusal",
    "register",
    "tasks_of",
]
