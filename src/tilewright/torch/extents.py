"""Symbolic sizes of PyTorch's graphs: symbols, expressions of symbols, and extents of bounded symbols."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy.functions import CleanDiv, FloorDiv

from tilewright.core import Extent

MOST = 1 << 24
"""Largest upper bound that counts as a bound; PyTorch states huge bounds for unbounded sizes."""


def length(expression: Any, sizes: Mapping[Any, Any]) -> Any:
    """Evaluates PyTorch's expression of sizes for values of the symbols: numbers, proxies of nodes, or extents.

    Raises ``LookupError`` for unsupported arithmetic, and for symbols without a value.
    """
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return sizes[expression]
    parts = [length(x, sizes) for x in expression.args] if expression.func in _FUNCTIONS else None
    if parts is None:
        raise LookupError(f"{expression} is not arithmetic of sizes")
    return functools.reduce(_FUNCTIONS[expression.func], parts)


_FUNCTIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sympy.Add: operator.add, sympy.Mul: operator.mul, FloorDiv: operator.floordiv, CleanDiv: operator.floordiv,
}  # fmt: skip
"""PyTorch's functions of sizes, as left folds over their arguments."""


def symbols(module: GraphModule) -> dict[Any, Node]:
    """The symbolic sizes among a graph's inputs, by their symbols."""
    found: dict[Any, Node] = {}
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.SymInt):
            symbol: Any = value.node.expr
            if symbol.is_Symbol:
                found.setdefault(symbol, node)
    return found


def extents_of(module: GraphModule) -> dict[Any, Extent]:
    """The bounded sizes of a graph, by their symbols, as extents named like the symbols."""
    found = {}
    for symbol, node in symbols(module).items():
        span = node.meta["val"].node.shape_env.bound_sympy(symbol)
        if span.lower.is_Integer and span.upper.is_Integer and 1 <= span.lower < span.upper <= MOST:
            found[symbol] = Extent(int(span.upper), int(span.lower), str(symbol))
    return found
