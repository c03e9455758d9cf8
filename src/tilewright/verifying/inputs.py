"""The input sets on which kernels are checked and timed.

Three sets, each with its own placement of buffers (docs/measurement.md). The first has random normal values. The
second has few large values among small ones along long reductions, so that a single wrong term shows, and normal values
for other inputs. The third has small whole numbers whose sums and products are exact, so that a single dropped term
shows. Values depend on the recipe and on the tensor's position alone.
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
    """How the values of one input set are generated, and where its buffers lie.

    ``kind``: ``normal``; ``peaked``: few large values in ``long`` inputs; ``positive``: uniform in [0.5, 1.5), for
    programs with a log or root, whose domain excludes negative values; or ``whole``: whole numbers from ``-reach`` to
    ``reach``. An input with a range of values (``low``, ``high``) takes values from it, for any kind.
    ``long``: the inputs of long reductions; inputs of long products are near 1, for any kind.
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
    """Values of the program's input number ``index``; ``full``: whole numbers over the whole range of the dtype."""
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
    """Every input of a program; ``bounds``: exclusive upper bounds of inputs used as indices."""
    full = full_range(program)
    return tuple(make_input(t, n, recipe, bounds, t.name in full) for n, t in enumerate(program.inputs))


def rounded(values: Array, dtype: str) -> Array:
    """Values rounded to nearest even in a real ``dtype``; as float32 if NumPy lacks the dtype."""
    return decode(encode(values, dtype), dtype)
