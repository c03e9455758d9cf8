"""The built-in operators. Each is one file here that defines an operator of the file's name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator

OPERATORS = (
    "matmul",
    "batch_matmul",
    "conv2d",
    "softmax",
)
"""Adding a built-in operator is one file and one line here."""


def find(name: str) -> Operator:
    """A built-in operator by name; its file is imported when it is first asked for."""
    found: Operator = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return found
