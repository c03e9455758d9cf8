"""Layer, RMS, group and batch normalisation, softmax, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import (
    REALS,
    Array,
    Found,
    Shape,
    Shapes,
    expected,
    minus_max,
    rounded,
    rounded_like,
    shape_of_input,
    text,
    wide,
)

ROWS: dict[str, Value] = {"shape": "1024,1024"}


def _last_axes(x: Array, normalized_shape: Shape) -> tuple[int, ...]:
    return tuple(range(x.ndim - (len(normalized_shape) or 1), x.ndim))


def _centred(x: Array, axes: tuple[int, ...]) -> Array:
    less: Array = x - x.mean(axis=axes, keepdims=True)
    return less


def _by_root(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """``x`` divided by the root of the mean of its squares."""
    return np.asarray(x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + x.dtype.type(eps)))


# --------------------------------------------------------------------------- layer norm


@rounded
def _numpy_rows(
    x: Array, *rest: Array, normalized_shape: Shape, weight: bool, bias: bool, residual: bool, eps: float, centre: bool
) -> Array:
    extra = list(rest)
    w = extra.pop(0) if weight else None
    b = extra.pop(0) if bias else None
    x = x + extra.pop(0) if residual else x
    axes = _last_axes(x, normalized_shape)
    out = _by_root(_centred(x, axes) if centre else x, axes, eps)
    out = out if w is None else out * w
    return out if b is None else out + b


def _infer_rows(
    op: str, shapes: Shapes, normalized_shape: Shape, weight: bool, bias: bool, residual: bool
) -> Found:  # fmt: skip
    shape, *rest = shapes
    expected(op, rest, [normalized_shape or shape[-1:]] * (weight + bias) + [shape] * residual)
    return {"shape": text(shape)}


def _rows(
    op: str, shape: Shape, normalized_shape: Shape, vectors: tuple[bool, ...], residual: bool, dtype: str
) -> tuple[te.TensorRef, Shape, list[te.TensorRef | None]]:
    """The tensor to normalise, the sizes of the last axes, and weight and bias, each if requested."""
    own = normalized_shape or shape[-1:]
    if not shape:
        raise UsageError(f"{op}: shape has no axes", "Give at least one")
    x = te.input("input", shape, dtype)
    given = [te.input(n, own, dtype) if v else None for n, v in zip(("weight", "bias"), vectors, strict=False)]
    if residual:
        x = nn.elementwise("x + y", x=x, y=te.input("residual", shape, dtype))
    return x, own, given


@operator(numpy=partial(_numpy_rows, centre=True), infer=partial(_infer_rows, "layer_norm"), dtypes=REALS, example=ROWS)
def layer_norm(
    shape: te.Shape,
    *,
    normalized_shape: te.Shape = (),
    weight: bool = True,
    bias: bool = True,
    residual: bool = False,
    eps: float = 1e-5,
    dtype: str = "float32",
) -> te.TensorRef:
    """Layer norm: ``(x - mean) / sqrt(var + eps) * weight + bias``, where ``x`` is ``input + residual``.

    Inputs in call order: ``input`` (``shape``), ``weight`` and ``bias`` (``normalized_shape``) unless switched
    off, ``residual`` (``shape``) where asked for. Output: ``shape``. Mean and variance are over the last axes,
    whose sizes are ``normalized_shape`` (the last one alone unless given). 16-bit reals are computed in float32
    and rounded once.
    """
    x, own, (w, b) = _rows("layer_norm", shape, normalized_shape, (weight, bias), residual, dtype)
    return nn.cast(nn.layer_norm(x, own, w, b, eps), dtype)


# --------------------------------------------------------------------------- root mean square


@operator(
    numpy=partial(_numpy_rows, bias=False, centre=False), infer=partial(_infer_rows, "rms_norm", bias=False),
    dtypes=REALS, example=ROWS,
)  # fmt: skip
def rms_norm(
    shape: te.Shape,
    *,
    normalized_shape: te.Shape = (),
    weight: bool = True,
    residual: bool = False,
    eps: float = 1e-6,
    dtype: str = "float32",
) -> te.TensorRef:
    """RMS norm: ``x / sqrt(mean of squares + eps) * weight``, where ``x`` is ``input + residual``.

    Inputs in call order: ``input`` (``shape``), ``weight`` (``normalized_shape``) unless switched
    off, ``residual`` (``shape``) where asked for. Output: ``shape``. The mean is over the last axes,
    whose sizes are ``normalized_shape`` (the last one alone unless given). 16-bit reals are computed in float32
    and rounded once. PyTorch's own default of ``eps`` is the spacing of the type at 1.
    """
    x, own, (w,) = _rows("rms_norm", shape, normalized_shape, (weight,), residual, dtype)
    return nn.cast(nn.rms_norm(x, own, w, eps), dtype)


# --------------------------------------------------------------------------- groups of channels


@rounded
def _numpy_group(x: Array, *rest: Array, num_groups: int, affine: bool, eps: float) -> Array:
    groups = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups * math.prod(x.shape[2:]))
    out = _by_root(_centred(groups, (2,)), (2,), eps).reshape(x.shape)
    if not affine:
        return out
    weight, bias = (v.reshape(-1, *(1 for _ in x.shape[2:])) for v in rest)
    return np.asarray(out * weight + bias)


def _infer_group(shapes: Shapes, *, num_groups: int, affine: bool) -> Found:
    shape, *rest = shapes
    expected("group_norm", rest, [shape[1:2]] * (2 * affine))
    return {"shape": text(shape), "num_groups": num_groups}


@operator(numpy=_numpy_group, infer=_infer_group, dtypes=REALS, example={"shape": "8,64,14,14", "num_groups": 8})
def group_norm(
    shape: te.Shape, num_groups: int, *, affine: bool = True, eps: float = 1e-5, dtype: str = "float32"
) -> te.TensorRef:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, over each group of neighbouring channels and all places.

    Inputs in call order: ``input`` (``shape``: n, c, ...), and with ``affine`` ``weight`` and ``bias`` (c,). Output:
    ``shape``. ``num_groups`` divides c. 16-bit reals are computed in float32 and rounded once.
    """
    x = te.input("input", shape, dtype)
    weight, bias = (te.input(n, shape[1:2], dtype) if affine else None for n in ("weight", "bias"))
    return nn.cast(nn.group_norm(x, num_groups, weight, bias, eps), dtype)


