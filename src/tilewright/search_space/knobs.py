"""Knobs, which are the decisions of a schedule, and constraints, which restrict their combinations."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.core import UsageError, Value
from tilewright.serialization import Json

Half = Literal["structure", "launch"]


@dataclass(frozen=True)
class Choice(Json):
    """A knob: a name and the values it may take, all of one type.

    ``half``: what a value changes: ``structure`` the binary, ``launch`` an integer passed to the binary at each call.
    ``ordered``: whether neighbouring ``values`` are similar (sizes, depths), so that mutation prefers small steps and
    the cost model sees one number; otherwise each value is a category.
    """

    name: str
    values: tuple[Value, ...]
    half: Half = "structure"
    ordered: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise UsageError(f"knob {self.name!r} has no values", "Give it at least one")
        if len({type(v) for v in self.values}) > 1:
            raise UsageError(f"knob {self.name!r} mixes types: {self.values!r}", "Use values of one type")
        if len(set(self.values)) != len(self.values):
            raise UsageError(f"knob {self.name!r} repeats a value: {self.values!r}", "List each value once")
        if self.half not in ("structure", "launch"):
            raise UsageError(f"knob {self.name!r} has half {self.half!r}", "Use 'structure' or 'launch'")
        if self.half == "launch" and type(self.values[0]) is not int:
            raise UsageError(f"launch knob {self.name!r} has values that are not integers", "Use integers")

    @property
    def numeric(self) -> bool:
        """Whether the cost model sees one number (rather than one column for each value)."""
        return isinstance(self.values[0], bool) or self.ordered

    def closest(self, value: Value, otherwise: int) -> int:
        """The index of ``value``, or of the nearest number; ``otherwise`` where the knob has no comparable value."""
        same = [i for i, v in enumerate(self.values) if type(v) is type(value) and v == value]
        if same:
            return same[0]
        if type(value) is not int or type(self.values[0]) is not int or not self.ordered:
            return otherwise
        apart = [abs(math.log((1 + abs(int(v))) / (1 + abs(value)))) for v in self.values]
        return apart.index(min(apart))

    def columns(self) -> tuple[str, ...]:
        """Names of the knob's features."""
        return (self.name,) if self.numeric else tuple(f"{self.name}={v}" for v in self.values)

    def features(self, index: int) -> tuple[float, ...]:
        """Features of value number ``index``: log-scaled numbers, positions of ordered words, or one-hot."""
        if not self.numeric:
            return tuple(float(i == index) for i in range(len(self.values)))
        value = self.values[index]
        if isinstance(value, str):
            return (float(index),)
        return (math.copysign(math.log2(1.0 + abs(value)), value),)


@dataclass(frozen=True)
class Constraint:
    """A rule over some knobs: ``holds`` gets exactly the values named in ``reads``.

    ``reason`` completes the sentence "illegal because ..."; users read it. ``holds`` must be a pure and cheap function:
    preparing a space calls it for every combination of the knobs it reads.
    """

    reads: tuple[str, ...]
    holds: Callable[[Mapping[str, Value]], bool]
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"reads": list(self.reads), "reason": self.reason}


def rule(reason: str, holds: Callable[..., bool]) -> Constraint:
    """A constraint over the knobs that ``holds`` names as its parameters."""
    names = tuple(inspect.signature(holds).parameters)
    return Constraint(names, lambda values: holds(*[values[n] for n in names]), reason)
