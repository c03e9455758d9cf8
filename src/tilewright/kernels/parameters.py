"""Parameters of operators: their kinds, and the conversion of values and texts.

>>> from tilewright.kernels.parameters import Kind, Parameter
>>> Parameter("stride", Kind.INTS, 1).coerce("conv2d", "2,1")
'2,1'

A parameter's stored value is a JSON scalar: several whole numbers are stored as a text (``"2,1"``), and the operator's
function receives them as a tuple.
"""

from __future__ import annotations

import enum
import math
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import numpy as np

from tilewright.core import OperatorError, UsageError, Value
from tilewright.errors import nearest
from tilewright.size_ranges import extents_in, span_of


class Kind(enum.Enum):
    """Kind of a parameter's values: its name in an error message, and an example of its spelling."""

    BOOL = ("true or false", "true or false")
    INT = ("a whole number", "512")
    FLOAT = ("a number", "0.5")
    STR = ("a text", "a word")
    INTS = ("a whole number or several", "2 or 2,1")
    SHAPE = ("a shape", "32,8192")


Ints = Annotated[Union[int, tuple[int, ...]], Kind.INTS]
"""Annotation of a parameter with one whole number for all axes, or one for each axis: ``2``, ``"2,1"``, ``(2, 1)``.

The function receives an ``int`` or a ``tuple``; equal numbers collapse to one (``(2, 2)`` is ``2``).
"""

Shape = Annotated[tuple[int, ...], Kind.SHAPE]
"""Annotation of a parameter that is a tensor's shape, of any rank: ``"32,8192"``, ``(32, 8192)``, ``7``.

The function receives a ``tuple``."""

Argument = Union[Value, tuple[int, ...]]
"""Value that an operator's function receives."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_TYPES = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}


@dataclass(frozen=True)
class Parameter:
    """One parameter: its kind, its default (``None`` for a size), and the allowed values."""

    name: str
    kind: Kind
    default: Value | None = None
    choices: tuple[Value, ...] = ()

    def coerce(self, op: str, given: object, least: int = 1) -> Value:
        """The stored value of a value or text; a range is stored as its text, ``1..4096``. Raises ``UsageError``.

        ``least``: the smallest size; 0 allows arrays without elements, for which no kernels exist.
        """
        if self._is_size and isinstance(given, str) and ".." in given:
            return self._range(op, given)
        value = convert(given, self.kind)
        if value is None:
            raise UsageError(f"{op}: {self.name}={given} is not {self.kind.value[0]}", f"Write {self._close(given)}")
        if self._is_size and any(n < least for n in _stored(value)):
            raise UsageError(f"{op}: {self.name}={value} is not positive", "Sizes are whole numbers of at least 1")
        if self.choices and value not in self.choices:
            names = [str(c) for c in self.choices]
            raise UsageError(
                f"{op}: {self.name} cannot be {value!r}",
                f"{nearest(str(value), names)}Use one of {', '.join(names)}",
            )
        return value

    def argument(self, stored: Value) -> Argument:
        """The value that the operator's function receives for a stored value."""
        if self._is_size and isinstance(stored, str) and ".." in stored:
            extents = extents_in(self.name, stored)
            return extents if self.kind is Kind.SHAPE else extents[0]
        if self.kind is Kind.SHAPE or (self.kind is Kind.INTS and isinstance(stored, str)):
            return _stored(stored)
        return stored

    def _range(self, op: str, given: str) -> Value:
        texts = [t.strip() for t in given.strip().strip("()[]").rstrip(",").split(",")]
        spans = [span_of(t) or ((n, n) if isinstance(n := convert(t, Kind.INT), int) else None) for t in texts]
        several = self.kind is Kind.INT and len(spans) != 1
        if several or any(s is None or not 1 <= s[0] <= s[1] for s in spans):
            raise UsageError(
                f"{op}: {self.name}={given} is not a range", "Write the least size first, at least 1: 1..4096"
            )
        shown = [str(s[0]) if s[0] == s[1] else f"{s[0]}..{s[1]}" for s in spans if s is not None]
        if self.kind is Kind.INT:
            return int(shown[0]) if shown[0].isdigit() else shown[0]
        return ",".join(shown) + ("," if len(shown) == 1 and ".." in shown[0] else "")

    def _close(self, given: object) -> str:
        """Suggests a spelling close to the given value."""
        if self.kind is Kind.INT and isinstance(near := convert(given, Kind.FLOAT), float) and 1 <= near < 1e15:
            return f"{self.name}={round(near)}"
        return self.hint

    @property
    def hint(self) -> str:
        """An example of how to write the parameter."""
        if self.choices:
            return f"{self.name}= one of {', '.join(map(str, self.choices))}"
        return f"{self.name}={self.kind.value[1]}"

    @property
    def _is_size(self) -> bool:
        return self.kind is Kind.SHAPE or (self.kind is Kind.INT and self.default is None)


