"""Optuna's samplers as search strategies.

Every call rebuilds a study from the history, so proposals depend only on the seed and the measurements. Each template
has a study of its own, in which every trial has the same parameters, as CMA-ES, the Gaussian process and quasi-random
sequences require. If there are several templates, a study of one categorical parameter chooses the template. The
objective is the logarithm of a trial's seconds. A failed trial counts as twice the slowest successful time: none of the
samplers learns from trials that are marked as failed, and only TPE learns from pruned trials.
"""

from __future__ import annotations

import math
import random
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.core import Proposal, Schedule, TrialRecord, UsageError
from tilewright.search_space import Space, UnionSpace
from tilewright.tuner.strategies.base import SpaceStrategy, derived_rng, tried
from tilewright.tuner.strategies.optuna_space import KnobSpace, Point, positions
from tilewright.tuner.strategies.random import fresh

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

STEPS = 64
"""Number of mutations of an already known proposal before a random schedule replaces it."""
GP_START = 10
"""Number of a template's results before its Gaussian process is asked; random points until then."""
GP_FASTEST = 64
GP_LATEST = 64
"""Numbers of fastest and of latest trials that the Gaussian process sees, as its work grows with their cube."""

Evaluated = tuple[Point, float]
"""A point and its objective; lower is better."""


class OptunaStrategy(SpaceStrategy, ABC):
    """Proposals of an Optuna sampler, moved to the nearest legal schedules that are not known yet.

    ``initial`` schedules come first. The cost model is unused.
    """

    needs: ClassVar[tuple[str, ...]] = ("optuna",)
    """Required packages; the extra ``optuna`` installs all of them except torch."""
    origin: ClassVar[str]
    learns: ClassVar[bool] = True
    """Whether proposals depend on measured times."""

    def __init__(self, space: Space, **how: Any) -> None:
        self.require()
        super().__init__(space, **how)
        spaces = space.spaces if isinstance(space, UnionSpace) else (space,)
        self._templates = {s.template: KnobSpace(s) for s in spaces if s.some}

    @classmethod
    def require(cls) -> None:
        """Raise ``UsageError`` if a package that the strategy needs is not installed."""
        missing = [name for name in cls.needs if find_spec(name) is None]
        if missing:
            also = " torch" if "torch" in missing else ""
            raise UsageError(
                f"strategy {cls.origin!r} needs {' and '.join(missing)}",
                f"Run: pip install 'tilewright[optuna]'{also}",
            )

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        rng = derived_rng(self.seed, history, pending)
        seen = tried(history, pending)
        out = [Proposal(s, None, "default") for s in self.first(n, seen)]
        seen.update(p.schedule for p in out)
        if len(out) < n and self._templates:
            with _quiet():
                out += self._propose(rng, n - len(out), history, [*pending, *(p.schedule for p in out)], seen)
        return out + [Proposal(s, None, "random") for s in fresh(self.space, rng, n - len(out), seen)]

    def _propose(
        self,
        rng: random.Random,
        n: int,
        history: Sequence[TrialRecord],
        pending: Sequence[Schedule],
        seen: set[Schedule],
    ) -> list[Proposal]:
        """Up to ``n`` proposals, which are added to ``seen``; fewer if the mutations find no new schedule."""
        done, waiting = self._sorted(history, pending)
        picker = _Picker(rng, done, waiting, self.learns) if len(self._templates) > 1 else None
        askers: dict[str, Asker] = {}
        out: list[Proposal] = []
        for _ in range(n):
            template = picker.pick() if picker else next(iter(self._templates))
            knobs = self._templates[template]
            if template not in askers:
                seed, drawn = rng.getrandbits(31), len(history) + len(pending)
                askers[template] = self._asker(Known(knobs, seed, done[template], waiting[template], drawn))
            schedule = self._unseen(rng, knobs, askers[template].ask(), seen)
            if schedule is None:
                break
            seen.add(schedule)
            point = knobs.point(schedule)
            assert point is not None
            askers[template].expect(point)
            out.append(Proposal(schedule, None, self.origin))
        return out

    def _sorted(
        self, history: Sequence[TrialRecord], pending: Sequence[Schedule]
    ) -> tuple[dict[str, list[Evaluated]], dict[str, list[Point]]]:
        """Finished trials with their objective, and pending points, by template, in order."""
        failed = 2 * max((r.seconds for r in history if r.seconds is not None), default=1.0)
        done: dict[str, list[Evaluated]] = {name: [] for name in self._templates}
        waiting: dict[str, list[Point]] = {name: [] for name in self._templates}
        for r in history:
            if (point := self._point(r.schedule)) is not None:
                done[r.schedule.template].append(
                    (point, math.log(max(failed if r.seconds is None else r.seconds, 1e-12)))
                )
        for s in pending:
            if (point := self._point(s)) is not None:
                waiting[s.template].append(point)
        return done, waiting

    def _point(self, schedule: Schedule) -> Point | None:
        knobs = self._templates.get(schedule.template)
        return None if knobs is None else knobs.point(schedule)

    @staticmethod
    def _unseen(rng: random.Random, knobs: KnobSpace, point: Mapping[str, int], seen: set[Schedule]) -> Schedule | None:
        """The unseen schedule nearest to ``point``, or a few mutations away; ``None`` if they find none."""
        schedule = knobs.nearest(rng, point)
        for _ in range(STEPS):
            if schedule not in seen:
                return schedule
            schedule = knobs.space.mutate(rng, schedule)
        return None

    @abstractmethod
    def _asker(self, known: Known) -> Asker:
        """Make the study of one template."""


