"""The input sets on which kernels are checked and timed.

Three sets, each in buffers placed differently (docs/measurement.md): one of random normal values; one of few large
values among small ones along long reductions, on which one of many terms shows, and of normal values where there are
none; and one of small whole numbers whose sums and products are exact, so that a single dropped term shows. Values
depend on the recipe and on the tensor's position alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program, Tensor
from tilewright.kernels.expression.value_range import draw
from tilewright.verifying.exact import full_range, whole_values
from tilewright.verifying.long import Long, near_one, peaked

Array = npt.NDArray[Any]
EVERYTHING = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Recipe:
    """How one input set is drawn and where its buffers lie.

    ``kind``: ``normal``, ``peaked`` (few large values in ``long`` inputs), ``positive`` (uniform in
    [0.5, 1.5), where normal values leave the domain of a log or a root) or ``whole`` (whole numbers from ``-reach`` to
    ``reach``). An input with a range of values (``low``, ``high``) is drawn from it, whatever the kind. ``long``: the
    inputs that long reductions read; those of products are near 1, whatever the kind.
    """

    kind: str
    seed: int
    place: str
    reach: int = 1
    long: tuple[Long, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} inputs, seed {self.seed}"


RECIPES = (Recipe("normal", 0, "end"), Recipe("peaked", 1, "start"), Recipe("whole", 2, "odd"))


def make_input(tensor: Tensor, index: int, recipe: Recipe, bounds: Mapping[str, int], full: bool = False) -> Array:
    """Values of the program's input number ``index``; ``full``: whole numbers over their whole range."""
    rng = np.random.default_rng([recipe.seed, index])
    real = tensor.dtype in FLOATS
    ranged = tensor.low is not None or tensor.high is not None
    long = next((x for x in recipe.long if x.tensor == tensor.name), None)
    if long is not None and (not long.few or recipe.kind == "peaked"):
        drawn = peaked(long, tensor.shape, rng) if long.few else near_one(long, tensor.shape, rng)
        return encode(drawn, tensor.dtype)
    whole = whole_values(tensor, recipe.reach) if tensor.dtype != "bool" else None
    if real and recipe.kind == "whole" and whole is not None:
        first, last, step = whole
        return encode(rng.integers(first, last + 1, tensor.shape).astype(np.float32) * np.float32(step), tensor.dtype)
    if real and recipe.kind == "positive" and not ranged:
        return encode(rng.random(tensor.shape, dtype=np.float32) + np.float32(0.5), tensor.dtype)
    if real or whole is None:
        return draw(tensor, rng)
    everything = full and recipe.kind != "whole"
    return draw(tensor, rng, EVERYTHING if everything else whole[:2], bounds.get(tensor.name))


def make_inputs(program: Program, recipe: Recipe, bounds: Mapping[str, int]) -> tuple[Array, ...]:
    """Every input of a program; ``bounds`` gives the exclusive limit of inputs used as indices."""
    full = full_range(program)
    return tuple(make_input(t, n, recipe, bounds, t.name in full) for n, t in enumerate(program.inputs))


def rounded(values: Array, dtype: str) -> Array:
    """Values in a real ``dtype``, rounded to nearest even; those that NumPy lacks as float32."""
    return decode(encode(values, dtype), dtype)
