"""Maps calls of a framework's operators to built-in operators with their parameters.

A request depends only on tensors' shapes, layouts and dtypes, so fake and traced tensors give the requests of real
ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tilewright.core import IMPLICIT, UsageError, Workload
from tilewright.graph import GraphBuilder
from tilewright.graph.groups import state_nodes, workload_of
from tilewright.kernels.nn.sizes import LAYOUTS
from tilewright.kernels.operators import get_operator

Shape = tuple[int, ...]
DTYPES = ("float32", "float64", "float16", "bfloat16")
"""The dtypes that are served."""

NORMS = ("layer_norm", "rms_norm")
"""Norms that frameworks also compute on 16-bit reals with float32 weights."""

Arguments = Sequence[Any]
"""All arguments of a call, in the order of PyTorch's operator of that name, with tensors as :class:`Tensor`."""


@dataclass(frozen=True)
class Tensor:
    """The properties of a tensor that requests depend on.

    ``dense``: whether it is dense and row-major. ``transposed``: whether only its transpose (last two axes swapped) is
    dense. ``order``: for a tensor that is dense with permuted axes, the axes from outermost to innermost in memory.
    ``plain``: whether its memory holds its elements as they are, without lazy conjugation or negation.
    """

    shape: tuple[int, ...]
    dtype: str
    dense: bool = True
    transposed: bool = False
    plain: bool = True
    order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def stored(self) -> tuple[bool, Shape]:
        """For matrices: whether they are stored transposed, and the stored shape, with batch axes merged into one.

        Raises :class:`NoRequest` where they are dense in neither order.
        """
        if not (self.dense or self.transposed):
            raise NoRequest("strides")
        batch = (math.prod(self.shape[:-2]),) if self.rank > 2 else ()
        return not self.dense, (*batch, *(self.shape[-2:] if self.dense else self.shape[:-3:-1]))


@dataclass(frozen=True)
class Request:
    """A workload, and the arguments of the call that are its inputs, in order.

    ``orders``: by an argument's number, the order of axes in which the kernel reads it, row-major; ``result``: the
    order of axes in which the kernel writes the result.
    """

    workload: Workload
    places: tuple[int, ...]
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    result: tuple[int, ...] = ()


class NoRequest(Exception):
    """No built-in operator takes this call; the message is a reason of ``runtime.stats.REASONS``."""


def request(name: str, args: Arguments) -> Request:
    """The request of a call of the operator ``name``, with defaults filled in. Raises :class:`NoRequest`."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    dtype = tensors[0].dtype
    others = {t.dtype for t in tensors} - {dtype}
    mixed = name in NORMS and dtype in ("float16", "bfloat16") and others == {"float32"}
    if dtype not in DTYPES or (others and not mixed):
        raise NoRequest("dtype")
    if any(t.size == 0 for t in tensors):
        raise NoRequest("empty")
    if not all(t.plain for t in tensors):
        raise NoRequest("type")
    op, attributes, shapes = _RECOGNISERS[name](*args)
    try:
        workload = _workload(op, shapes, {**attributes, "dtype": dtype})
    except UsageError as e:  # the framework reports what does not fit
        raise NoRequest("shape") from e
    places = tuple(shapes)
    if mixed:
        return _mixed(op, attributes, places, args)
    if op == "attention" and any(args[p].order for p in places):
        return _of_heads(attributes, places, args)
    if "layout" in attributes:
        last = channels_last(args[0].rank)
        return Request(workload, places, {0: last, 1: kernel_last(args[0].rank)}, last)
    return Request(workload, places)


def similar(name: str, args: Arguments) -> tuple[str, list[tuple[int, ...]], dict[str, Any]] | None:
    """The built-in operator for a call of these shapes and any dtypes, with its inputs' shapes and its attributes."""
    try:
        op, attributes, shapes = _RECOGNISERS[name](*args)
        workload = _workload(op, shapes, attributes)
    except (NoRequest, UsageError):
        return None
    return op, [s.shape for s in workload.inputs], {k: v for k, v in workload.params if k not in IMPLICIT}


def _workload(op: str, shapes: Mapping[int, Shape], attributes: Mapping[str, Any]) -> Workload:
    """The workload of inputs of these shapes. Raises ``UsageError`` for shapes that do not fit together."""
    operator = get_operator(op)
    assert operator.infer is not None
    return operator.workload(**operator.infer([*shapes.values()], **attributes))


