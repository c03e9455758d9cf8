"""Importance of knobs: which knobs decide whether a schedule is among the fastest, by PED-ANOVA over a run's trials.

Bootstrap resampling of the trials gives an interval about each share. A permutation test with shuffled times decides
whether a knob has a clear effect: by chance every knob has some share, more so with many values and few trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.core import TrialRecord, Value
from tilewright.insight import ped_anova
from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.knobs import knob_values, main_template
from tilewright.insight.points import thinned, time_of
from tilewright.search_space import Knob, knob
from tilewright.serialization import Json

FEWEST = 20
"""Number of measured trials below which no importance is computed: the fastest tenth would be one trial."""
ENOUGH = 50
"""Number of measured trials from which on the fastest tenth has five trials, as the method's authors advise."""
MOST = 2000
"""Most trials that are used; of more trials an even sample is used."""
RESAMPLED = 200
"""Number of bootstrap resamples, and of shuffles."""
WITHIN = 0.9
"""Share of the bootstrap resamples that an interval covers."""
CHANCE = 0.99
"""Confidence of a clear effect: share of the shuffles in which every knob stands out less."""


@dataclass(frozen=True)
class KnobShare(Json):
    """A knob's share of the importance, with the 90% bootstrap interval from ``low`` to ``high``.

    ``sure``: the effect is statistically clear: in 99% of the shuffles no knob exceeded its mean importance by as large
    a factor.
    """

    knob: str
    share: float
    low: float
    high: float
    sure: bool
    label: str

    @property
    def title(self) -> str:
        """The knob's name and label."""
        return str(Knob(self.knob, self.label))


@dataclass(frozen=True)
class Importance(Json):
    """The importance of a template's knobs. ``knobs``: varying knobs, the largest share first; shares add up to 1.
    Empty without enough data.

    ``trials``: number of measured trials of ``template`` that were used. ``remark``: the reliability, in sentences.
    """

    template: str
    knobs: tuple[KnobShare, ...]
    trials: int
    remark: str


def importance(records: Sequence[TrialRecord], template: str = "") -> Importance:
    """Importance of the knobs of one template, by default of the fastest trial's. The result is deterministic.

    If there are too few trials, the result has a remark and no shares.
    """
    template = template or main_template(records)
    timed = [r for r in records if r.schedule.template == template and time_of(r) is not None]
    timed = [timed[i] for i in thinned(range(len(timed)), MOST)]
    values = {
        name: options
        for name, options in knob_values(timed, template).items()
        if len(options) > 1 and all(name in r.schedule.values for r in timed)
    }
    if len(timed) < FEWEST:
        return Importance(
            template, (), len(timed),
            f"{len(timed)} measured trials of {template} are too few to show which knobs matter. {FEWEST} are needed, "
            f"{ENOUGH} are better.",
        )  # fmt: skip
    if not values:
        return Importance(template, (), len(timed), f"No knob of {template} varies in this run.")
    knobs = _shares(timed, values)
    return Importance(template, knobs, len(timed), _remark(knobs, len(timed), template))


def _shares(timed: Sequence[TrialRecord], values: dict[str, tuple[Value, ...]]) -> tuple[KnobShare, ...]:
    rng = np.random.default_rng(0)
    # Only values that occur: the run's search space is not stored, and today's may differ.
    placed = [
        (np.array([_place(options, r.schedule.values[name]) for r in timed]), len(options), _numeric(options))
        for name, options in values.items()
    ]
    times, count = np.array([time_of(r) or 0.0 for r in timed]), len(timed)
    once = np.ones((1, count))
    fast = ped_anova.fastest(times, once)
    found = ped_anova.divergences(placed, once, fast)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLED).astype(float)
    again = ped_anova.shares(ped_anova.divergences(placed, drawn, ped_anova.fastest(times, drawn)))
    shuffled = rng.permuted(np.repeat(fast, RESAMPLED, axis=0), axis=1)
    chance = ped_anova.divergences(placed, np.repeat(once, RESAMPLED, axis=0), shuffled)
    usual = np.maximum(chance.mean(axis=0), 1e-12)  # the mean is 0 if all trials are equally fast
    needed = np.quantile((chance / usual).max(axis=1), CHANCE)
    share = ped_anova.shares(found)[0]
    # Resamples repeat trials, so their divergences are biased upwards. Only their spread is used, about the share.
    low, middle, high = np.quantile(again, [(1 - WITHIN) / 2, 0.5, (1 + WITHIN) / 2], axis=0)
    low, high = np.clip(share + low - middle, 0, 1), np.clip(share + high - middle, 0, 1)
    rows = [
        KnobShare(
            name, float(share[i]), float(low[i]), float(high[i]), bool(found[0, i] / usual[i] > needed),
            knob(timed[0].schedule.template, name).label,
        )
        for i, name in enumerate(values)
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda k: -k.share))


def _place(options: Sequence[Value], value: Value) -> int:
    """Index of a value in ``options``; ``True`` and ``1`` are different values."""
    return next(i for i, v in enumerate(options) if v == value and type(v) is type(value))


def _numeric(options: Sequence[Value]) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in options)


def _remark(knobs: Sequence[KnobShare], trials: int, template: str) -> str:
    sure = [k.title for k in knobs if k.sure]
    told = (
        f"{', '.join(sure)} {'has' if len(sure) == 1 else 'have'} a statistically clear effect"
        if sure
        else "No knob has a statistically clear effect"
    )
    rest = "; the shares of the other knobs may be chance" if sure and len(sure) < len(knobs) else ""
    few = f" With fewer than {ENOUGH} trials, another run may order the knobs differently." if trials < ENOUGH else ""
    return f"From {trials} measured trials of {template}, as the search chose them.{few} {told}{rest}."


def importance_bars(found: Importance, limit: int = 20) -> Bars:
    """Bar chart of the shares of at most ``limit`` knobs with their intervals, the most important first."""
    top = found.knobs[:limit]
    shown = ", ".join(f"{k.title} {100 * k.share:.0f}%" for k in top[:3])
    return Bars(
        f"Which knobs of {found.template} matter",
        Axis("Share of the importance", "share"),
        tuple((k.title, k.share) for k in top),
        alt=f"Most important knobs: {shown}." if top else found.remark,
        note=found.remark,
        low=tuple(k.low for k in top),
        high=tuple(k.high for k in top),
    )


def importance_table(found: Importance) -> Table:
    """Table of every knob's share, its interval, and whether its effect is statistically clear."""
    return Table(
        "importance",
        f"Importance of the knobs of {found.template}",
        (
            Column("knob", "Knob"),
            Column("label", "Meaning"),
            Column("importance", "Importance", "share", True),
            Column("low", "At least", "share", True),
            Column("high", "At most", "share", True),
            Column("sure", "Clear effect"),
        ),
        tuple((k.knob, k.label, k.share, k.low, k.high, "yes" if k.sure else "no") for k in found.knobs),
    )
