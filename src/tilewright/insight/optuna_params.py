"""Schedules as Optuna's parameters: a number is its position among the knob's values, a word a category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.core import Schedule, TilewrightError, Value

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class OptunaMissing(TilewrightError):
    """Optuna is not installed."""

    kind = "missing_extra"


def require_optuna() -> Any:
    """The module ``optuna``. Raises ``OptunaMissing``, naming the extra."""
    try:
        import optuna
    except ImportError:
        raise OptunaMissing(
            "knob importance needs Optuna, which is not installed", "Run pip install 'tilewright[optuna]'"
        ) from None
    return optuna


def distributions(values: Mapping[str, Sequence[Value]]) -> dict[str, BaseDistribution]:
    """A distribution a knob, given its values in order: positions where they are numbers, else categories."""
    optuna = require_optuna()
    found: dict[str, BaseDistribution] = {}
    for name, options in values.items():
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in options):
            found[name] = optuna.distributions.IntDistribution(0, len(options) - 1)
        else:
            found[name] = optuna.distributions.CategoricalDistribution(tuple(options))
    return found


def params(schedule: Schedule, values: Mapping[str, Sequence[Value]]) -> dict[str, Value]:
    """The schedule's knobs named in ``values``, as :func:`distributions` of them expect."""
    found: dict[str, Value] = {}
    for name, options in values.items():
        value = schedule.values[name]
        numeric = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in options)
        found[name] = list(options).index(value) if numeric else value
    return found
