"""Values for inputs that are reduced along a long axis, on which a single wrong term shows.

Rounding grows with the number of terms, and the share of one term shrinks with it. If few terms are large, each of
them outweighs all rounding. Long products of values near 1 stay in range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.program import Program, Stage

Array = npt.NDArray[np.float32]

SHORT = 256  # largest number of terms of a reduction without special values
SHORT_PRODUCT = 16
VISIBLE = 64.0  # ratio of a large term to the rounding of the sum
SMALL = 0.5  # standard deviation of the small values
SPREAD = 2.0  # standard deviation of a product's logarithm


@dataclass(frozen=True)
class Long:
    """An input reduced along ``axis``, by sums in which ``few`` terms should be large; ``few`` is 0 for a product."""

    tensor: str
    axis: int
    terms: int
    few: int


def long_reductions(programs: Sequence[Program], exact: frozenset[str]) -> tuple[Long, ...]:
    """Inputs of long reductions, at most one per reduction. ``programs``: one per result, on the same inputs.

    Reductions whose terms already outweigh the rounding are left out: stages ``exact`` on whole numbers, short sums.
    """
    found: dict[str, Long] = {}
    for program in programs:
        free = {t.name for t in program.inputs if t.dtype in FLOATS and t.low is None and t.high is None}
        for stage in program.stages:
            m = stage.monoid
            if m is None or stage.name in exact or stage.body[0].dtype not in FLOATS:
                continue
            product = len(m.combine) == 1 and m.combine[0].op == "mul"
            bits = DTYPES[DTYPES[stage.body[0].dtype].computed].digits
            unit = max(2.0 ** -(DTYPES[program.output.dtype].digits or 53), 2.0**-bits * math.sqrt(stage.terms))
            few = 0 if product else max(2, int(1 / (VISIBLE * unit)))
            if stage.terms <= (SHORT_PRODUCT if product else max(SHORT, few)):
                continue
            axes = stage.reduce_axes if stage.scan is None else (stage.axes[stage.scan],)
            for axis in sorted(axes, key=lambda a: -stage.ranges[a]):
                place = _read_along(program, stage, axis, free)
                if place is not None:
                    found.setdefault(place[0], Long(*place, stage.terms, few))
                    break
    return tuple(found.values())


def _read_along(program: Program, stage: Stage, axis: str, free: set[str]) -> tuple[str, int] | None:
    """The first input that a stage reads along ``axis``, directly or through other stages, and the input's axis."""
    for load in stage.loads():
        name = str(load.value)
        for dim, index in enumerate(load.args):
            if index.op != "axis" or index.value != axis:
                continue
            if name in free:
                return name, dim
            earlier = next((s for s in program.stages if s.name == name), None)
            place = None if earlier is None else _read_along(program, earlier, f"i{dim}", free)
            if place is not None:
                return place
    return None


def peaked(long: Long, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Small normal values, with large values at few positions of the axis: its ends, block edges and random ones.

    Each index of the axes before it has its own positions, which other inputs of these sizes share. The small values
    are not 0: sums of many equal terms would all round alike, by more than random values do.
    """
    outer, n, inner = math.prod(shape[: long.axis]), shape[long.axis], math.prod(shape[long.axis + 1 :])
    count = max(2, min(n, long.few * n // long.terms))
    least = 2.0 + math.log(long.terms / long.few)  # its exp outweighs the exp of all small values together
    values = rng.standard_normal((outer, n, inner)) * SMALL
    edges = [e for k in range(3, n.bit_length()) for e in (2**k - 1, 2**k) if e < n - 1]
    places = np.random.default_rng(long.terms)
    for row in values:
        some = places.permutation(edges)[: count // 2].astype(int)
        at = [0, n - 1, *some, *places.integers(0, n, max(0, count - 2 - len(some)))]
        row[at] = rng.uniform(least, least + 2.0, (len(at), inner)) * rng.choice((-1, 1, 1, 1), (len(at), inner))
        row[[0, -1]] = np.abs(row[[0, -1]])
    return np.asarray(values.reshape(shape), np.float32)


def near_one(long: Long, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Factors of either sign whose product along the axis stays in range."""
    size = np.exp(rng.standard_normal(shape) * (SPREAD / math.sqrt(long.terms)))
    return np.asarray(size * rng.choice((-1.0, 1.0), shape), np.float32)
