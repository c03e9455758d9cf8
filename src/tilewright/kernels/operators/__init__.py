"""The built-in operators, in one file for each kind, and their look-up by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.core import TilewrightError, Workload
from tilewright.forking import imported
from tilewright.plugins import find

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("product", ("matmul", "linear", "batch_matmul", "bmm", "complex_matmul")),
    ("convolution", ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "capsule_conv2d")),
    ("windowed", ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")),
    ("normalize", ("batch_norm", "group_norm")),
    ("product", ("grouped_matmul",)),
    ("quantized", ("dequant_matmul", "quantized_matmul", "scaled_mm")),
    ("product", ("einsum",)),
    ("attention", ("attention", "tbs")),
    ("normalize", ("softmax", "log_softmax", "layer_norm", "rms_norm")),
    ("normalize", ("softmax_backward", "log_softmax_backward", "layer_norm_backward", "rms_norm_backward")),
    (
        "reduction",
        ("sum", "mean", "var_mean", "prod", "amax", "amin", "argmax", "argmin", "norm", "logsumexp", "cumsum"),
    ),
    ("pointwise", ("elementwise", "add", "mul", "relu", "gelu", "silu", "sigmoid")),
    ("layout", ("permute", "transpose", "pad", "cat", "cast", "embedding")),
)
"""Files of this folder with the operators that each defines, in the order in which operators are listed.

To add a built-in operator, define it in the file of its kind and add its name here.
"""

_FILES = {name: file for file, names in _KINDS for name in names}
OPERATORS = tuple(_FILES)


def get_operator(name: str) -> Operator:
    """An operator by name: built in, from a package, or a user's by ``FILE.py:function``. Raises ``UsageError``.

    The file of a built-in operator is imported on its first use.
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
    operator: Operator = getattr(imported(f"{__name__}.{_FILES[name]}"), name)
    return operator


def find_numpy(workload: Workload) -> Callable[..., Any] | None:
    """The NumPy implementation of a workload, called with its inputs; ``None`` if the operator has none.

    Also ``None`` for a user's operator that has a built-in name but another program.
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
