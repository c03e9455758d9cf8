"""What a call of a PyTorch operator asks for: a built-in operator of ours with its parameters.

Tensors are judged by shape, strides and dtype alone, so that fake tensors ask for what real ones would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.core import UsageError, Workload
from tilewright.graph import GraphBuilder
from tilewright.graph.groups import state_nodes, workload_of
from tilewright.kernels.operators import get_operator

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
"""The dtypes that are served, by PyTorch's name and ours."""

NORMS = ("layer_norm", "rms_norm")
"""Those that PyTorch computes of 16-bit reals with float32 weights, too."""

Arguments = Sequence[Any]


@dataclass(frozen=True)
class Request:
    """A workload, and which arguments of the call are its inputs, in order; their memory is as it takes it."""

    workload: Workload
    places: tuple[int, ...]


class NoRequest(Exception):
    """No operator of ours takes such a call: a reason of ``runtime.stats.REASONS``."""


def request(name: str, args: Arguments) -> Request:
    """The request of ``torch.ops.tilewright.<name>(*args)``, with defaults filled in. Raises :class:`NoRequest`."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    dtype = tensors[0].dtype
    others = {t.dtype for t in tensors} - {dtype}
    mixed = name in NORMS and dtype in (torch.float16, torch.bfloat16) and others == {torch.float32}
    if dtype not in DTYPES or (others and not mixed):
        raise NoRequest("dtype")
    if any(t.numel() == 0 for t in tensors):
        raise NoRequest("empty")
    if any(t.layout is not torch.strided or t.is_neg() or t.is_conj() for t in tensors):
        raise NoRequest("type")
    op, params, places = _RECOGNISERS[name](*args)
    if mixed:
        return _mixed(op, params, places, args)
    try:
        return Request(get_operator(op).workload(**params, dtype=DTYPES[dtype]), places)
    except UsageError as e:  # what does not fit together: PyTorch names it
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
    given = {p: builder.input(n, tuple(args[p].shape), DTYPES[args[p].dtype]) for n, p in names.items()}
    own = {"normalized_shape": tuple(int(n) for n in args[1]), "eps": params["eps"]}
    last = (2, 3) if op == "layer_norm" else (2,)
    graph = builder.build([builder.add(op, [given[0], *(given.get(p, "") for p in last)], own)])
    text, reads = state_nodes(graph, graph.nodes)
    return Request(workload_of(op, text), tuple(names[n] for n in reads))


Asked = tuple[str, dict[str, Any], tuple[int, ...]]


def _dense(*tensors: torch.Tensor | None) -> None:
    if any(t is not None and not t.is_contiguous() for t in tensors):
        raise NoRequest("strides")


def _turned(t: torch.Tensor) -> bool:
    """Whether the last two axes lie exchanged in memory. Raises :class:`NoRequest` where it is not dense either way."""
    if t.is_contiguous():
        return False
    _dense(t.transpose(-1, -2))
    return True


def _fits(condition: bool) -> None:
    if not condition:
        raise NoRequest("shape")


def _mm(a: torch.Tensor, b: torch.Tensor) -> Asked:
    _fits(a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0])
    sizes = {"m": a.shape[0], "n": b.shape[1], "k": a.shape[1]}
    return "matmul", {**sizes, "trans_a": _turned(a), "trans_b": _turned(b)}, (0, 1)


def _batched(a: torch.Tensor, b: torch.Tensor) -> Asked:
    _fits(a.dim() == b.dim() >= 3 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2])
    sizes = {"b": math.prod(a.shape[:-2]), "m": a.shape[-2], "n": b.shape[-1], "k": a.shape[-1]}
    return "batch_matmul", {**sizes, "trans_a": _turned(a), "trans_b": _turned(b)}, (0, 1)


def _matmul(a: torch.Tensor, b: torch.Tensor) -> Asked:
    if a.dim() == b.dim() == 2:
        return _mm(a, b)
    if a.dim() > 2 and b.dim() == 2:  # rows of all batches are one product's
        _dense(a)
        _fits(a.shape[-1] == b.shape[0])
        sizes = {"m": a.numel() // a.shape[-1], "n": b.shape[1], "k": b.shape[0]}
        return "matmul", {**sizes, "trans_b": _turned(b)}, (0, 1)
    return _batched(a, b)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Asked:
    _fits(x.dim() >= 1 and weight.dim() == 2 and x.shape[-1] == weight.shape[1])
    _fits(bias is None or bias.shape == weight.shape[:1])
    turned = _turned(x) if x.dim() == 2 else False
    if x.dim() != 2:
        _dense(x)
    _dense(bias)
    n, k = weight.shape
    params = {"m": x.numel() // k, "n": n, "k": k, "trans_a": turned, "trans_b": not _turned(weight)}
    return "matmul", {**params, "bias": bias is not None}, (0, 1) if bias is None else (0, 1, 2)


_SPATIAL = ("d", "h", "w")


def _windowed(
    operator: str,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    co: int,
    groups: int,
    lists: dict[str, Sequence[int]],
) -> Asked:
    """What a convolution of either direction asks for; ``lists``: numbers for each spatial axis, or one for all."""
    rank = x.dim() - 2
    names = _SPATIAL[-rank:]
    params: dict[str, Any] = {"n": x.shape[0], "ci": x.shape[1], "co": co}
    params |= {a: x.shape[2 + i] for i, a in enumerate(names)}
    params |= {f"k{a}": weight.shape[2 + i] for i, a in enumerate(names)}
    for name, value in lists.items():
        params[name] = ",".join(str(int(v)) for v in (value if len(value) == rank else [*value] * rank))
    params |= {"groups": groups, "bias": bias is not None}
    return operator, params, (0, 1) if bias is None else (0, 1, 2)


def _convolution(rank: int) -> Callable[..., Asked]:
    def conv(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> Asked:
        _fits(x.dim() == weight.dim() == rank + 2)
        _fits(groups > 0 and x.shape[1] == weight.shape[1] * groups and weight.shape[0] % groups == 0)
        _fits(bias is None or bias.shape == weight.shape[:1])
        _dense(x, weight, bias)
        lists = {"stride": stride, "padding": padding, "dilation": dilation}
        return _windowed(f"conv{rank}d", x, weight, bias, weight.shape[0], groups, lists)

    return conv


def _transposed(rank: int) -> Callable[..., Asked]:
    def conv(
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        output_padding: Sequence[int],
        groups: int,
        dilation: Sequence[int],
    ) -> Asked:
        _fits(x.dim() == weight.dim() == rank + 2)
        _fits(groups > 0 and x.shape[1] == weight.shape[0] and x.shape[1] % groups == 0)
        _fits(bias is None or bias.shape[0] == weight.shape[1] * groups)
        _dense(x, weight, bias)
        lists = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        return _windowed(f"conv_transpose{rank}d", x, weight, bias, weight.shape[1] * groups, groups, lists)

    return conv


def _sizes(values: Sequence[int]) -> str:
    return ",".join(str(int(v)) for v in values)


def _layer_norm(
    x: torch.Tensor, own: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Asked:
    _dense(x, weight, bias)
    _fits(all(t is None or t.shape == torch.Size(own) for t in (weight, bias)))
    params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
    places = (0, *(n for n, t in ((2, weight), (3, bias)) if t is not None))
    return "layer_norm", {**params, "bias": bias is not None}, places


def _rms_norm(x: torch.Tensor, own: Sequence[int], weight: torch.Tensor | None, eps: float | None) -> Asked:
    _dense(x, weight)
    _fits(weight is None or weight.shape == torch.Size(own))
    if eps is None:
        if x.dtype not in (torch.float32, torch.float64):
            raise NoRequest("arguments")
        eps = torch.finfo(x.dtype).eps
    params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
    return "rms_norm", params, (0,) if weight is None else (0, 2)


def _softmax(op: str) -> Callable[..., Asked]:
    def softmax(x: torch.Tensor, dim: int) -> Asked:
        _dense(x)
        _fits(x.dim() > 0 and -x.dim() <= dim < x.dim())
        last = dim % x.dim() == x.dim() - 1
        return op, {"shape": _sizes(x.shape), "dim": -1 if last else dim % x.dim()}, (0,)

    return softmax


def _softmax_backward(op: str) -> Callable[..., Asked]:
    def backward(grad: torch.Tensor, y: torch.Tensor, dim: int) -> Asked:
        _fits(grad.shape == y.shape)
        _dense(grad)
        return (op, *_softmax(op)(y, dim)[1:2], (0, 1))

    return backward


def _norm_backward(op: str) -> Callable[..., Asked]:
    def backward(
        grad: torch.Tensor, x: torch.Tensor, own: Sequence[int], weight: torch.Tensor | None, eps: float
    ) -> Asked:
        _dense(grad, x, weight)
        _fits(grad.shape == x.shape and (weight is None or weight.shape == torch.Size(own)))
        params = {"shape": _sizes(x.shape), "normalized_shape": _sizes(own), "weight": weight is not None, "eps": eps}
        return op, params, (0, 1) if weight is None else (0, 1, 3)

    return backward


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Asked:
    if mask is not None:  # where a mask hides all keys PyTorch gives zeros, and our kernels NaN
        raise NoRequest("arguments")
    _fits(q.dim() == k.dim() == v.dim() and q.dim() in (3, 4))
    _dense(q, k, v)
    if q.dim() == 3:
        q, k, v = q[:, None], k[:, None], v[:, None]
    (b, h, lq, d), (hk, lk), dv = q.shape, k.shape[1:3], v.shape[3]
    _fits(k.shape == (b, hk, lk, d) and v.shape[:3] == k.shape[:3] and (h == hk or (enable_gqa and h % hk == 0)))
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
    "conv1d": _convolution(1),
    "conv2d": _convolution(2),
    "conv3d": _convolution(3),
    "conv_transpose1d": _transposed(1),
    "conv_transpose2d": _transposed(2),
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