def parameter(op: str, name: str, hint: Any, default: object) -> Parameter:
    """The parameter that a signature declares; ``default`` is ``...`` for a size. Raises ``OperatorError``."""
    annotated = typing.get_args(hint)[1] if typing.get_origin(hint) is Annotated else None
    several = annotated if annotated in (Kind.INTS, Kind.SHAPE) else None
    if default is ...:
        if several is None and hint not in (None, int):
            raise OperatorError(
                f"{op}: {name} has no default, so it is a size, but its type is {hint}",
                "Annotate sizes as int, te.Ints or te.Shape, and give attributes a default",
            )
        return Parameter(name, several or Kind.INT)
    if several is None and not isinstance(default, (bool, int, float, str)):
        raise OperatorError(f"{op}: {name} has the default {default!r}", "Use true/false, a number or a text")
    if typing.get_origin(hint) is Literal and isinstance(default, (bool, int, float, str)):
        return Parameter(name, _TYPES[type(default)], default, typing.get_args(hint))
    kind = several or _TYPES.get(hint) or _TYPES[type(default)]
    value = convert(default, kind)
    if value is None:
        raise OperatorError(f"{op}: {name}={default!r} is not {kind.value[0]}", f"Write {kind.value[1]}")
    return Parameter(name, kind, value)


def convert(given: object, kind: Kind) -> Value | None:
    """``given`` as it is stored, or ``None`` if it is not of that kind."""
    if kind in (Kind.INTS, Kind.SHAPE):
        found = numbers(given)
        if found is None:
            return None
        return found[0] if kind is Kind.INTS and len(set(found)) == 1 else ",".join(map(str, found))
    given = _plain(type_name(given))
    if kind is Kind.STR:
        return given if isinstance(given, str) else None
    if isinstance(given, str):
        text = given.strip().lower()
        if kind is Kind.BOOL:
            return True if text in _TRUE else False if text in _FALSE else None
        try:
            given = int(text) if kind is Kind.INT else float(text)
        except ValueError:
            return None
    if kind is Kind.BOOL:
        return bool(given) if isinstance(given, (bool, int)) and given in (0, 1) else None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        return None
    if kind is Kind.INT:
        return int(given) if given == int(given) else None
    return float(given)


def type_name(given: object) -> object:
    """Replaces a NumPy element type by its name; returns any other value unchanged."""
    if isinstance(given, type) and issubclass(given, np.generic):
        given = np.dtype(given)
    return given.name if isinstance(given, np.dtype) else given


def _plain(given: object) -> object:
    """Converts a NumPy scalar to Python's; returns any other value unchanged."""
    scalar = isinstance(given, np.generic) or (isinstance(given, np.ndarray) and given.ndim == 0)
    return given.item() if scalar else given  # type: ignore[attr-defined]


def numbers(given: object) -> tuple[int, ...] | None:
    """One or several whole numbers, from values or a text; ``None`` for any other value."""
    if isinstance(given, str):
        inner = given.strip().strip("()[]").rstrip(",")
        given = tuple(inner.split(",")) if inner else ()
    elif isinstance(given, np.ndarray):
        given = given.tolist()
    items = given if isinstance(given, Sequence) else (given,)
    out = [convert(item, Kind.INT) for item in items]
    return tuple(n for n in out if isinstance(n, int)) if None not in out else None


def _stored(stored: Value) -> tuple[int, ...]:
    if isinstance(stored, str):
        return tuple(map(int, stored.split(","))) if stored else ()
    return (int(stored),)


def canonical_value(given: object) -> object:
    """Canonical form of a value for look-ups by name: several numbers as their text, NumPy's scalars as Python's."""
    if isinstance(given, (tuple, list, np.ndarray)):
        found = numbers(given)
        # A list of one number does not equal the plain number.
        return given if found is None or len(found) == 1 else ",".join(map(str, found))
    return _plain(given)


def agree(stored: Value, given: object) -> bool:
    """Whether a canonical value equals a stored one: ``2,2`` is ``2`` where one number holds for every axis."""
    if stored == given or not isinstance(given, str) or isinstance(stored, (bool, float)):
        return stored == given
    return stored in (convert(given, Kind.INTS), convert(given, Kind.SHAPE))
