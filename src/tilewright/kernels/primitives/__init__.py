"""The registry of primitives: their modules, in an order in which definitions precede uses."""

from __future__ import annotations

from importlib import import_module

from tilewright.kernels.primitives.primitive import Primitive

_MODULES = (
    "sync", "memory", "cp_async", "convert", "dp4a", "ldmatrix", "mma_types", "mbarrier", "tma",
    "cluster", "tma_multicast", "tma_im2col", "wgmma", "shuffle", "atomic_add", "math",
)  # fmt: skip


def _defined(name: str) -> tuple[Primitive, ...]:
    """The primitives that a module defines: one, or a family."""
    module = import_module(f"{__name__}.{name}")
    family: tuple[Primitive, ...] | None = getattr(module, "PRIMITIVES", None)
    return (module.PRIMITIVE,) if family is None else family


PRIMITIVES: tuple[Primitive, ...] = tuple(p for name in _MODULES for p in _defined(name))