# --------------------------------------------------------------------------- batches


def _numpy_batch(x: Array, *rest: Array, affine: bool, eps: float, dim: int) -> Array:
    moved = np.moveaxis(wide(x), dim, -1)
    mean, var, *scaling = map(wide, rest)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = (moved - mean) / np.sqrt(var + moved.dtype.type(eps))
    if affine:
        weight, bias = scaling
        out = out * weight + bias
    return rounded_like(np.moveaxis(out, -1, dim), x)


def _infer_batch(shapes: Shapes, affine: bool, dim: int) -> Found:
    shape, *rest = shapes
    if not -len(shape) <= dim < len(shape):
        raise UsageError(
            f"batch_norm: dim={dim} is not an axis of an input of shape {shape}", "Give an axis of the input"
        )
    expected("batch_norm", rest, [(shape[dim],)] * (4 if affine else 2), "input")
    return {"shape": text(shape)}


@operator(numpy=_numpy_batch, infer=_infer_batch, dtypes=REALS, example={"shape": "1,64,56,56"})
def batch_norm(
    shape: te.Shape, *, affine: bool = True, eps: float = 1e-5, dim: int = 1, dtype: str = "float32"
) -> te.TensorRef:
    """Batch normalisation at inference: ``(input - running_mean) / sqrt(running_var + eps) * weight + bias``.

    Inputs in call order: ``input`` of any ``shape``; ``running_mean``, ``running_var`` and, unless ``affine`` is false,
    ``weight``, ``bias``: one number for each position along axis ``dim``. Output: as ``input``. 16-bit reals are
    computed in float32 and rounded once.
    """
    if not -len(shape) <= dim < len(shape):
        raise UsageError(f"batch_norm: dim={dim} is not an axis of shape={shape}", f"Use 0 to {len(shape) - 1}")
    x = te.input("input", shape, dtype)
    names = ("running_mean", "running_var", "weight", "bias")[: 4 if affine else 2]
    vectors = [te.input(name, (shape[dim],), dtype) for name in names]
    return nn.cast(nn.batch_norm(x, *vectors, eps=eps, dim=dim), dtype)


# --------------------------------------------------------------------------- gradients


