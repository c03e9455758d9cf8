"""Recurrent layers: one recurrence whose products are of rows of weight matrices (RNN, GRU, LSTM).

Mixes of one value are a *pass*: one product of that value with the weights of several gates. Most layers have one pass
a step; where a gate is applied to the state before it is multiplied, there are two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.core import cached_property
from tilewright.kernels.expression.expr import Expr, ValueNumbers
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program, Stage, Tensor
from tilewright.kernels.expression.step import Step
from tilewright.kernels.families.flatten import Linearizer

REALS = ("float32", "float64")


@dataclass(frozen=True)
class Weight:
    """Weights of a mix: the element for a feature and a term lies at ``where`` (of ``i3`` and ``r0``) of a tensor."""

    tensor: str
    where: Linear


@dataclass(frozen=True, eq=False)
class Pass:
    """A product of ``value`` with the weights of ``mixes``, by the mix's number."""

    value: Expr
    mixes: dict[int, Weight]

    @property
    def component(self) -> int | None:
        """The component of the state that is multiplied as it is; ``None`` for a value computed of it."""
        plain = self.value.op == "var" and str(self.value.value).startswith("l")
        return int(str(self.value.value)[1:]) if plain else None


@dataclass(frozen=True, eq=False)
class Recurrent:
    """A recurrent layer. ``after``: the next state, elements in their place: in the state's vars and the mixes'."""

    program: Program
    passes: tuple[Pass, ...]
    after: tuple[Expr, ...]

    @property
    def stage(self) -> Stage:
        return self.program.stages[0]

    @property
    def step(self) -> Step:
        step = self.stage.step
        assert step is not None
        return step

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """State components, steps, rows, features."""
        states, steps, rows, features = self.stage.extents
        return states, steps, rows, features

    @cached_property
    def packed(self) -> str | None:
        """The constant input that holds all weights and nothing else: kernels read it rearranged."""
        names = {w.tensor for p in self.passes for w in p.mixes.values()}
        others = {str(x.value) for e in (*self.stage.body, *self.step.start) for x in e.loads()}
        if len(names) != 1 or names & others:
            return None
        (name,) = names
        return name if self.program.tensors[name].constant else None


@lru_cache(maxsize=256)
def recurrent(text: str) -> Recurrent | None:
    """The layer that a program (canonical text) is, or ``None``; the same object each time."""
    program = Program.loads(text)
    if not program.recurrent or len(program.stages) > 1 or program.results or program.varying is not None:
        return None
    stage = program.stages[0]
    types = {n.dtype for e in stage.reading for n in e.walk() if n.dtype != "index"} | {t.dtype for t in program.inputs}
    if types != {stage.dtype} or stage.dtype not in REALS:
        return None
    passes = _passes(program, stage)
    if passes is None:
        return None
    assert stage.monoid is not None
    elements = _elements(stage)
    return Recurrent(program, passes, tuple(e.substitute(elements) for e in stage.monoid.combine))


def _passes(program: Program, stage: Stage) -> tuple[Pass, ...] | None:
    assert stage.step is not None
    numbers, elements = ValueNumbers(), _elements(stage)
    at = Linearizer.below(stage.ranges)
    inputs = {t.name: t for t in program.inputs}
    found: dict[int, Pass] = {}
    for n, mix in enumerate(stage.step.mixes):
        tensor = inputs.get(str(mix.weight.value)) if mix.weight.op == "load" else None
        where = at.position(mix.weight, tensor) if tensor is not None else None
        if tensor is None or where is None or where.atoms or not where.axes.keys() <= {"i3", "r0"}:
            return None
        value = mix.value.substitute(elements)
        made = found.setdefault(numbers.of(value), Pass(value, {}))
        made.mixes[n] = Weight(tensor.name, where)
    passes = tuple(found.values())
    known: set[str] = set()
    for p in passes:  # each value is of mixes of earlier passes
        if not {str(v.value) for v in p.value.walk() if v.op == "var" and str(v.value).startswith("m")} <= known:
            return None
        known |= {f"m{n}" for n in p.mixes}
    return passes


def _elements(stage: Stage) -> dict[str, Expr]:
    return {f"r{n}": e for n, e in enumerate(stage.body)}


__all__ = ["Pass", "Recurrent", "Weight", "recurrent"]
