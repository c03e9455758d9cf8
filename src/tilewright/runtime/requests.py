"""What a call of a framework's operator asks for: a built-in operator of ours with its parameters.

Tensors are judged by shape, layout and dtype alone, so that fake and traced tensors ask for what real ones would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tilewright.core import UsageError, Workload
from tilewright.graph import GraphBuilder
from tilewright.graph.groups import state_nodes, workload_of
from tilewright.kernels.nn.sizes import LAYOUTS
from tilewright.kernels.operators import get_operator
from tilewright.kernels.operators.convolution import size_names

DTYPES = ("float32", "float64", "float16", "bfloat16")
"""The dtypes that are served."""

NORMS = ("layer_norm", "rms_norm")
"""Those that frameworks compute of 16-bit reals with float32 weights, too."""

Arguments = Sequence[Any]
"""A call's arguments, all of them, as the operator of that name in PyTorch takes them; tensors as :class:`Tensor`."""


@dataclass(frozen=True)
class Tensor:
    """A tensor as far as a request depends on it.

    ``dense``: whether it is dense and row-major. ``turned``: whether it would be with its last two axes exchanged, and
    is not ``dense``. ``order``: of a tensor that is dense with its axes in another order, that order, outermost first.
    ``plain``: whether its memory holds its elements as they are.
    """

    shape: tuple[int, ...]
    dtype: str
    dense: bool = True
    turned: bool = False
    plain: bool = True
    order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Request:
    """A workload, and which arguments of the call are its inputs, in order; their memory is as it takes it.

    ``orders``: by an argument's number, the order of its axes in which the kernel reads it, row-major; ``result``: that
    in which it writes the result.
    """

    workload: Workload
    places: tuple[int, ...]
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    result: tuple[int, ...] = ()


class NoRequest(Exception):
    """No operator of ours takes such a call: a reason of ``runtime.stats.REASONS``."""


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
    op, params, places = _RECOGNISERS[name](*args)
    if mixed:
        return _mixed(op, params, places, args)
    if op == "attention" and any(args[p].order for p in places):
        return _of_heads(params, places, args)
    try:
        workload = get_operator(op).workload(**params, dtype=dtype)
        if params.get("layout"):
            rank = args[0].rank
            last, kernel = channels_last(rank), (*range(2, rank), 1, 0)
            return Request(workload, places, {0: last, 1: kernel}, last)
        return Request(workload, places)
    except UsageError as e:  # what does not fit together: the framework names it
        raise NoRequest("shape") from e


def similar(name: str, args: Arguments) -> tuple[str, list[tuple[int, ...]], dict[str, Any]] | None:
    """The operator of ours for such shapes whatever the tensors' types, its inputs' shapes and its attributes."""
    try:
        op, params, _ = _RECOGNISERS[name](*args)
        workload = get_operator(op).workload(**params)
    except (NoRequest, UsageError):
        return None
    return op, [s.shape for s in workload.inputs], params


def _mixed(op: str, params: dict[str, Any], places: tuple[int, ...], args: Arguments) -> Request:
    """A norm of 16-bit reals whose weights are float32, stated as graphs state it."""
    builder = GraphBuilder()
    names = {f"x{p}": p for p in places}
    given = {p: builder.input(n, args[p].shape, args[p].dtype) for n, p in names.items()}
    own = {"normalized_shape": tuple(int(n) for n in args[1]), "eps": params["eps"]}
    last = (2, 3) if op == "layer_norm" else (2,)
    graph = builder.build([builder.add(op, [given[0], *(given.get(p, "") for p in last)], own)])
    program, reads = state_nodes(graph, graph.nodes)
    return Request(workload_of(op, program), tuple(names[n] for n in reads))


def _of_heads(params: Mapping[str, Any], places: tuple[int, ...], args: Arguments) -> Request:
    """Attention whose heads lie where projections write them, behind the positions: stated as graphs state it."""
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
    how = {"is_causal": params["is_causal"], "scale": params["scale"] or None}
    graph = builder.build([builder.add("scaled_dot_product_attention", operands, how)])
    program, reads = state_nodes(graph, graph.nodes)
    return Request(workload_of("attention", program), tuple(int(n[1:]) for n in reads), orders)


