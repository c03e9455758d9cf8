"""Operators under JAX's transformations: gradients and ``vmap``.

A second primitive is an operator's tangent, which is linear. Lowered, it is JAX's own tangent; transposed, it becomes
the gradient by tuned kernels (``gradients.py``). So forward mode works too, and gradients of gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tilewright.jax.gradients import gradient
from tilewright.jax.primitive import define, of_some, operator_p, own
from tilewright.jax.serving import Form
from tilewright.jax.vmapped import batched

Array = Any

tangent_p = Primitive("tilewright_tangent")


def _differentiated(primals: Sequence[Array], tangents: Sequence[Any], **params: Any) -> tuple[Array, Any]:
    out = operator_p.bind(*primals, **params)
    which = tuple(n for n, t in enumerate(tangents) if type(t) is not ad.Zero)
    given = [ad.instantiate_zeros(tangents[n]) for n in which]
    return out, tangent_p.bind(*primals, out, *given, which=which, name=params["name"], form=params["form"])


def _tangent(*operands: Array, name: str, form: Form, which: tuple[int, ...]) -> Array:
    """The tangent of the result, by JAX. ``operands``: the operator's arrays, its result, and tangents of the arrays
    ``which``."""
    count = len(operands) - len(which) - 1
    function = of_some(partial(own, name, form), operands[:count], which)
    return jax.jvp(function, [operands[n] for n in which], list(operands[count + 1 :]))[1]


def _abstract_tangent(*operands: Array, **params: Any) -> Any:
    return operands[len(operands) - len(params["which"]) - 1]


def _transposed(flow: Any, *operands: Any, name: str, form: Form, which: tuple[int, ...]) -> list[Any]:
    count = len(operands) - len(which) - 1
    wanted = [n for n, t in zip(which, operands[count + 1 :], strict=True) if ad.is_undefined_primal(t)]
    found: dict[int, Any] = {}
    if type(flow) is not ad.Zero:
        found = gradient(name, form, operands[:count], operands[count], flow, wanted)
    return [None] * (count + 1) + [found.get(n) for n in which]


def _vmapped(arrays: Sequence[Array], axes: Sequence[int | None], *, name: str, form: Form, **_: Any) -> Any:
    return batched(name, form, arrays, axes), 0


def _tangent_vmapped(operands: Sequence[Array], axes: Sequence[int | None], **params: Any) -> Any:
    return jax.vmap(partial(_tangent, **params), tuple(axes))(*operands), 0


define(tangent_p, _abstract_tangent, ("which",))
mlir.register_lowering(tangent_p, mlir.lower_fun(_tangent, multiple_results=False))
ad.primitive_jvps[operator_p] = _differentiated
ad.primitive_jvps[tangent_p] = lambda operands, tangents, **params: jax.jvp(
    partial(_tangent, **params), operands, [ad.instantiate_zeros(t) for t in tangents]
)
ad.primitive_transposes[tangent_p] = _transposed
batching.primitive_batchers[operator_p] = _vmapped
batching.primitive_batchers[tangent_p] = _tangent_vmapped
