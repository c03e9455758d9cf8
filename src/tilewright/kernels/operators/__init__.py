"""The built-in operators, each in the file here that bears its name or in one of a kind; and looking one up."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.core import TilewrightError, Workload
from tilewright.forking import imported
from tilewright.plugins import find

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator

OPERATORS = (
    "matmul",
    "linear",
    "batch_matmul",
    "bmm",
    "complex_matmul",
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
    "group_norm",
    "grouped_matmul",
    "dequant_matmul",
    "quantized_matmul",
    "scaled_mm",
    "einsum",
    "attention",
    "tbs",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "softmax_backward",
    "log_softmax_backward",
    "layer_norm_backward",
    "rms_norm_backward",
    "sum",
    "mean",
    "var_mean",
    "prod",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "norm",
    "logsumexp",
    "cumsum",
    "elementwise",
    "add",
    "mul",
    "relu",
    "gelu",
    "silu",
    "sigmoid",
    "permute",
    "transpose",
    "pad",
    "cat",
    "cast",
    "embedding",
)
"""Adding a built-in operator is one file and one line here."""

_KINDS = {
    "convolution": ("conv1d", "conv2d", "conv3d"),
    "transposed": ("conv_transpose1d", "conv_transpose2d"),
    "pooling": ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"),
    "pointwise": ("add", "mul", "relu", "silu", "sigmoid"),
    "reduction": ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "logsumexp"),
    "softmax": ("softmax", "log_softmax"),
    "backward": ("softmax_backward", "log_softmax_backward", "layer_norm_backward", "rms_norm_backward"),
}
"""Files that define several operators of one kind; any other operator has a file of its own name."""

_FILES = {name: file for file, names in _KINDS.items() for name in names}


def get_operator(name: str) -> Operator:
    """An operator by name, built in or of a package, or a user's by ``FILE.py:function``. Raises ``UsageError``.

    A built-in operator's file is imported when it is first asked for.
    """
    if ":" in name or name.endswith(".py"):
        from tilewright.kernels.operator_file import load_operator

        return load_operator(name)
    if name in OPERATORS:
        return _built_in(name)
    operator: Operator = find("operators", name, OPERATORS, "; your own is FILE.py:function", by_path=False)
    return operator


@cache
def _built_in(name: str) -> Operator:
    operator: Operator = getattr(imported(f"{__name__}.{_FILES.get(name, name)}"), name)
    return operator


def find_numpy(workload: Workload) -> Callable[..., Any] | None:
    """The NumPy implementation of a workload, called with its inputs; ``None`` where there is none.

    A user's operator that bears a built-in name but computes something else has none.
    """
    if workload.op not in OPERATORS:
        return None
    op = get_operator(workload.op)
    params = dict(workload.params)
    if op.numpy is None:
        return None
    try:
        if op.workload(**params).key != workload.key:
            return None
    except TilewrightError:
        return None
    run = op.numpy
    return lambda *inputs: run(*inputs, **params)