HEADS = (0, 2, 1, 3)
"""The order of the axes of ``(batch, heads, positions, features)`` as projections write them."""


def channels_last(rank: int) -> tuple[int, ...]:
    """The order of the axes of images of this rank whose channels lie last."""
    return (0, *range(2, rank), 1)


Asked = tuple[str, dict[str, Any], tuple[int, ...]]


def _dense(*tensors: Tensor | None) -> None:
    if any(t is not None and not t.dense for t in tensors):
        raise NoRequest("strides")


def _turned(t: Tensor) -> bool:
    """Whether the last two axes lie exchanged in memory. Raises :class:`NoRequest` where it is not dense either way."""
    if not (t.dense or t.turned):
        raise NoRequest("strides")
    return not t.dense


def _fits(condition: bool) -> None:
    if not condition:
        raise NoRequest("shape")


def _mm(a: Tensor, b: Tensor) -> Asked:
    _fits(a.rank == b.rank == 2 and a.shape[1] == b.shape[0])
    sizes = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
    return "matmul", {**sizes, "trans_a": _turned(a), "trans_b": _turned(b)}, (0, 1)


def _batched(a: Tensor, b: Tensor) -> Asked:
    _fits(a.rank == b.rank >= 3 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2])
    sizes = {"b": math.prod(a.shape[:-2]), "m": a.shape[-2], "n": b.shape[-1], "k": a.shape[-1]}
    return "batch_matmul", {**sizes, "trans_a": _turned(a), "trans_b": _turned(b)}, (0, 1)


