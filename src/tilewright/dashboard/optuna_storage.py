"""A database as a read-only Optuna storage: every run is a study, every trial a finished trial of that study.

A trial's parameters are its schedule's knobs. Its value is its time in seconds, to be minimised; a failure has no
value. A knob's possible values are not stored, so a parameter's range is the range of the run's trials. Parameters are
the knobs' values, for people to read; the strategies that sample with Optuna use positions instead
(tuner/strategies/optuna_space.py).
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from threading import RLock
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from tilewright.core import DatabaseError, Failure, TrialRecord, UsageError, Value
from tilewright.database import Database, StoredRun
from tilewright.database.text import visible_text

SHOWN = 5000
"""Most trials of a study; a longer run shows its fastest trial and an even sample. A browser needs 5 kB for each."""
KEPT = 8
"""Number of studies whose trials are cached, the last used."""
_TRIAL_BITS = 26
"""Low bits of a trial's identifier with its number; the bits above hold its study's number. JavaScript's integers have
53 bits."""


class ReadOnlyStorage(BaseStorage):
    """Optuna's storage interface over a database.

    Studies are numbered from 0 in the order of their runs, and keep their numbers while this object lives. Methods that
    write raise ``DatabaseError``. Any thread may call any method.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = RLock()
        self._numbers: dict[str, int] = {}
        self._studies: dict[int, tuple[str, FrozenStudy]] = {}
        self._trials = lru_cache(KEPT)(self._read)

    # ------------------------------------------------------------------ studies

    def get_all_studies(self) -> list[FrozenStudy]:
        with self._lock:
            self._refresh()
            return [study for _, (_, study) in sorted(self._studies.items())]

    def get_study_id_from_name(self, study_name: str) -> int:
        with self._lock:
            self._refresh()
            for number, (_, study) in self._studies.items():
                if study.study_name == study_name:
                    return number
        raise KeyError(f"no run is called {study_name!r}")

    def get_study_name_from_id(self, study_id: int) -> str:
        return self._study(study_id)[1].study_name

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return self._study(study_id)[1].directions

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study(study_id)[1].user_attrs

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return self._study(study_id)[1].system_attrs

    def _study(self, study_id: int) -> tuple[str, FrozenStudy]:
        """Returns the run's identifier and the study."""
        with self._lock:
            if study_id not in self._studies:
                self._refresh()
            if study_id not in self._studies:
                raise KeyError(f"no run has the number {study_id}")
            return self._studies[study_id]

    def _refresh(self) -> None:
        """Adds new runs and drops removed ones. Reads only the new runs if no run was removed."""
        more = self._database.count_runs() - len(self._studies)
        if more == 0:
            return
        found = self._database.list_runs(limit=max(more, 0))
        if more < 0 or any(run.id in self._numbers for run in found):
            found = self._database.runs()  # runs were removed too: read all again
            self._studies.clear()
        for run in reversed(found):
            number = self._numbers.setdefault(run.id, len(self._numbers))
            self._studies[number] = (run.id, _study_of(run, number))

    # ------------------------------------------------------------------ trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        run_id, _ = self._study(study_id)
        with self._lock:
            try:
                count = self._database.progress(run_id).trials
            except UsageError as e:
                raise KeyError(e.message) from None
            trials = self._trials(study_id, run_id, count)
        wanted = [t for t in trials if states is None or t.state in states]
        return copy.deepcopy(wanted) if deepcopy else wanted

    def _read(self, study_id: int, run_id: str, _count: int) -> list[FrozenTrial]:
        """Reads a run's trials. ``_count``, the run's number of trials, is only a key of the cache."""
        return _trials_of(self._database.sample_trials(run_id, SHOWN), study_id << _TRIAL_BITS)

    def get_trial(self, trial_id: int) -> FrozenTrial:
        study_id = trial_id >> _TRIAL_BITS
        for trial in self.get_all_trials(study_id, deepcopy=False):
            if trial.number == trial_id - (study_id << _TRIAL_BITS):
                return trial
        raise KeyError(f"no trial has the identifier {trial_id}")

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        trial_id = (study_id << _TRIAL_BITS) + trial_number
        self.get_trial(trial_id)
        return trial_id

    # ------------------------------------------------------------------ writes

    def _refuse(self, *_args: Any, **_given: Any) -> Any:
        raise DatabaseError(
            f"{self._database.location} is read by Optuna, never written", "Tune with tilewright tune instead"
        )

    create_new_study = delete_study = set_study_user_attr = set_study_system_attr = _refuse
    create_new_trial = set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse


