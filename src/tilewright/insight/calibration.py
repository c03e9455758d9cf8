"""Measures how well the cost model predicts the order of search times. Scores are only ranks, so orders are
compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.database.records import TrialPoint
from tilewright.insight.chart import XY, Axis, Column, Series, Table
from tilewright.insight.points import thinned, time_of

Floats = NDArray[np.float64]

PAIRS_OF = 2000
"""Most trials of which all pairs are compared; of more trials an even sample is used."""
FEWEST = 5
"""Number of trials below which no agreement is computed."""
PARTS = 8
PART = 8
"""Most parts into which a run is divided, and least trials of a part."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of predicted and measured order over trials ``first`` to ``last``. ``count``: number of trials that
    have a prediction and a time.

    ``rank_correlation``: Spearman's coefficient, 1 for a perfect prediction, 0 for guessing. ``pairwise``: share of
    pairs in the right order, 0.5 for guessing. Both are ``None`` if all scores or all times are equal, or trials are
    too few.
    """

    first: int
    last: int
    count: int
    rank_correlation: float | None
    pairwise: float | None


def ranks(values: Floats) -> Floats:
    """Ranks of values from 1, the least; equal values get the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    found: Floats = (ends - (counts - 1) / 2.0)[inverse]
    return found


def rank_correlation(a: Floats, b: Floats) -> float | None:
    """Spearman's coefficient: the correlation of the ranks. ``None`` if ``a`` or ``b`` is constant."""
    x, y = ranks(a) - (len(a) + 1) / 2, ranks(b) - (len(b) + 1) / 2
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else None


def pairwise_accuracy(predicted: Floats, measured: Floats, gap: float = 0.0) -> float | None:
    """Share of pairs whose predicted and measured order agree. Equal scores count half; pairs whose measurements are
    equal, or differ by at most ``gap``, are left out."""
    p = np.sign(predicted[:, None] - predicted[None, :])
    apart = measured[:, None] - measured[None, :]
    m = np.sign(apart)
    decided = (m != 0) & (np.abs(apart) > gap)
    total = int(decided.sum())
    return float((1 + (p * m)[decided]).sum() / (2 * total)) if total else None


def agreement(points: Sequence[TrialPoint]) -> Agreement:
    """The agreement over all trials. They must be of one run, because scores of different runs are not comparable."""
    known = _known(points)
    first, last = (known[0].number, known[-1].number) if known else (0, 0)
    if len(known) < FEWEST:
        return Agreement(first, last, len(known), None, None)
    chosen = [known[i] for i in thinned(range(len(known)), PAIRS_OF)]
    scores, speeds = _arrays(chosen)
    return Agreement(first, last, len(known), rank_correlation(scores, speeds), pairwise_accuracy(scores, speeds))


def agreement_by_part(points: Sequence[TrialPoint]) -> tuple[Agreement, ...]:
    """The agreement in each of consecutive parts of the run, which shows whether the model improves."""
    known = _known(points)
    parts = min(PARTS, len(known) // PART)
    if parts < 2:
        return ()
    edges = [round(i * len(known) / parts) for i in range(parts + 1)]
    return tuple(agreement(known[a:b]) for a, b in pairwise(edges))


def _known(points: Sequence[TrialPoint]) -> list[TrialPoint]:
    found = [p for p in points if time_of(p) is not None and p.prediction is not None and np.isfinite(p.prediction)]
    return sorted(found, key=lambda p: p.number)


def _arrays(points: Sequence[TrialPoint]) -> tuple[Floats, Floats]:
    """Scores and speeds of trials, both larger for faster trials."""
    scores = np.array([p.prediction for p in points], np.float64)
    speeds = -np.array([time_of(p) for p in points], np.float64)
    return scores, speeds


def describe(found: Agreement) -> str:
    """The agreement of predictions and search times as a sentence."""
    if found.count < FEWEST:
        return f"{found.count} trials were predicted and measured: too few to judge the cost model."
    if found.rank_correlation is None or found.pairwise is None:
        return "All predictions or all times are equal, so there is no order to compare."
    return (
        f"Rank correlation {found.rank_correlation:.2f} (1: perfect order, 0: guessing); "
        f"{100 * found.pairwise:.0f}% of the pairs of {found.count} trials are in the right order."
    )


def calibration_chart(points: Sequence[TrialPoint], label: str = "") -> XY:
    """Chart of measured seconds over predicted rank, with separate series for the first and second half of the run."""
    known = _known(points)
    found = agreement(points)
    series: list[Series] = []
    if known:
        place = ranks(-_arrays(known)[0])
        half = (len(known) + 1) // 2
        for name, part in (("first half of the run", slice(0, half)), ("second half", slice(half, None))):
            if known[part]:
                x, y = [float(v) for v in place[part]], [time_of(p) or 0.0 for p in known[part]]
                trials = [(p.run_id, p.number) for p in known[part]]
                series.append(Series(name, x, y, trials=trials, emphasis=part.start > 0, role="measured"))
    text = describe(found)
    return XY(
        f"Predicted against measured{f': {label}' if label else ''}",
        Axis("Predicted rank, fastest first"),
        Axis("Search time", "s", "log"),
        tuple(series),
        alt=text,
        note=f"{text} A good model rises from left to right.",
    )


def calibration_over_run(points: Sequence[TrialPoint]) -> XY:
    """Chart of the rank correlation in consecutive parts of the run."""
    parts = [a for a in agreement_by_part(points) if a.rank_correlation is not None]
    series: tuple[Series, ...] = ()
    alt = "Too few predicted trials to compare parts of the run."
    if parts:
        y = [a.rank_correlation or 0.0 for a in parts]
        series = (Series("rank correlation", [(a.first + a.last) / 2 for a in parts], y, "line", emphasis=True),)
        alt = f"Rank correlation in {len(parts)} parts of the run, from {y[0]:.2f} to {y[-1]:.2f}."
    return XY(
        "Does the cost model improve?",
        Axis("Trial", "trial"),
        Axis("Rank correlation within a part of the run"),
        series,
        alt=alt,
        note="Late in a run only promising schedules are measured: they are alike, and harder to order.",
    )


def calibration_table(points: Sequence[TrialPoint]) -> Table:
    """Table of the agreement over the whole run, then over its parts."""
    rows = [("whole run", agreement(points)), *(("part", a) for a in agreement_by_part(points))]
    return Table(
        "calibration",
        "Cost model: predicted against measured",
        (
            Column("part", "Part"),
            Column("first", "First trial", "trial", True),
            Column("last", "Last trial", "trial", True),
            Column("count", "Compared", numeric=True),
            Column("rank_correlation", "Rank correlation", numeric=True),
            Column("pairwise", "Pairs in order", "share", True),
        ),
        tuple((name, a.first, a.last, a.count, a.rank_correlation, a.pairwise) for name, a in rows),
    )
