"""Functions of JAX arrays that tuned kernels answer, with PyTorch's names and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tilewright.core import UsageError
from tilewright.jax import transforms  # noqa: F401 - registers gradients and vmap
from tilewright.jax.native import answer
from tilewright.jax.primitive import bind, kinds_of, result
from tilewright.jax.serving import Slot, serving
from tilewright.kernels.nn.sizes import over_axes
from tilewright.kernels.operator import Operator

Array = Any
Sizes = int | Sequence[int]


def matmul(a: Array, b: Array, *, trans_a: bool = False, trans_b: bool = False) -> Array:
    """The product of the last two axes, as ``jnp.matmul``.

    ``trans_a``, ``trans_b``: multiply with the last two axes of ``a`` or ``b`` transposed, by a kernel with these
    attributes.
    """
    return _call("matmul", {"a": a, "b": b}, (Slot(bool(trans_a)), Slot(bool(trans_b))))


def batch_matmul(a: Array, b: Array, *, trans_a: bool = False, trans_b: bool = False) -> Array:
    """:func:`matmul` of equal batches of matrices: ``(..., m, k)`` and ``(..., k, n)``."""
    a, b = _arrays("batch_matmul", {"a": a, "b": b})
    if a.ndim < 3 or a.shape[:-2] != b.shape[:-2]:
        raise ValueError(f"tilewright.jax.batch_matmul: {a.shape} and {b.shape} are not as many matrices. Use matmul")
    return matmul(a, b, trans_a=trans_a, trans_b=trans_b)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias``: ``x`` of ``(..., k)``, ``weight`` of ``(n, k)``, ``bias`` of ``(n,)``."""
    return _call("linear", {"x": x, "weight": weight, "bias": bias}, (Slot(), Slot(), _slot(bias)))


def _window(name: str, rank: int, x: Array, weight: Array, bias: Array | None, rest: tuple[Any, ...]) -> Array:
    given = _arrays(name, {"x": x, "weight": weight, "bias": bias})
    for argument, a in zip(("x", "weight"), given, strict=False):
        if a.ndim != rank + 2:
            raise ValueError(f"tilewright.jax.{name}: {argument} has {a.ndim} axes, not {rank + 2}: shape {a.shape}")
    return _call(name, {"x": x, "weight": weight, "bias": bias}, (Slot(), Slot(), _slot(bias), *rest))


