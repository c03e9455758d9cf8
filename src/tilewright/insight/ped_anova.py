"""PED-ANOVA: how much the distribution of each knob's values among the fastest tenth differs from all trials'.

Watanabe, Bansal, Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces", IJCAI
2023. A density over the knob's values is estimated for both groups; the Pearson divergence of the densities is the
knob's importance. The estimators are Optuna's; a test compares with Optuna's evaluator. Every function takes many
weightings of the trials at once, so that resampling is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

FAST = 0.1
"""Share of the trials that count as fast."""
STEPS = 50
"""Most bins of an ordered knob; of more values, adjacent values share a bin."""
NARROWEST = 0.5 / 1.64
"""Least bandwidth of a density kernel, in bins: 90% of its mass lies in its own bin."""

_Z = np.linspace(-8.0, 8.0, 4001)
_PHI = np.array([math.erfc(-z / math.sqrt(2.0)) / 2.0 for z in _Z])


def fastest(times: Floats, weights: Floats) -> Floats:
    """The weights with all but the fastest tenth set to 0; ties stay. ``weights``: weightings x trials."""
    order = np.argsort(times, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1)
    enough = np.ceil(FAST * reached[:, -1:])
    cutoff = times[order][np.argmax(reached >= enough, axis=1)]
    return np.where(times <= cutoff[:, None], weights, 0.0)


def divergences(values: Sequence[tuple[Places, int, bool]], all_: Floats, fast: Floats) -> Floats:
    """The Pearson divergence of each knob, of shape weightings x knobs.

    ``values``: for each knob the bin of each trial's value, the number of bins, and whether the bins are ordered.
    ``all_``, ``fast``: weights of shape weightings x trials.
    """
    found = []
    for places, count, ordered in values:
        if ordered and count > STEPS:
            places, count = places * STEPS // count, STEPS
        chosen = np.zeros((len(places), count))
        chosen[np.arange(len(places)), places] = 1.0
        density = _smooth if ordered else _counted
        of_all, of_fast = density(all_ @ chosen), density(fast @ chosen)
        found.append((of_all * (of_fast / of_all - 1.0) ** 2).sum(axis=1))
    return np.stack(found, axis=1)


def shares(divergence: Floats) -> Floats:
    """Divides each row by its sum; a row of zeros becomes equal shares."""
    total = divergence.sum(axis=1, keepdims=True)
    found: Floats = np.where(total > 0, divergence / np.where(total > 0, total, 1.0), 1.0 / divergence.shape[1])
    return found


def _counted(counts: Floats) -> Floats:
    """Density over categories: smoothed counts (Optuna's categorical Parzen estimator), normalised by row."""
    n, size = counts.sum(axis=1, keepdims=True), counts.shape[1]
    bit = 1.0 / ((counts > 0).sum(axis=1, keepdims=True) + 1)
    kernels: Floats = (counts + n * bit) / (1 + size * bit)
    found: Floats = (kernels + 1.0 / size) / (n + 1) + 1e-12
    return found


def _smooth(counts: Floats) -> Floats:
    """Density over ordered bins: a normal kernel at each value, with Scott's bandwidth, and one wide kernel over all
    bins."""
    n, size = counts.sum(axis=1, keepdims=True), counts.shape[1]
    at = np.arange(size)
    mean = counts @ at / n[:, 0]
    deviation = np.sqrt((counts * (at - mean[:, None]) ** 2).sum(axis=1) / np.maximum(n[:, 0] - 1, 1))
    reached = np.cumsum(counts, axis=1)
    quarters = np.argmax(reached > 3 * n // 4, axis=1) - np.argmax(reached >= np.maximum(n // 4, 1), axis=1)
    width = np.maximum(1.059 * np.minimum(quarters / 1.34, deviation) * n[:, 0] ** -0.2, NARROWEST)
    kernels = _bells(at, width, size)
    everything = _bells(np.array([(size - 1) / 2]), np.array([float(size)]), size)[0, 0]
    found: Floats = (np.einsum("rp,rpq->rq", counts, kernels) + everything) / (n + 1) + 1e-12
    return found


def _bells(centres: NDArray[np.generic], widths: Floats, size: int) -> Floats:
    """Truncated normal distributions over the bins, of shape widths x centres x bins."""
    edges = np.arange(size + 1) - 0.5
    below = np.interp((edges - np.asarray(centres, float)[:, None]) / widths[:, None, None], _Z, _PHI)
    found: Floats = np.diff(below, axis=2) / (below[..., -1:] - below[..., :1])
    return found
