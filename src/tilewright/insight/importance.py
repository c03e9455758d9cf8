"""Which knobs decide whether a schedule is among the fastest: Optuna's PED-ANOVA over a run's trials.

Watanabe, Bansal, Hutter, "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces",
IJCAI 2023: how far the values of the fastest tenth differ, knob by knob, from those of all trials.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.core import TilewrightError, TrialRecord, Value
from tilewright.insight.chart import Axis, Bars, Column, Table
from tilewright.insight.knobs import knob_values, main_template
from tilewright.insight.points import thinned, time_of

FEWEST = 20
"""Measured trials below which nothing is said: the fastest tenth would be one trial."""
ENOUGH = 50
"""From here on the fastest tenth has five trials, which the method's authors advise."""
MOST = 2000
"""Trials looked at: an even sample of more."""


class OptunaMissing(TilewrightError):
    """Optuna is not installed."""

    kind = "missing_extra"


@dataclass(frozen=True)
class Importance:
    """``shares``: of each knob that varies, largest first, together 1 (empty where nothing can be said).

    ``trials``: measured trials of ``template`` looked at. ``remark``: how far to trust it, as a sentence.
    """

    template: str
    shares: tuple[tuple[str, float], ...]
    trials: int
    remark: str


def importance(records: Sequence[TrialRecord], template: str = "") -> Importance:
    """Importance of the knobs of one template, the fastest trial's by default.

    Raises ``OptunaMissing`` without the extra ``optuna``. Few trials give a remark and no shares.
    """
    optuna = _optuna()
    from tilewright.tuner.strategies.optuna_space import positions  # imports most of the tuner

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
            f"{len(timed)} measured trials of {template} are too few to tell which knobs matter: {FEWEST} are needed, "
            f"{ENOUGH} are better.",
        )  # fmt: skip
    if not values:
        return Importance(template, (), len(timed), f"No knob of {template} varies in this run.")
    # Of the values that occur: the run's space is not stored, and today's may be another.
    space = {name: positions(len(options), _numeric(options)) for name, options in values.items()}
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its interface is called experimental in some versions
            study = optuna.create_study(direction="minimize")
            study.add_trials(
                [
                    optuna.trial.create_trial(
                        params={name: options.index(r.schedule.values[name]) for name, options in values.items()},
                        distributions=space,
                        value=time_of(r) or 0.0,
                    )
                    for r in timed
                ]
            )
            found = optuna.importance.get_param_importances(
                study, evaluator=optuna.importance.PedAnovaImportanceEvaluator(), params=list(values)
            )
    finally:
        optuna.logging.set_verbosity(level)
    shares = tuple(sorted(((n, float(v)) for n, v in found.items()), key=lambda item: -item[1]))
    remark = f"From {len(timed)} measured trials of {template}, as the search chose them."
    if len(timed) < ENOUGH:
        remark += f" Fewer than {ENOUGH}, so another run may well order the knobs otherwise."
    return Importance(template, shares, len(timed), remark)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise OptunaMissing(
            "knob importance needs Optuna, which is not installed", "Run pip install 'tilewright[optuna]'"
        ) from None
    return optuna


def _numeric(options: Sequence[Value]) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in options)


def importance_bars(found: Importance, limit: int = 20) -> Bars:
    """A bar a knob, the most important first, ``limit`` at most."""
    top = found.shares[:3]
    shown = ", ".join(f"{n} {100 * v:.0f}%" for n, v in top)
    return Bars(
        f"Which knobs of {found.template} matter",
        Axis("Share of the importance", "share"),
        found.shares[:limit],
        alt=f"Most important knobs: {shown}." if top else found.remark,
        note=found.remark,
    )


def importance_table(found: Importance) -> Table:
    """Every knob's share."""
    return Table(
        "importance",
        f"Importance of the knobs of {found.template}",
        (Column("knob", "Knob"), Column("importance", "Importance", "share", True)),
        found.shares,
    )
