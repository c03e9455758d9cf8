"""PyTorch's own decompositions of the operators that no handler of ours knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.graph.operations import ATEN
from tilewright.torch.importer import overload_name


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """What AOT takes apart before we read a graph: operators by their overloads, in terms of Core ATen's."""
    from torch._decomp import core_aten_decompositions

    table: Any = core_aten_decompositions()
    return {op: made for op, made in dict(table).items() if overload_name(op) not in ATEN}