def conv(
    axes: int, x: Array, weight: Array, bias: Array | None = None, *,
    stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """A convolution of ``x`` of ``(n, ci, {space})`` by ``weight`` of ``(co, ci / groups, {kernel})``."""
    name = f"conv{axes}d"
    rest = [_each(name, axes, n, v) for n, v in (("stride", stride), ("padding", padding), ("dilation", dilation))]
    return _window(name, axes, x, weight, bias, (*rest, groups))


conv1d, conv2d, conv3d = (over_axes(conv, axes) for axes in (1, 2, 3))


def conv_transpose(
    axes: int, x: Array, weight: Array, bias: Array | None = None, *,
    stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """A transposed convolution of ``x`` of ``(n, ci, {space})`` by ``weight`` of ``(ci, co / groups, {kernel})``."""
    name = f"conv_transpose{axes}d"
    named = (("stride", stride), ("padding", padding), ("output_padding", output_padding), ("dilation", dilation))
    *front, wide = (_each(name, axes, n, v) for n, v in named)
    return _window(name, axes, x, weight, bias, (*front, groups, wide))


conv_transpose1d, conv_transpose2d = (over_axes(conv_transpose, axes) for axes in (1, 2))


def layer_norm(
    x: Array, normalized_shape: Sizes, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """Layer norm over the last axes, of shape ``normalized_shape``, which is also the shape of ``weight`` and
    ``bias``."""
    form = (
        Slot(),
        _numbers("layer_norm", "normalized_shape", normalized_shape),
        _slot(weight),
        _slot(bias),
        float(eps),
    )
    return _call("layer_norm", {"x": x, "weight": weight, "bias": bias}, form)


def rms_norm(x: Array, normalized_shape: Sizes, weight: Array | None = None, eps: float = 1e-6) -> Array:
    """RMS norm over the last axes, of shape ``normalized_shape``, which is also the shape of ``weight``."""
    form = (Slot(), _numbers("rms_norm", "normalized_shape", normalized_shape), _slot(weight), float(eps))
    return _call("rms_norm", {"x": x, "weight": weight}, form)


def softmax(x: Array, axis: int = -1) -> Array:
    """Softmax along an axis."""
    return _along("softmax", x, axis)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of softmax along an axis."""
    return _along("log_softmax", x, axis)


def _along(name: str, x: Array, axis: int) -> Array:
    (x,) = _arrays(name, {"x": x})
    if not isinstance(axis, int | np.integer) or not -x.ndim <= axis < x.ndim:
        raise ValueError(f"tilewright.jax.{name}: axis {axis!r} of an array of shape {x.shape}")
    return _call(name, {"x": x}, (Slot(), int(axis) % x.ndim - x.ndim))


def scaled_dot_product_attention(
    query: Array, key: Array, value: Array, *,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Array:  # fmt: skip
    """``softmax(query @ key.T * scale) @ value`` of ``(batch, heads, length, d)``, or without the axis of heads.

    ``scale``: default ``1 / sqrt(d)``. ``is_causal``: a query sees the keys up to its own position. ``enable_gqa``:
    several heads of queries share a head of keys and values.
    """
    form = (Slot(), Slot(), Slot(), None, bool(is_causal), None if scale is None else float(scale), bool(enable_gqa))
    return _call("scaled_dot_product_attention", {"query": query, "key": key, "value": value}, form)


def call(op: str | Operator, /, *arrays: Array, **attributes: Any) -> Array | tuple[Array, ...]:
    """The result of ``library.<op>(*arrays, **attributes)``, also under ``jit`` and ``vmap``; several results as a
    tuple.

    For operators of your own and all built-in operators. Under ``vmap`` each element is a call. There is no gradient:
    state one by ``jax.custom_vjp``. Raises ``UsageError`` for an operator that was not tuned for these shapes.
    """
    name = op.name if isinstance(op, Operator) else op
    given = _arrays(name, {f"argument {n}": a for n, a in enumerate(arrays, 1)})
    served = serving.library.resolver.serving(name, [(a.shape, str(a.dtype)) for a in given], attributes)
    for s in served.checked.outputs:
        if jax.dtypes.canonicalize_dtype(s.dtype) != s.dtype:
            raise UsageError(
                f"{name} gives {s.dtype}, which JAX is told not to have", "jax.config.update('jax_enable_x64', True)"
            )
    made = answer(served, given, serving.number)
    return made[0] if len(made) == 1 else tuple(made)


def _slot(a: Array | None) -> Slot | None:
    return None if a is None else Slot()


def _numbers(name: str, argument: str, values: Sizes, least: int = 1) -> tuple[int, ...]:
    given = tuple(values) if isinstance(values, list | tuple) else (values,)
    if any(not isinstance(v, int | np.integer) or v < least for v in given):
        what = f"{argument}={values!r} is not a whole number of at least {least}, or several"
        raise ValueError(f"tilewright.jax.{name}: {what}")
    return tuple(map(int, given))


def _each(name: str, rank: int, argument: str, values: Sizes) -> tuple[int, ...]:
    numbers = _numbers(name, argument, values, 0 if "padding" in argument else 1)
    if len(numbers) not in (1, rank):
        wanted = "1" if rank == 1 else f"1 or {rank}"
        raise ValueError(f"tilewright.jax.{name}: {argument} has {len(numbers)} numbers, not {wanted}")
    return numbers if len(numbers) == rank else numbers * rank


def _arrays(name: str, given: dict[str, Any]) -> list[Array]:
    """The arrays among arguments, as JAX arrays. Raises ``TypeError`` for other objects."""
    found = []
    for argument, a in given.items():
        if a is None and argument in ("weight", "bias"):
            continue
        if not isinstance(a, jax.Array | np.ndarray | np.generic | int | float | complex):
            kind = "None" if a is None else type(a).__name__
            what = f"tilewright.jax.{name}: {argument} is {kind}, and no array"
            raise TypeError(f"{what}. Pass jnp.asarray of it")
        found.append(a if isinstance(a, jax.Array) else jax.numpy.asarray(a))
    return found


def _call(name: str, given: dict[str, Any], form: tuple[Any, ...]) -> Array:
    arrays = _arrays(name, given)
    try:
        result(name, form, kinds_of(arrays))
    except (TypeError, ValueError, ZeroDivisionError) as e:
        raise type(e)(f"tilewright.jax.{name}: {str(e).splitlines()[0]}") from None
    return bind(name, form, *arrays)