@dataclass(frozen=True)
class Known:
    """Trials of one template: finished ones and pending points. ``seed``: of the sampler; ``drawn``: number of
    schedules that the run has proposed so far, of all templates."""

    knobs: KnobSpace
    seed: int
    done: Sequence[Evaluated]
    waiting: Sequence[Point]
    drawn: int

    def asker(self, sampler: BaseSampler, lie: float | None = None) -> Asker:
        """A study of the known trials. ``lie``: as of :class:`Asker`."""
        asker = Asker(sampler, self.knobs.distributions, lie)
        for point, value in self.done:
            asker.add(point, value)
        for point in self.waiting:
            asker.expect(point)
        return asker


class Asker:
    """A study that is asked for points. It holds finished trials, and pending trials as running ones.

    ``lie``: a value with which pending trials count as finished instead.
    """

    def __init__(
        self, sampler: BaseSampler, distributions: Mapping[str, BaseDistribution], lie: float | None = None
    ) -> None:
        import optuna

        self.lie = lie
        self.distributions = dict(distributions)
        self.storage = optuna.storages.InMemoryStorage()
        self.study: Study = optuna.create_study(storage=self.storage, sampler=sampler)

    def add(self, point: Point, value: float, attributes: Mapping[str, Any] | None = None) -> None:
        from optuna.trial import create_trial

        self.study.add_trial(
            create_trial(
                value=value, params=point, distributions=self.distributions, system_attrs=dict(attributes or {})
            )
        )

    def expect(self, point: Point) -> None:
        """Add a pending trial."""
        from optuna.trial import TrialState, create_trial

        if self.lie is not None:
            self.add(point, self.lie)
            return
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=point, distributions=self.distributions))

    def ask(self) -> Point:
        """Return the sampler's proposal. Its trial counts as failed: ``expect`` adds the point actually proposed."""
        from optuna.trial import TrialState

        trial = self.study.ask(self.distributions)
        self.study.tell(trial, state=TrialState.FAIL)
        return {name: int(value) for name, value in trial.params.items()}

    def advance(self, names: Sequence[str]) -> Mapping[str, Any]:
        """Let the sampler process the added trials, for a proposal of the parameters ``names``; returns its notes."""
        from optuna.trial import TrialState

        trial = self.study.ask({name: self.distributions[name] for name in names})
        self.study.tell(trial, state=TrialState.FAIL)
        return self.study.get_trials(deepcopy=False)[-1].system_attrs


class _Picker:
    """Chooses the next template: TPE on one categorical parameter, or uniform for samplers that do not learn."""

    def __init__(
        self,
        rng: random.Random,
        done: Mapping[str, Sequence[Evaluated]],
        waiting: Mapping[str, Sequence[Point]],
        learns: bool,
    ) -> None:
        self.names = list(done)
        sampler = _tpe(rng.getrandbits(31)) if learns else _uniform(rng.getrandbits(31))
        self.asker = Asker(sampler, {"template": positions(len(self.names), ordered=False)})
        for at, name in enumerate(self.names):
            for _, value in done[name]:
                self.asker.add({"template": at}, value)
            for _ in waiting[name]:
                self.asker.expect({"template": at})

    def pick(self) -> str:
        point = self.asker.ask()
        self.asker.expect(point)
        return self.names[point["template"]]


