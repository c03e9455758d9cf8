"""The gradients of the inputs of softmax, of its logarithm, and of norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.core import UsageError, Value
from tilewright.kernels import nn, te
from tilewright.kernels.operator import Operator, operator
from tilewright.kernels.operators.numeric import REALS, Array, expected, rounded

EXAMPLE: dict[str, Value] = {"shape": "1024,1024"}


def infer_pair(op: str) -> Callable[..., dict[str, Value]]:
    """``shape`` is that of two inputs."""

    def infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
        shape, *rest = shapes
        expected(op, rest, [shape])
        return {"shape": ",".join(map(str, shape))}

    return infer


def infer_norm(op: str) -> Callable[..., dict[str, Value]]:
    """``shape`` is that of the first two inputs; a third is as long as what is normalised."""

    def infer(
        shapes: Sequence[tuple[int, ...]], normalized_shape: tuple[int, ...] = (), weight: bool = True, **_: object
    ) -> dict[str, Value]:
        shape, *rest = shapes
        expected(op, rest, [shape, *[normalized_shape or shape[-1:]] * weight])
        return {"shape": ",".join(map(str, shape))}

    return infer


# --------------------------------------------------------------------------- softmax


@rounded
def _numpy_softmax(g: Array, y: Array, dim: int = -1) -> Array:
    return np.asarray(y * (g - (g * y).sum(axis=dim, keepdims=True)))


@rounded
def _numpy_log_softmax(g: Array, y: Array, dim: int = -1) -> Array:
    return np.asarray(g - np.exp(y) * g.sum(axis=dim, keepdims=True))


@operator(numpy=_numpy_softmax, infer=infer_pair("softmax_backward"), dtypes=REALS, example=EXAMPLE)
def softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``softmax``'s input: ``output * (grad_output - sum of grad_output * output)``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (the softmax), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.softmax_backward(g, y, dim), dtype)


@operator(numpy=_numpy_log_softmax, infer=infer_pair("log_softmax_backward"), dtypes=REALS, example=EXAMPLE)
def log_softmax_backward(shape: te.Shape, *, dim: int = -1, dtype: str = "float32") -> te.TensorRef:
    """The gradient of ``log_softmax``'s input: ``grad_output - exp(output) * sum of grad_output``.

    The sum is along the axis ``dim``. Inputs: ``grad_output`` and ``output`` (its logarithm), both ``shape``. Output:
    ``shape``. 16-bit reals are computed in float32 and rounded once.
    """
    g, y = te.input("grad_output", shape, dtype), te.input("output", shape, dtype)
    return nn.cast(nn.log_softmax_backward(g, y, dim), dtype)


# --------------------------------------------------------------------------- norms


def _norm_backward(
    norm: str, gradient: Callable[..., te.TensorRef], small: float, formula: str, normal: str
) -> Operator:
    """``gradient``, of ``nn``, of a norm's input as an operator. ``small``: the norm's ``eps`` by default."""
    name = f"{norm}_backward"
    centred = norm == "layer_norm"

    @rounded
    def numpy(
        g: Array,
        x: Array,
        *rest: Array,
        normalized_shape: tuple[int, ...] = (),
        weight: bool = True,
        eps: float = small,
    ) -> Array:
        axes = tuple(range(x.ndim - (len(normalized_shape) or 1), x.ndim))
        flow = g * rest[0] if weight else g
        x = x - x.mean(axis=axes, keepdims=True) if centred else x
        rstd = 1 / np.sqrt((x * x).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
        scaled = x * rstd
        left = flow - flow.mean(axis=axes, keepdims=True) if centred else flow
        return np.asarray(rstd * (left - scaled * (flow * scaled).mean(axis=axes, keepdims=True)))

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
    return operator(name=name, numpy=numpy, infer=infer_norm(name), dtypes=REALS, example=EXAMPLE)(define)


layer_norm_backward = _norm_backward(
    "layer_norm", nn.layer_norm_backward, 1e-5, "rstd * (g - mean of g - normal * mean of g * normal)",
    "(input - mean) * rstd",
)  # fmt: skip
rms_norm_backward = _norm_backward(
    "rms_norm", nn.rms_norm_backward, 1e-6, "rstd * (g - normal * mean of g * normal)", "input * rstd"
)