def _matmul(a: Tensor, b: Tensor) -> Asked:
    if a.rank == b.rank == 2:
        return _mm(a, b)
    if a.rank > 2 and b.rank == 2:  # rows of all batches are one product's
        _dense(a)
        _fits(a.shape[-1] == b.shape[0])
        sizes = {"m": a.size // a.shape[-1], "n": b.shape[1], "k": b.shape[0]}
        return "matmul", {**sizes, "trans_b": _turned(b)}, (0, 1)
    return _batched(a, b)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Asked:
    _fits(x.rank >= 1 and weight.rank == 2 and x.shape[-1] == weight.shape[1])
    _fits(bias is None or bias.shape == weight.shape[:1])
    turned = _turned(x) if x.rank == 2 else False
    if x.rank != 2:
        _dense(x)
    _dense(bias)
    n, k = weight.shape
    params = {"m": x.size // k, "n": n, "k": k, "trans_a": turned, "trans_b": not _turned(weight)}
    return "matmul", {**params, "bias": bias is not None}, (0, 1) if bias is None else (0, 1, 2)


def _convolution(
    axes: int,
    transposed: bool,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    *more: Any,
) -> Asked:
    """What a convolution of either direction asks for; lists have numbers for each spatial axis, or one for all.

    ``more``: dilation and groups; of a transposed one the output's padding, groups and dilation.
    """
    lists = {"stride": stride, "padding": padding}
    if transposed:
        lists["output_padding"], groups, lists["dilation"] = more
    else:
        lists["dilation"], groups = more
    _fits(x.rank == weight.rank == axes + 2 and groups > 0)
    inner, outer = (weight.shape[0], weight.shape[1] * groups) if transposed else weight.shape[1::-1]
    _fits(x.shape[1] == (inner if transposed else inner * groups))
    _fits((inner if transposed else outer) % groups == 0 and (bias is None or bias.shape == (outer,)))
    last = not transposed and axes > 1 and x.order == channels_last(x.rank)
    _dense(bias, *(() if last else (x, weight)))
    params: dict[str, Any] = dict(zip(size_names(axes), (*x.shape, outer, *weight.shape[2:]), strict=True))
    for name, value in lists.items():
        params[name] = _sizes(value if len(value) == axes else [*value] * axes)
    params |= {"groups": groups, "bias": bias is not None, **({"layout": LAYOUTS[axes][1]} if last else {})}
    return f"conv{'_transpose' if transposed else ''}{axes}d", params, (0, 1) if bias is None else (0, 1, 2)


def _sizes(values: Sequence[int]) -> str:
    return ",".join(str(int(v)) for v in values)


def _layer_norm(x: Tensor, own: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Asked:
    _dense(x, weight, bias)
    _fits(all(t is None or t.shape == tuple(own) for t in (weight, bias)))
    params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
    places = (0, *(n for n, t in ((2, weight), (3, bias)) if t is not None))
    return "layer_norm", {**params, "bias": bias is not None}, places


def _rms_norm(x: Tensor, own: Sequence[int], weight: Tensor | None, eps: float | None) -> Asked:
    _dense(x, weight)
    _fits(weight is None or weight.shape == tuple(own))
    if eps is None:
        if x.dtype not in ("float32", "float64"):
            raise NoRequest("arguments")
        eps = float(np.finfo(x.dtype).eps)
    params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
    return "rms_norm", params, (0,) if weight is None else (0, 2)


def _softmax(op: str) -> Callable[..., Asked]:
    def softmax(x: Tensor, dim: int) -> Asked:
        _dense(x)
        _fits(x.rank > 0 and -x.rank <= dim < x.rank)
        last = dim % x.rank == x.rank - 1
        return op, {"shape": _sizes(x.shape), "dim": -1 if last else dim % x.rank}, (0,)

    return softmax


def _softmax_backward(op: str) -> Callable[..., Asked]:
    def backward(grad: Tensor, y: Tensor, dim: int) -> Asked:
        _fits(grad.shape == y.shape)
        _dense(grad)
        return (op, *_softmax(op)(y, dim)[1:2], (0, 1))

    return backward


def _norm_backward(op: str) -> Callable[..., Asked]:
    def backward(grad: Tensor, x: Tensor, own: Sequence[int], weight: Tensor | None, eps: float) -> Asked:
        _dense(grad, x, weight)
        _fits(grad.shape == x.shape and (weight is None or weight.shape == tuple(own)))
        params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
        return op, params, (0, 1) if weight is None else (0, 1, 3)

    return backward


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Asked:
    if mask is not None:  # where a mask hides all keys frameworks give no NaN, as our kernels do
        raise NoRequest("arguments")
    _fits(q.rank == k.rank == v.rank and q.rank in (3, 4))
    _dense(*(t for t in (q, k, v) if t.order != HEADS))
    (b, h, lq, d), keys, values = (t.shape if t.rank == 4 else (t.shape[0], 1, *t.shape[1:]) for t in (q, k, v))
    (hk, lk), dv = keys[1:3], values[3]
    _fits(keys == (b, hk, lk, d) and values[:3] == keys[:3] and (h == hk or (enable_gqa and h % hk == 0)))
    params: dict[str, Any] = {"b": b, "h": h, "lq": lq, "lk": lk, "d": d, "is_causal": is_causal}
    params |= {"hk": 0 if hk == h else hk, "dv": 0 if dv == d else dv}
    usual = scale is None or scale == 1 / math.sqrt(d)
    if scale == 0.0:
        raise NoRequest("arguments")
    return "attention", {**params, "scale": 0.0 if usual else scale}, (0, 1, 2)


_RECOGNISERS: dict[str, Callable[..., Asked]] = {
    "mm": _mm,
    "bmm": _batched,
    "matmul": _matmul,
    "linear": _linear,
    **{f"conv{axes}d": partial(_convolution, axes, False) for axes in (1, 2, 3)},
    **{f"conv_transpose{axes}d": partial(_convolution, axes, True) for axes in (1, 2)},
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax("softmax"),
    "log_softmax": _softmax("log_softmax"),
    "softmax_backward": _softmax_backward("softmax_backward"),
    "log_softmax_backward": _softmax_backward("log_softmax_backward"),
    "layer_norm_backward": _norm_backward("layer_norm_backward"),
    "rms_norm_backward": _norm_backward("rms_norm_backward"),
    "scaled_dot_product_attention": _attention,
}