def _study_of(run: StoredRun, number: int) -> FrozenStudy:
    """The study of a run, with its constant attributes only: studies are not read again while a run goes on."""
    facts = {
        "operator": run.task.workload.op,
        "workload": run.task.workload.label,
        "target": run.task.target.name,
        "threads": run.task.target.threads,
        "device": run.device_model,
        "strategy": run.strategy,
        "seed": run.seed,
        "started": dt.datetime.fromtimestamp(run.started, dt.UTC).isoformat(" ", "seconds"),
    }
    return FrozenStudy(
        study_name=visible_text(f"{run.id} {run.task.workload.label}"),
        direction=StudyDirection.MINIMIZE,
        user_attrs={name: _plain(fact) for name, fact in facts.items()},
        system_attrs={"study:metric_names": ["seconds"]},
        study_id=number,
    )


def _plain(value: Any) -> Any:
    """Makes a text safe to show: no control characters, and no formula for a spreadsheet, since Optuna exports CSV."""
    if not isinstance(value, str):
        return value
    shown = visible_text(value)
    return f"'{shown}" if shown[:1] in tuple("=+-@") else shown


def _trials_of(records: Sequence[TrialRecord], first_id: int) -> list[FrozenTrial]:
    several = len({r.schedule.template for r in records}) > 1
    params = [_params(r, several) for r in records]
    distributions = _distributions(params)
    return [
        _trial(r, p, {name: distributions[name] for name in p}, first_id + r.number)
        for r, p in zip(records, params, strict=True)
    ]


def _params(record: TrialRecord, with_template: bool) -> dict[str, Value]:
    template: dict[str, Value] = {"template": record.schedule.template} if with_template else {}
    return {_plain(k): _plain(v) for k, v in {**template, **record.schedule.values}.items()}


def _distributions(params: Iterable[Mapping[str, Value]]) -> dict[str, BaseDistribution]:
    """Optuna's distribution of each parameter: the range of numbers, the occurring values for texts."""
    values: dict[str, set[Value]] = {}
    for row in params:
        for name, value in row.items():
            values.setdefault(name, set()).add(value)
    out: dict[str, BaseDistribution] = {}
    for name, found in values.items():
        kinds = {type(v) for v in found}
        if kinds == {int}:
            out[name] = IntDistribution(min(found), max(found))  # type: ignore[arg-type]
        elif kinds <= {int, float}:
            out[name] = FloatDistribution(min(found), max(found))  # type: ignore[arg-type]
        else:
            out[name] = CategoricalDistribution(tuple(sorted(found, key=str)))
    return out


def _trial(
    record: TrialRecord, params: dict[str, Value], distributions: dict[str, BaseDistribution], identifier: int
) -> FrozenTrial:
    outcome = record.outcome
    failed = isinstance(outcome, Failure)
    attributes: dict[str, Any] = {"origin": record.proposal.origin, "template": record.schedule.template}
    took = record.build_seconds
    if isinstance(outcome, Failure):
        attributes |= {"status": outcome.kind.value, "message": outcome.message}
    else:
        attributes |= {"status": "ok", "spread": outcome.spread}
        took += outcome.verify_seconds + outcome.measure_seconds
    if record.proposal.prediction is not None:
        attributes["predicted"] = record.proposal.prediction
    return FrozenTrial(
        number=record.number,
        trial_id=identifier,
        state=TrialState.FAIL if failed else TrialState.COMPLETE,
        value=record.seconds,
        datetime_start=dt.datetime.fromtimestamp(record.created - took),
        datetime_complete=dt.datetime.fromtimestamp(record.created),
        params=params,
        distributions=distributions,
        user_attrs={name: _plain(value) for name, value in attributes.items()},
        system_attrs={},
        intermediate_values={},
    )