def _mixed(op: str, attributes: Mapping[str, Any], places: tuple[int, ...], args: Arguments) -> Request:
    """A norm of 16-bit reals with float32 weights, stated as a graph states it."""
    builder = GraphBuilder()
    names = {f"x{p}": p for p in places}
    given = {p: builder.input(n, args[p].shape, args[p].dtype) for n, p in names.items()}
    own = {"normalized_shape": attributes["normalized_shape"], "eps": attributes["eps"]}
    last = (2, 3) if op == "layer_norm" else (2,)
    graph = builder.build([builder.add(op, [given[0], *(given.get(p, "") for p in last)], own)])
    program, reads = state_nodes(graph, graph.nodes)
    return Request(workload_of(op, program), tuple(names[n] for n in reads))


def _of_heads(attributes: Mapping[str, Any], places: tuple[int, ...], args: Arguments) -> Request:
    """Attention on heads in the layout of projections (positions before heads), stated as a graph states it."""
    builder, operands, orders = GraphBuilder(), [], {}
    for p in places:
        b, h, length, d = args[p].shape
        if args[p].order:
            orders[p] = args[p].order
            rows = builder.add("reshape", [builder.input(f"x{p}", (b, length, h * d), args[p].dtype)],
                               {"shape": (b, length, h, d)})  # fmt: skip
            operands.append(builder.add("permute", [rows], {"dims": HEADS}))
        else:
            operands.append(builder.input(f"x{p}", args[p].shape, args[p].dtype))
    how = {"is_causal": attributes["is_causal"], "scale": attributes["scale"] or None}
    graph = builder.build([builder.add("scaled_dot_product_attention", operands, how)])
    program, reads = state_nodes(graph, graph.nodes)
    return Request(workload_of("attention", program), tuple(int(n[1:]) for n in reads), orders)


HEADS = (0, 2, 1, 3)
"""The order of the axes of ``(batch, heads, positions, features)`` as projections write them."""


def channels_last(rank: int) -> tuple[int, ...]:
    """The order of axes of channels-last images of this rank."""
    return (0, *range(2, rank), 1)


def kernel_last(rank: int) -> tuple[int, ...]:
    """The order of axes of channels-last convolution kernels of this rank."""
    return (*range(2, rank), 1, 0)


Asked = tuple[str, dict[str, Any], dict[int, Shape]]
"""A built-in operator, its attributes, and its inputs' shapes in memory, by the argument's number.

The operator itself checks that they fit together, and infers its sizes.
"""


def _inputs(given: Mapping[int, Tensor | None]) -> dict[int, Shape]:
    """The shapes of the present tensors. Raises :class:`NoRequest` for a tensor that is not dense."""
    tensors = {n: t for n, t in given.items() if t is not None}
    if not all(t.dense for t in tensors.values()):
        raise NoRequest("strides")
    return {n: t.shape for n, t in tensors.items()}


def _fits(condition: bool) -> None:
    if not condition:
        raise NoRequest("shape")


def _product(op: str, a: tuple[bool, Shape], b: tuple[bool, Shape]) -> Asked:
    return op, {"trans_a": a[0], "trans_b": b[0]}, {0: a[1], 1: b[1]}


def _mm(a: Tensor, b: Tensor) -> Asked:
    return _product("matmul", a.stored, b.stored)


def _batched(a: Tensor, b: Tensor) -> Asked:
    _fits(a.rank == b.rank >= 3 and a.shape[:-2] == b.shape[:-2])
    return _product("batch_matmul", a.stored, b.stored)


def _matmul(a: Tensor, b: Tensor) -> Asked:
    return _product("matmul", _rows(a), b.stored) if a.rank > 1 and b.rank == 2 else _batched(a, b)


def _rows(x: Tensor) -> tuple[bool, Shape]:
    """:attr:`Tensor.stored` of the matrix whose rows are the rows of all batches."""
    if x.rank == 2:
        return x.stored
    shape = _inputs({0: x})[0]
    return False, (math.prod(shape[:-1]), *shape[-1:])


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Asked:
    op, how, shapes = _product("matmul", _rows(x), weight.stored)
    how |= {"trans_b": not how["trans_b"], "bias": bias is not None}
    return op, how, shapes | _inputs({2: bias})


