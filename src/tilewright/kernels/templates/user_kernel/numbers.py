"""Numbers as arguments of a kernel: how C types are passed, and whether a value fits its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.kernels.templates.user_kernel.expressions import Expression, NoValue

KINDS = {
    "int": "int32", "unsigned": "int32", "unsigned int": "int32", "int32_t": "int32", "uint32_t": "int32",
    "long": "int64", "unsigned long": "int64", "long long": "int64", "unsigned long long": "int64",
    "long int": "int64", "long long int": "int64", "size_t": "int64", "ptrdiff_t": "int64", "int64_t": "int64",
    "uint64_t": "int64", "float": "float32", "double": "float64",
}  # fmt: skip
"""C types of numeric parameters, and the type as which each is passed."""

_NARROW = {
    "bool": (0, 1), "char": (-128, 127), "signed char": (-128, 127), "int8_t": (-128, 127), "unsigned char": (0, 255),
    "uint8_t": (0, 255), "short": (-32768, 32767), "int16_t": (-32768, 32767), "unsigned short": (0, 65535),
    "uint16_t": (0, 65535),
}  # fmt: skip
_MOST = {"float": 3.4028235677973366e38, "float32": 3.4028235677973366e38}  # from here on a float is infinite


def is_narrow(type_: str) -> bool:
    """Whether a C type has fewer than 32 bits, the smallest size in which numbers are passed."""
    return type_ in _NARROW


def bounds(type_: str) -> tuple[int, int] | None:
    """The least and the greatest integer of a C type, or of ``int32`` and ``int64``; ``None`` for any other type."""
    if type_ in _NARROW:
        return _NARROW[type_]
    kind = KINDS.get(type_, type_)
    if kind not in ("int32", "int64"):
        return None
    bits = int(kind[3:])
    if type_.startswith(("unsigned", "uint", "size_t")):
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


@dataclass(frozen=True)
class Argument:
    """The argument of one parameter.

    ``kind``: ``tensor``, ``env``, or the type as which a number is passed. ``value``: the number of a tensor (the
    output last), an expression for an integer, or a real number. ``type``: the parameter's C type, empty if unknown.
    ``name``: name of the parameter, or the text that was given for it.
    """

    kind: str
    value: Any
    type: str = ""
    name: str = ""

    @property
    def expression(self) -> Expression | None:
        """The expression of an integer argument; ``None`` for every other argument."""
        return self.value if isinstance(self.value, Expression) else None

    def number(self, names: Mapping[str, Any]) -> int | float:
        """Value of a numeric argument. Raises ``NoValue`` if it has no value or does not fit its type."""
        if self.expression is None:
            return self._real(float(self.value))
        value = self.expression.whole(names)
        type_ = self.type or self.kind
        held = bounds(type_)
        if held is not None and not held[0] <= value <= held[1]:
            raise NoValue(f"parameter {self.name} gets {self._shown(value)}, and {type_} holds {held[0]} to {held[1]}")
        return value

    def passed(self, names: Mapping[str, Any]) -> int | float:
        """Value as the driver expects it: an unsigned number as the signed number of equal bits. Raises ``NoValue``."""
        value = self.number(names)
        if self.kind in ("int32", "int64") and isinstance(value, int):
            bits = int(self.kind[3:])
            return value - (1 << bits) if value >= 1 << bits - 1 else value
        return value

    def _real(self, value: float) -> float:
        if math.isfinite(value) and abs(value) >= _MOST.get(self.type or self.kind, math.inf):
            raise NoValue(
                f"parameter {self.name} gets {value:g}, and {self.type or self.kind} holds no more than 3.40282e+38"
            )
        return value

    def _shown(self, value: int) -> str:
        text = self.expression.text if self.expression is not None else ""
        return str(value) if text == str(value) else f"{text} = {value}"


def literal(argument: Argument, names: Mapping[str, Any]) -> str:
    """C++ literal of an argument's value. Raises ``NoValue``."""
    value = argument.number(names)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return '__builtin_nan("")' if math.isnan(value) else f"{'-' * (value < 0)}__builtin_inf()"
    if value >= 1 << 63:
        return f"{value}UL"
    return f"{value}L" if value > -(1 << 63) else f"({value + 1}L - 1)"
