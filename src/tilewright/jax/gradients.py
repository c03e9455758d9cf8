"""Gradients of the operators, computed by our operators again, so that tuned kernels serve them.

Gradients of norms, softmax and convolutions are JAX's where no kernel was tuned for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tilewright.jax import primitive
from tilewright.jax.formulas import attention
from tilewright.jax.serving import Form, Slot, serving

Array = Any
Grads = dict[int, Array]
"""Gradients of arrays, by their number."""


def gradient(name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]) -> Grads:
    """The gradients of the arrays ``wanted`` of an operator that gave ``out``, whose gradient is ``flow``."""
    ours = _FORMULAS.get(name)
    found = {} if ours is None else ours(name, form, arrays, out, flow, wanted)
    rest = [n for n in wanted if n not in found]
    return {**_by_jax(partial(primitive.own, name, form), arrays, flow, rest), **found}


def _by_jax(function: Callable[..., Array], arrays: Sequence[Array], flow: Array, wanted: Sequence[int]) -> Grads:
    if not wanted:
        return {}
    _, back = jax.vjp(primitive.of_some(function, arrays, wanted), *(arrays[n] for n in wanted))
    return dict(zip(wanted, back(flow), strict=True))


def _product(a: Array, b: Array, transposed_a: bool = False, transposed_b: bool = False) -> Array:
    return primitive.bind("matmul", (Slot(transposed_a), Slot(transposed_b)), a, b)


def _rows(a: Array) -> Array:
    return a.reshape(-1, a.shape[-1])


def _summed(a: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the axes along which an array of ``shape`` was broadcast."""
    lead = a.ndim - len(shape)
    axes = [*range(lead), *(lead + n for n, m in enumerate(shape) if m == 1 and a.shape[lead + n] != 1)]
    return jnp.sum(a, axes).reshape(shape) if axes else a


def _of_product(
    name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]
) -> Grads:
    (a, b), (of_a, of_b) = arrays, (s.transposed for s in form)
    if a.dtype != b.dtype or min(a.ndim, b.ndim) < 2:
        return {}
    found: Grads = {}
    if 0 in wanted:
        ga = _product(b, flow, of_b, True) if of_a else _product(flow, b, False, not of_b)
        found[0] = _summed(ga, a.shape)
    if 1 in wanted and b.ndim == 2 and a.ndim > 2:  # one product over the rows of all batches
        rows = _rows(jnp.swapaxes(a, -1, -2) if of_a else a)
        found[1] = _product(_rows(flow), rows, True) if of_b else _product(rows, _rows(flow), True)
    elif 1 in wanted:
        gb = _product(flow, a, True, of_a) if of_b else _product(a, flow, not of_a)
        found[1] = _summed(gb, b.shape)
    return found


def _of_linear(name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]) -> Grads:
    if len({a.dtype for a in arrays}) > 1:
        return {}
    found: Grads = {}
    if 0 in wanted:
        found[0] = _product(flow, arrays[1]) if flow.ndim > 1 else flow @ arrays[1]
    if 1 in wanted:
        found[1] = _product(_rows(flow), _rows(arrays[0]), True)
    if 2 in wanted:
        found[2] = jnp.sum(_rows(flow), 0)
    return found


def _of_rows(name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]) -> Grads:
    """The gradient of softmax or log-softmax, from the result and its gradient."""
    own = f"{name}_backward"
    places = (Slot(), Slot(), form[1])
    return {0: primitive.bind(own, places, flow, out)} if serving.tuned(own, places, (flow, out)) else {}


def _of_norm(name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]) -> Grads:
    """The gradient of a norm's input; the weights' gradients are JAX's."""
    own, x = f"{name}_backward", arrays[0]
    weight = isinstance(form[2], Slot)
    places = (Slot(), Slot(), form[1], form[2], form[-1])
    given = (flow, *arrays[: 1 + weight])
    if 0 not in wanted or x.dtype != flow.dtype or not serving.tuned(own, places, given):
        return {}
    return {0: primitive.bind(own, places, *given)}


def _of_convolution(
    name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]
) -> Grads:
    """A convolution's gradients: the input's is a transposed convolution, the weight's convolves input and gradient."""
    x, weight = arrays[:2]
    stride, padding, dilation, groups = form[3:]
    found: Grads = {}
    rank = x.ndim - 2
    if 0 in wanted and rank < 3:
        sizes = zip(x.shape[2:], flow.shape[2:], stride, padding, dilation, weight.shape[2:], strict=True)
        short = tuple(n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, s, p, d, k in sizes)
        found |= _kernel(0, f"conv_transpose{rank}d", (stride, padding, short, groups, dilation), flow, weight)
    if 1 in wanted and groups == 1:
        images, kernels = x.swapaxes(0, 1), flow.swapaxes(0, 1)
        for made in _kernel(1, name, (dilation, padding, stride, 1), images, kernels).values():
            here = made[(slice(None), slice(None), *map(slice, weight.shape[2:]))]  # skipped inputs give more elements
            found[1] = here.swapaxes(0, 1)
    return found


def _of_transposed(
    name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]
) -> Grads:
    stride, padding, _, groups, dilation = form[3:]
    if 0 not in wanted:
        return {}
    return _kernel(0, name.replace("_transpose", ""), (stride, padding, dilation, groups), flow, arrays[1])


def _kernel(place: int, name: str, rest: tuple[Any, ...], *arrays: Array) -> Grads:
    """The gradient of an array as a tuned operator; empty without a kernel."""
    form = (Slot(), Slot(), None, *rest)
    return {place: primitive.bind(name, form, *arrays)} if serving.tuned(name, form, arrays) else {}


def _of_attention(
    name: str, form: Form, arrays: Sequence[Array], out: Array, flow: Array, wanted: Sequence[int]
) -> Grads:
    return _by_jax(lambda q, k, v: attention(_product, q, k, v, *form[3:]), arrays, flow, wanted)


_FORMULAS: dict[str, Callable[..., Grads]] = {
    "matmul": _of_product,
    "linear": _of_linear,
    **{f"conv{r}d": _of_convolution for r in (1, 2, 3)},
    **{f"conv_transpose{r}d": _of_transposed for r in (1, 2)},
    **dict.fromkeys(("softmax", "log_softmax"), _of_rows),
    **dict.fromkeys(("layer_norm", "rms_norm"), _of_norm),
    "scaled_dot_product_attention": _of_attention,
}