def _convolution(op: str, window: str, x: Tensor, weight: Tensor, bias: Tensor | None, *more: Any) -> Asked:
    """The operator of a convolution.

    ``window``: the names of the arguments after the bias; each has numbers for every spatial axis, or one number for
    all axes.
    """
    how = {**dict(zip(window.split(), more, strict=True)), "bias": bias is not None}
    axes = int(op[-2])
    last = axes > 1 and x.rank == weight.rank == axes + 2 and x.order == channels_last(x.rank)
    if not last or "output_padding" in how:
        return op, how, _inputs({0: x, 1: weight, 2: bias})
    orders = (x, channels_last(x.rank)), (weight, kernel_last(x.rank))
    shapes = {n: tuple(t.shape[d] for d in order) for n, (t, order) in enumerate(orders)}
    return op, {**how, "layout": LAYOUTS[axes][1]}, shapes | _inputs({2: bias})


def _norm(op: str, rows: Sequence[Tensor], own: Sequence[int], eps: float, **scaling: Tensor | None) -> Asked:
    """The operator of a norm. ``own``: the sizes of the normalised axes. ``scaling``: the arguments after ``own``, by
    name."""
    _fits(bool(own))
    given = {name: t is not None for name, t in scaling.items()}
    how = {"normalized_shape": tuple(int(n) for n in own), "eps": eps, **given}
    return op, how, _inputs(dict(enumerate((*rows, None, *scaling.values()))))


def _layer_norm(x: Tensor, own: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Asked:
    return _norm("layer_norm", [x], own, eps, weight=weight, bias=bias)


def _rms_norm(x: Tensor, own: Sequence[int], weight: Tensor | None, eps: float | None) -> Asked:
    if eps is None:
        if x.dtype not in ("float32", "float64"):
            raise NoRequest("arguments")
        eps = float(np.finfo(x.dtype).eps)
    return _norm("rms_norm", [x], own, eps, weight=weight)


def _norm_backward(op: str, grad: Tensor, x: Tensor, own: Sequence[int], weight: Tensor | None, eps: float) -> Asked:
    return _norm(op, [grad, x], own, eps, weight=weight)


def _softmax(op: str, *args: Any) -> Asked:
    """The operator of a softmax or its gradient, on tensors of one shape and an axis."""
    *tensors, dim = args
    rank = tensors[-1].rank
    _fits(-rank <= dim < rank)
    return op, {"dim": -1 if dim % rank == rank - 1 else dim % rank}, _inputs(dict(enumerate(tensors)))


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Asked:
    if mask is not None:  # for fully masked queries our kernels give NaN, and frameworks do not
        raise NoRequest("arguments")
    _fits(q.rank == k.rank == v.rank and q.rank in (3, 4))
    _inputs(dict(enumerate(t for t in (q, k, v) if t.order != HEADS)))
    shapes = [t.shape if t.rank == 4 else (t.shape[0], 1, *t.shape[1:]) for t in (q, k, v)]
    _fits(enable_gqa or shapes[0][1] == shapes[1][1])
    usual = scale is None or scale == 1 / math.sqrt(q.shape[-1])
    if scale == 0.0:
        raise NoRequest("arguments")
    return "attention", {"is_causal": is_causal, "scale": 0.0 if usual else scale}, dict(enumerate(shapes))


_RECOGNISERS: dict[str, Callable[..., Asked]] = {
    "mm": _mm,
    "bmm": _batched,
    "matmul": _matmul,
    "linear": _linear,
    **{op: partial(_convolution, op, "stride padding dilation groups") for op in ("conv1d", "conv2d", "conv3d")},
    **{
        op: partial(_convolution, op, "stride padding output_padding groups dilation")
        for op in ("conv_transpose1d", "conv_transpose2d")
    },
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    **{op: partial(_norm_backward, op) for op in ("layer_norm_backward", "rms_norm_backward")},
    **{f"{op}{way}": partial(_softmax, f"{op}{way}") for op in ("softmax", "log_softmax") for way in ("", "_backward")},
    "scaled_dot_product_attention": _attention,
}
