"""Adapts graphs to kernels, which read and write dense tensors, and write other values than PyTorch for fully masked
queries.

Kernels get copies in other orders of axes. Results of queries whose keys are all masked are set to 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from tilewright.graph.operations.products import ATTENTIONS
from tilewright.torch.importer import name_of

aten = torch.ops.aten

WORTH = 256
"""Operations per copied element above which a copy is assumed to cost less than a tuned kernel saves."""


def order(node: Node) -> tuple[int, ...] | None:
    """The axes of a node's tensor from outermost to innermost in memory; ``None`` for a tensor that is not dense."""
    value = node.meta["val"]
    axes = sorted(range(value.dim()), key=lambda d: (-value.stride(d), d))
    return tuple(axes) if dense(value, axes) else None


def dense(value: torch.Tensor, axes: Sequence[int]) -> bool:
    """Whether a tensor is row-major and without gaps, with its axes taken in this order.

    PyTorch answers only for symbolic sizes, as permuting a fake tensor is slow.
    """
    sizes, strides = value.shape, value.stride()
    if not all(isinstance(n, int) for n in (*sizes, *strides)):
        return bool(value.permute(list(axes)).is_contiguous())
    step = 1
    for axis in reversed(axes):
        if sizes[axis] != 1 and strides[axis] != step:
            return 0 in sizes
        step *= sizes[axis]
    return True


def plain(node: Node) -> bool:
    """Whether a node gives a tensor without lazy conjugation or negation."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.is_conj() and not value.is_neg()


def row_major(graph: GraphModule, node: Node) -> Node:
    """A node that gives an equal tensor, dense and row-major."""
    if node.meta["val"].is_contiguous():
        return node
    return _call(graph, aten.clone.default, (node,), {"memory_format": torch.contiguous_format})


def permuted(graph: GraphModule, node: Node, axes: tuple[int, ...]) -> Node:
    """A view of a node's tensor with its axes permuted."""
    return node if axes == tuple(sorted(axes)) else _call(graph, aten.permute.default, (node, list(axes)))


def ordered(graph: GraphModule, made: Node, axes: tuple[int, ...]) -> Node:
    """A node that gives the values of the dense ``made``, with its axes in this order in memory."""
    if dense(made.meta["val"], axes):
        return made
    back = [axes.index(d) for d in range(len(axes))]
    return permuted(graph, row_major(graph, permuted(graph, made, axes)), tuple(back))


def _call(graph: GraphModule, target: Any, args: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> Node:
    given = keywords or {}
    node: Node = graph.graph.call_function(target, args, given)
    node.meta["val"] = target(*(a.meta["val"] if isinstance(a, Node) else a for a in args), **given)
    return node


def hide(graph: GraphModule) -> list[Node]:
    """Inserts zeros behind each attention with a mask, for queries that see no key: PyTorch gives zeros, kernels do
    not.

    Returns the inserted nodes for :func:`uncover`.
    """
    covers = []
    for node in list(graph.graph.nodes):
        mask = _argument(node, ATTENTIONS.get(name_of(node)))
        for result in [u for u in node.users if u.args[1:] == (0,)]:
            if not isinstance(mask, Node) or "val" not in result.meta:
                continue
            with graph.graph.inserting_before(result.next):
                top = _call(graph, aten.amax.default, (mask, [-1], True))
                blind = _call(graph, aten.eq.Scalar, (top, -math.inf))
                cover = _call(graph, aten.masked_fill.Scalar, (result, blind, 0.0))
            result.replace_all_uses_with(cover, delete_user_cb=lambda user, cover=cover: user is not cover)
            covers.append(cover)
    return covers


def _argument(node: Node, name: str | None) -> Any:
    """An operator's argument by its name; ``None`` where it is not given."""
    if name is None:
        return None
    target: Any = node.target
    place = [a.name for a in target._schema.arguments].index(name)
    return node.args[place] if place < len(node.args) else node.kwargs.get(name)


def uncover(graph: GraphModule, covers: list[Node]) -> None:
    """Removes the nodes that :func:`hide` inserted behind attentions that PyTorch computes itself."""
    for cover in covers:
        source = cover.args[0]
        if isinstance(source, Node) and source.target is operator.getitem:
            cover.replace_all_uses_with(source)
