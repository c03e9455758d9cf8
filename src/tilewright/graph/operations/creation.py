"""Tensors that follow from numbers: constants of the graph."""

from __future__ import annotations

import math

import numpy as np

from tilewright.graph.operations.handlers import Array, Build, Call, Left, aten, refuse
from tilewright.kernels.expression.expr import BITS

MOST = 1 << 20
"""Elements of a tensor of several numbers that is kept as a constant."""

refuse(
    "random numbers are PyTorch's", "rand", "randn", "rand_like", "randn_like", "randint", "bernoulli.p", "bernoulli",
    "normal_functional", "native_dropout", "multinomial", "randperm",
)  # fmt: skip
refuse("sorting is PyTorch's", "sort", "sort.stable", "topk", "kthvalue", "median.dim", "mode", "argsort")
refuse("its shape depends on values", "nonzero", "masked_select", "unique_dim", "_unique2", "bincount")


def _keep(build: Build, call: Call, array: Array) -> None:
    spec = call.spec
    if spec.dtype in BITS:
        raise Left(f"NumPy has no {spec.dtype}")
    build.known_as(call.output, np.broadcast_to(array.astype(spec.dtype), spec.shape))


@aten(
    "full",
    "full_like",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "scalar_tensor",
    "new_full",
    "new_zeros",
    "new_ones",
)
def _filled(build: Build, call: Call) -> None:
    name = call.operator.removesuffix("_like").removeprefix("new_")
    number = {"zeros": 0, "ones": 1}.get(name)
    if number is None:
        number = call["s" if name == "scalar_tensor" else "fill_value"]
    if not isinstance(number, int | float):
        raise Left("it is filled with a tensor")
    _keep(build, call, np.asarray(number))


@aten("arange", "arange.start", "arange.start_step")
def _counted(build: Build, call: Call) -> None:
    if math.prod(call.spec.shape) > MOST:
        raise Left("it is large")
    start, step = call.arguments.get("start", 0), call.arguments.get("step", 1)
    (count,) = call.spec.shape
    _keep(build, call, start + step * np.arange(count))


@aten("eye", "eye.m")
def _diagonal(build: Build, call: Call) -> None:
    if math.prod(call.spec.shape) > MOST:
        raise Left("it is large")
    rows, columns = call.spec.shape
    _keep(build, call, np.eye(rows, columns))
