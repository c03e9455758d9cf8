"""The built-in operators. Each is one file here that defines an operator of the file's name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator

OPERATORS = (
    "matmul",
    "batch_matmul",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "capsule_conv2d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "grouped_matmul",
    "dequant_matmul",
    "quantized_matmul",
    "einsum",
    "attention",
    "tbs",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "norm",
    "cumsum",
    "elementwise",
    "permute",
    "transpose",
    "cast",
    "embedding",
)
"""Adding a built-in operator is one file and one line here."""


def find(name: str) -> Operator:
    """A built-in operator by name; its file is imported when it is first asked for."""
    found: Operator = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return found
