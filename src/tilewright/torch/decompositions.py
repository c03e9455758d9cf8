"""PyTorch's decompositions of the operators for which the importer has no handler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.graph.operations import ATEN
from tilewright.torch.importer import overload_name


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions for AOT autograd, by the operator's overload, into Core ATen operators."""
    from torch._decomp import core_aten_decompositions

    table: Any = core_aten_decompositions()
    return {op: made for op, made in dict(table).items() if overload_name(op) not in ATEN}
