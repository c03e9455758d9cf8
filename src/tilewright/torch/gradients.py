"""Gradients of the operators, computed by operators of ``torch.ops.tilewright`` again, so that tuned kernels serve
them.

Gradients of norms and softmax are PyTorch's where no kernel was tuned for them, and where gradients of gradients are
recorded.

Sources: the derivatives of PyTorch's own operators (``derivatives.yaml``); softmax and norms by their formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tilewright.core import UsageError
from tilewright.torch.serving import tuned

aten = torch.ops.aten
Grads = tuple[Any, ...]


@dataclass(frozen=True)
class Gradient:
    """An operator's gradient: ``save(ctx, inputs, output)`` stores what ``formula(ctx, grad, wants)`` needs.

    ``wants``: for each argument whether it needs a gradient. The formula returns one gradient for each argument.
    """

    save: Callable[..., None]
    formula: Callable[[Any, Any, Sequence[bool]], Grads]

    def backward(self, ctx: Any, grad: Any) -> Grads:
        given = ctx.needs_input_grad  # the dispatcher leaves out arguments that have their default
        return self.formula(ctx, grad, (*given, *(False,) * (8 - len(given))))[: len(given)]


def _save(tensors: Sequence[int], result: bool = False) -> Callable[..., None]:
    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*(inputs[n] for n in tensors), *((output,) if result else ()))
        ctx.rest = tuple(None if isinstance(a, torch.Tensor) else a for a in inputs)

    return save


def _ours() -> Any:
    return torch.ops.tilewright


def _mm_backward(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    a, b = ctx.saved_tensors
    product = _ours().mm if a.dim() == 2 else _ours().bmm
    return (product(grad, b.mT) if wants[0] else None, product(a.mT, grad) if wants[1] else None)


def _matmul_backward(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    a, b = ctx.saved_tensors
    rows = a.unsqueeze(0) if a.dim() == 1 else a
    columns = b.unsqueeze(-1) if b.dim() == 1 else b
    g = grad.unsqueeze(-2) if a.dim() == 1 and b.dim() > 1 else grad
    g = g.unsqueeze(-1) if b.dim() == 1 and a.dim() > 1 else g
    g = g.reshape(1, 1) if a.dim() == b.dim() == 1 else g
    ga = gb = None
    if wants[0]:
        ga = _ours().matmul(g, columns.mT).sum_to_size(rows.shape).reshape(a.shape)
    if wants[1] and columns.dim() == 2:  # one product over the rows of all batches
        gb = _ours().mm(_rows(rows).t(), _rows(g)).reshape(b.shape)
    elif wants[1]:
        gb = _ours().matmul(rows.mT, g).sum_to_size(columns.shape).reshape(b.shape)
    return ga, gb


def _rows(t: Any) -> Any:
    return t.flatten(0, -2) if t.dim() > 1 else t.unsqueeze(0)


def _linear_backward(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    x, weight = ctx.saved_tensors
    gx = _ours().matmul(grad, weight) if wants[0] else None
    gw = _ours().mm(_rows(grad).t(), _rows(x)) if wants[1] else None
    gb = _rows(grad).sum(0) if wants[2] else None
    return gx, gw, gb


@dataclass(frozen=True)
class _Window:
    """A convolution's arguments, each with one number for every spatial axis."""

    stride: list[int]
    padding: list[int]
    dilation: list[int]
    output_padding: list[int]
    groups: int
    transposed: bool


