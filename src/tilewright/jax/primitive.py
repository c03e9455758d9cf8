"""An operator as a JAX primitive; its kernel is looked up when a program is lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir

from tilewright.jax.formulas import FORMULAS
from tilewright.jax.serving import Form, Hit, Slot, filled, serving

Array = Any

operator_p = Primitive("tilewright")


def bind(name: str, form: Form, *arrays: Array) -> Array:
    """The operator's result as a JAX operation, of arrays (traced or not) in the slots of ``form``."""
    return operator_p.bind(*_alike(arrays), name=name, form=form, generation=serving.generation)


def _alike(arrays: Sequence[Array]) -> Sequence[Array]:
    """The arrays, cast to vary over the union of their manual mesh axes, within ``jax.shard_map``."""
    axes = [_manual_axes(jax.typeof(a)) for a in arrays]
    every = frozenset().union(*axes)
    return [
        jax.lax.pcast(a, tuple(every - own), to="varying") if every - own else a
        for a, own in zip(arrays, axes, strict=True)
    ]


def own(name: str, form: Form, *arrays: Array) -> Array:
    """The operator's result by JAX alone."""
    transposed = [a.transposed for a in form if isinstance(a, Slot)]
    given = [jnp.swapaxes(a, -1, -2) if t else a for a, t in zip(arrays, transposed, strict=True)]
    return FORMULAS[name](*filled(form, given))


def of_some(function: Callable[..., Array], arrays: Sequence[Array], places: Sequence[int]) -> Callable[..., Array]:
    """``function(*arrays)`` as a function of the arrays at some ``places``."""

    def of_these(*changing: Array) -> Array:
        given = list(arrays)
        for n, a in zip(places, changing, strict=True):
            given[n] = a
        return function(*given)

    return of_these


@lru_cache(maxsize=4096)
def result(name: str, form: Form, kinds: tuple[tuple[tuple[int, ...], Any], ...]) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the result for arrays of these shapes and dtypes. Raises ``TypeError`` and ``ValueError``."""
    made: jax.ShapeDtypeStruct = jax.eval_shape(partial(own, name, form), *(jax.ShapeDtypeStruct(*k) for k in kinds))
    return made


def kinds_of(arrays: Sequence[Array]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Shapes and dtypes, for :func:`result`."""
    return tuple((a.shape, a.dtype) for a in arrays)


def _manual_axes(kind: Any) -> frozenset[str]:
    named: frozenset[str] = kind.mat.varying if hasattr(kind, "mat") else getattr(kind, "vma", frozenset())
    return named


def _abstract(*arrays: Array, name: str, form: Form, generation: int) -> Any:
    return jax.make_jaxpr(partial(own, name, form))(*arrays).out_avals[0]


def _answered(*arrays: Array, name: str, form: Form, generation: int) -> Array:
    found = serving.look_up(name, form, arrays)
    if isinstance(found, Hit):
        return found(filled(form, arrays)).reshape(result(name, form, kinds_of(arrays)).shape)
    found.tally.add()
    return own(name, form, *arrays)


def _elsewhere(*arrays: Array, name: str, form: Form, generation: int) -> Array:
    serving.library.resolver.passed("type").tally.add()
    return own(name, form, *arrays)


def define(primitive: Primitive, abstract: Callable[..., Any], statics: Sequence[str]) -> None:
    """Defines a primitive's shape rule, and compiles the primitive where it is called outside of a traced program."""
    primitive.def_abstract_eval(abstract)
    primitive.def_impl(jax.jit(primitive.bind, static_argnames=("name", "form", *statics)))


define(operator_p, _abstract, ("generation",))
mlir.register_lowering(operator_p, mlir.lower_fun(_elsewhere, multiple_results=False))
mlir.register_lowering(operator_p, mlir.lower_fun(_answered, multiple_results=False), platform="cpu")
