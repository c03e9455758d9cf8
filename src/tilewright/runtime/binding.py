"""Plans with constant inputs, such as weights, which are given and prepacked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tilewright.core import TensorSpec, UsageError
from tilewright.dtypes import numpy_dtype
from tilewright.runtime.checked import LINE, Checked, Misfit, Signed, check, empty
from tilewright.runtime.foreign import borrow
from tilewright.runtime.missed import warn

Array = np.ndarray[Any, Any]
T = TypeVar("T")
Make = Callable[[Mapping[int, Array]], Callable[..., Any]]


class ConstantPlan(Signed):
    """A plan with constant inputs: ``bind`` takes them and returns the function for hot loops.

    >>> plan = library.plan("conv2d", **sizes, constant="weight")  # doctest: +SKIP
    >>> call = plan.bind(weight=w)  # doctest: +SKIP
    >>> call(x, out=y)  # doctest: +SKIP

    Called itself, with all inputs, it prepacks the constant inputs in every call. Bound arrays are copied, so later
    changes do not matter.
    """

    def __init__(self, checked: Checked, make: Make) -> None:
        super().__init__(checked.__name__, checked.inputs, checked.outputs)
        self.__doc__ = checked.__doc__
        self.constants = constants_of(checked.inputs)
        self._checked = checked
        self._make = make
        self._said = False

    def __call__(self, *args: Any, out: Any = None, **keywords: Any) -> Any:
        if not self._said:
            self._said = True
            warn(unbound(self.__name__, self.constants))
        return self._checked(*args, out=out, **keywords)

    def bind(self, **constants: Any) -> Callable[..., Any]:
        """``(other inputs..., out=None)`` with every constant input given by name.

        Raises ``UsageError`` for a missing or unknown name, ``TypeError`` and ``ValueError`` for an array that does not
        fit.
        """
        name = self._checked.__name__
        require(name, self.constants, constants)
        held: dict[int, Array] = {}
        for number, spec in enumerate(self._checked.inputs):
            if not spec.constant:
                continue
            given = constants[spec.name]
            lent = borrow(f"{name}: {spec.name}", (given,))
            try:
                given = check(name, spec, lent.args[0] if lent else given)
            except Misfit as e:
                raise e.error from None
            held[number] = empty(spec.shape, numpy_dtype(spec.dtype), max(self._checked.align, LINE))
            held[number][...] = given
        return self._make(held)


def constants_of(inputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """The names of constant inputs."""
    return tuple(s.name for s in inputs if s.constant)


def unbound(name: str, constants: Sequence[str]) -> str:
    """The warning for a call that passes constant inputs."""
    return f"{name} rearranges {' and '.join(constants)} in every call. Call {_bind(constants)} once"


def require(name: str, constants: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raises ``UsageError`` where ``bind`` is given other names than the constant inputs'."""
    missing, strange = [c for c in constants if c not in given], [c for c in given if c not in constants]
    if missing or strange:
        wrong = f"bind needs {' and '.join(missing)}" if missing else f"{strange[0]} is not constant"
        raise UsageError(f"{name}: {wrong}", f"Call {_bind(constants)}")


def _bind(constants: Sequence[str]) -> str:
    return f"bind({', '.join(f'{c}=...' for c in constants)})"


def rest(inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs that each call passes."""
    return tuple(s for s in inputs if not s.constant)


def merged(held: Mapping[int, T], given: Sequence[T]) -> list[T]:
    """All inputs in call order, from the bound inputs (by number) and a call's inputs."""
    waiting = iter(given)
    return [held[n] if n in held else next(waiting) for n in range(len(held) + len(given))]