def _norm_backward(
    norm: str, gradient: Callable[..., te.TensorRef], small: float, formula: str, normal: str
) -> Operator:
    """``gradient``, of ``nn``, of a norm's input as an operator. ``small``: the norm's default ``eps``."""
    name = f"{norm}_backward"
    centred = norm == "layer_norm"

    @rounded
    def numpy(g: Array, x: Array, *rest: Array, normalized_shape: Shape, weight: bool, eps: float) -> Array:
        axes = _last_axes(x, normalized_shape)
        flow = g * rest[0] if weight else g
        x = _centred(x, axes) if centred else x
        rstd = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
        scaled = x * rstd
        left = _centred(flow, axes) if centred else flow
        return np.asarray(rstd * (left - scaled * (flow * scaled).mean(axis=axes, keepdims=True)))

    def infer(shapes: Shapes, normalized_shape: Shape, weight: bool) -> Found:
        shape, *rest = shapes
        expected(name, rest, [shape, *[normalized_shape or shape[-1:]] * weight])
        return {"shape": text(shape)}

    def define(
        shape: te.Shape,
        *,
        normalized_shape: te.Shape = (),
        weight: bool = True,
        eps: float = small,
        dtype: str = "float32",
    ) -> te.TensorRef:
        own = normalized_shape or shape[-1:]
        if not shape:
            raise UsageError(f"{name}: shape has no axes", "Give at least one")
        g, x = te.input("grad_output", shape, dtype), te.input("input", shape, dtype)
        w = te.input("weight", own, dtype) if weight else None
        return nn.cast(gradient(g, x, own, w, eps), dtype)

    define.__doc__ = f"""The gradient of ``{norm}``'s input: ``{formula}``.

    ``g`` is ``grad_output * weight``, ``normal`` is ``{normal}``, means are over the last axes. Inputs in call order:
    ``grad_output`` and ``input`` (``shape``), ``weight`` (``normalized_shape``) unless switched off. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    return operator(name=name, numpy=numpy, infer=infer, dtypes=REALS, example=ROWS)(define)


layer_norm_backward = _norm_backward(
    "layer_norm", nn.layer_norm_backward, 1e-5, "rstd * (g - mean of g - normal * mean of g * normal)",
    "(input - mean) * rstd",
)  # fmt: skip
rms_norm_backward = _norm_backward(
    "rms_norm", nn.rms_norm_backward, 1e-6, "rstd * (g - normal * mean of g * normal)", "input * rstd"
)


# --------------------------------------------------------------------------- softmax


def _infer_pair(op: str, shapes: Shapes) -> Found:
    """``shape`` of two inputs, which must be equal."""
    shape, *rest = shapes
    expected(op, rest, [shape])
    return {"shape": text(shape)}


@rounded
def _numpy_softmax(x: Array, dim: int) -> Array:
    e = np.exp(minus_max(x, dim))
    return np.asarray(e / e.sum(axis=dim, keepdims=True))


@rounded
def _numpy_log_softmax(x: Array, dim: int) -> Array:
    less = minus_max(x, dim)
    return np.asarray(less - np.log(np.exp(less).sum(axis=dim, keepdims=True)))


@rounded
def _numpy_softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return np.asarray(y * (g - (g * y).sum(axis=dim, keepdims=True)))


@rounded
def _numpy_log_softmax_backward(g: Array, y: Array, dim: int) -> Array:
    return np.asarray(g - np.exp(y) * g.sum(axis=dim, keepdims=True))


@operator(numpy=_numpy_softmax, infer=shape_of_input, dtypes=REALS, example=ROWS)
def softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """Softmax of ``input`` along the axis ``dim``: ``exp(x - max) / sum of exp(x - max)``.

    Input: ``input`` (``shape``). Output: the same shape. ``max`` is the largest value along the axis, so nothing
    overflows. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.softmax(te.input("input", shape, dtype), dim), dtype)


@operator(numpy=_numpy_log_softmax, infer=shape_of_input, dtypes=REALS, example=ROWS)
def log_softmax(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """``log(softmax(input))`` along the axis ``dim``, as ``(x - max) - log(sum of exp(x - max))``.

    Input: ``input`` (``shape``). Output: the same shape. 16-bit reals are computed in float32 and rounded once.
    """
    return nn.cast(nn.log_softmax(te.input("input", shape, dtype), dim), dtype)


@operator(numpy=_numpy_softmax_backward, infer=partial(_infer_pair, "softmax_backward"), dtypes=REALS, example=ROWS)
def softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``softmax``'s input: ``output * (grad_output - sum of grad_output * output)``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (the softmax), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.softmax_backward(g, y, dim), dtype)


@operator(
    numpy=_numpy_log_softmax_backward, infer=partial(_infer_pair, "log_softmax_backward"), dtypes=REALS, example=ROWS
)
def log_softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``log_softmax``'s input: ``grad_output - exp(output) * sum of grad_output``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (its logarithm), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.log_softmax_backward(g, y, dim), dtype)