def _save_convolution(transposed: bool, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, stride, padding, *rest = inputs
    more, groups, dilation = rest if transposed else ([0], *reversed(rest))
    ctx.save_for_backward(x, weight)
    rank = weight.dim() - 2
    stride, padding, dilation, more = (
        list(v) if len(v) == rank else [*v] * rank for v in (stride, padding, dilation, more)
    )
    ctx.window = _Window(stride, padding, dilation, more, groups, transposed)
    ctx.bias = None if bias is None else list(bias.shape)


def _convolution_backward(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    """A convolution's gradients: the input's is a transposed convolution (or back), the weight's convolves input and
    gradient.

    Each runs as a tuned kernel if there is one, else in PyTorch.
    """
    x, weight = ctx.saved_tensors
    w = ctx.window
    batched = x.dim() == weight.dim()
    x, grad = (x, grad) if batched else (x.unsqueeze(0), grad.unsqueeze(0))
    gx = _input_gradient(x, weight, grad, w) if wants[0] else None
    gw = _weight_gradient(x, weight, grad, w) if wants[1] else None
    gb = None
    rest = [wants[0] and gx is None, wants[1] and gw is None, wants[2]]
    if any(rest):
        theirs = aten.convolution_backward(
            grad, x, weight, ctx.bias, w.stride, w.padding, w.dilation, w.transposed, w.output_padding, w.groups, rest
        )
        gx, gw, gb = (ours if ours is not None else t for ours, t in zip((gx, gw, None), theirs, strict=True))
    gx = gx.squeeze(0) if gx is not None and not batched else gx
    return gx, gw, gb, None, None, None, None, None


def _input_gradient(x: Any, weight: Any, grad: Any, w: _Window) -> Any:
    rank = weight.dim() - 2
    rest: tuple[Any, ...]
    if w.transposed:
        name, rest = f"conv{rank}d", (w.stride, w.padding, w.dilation, w.groups)
    elif rank <= 2:
        short = [
            n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, m, s, p, d, k in zip(
                x.shape[2:], grad.shape[2:], w.stride, w.padding, w.dilation, weight.shape[2:], strict=True
            )
        ]
        name, rest = f"conv_transpose{rank}d", (w.stride, w.padding, short, w.groups, w.dilation)
    else:
        return None
    if not tuned(name, (grad.shape, weight.shape), grad, None, *rest):
        return None
    return getattr(_ours(), name)(grad.contiguous(), weight.contiguous(), None, *rest)


def _weight_gradient(x: Any, weight: Any, grad: Any, w: _Window) -> Any:
    if w.transposed or w.groups != 1:
        return None
    name, rest = f"conv{weight.dim() - 2}d", (w.dilation, w.padding, w.stride, 1)
    images, kernels = x.transpose(0, 1), grad.transpose(0, 1)
    if not tuned(name, (images.shape, kernels.shape), grad, None, *rest):
        return None
    made = getattr(_ours(), name)(images.contiguous(), kernels.contiguous(), None, *rest)
    for axis, size in enumerate(weight.shape[2:], 2):  # inputs that the stride skips give extra elements
        made = made.narrow(axis, 0, size)
    return made.transpose(0, 1).contiguous()


def _save_norm(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensors = [a for a in inputs[2:] if isinstance(a, torch.Tensor)]
    ctx.save_for_backward(inputs[0], *tensors)
    ctx.has = [isinstance(a, torch.Tensor) for a in inputs[2:-1]]
    ctx.lead = inputs[0].dim() - len(inputs[1])
    ctx.eps = inputs[-1]


def _shared(t: Any, axes: list[int], dtype: Any) -> Any:
    return (t.sum(axes) if axes else t).to(dtype)


def served(name: str, shapes: Sequence[Sequence[int]], like: Any, *rest: Any) -> bool:
    """Whether a tuned kernel computes a gradient whose own gradient is not recorded."""
    return not torch.is_grad_enabled() and tuned(name, shapes, like, *rest)


def _of_norm(centred: bool, ctx: Any, grad: Any, eps: float) -> Any:
    """The gradient of a norm's input."""
    x, *rest = ctx.saved_tensors
    name = "layer_norm_backward" if centred else "rms_norm_backward"
    own, weight = x.shape[ctx.lead :], rest[0] if ctx.has[0] else None
    if weight is None or weight.dtype == x.dtype:
        like = None if weight is None else torch.empty(weight.shape, dtype=weight.dtype, device="meta")
        if served(name, (x.shape, x.shape), x, list(own), like, eps):
            made = getattr(_ours(), name)
            return made(grad.contiguous(), x.contiguous(), own, None if weight is None else weight.contiguous(), eps)
    return norm_backward(centred, grad, x, own, weight, eps)


def _wide(grad: Any, x: Any, weight: Any) -> tuple[Any, Any, Any]:
    """The gradient, the input, and the gradient times the weight, with 16-bit reals as float32."""
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    g = grad.to(wide)
    return g, x.to(wide), g if weight is None else g * weight.to(wide)


def norm_backward(centred: bool, grad: Any, x: Any, own: Sequence[int], weight: Any, eps: float) -> Any:
    """The gradient of a norm's input, as ``torch.ops.tilewright.layer_norm_backward`` or (not ``centred``)
    ``rms_norm_backward`` computes it."""
    _, wide, weighted = _wide(grad, x, weight)
    axes = list(range(x.dim() - len(own), x.dim()))
    normal, scale = _normal(centred, wide, axes, eps)
    flow = weighted - weighted.mean(axes, keepdim=True) if centred else weighted
    return (scale * (flow - normal * (weighted * normal).mean(axes, keepdim=True))).to(x.dtype)


def _normal(centred: bool, x: Any, axes: list[int], eps: float) -> tuple[Any, Any]:
    """The normalised values without weights, and the factor of each row."""
    if centred:
        square, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        x = x - mean
    else:
        square = (x * x).mean(axes, keepdim=True)
    scale = torch.rsqrt(square + eps)
    return x * scale, scale


def _norm_gradients(centred: bool, ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    x, *weights = ctx.saved_tensors
    eps = torch.finfo(x.dtype).eps if ctx.eps is None else ctx.eps
    gx = _of_norm(centred, ctx, grad, eps) if wants[0] else None
    gw = gb = None
    rows = list(range(ctx.lead))
    if ctx.has[0] and wants[2]:
        g, wide, _ = _wide(grad, x, None)
        normal, _ = _normal(centred, wide, list(range(ctx.lead, x.dim())), eps)
        gw = _shared(g * normal, rows, weights[0].dtype)
    if any(ctx.has[1:]) and wants[3]:
        gb = _shared(_wide(grad, grad, None)[0], rows, weights[-1].dtype)
    return gx, None, gw, gb, None


def _softmax_gradients(name: str, ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    (y,), dim = ctx.saved_tensors, ctx.rest[1]
    if grad.dtype == y.dtype and served(name, (grad.shape, y.shape), y, dim):
        return getattr(_ours(), name)(grad.contiguous(), y.contiguous(), dim), None
    return softmax_backward(name, grad, y, dim), None


def softmax_backward(name: str, grad: Any, y: Any, dim: int) -> Any:
    """The gradient of softmax or log-softmax, as the operator ``name`` of ``torch.ops.tilewright`` computes it, by
    PyTorch."""
    return getattr(aten, f"_{name}_data")(grad, y, dim, y.dtype)


def _save_attention(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, mask, ctx.is_causal, ctx.scale, _ = inputs
    ctx.save_for_backward(q, k, v, mask)


def _attention_backward(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    q, k, v, mask = ctx.saved_tensors
    scale = q.shape[-1] ** -0.5 if ctx.scale is None else ctx.scale
    heads = 1 if q.dim() < 4 else q.shape[-3] // k.shape[-3]
    keys, values = (t.repeat_interleave(heads, -3) if heads > 1 else t for t in (k, v))
    product = _ours().matmul
    score = product(q, keys.mT).float() * scale if q.dtype != torch.float64 else product(q, keys.mT) * scale
    if ctx.is_causal:
        seen = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device).tril()
        score = score.masked_fill(~seen, float("-inf"))
    if mask is not None:
        score = score.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else score + mask
    weights = aten._safe_softmax(score, -1)
    flow = product(grad, values.mT).to(weights.dtype)
    inner = weights * (flow - (flow * weights).sum(-1, keepdim=True))
    narrow = inner.to(q.dtype)
    gq = (product(narrow, keys) * scale).sum_to_size(q.shape) if wants[0] else None
    gk = product(narrow.mT, q) * scale if wants[1] else None
    gv = product(weights.to(q.dtype).mT, grad) if wants[2] else None
    if heads > 1:
        gk, gv = (t if t is None else t.unflatten(-3, (-1, heads)).sum(-3) for t in (gk, gv))
    gk = gk if gk is None else gk.sum_to_size(k.shape)
    gv = gv if gv is None else gv.sum_to_size(v.shape)
    gm = inner.sum_to_size(mask.shape).to(mask.dtype) if mask is not None and wants[3] else None
    return gq, gk, gv, gm, None, None, None


def _none(ctx: Any, grad: Any, wants: Sequence[bool]) -> Grads:
    raise UsageError("a gradient's kernel has no gradient itself", "Differentiate the operator whose gradient it is")


NONE = Gradient(_save(()), _none)
MM = BMM = Gradient(_save((0, 1)), _mm_backward)
MATMUL = Gradient(_save((0, 1)), _matmul_backward)
LINEAR = Gradient(_save((0, 1)), _linear_backward)
CONVOLUTION = Gradient(partial(_save_convolution, False), _convolution_backward)
TRANSPOSED = Gradient(partial(_save_convolution, True), _convolution_backward)
LAYER_NORM = Gradient(_save_norm, partial(_norm_gradients, True))
RMS_NORM = Gradient(_save_norm, partial(_norm_gradients, False))
SOFTMAX = Gradient(_save((), result=True), partial(_softmax_gradients, "softmax_backward"))
LOG_SOFTMAX = Gradient(_save((), result=True), partial(_softmax_gradients, "log_softmax_backward"))
ATTENTION = Gradient(_save_attention, _attention_backward)