# --------------------------------------------------------------------------- the samplers


def _tpe(seed: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def _uniform(seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


class TPEStrategy(OptunaStrategy):
    """Multivariate tree-structured Parzen estimator; pending trials count as slow."""

    origin = "optuna-tpe"

    def _asker(self, known: Known) -> Asker:
        return known.asker(_tpe(known.seed))


class GPStrategy(OptunaStrategy):
    """Gaussian process with expected improvement; pending trials count as average.

    The sampler's own handling of running trials costs twice as much, and older versions lack it. In a long run the
    process sees only the fastest and the latest trials.
    """

    origin = "optuna-gp"
    needs = ("optuna", "scipy", "torch")

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        import torch

        # Threads make the sampler's small steps several times slower, and would disturb kernels that are being timed.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return super().suggest(n, history, pending)
        finally:
            torch.set_num_threads(threads)

    def _asker(self, known: Known) -> Asker:
        from optuna.samplers import GPSampler

        done = known.done
        if len(done) > GP_FASTEST + GP_LATEST:
            early = sorted(range(len(done) - GP_LATEST), key=lambda i: done[i][1])[:GP_FASTEST]
            done = [done[i] for i in sorted(early)] + list(done[-GP_LATEST:])
        lie = sum(value for _, value in done) / len(done) if len(done) >= GP_START else None
        return replace(known, done=done).asker(GPSampler(seed=known.seed, n_startup_trials=GP_START), lie)


class RandomSamplerStrategy(OptunaStrategy):
    """Uniform over each knob's values, then moved to the nearest legal schedule; ``random`` is uniform over those."""

    origin = "optuna-random"
    learns = False

    def _asker(self, known: Known) -> Asker:
        return Asker(_uniform(known.seed), known.knobs.distributions)


class QMCStrategy(OptunaStrategy):
    """A scrambled Sobol sequence that continues from call to call."""

    origin = "optuna-qmc"
    needs = ("optuna", "scipy")
    learns = False

    def _asker(self, known: Known) -> Asker:
        from optuna.samplers import QMCSampler

        sampler = QMCSampler(seed=self.seed % 2**32, scramble=True, independent_sampler=_uniform(known.seed))
        asker = Asker(sampler, known.knobs.distributions)
        # The sampler takes its parameters from the first trial, and the index in the sequence from the study.
        asker.add(dict.fromkeys(asker.distributions, 0), 0.0)
        asker.ask()
        number = asker.storage.get_study_id_from_name(asker.study.study_name)
        for name in asker.storage.get_study_system_attrs(number):
            asker.storage.set_study_system_attr(number, name, known.drawn - 1)
        return asker


class CMAESStrategy(OptunaStrategy):
    """CMA-ES on the ordered knobs; TPE on the unordered knobs, which CMA-ES cannot handle.

    The history is passed in generations, whatever proposed its trials. So the optimiser also learns from trials that
    were moved to legal schedules.
    """

    origin = "optuna-cmaes"
    needs = ("optuna", "cmaes")

    def _asker(self, known: Known) -> Asker:
        from optuna.distributions import IntDistribution
        from optuna.samplers import CmaEsSampler

        done, tpe = known.done, _tpe(known.seed)
        ordered = [name for name, d in known.knobs.distributions.items() if isinstance(d, IntDistribution)]
        size = 4 + int(3 * math.log(max(len(ordered), 1)))
        sampler = CmaEsSampler(
            seed=known.seed, popsize=size, independent_sampler=tpe, warn_independent_sampling=False
        )  # fmt: skip
        # The sampler begins once there is a trial.
        asker = replace(known, done=done[:1], waiting=()).asker(sampler)
        for start in range(1, len(done), size):
            # The attributes hold the generation number and the optimiser state, and put the trials into the generation.
            attributes = asker.advance(ordered[:1])
            for point, value in done[start : start + size]:
                asker.add(point, value, attributes)
        for point in known.waiting:
            asker.expect(point)
        return asker


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log line for each study, and its warnings of experimental interfaces."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
