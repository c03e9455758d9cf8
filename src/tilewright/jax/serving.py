"""Answers operators under JAX: by a tuned kernel of the current library, else by JAX."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

import tilewright
from tilewright.jax.native import answer
from tilewright.runtime import Library
from tilewright.runtime.in_use import InUse
from tilewright.runtime.requests import Tensor
from tilewright.runtime.serving import Answer, Served

_THROUGH = tuple(os.path.dirname(str(m.__file__)) for m in (jax, tilewright))


@dataclass(frozen=True)
class Slot:
    """A slot for an array among an operator's arguments. ``transposed``: whether its last two axes are stored
    swapped."""

    transposed: bool = False


Form = tuple[Any, ...]
"""An operator's arguments, with a :class:`Slot` for each array."""


def filled(form: Form, arrays: Sequence[Any]) -> list[Any]:
    """The arguments, with these arrays in their slots."""
    given = iter(arrays)
    return [next(given) if isinstance(a, Slot) else a for a in form]


@dataclass(frozen=True)
class Hit:
    """A kernel for a kind of call; ``places``: indices of the arguments that are the kernel's inputs, in order."""

    served: Served
    places: tuple[int, ...]
    library: int

    def __call__(self, args: Sequence[Any]) -> Any:
        """The kernel's only result, in the kernel's shape."""
        inputs = self.served.checked.inputs
        arrays = [args[p].reshape(s.shape) for p, s in zip(self.places, inputs, strict=True)]
        (made,) = answer(self.served, arrays, self.library)
        return made


class Serving(InUse):
    """The library that serves JAX's calls."""

    def __init__(self) -> None:
        super().__init__("JAX", _THROUGH)
        self.number = -1
        """Number of the current library, counted from 0; -1 before the first one."""

    def use(self, library: Library | str | os.PathLike[str] | None) -> Library:
        opened = super().use(library)
        with self._lock:
            self.number += 1
        return opened

    def look_up(self, name: str, form: Form, arrays: Sequence[Any]) -> Hit | Answer:
        """The answer for an operator on arrays of these shapes and dtypes: a kernel, or JAX."""
        described = [
            _described(s, a) if isinstance(s, Slot) else a
            for s, a in zip(form, filled(form, arrays), strict=True)
        ]  # fmt: skip
        asked = self.asked(f"tilewright.jax.{name}", name, described)
        if isinstance(asked, Answer):
            return asked
        found = self.library.resolver.find(asked.workload)
        return found if found.served is None else Hit(found.served, asked.places, self.number)

    def tuned(self, name: str, form: Form, arrays: Sequence[Any]) -> bool:
        """Whether a kernel answers; without a kernel, a missed call is counted."""
        found = self.look_up(name, form, arrays)
        if isinstance(found, Answer):
            found.tally.add()
        return isinstance(found, Hit)


def _described(slot: Slot, a: Any) -> Tensor:
    shape = tuple(a.shape)
    if slot.transposed:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return Tensor(shape, str(a.dtype), dense=not slot.transposed, transposed=slot.transposed)


serving = Serving()


def use(library: Library | str | os.PathLike[str] | None) -> Library:
    """Makes ``library`` (or a database's file) serve what is traced from now on, and returns it.

    ``None``: the default database (``$TILEWRIGHT_DB``), which also serves if this was never called. Raises
    ``DatabaseError`` for a file that cannot be used.
    """
    return serving.use(library)


def library() -> Library:
    """The library in use; its ``stats()`` count what was served."""
    return serving.library
