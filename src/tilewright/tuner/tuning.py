"""One run of one task: set up from the database, the measurement target and the settings; search, then final."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

from tilewright.backends import NO_PEAKS, Peaks
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Schedule, Task, TilewrightError
from tilewright.cost_model import CostModel, CostModelError, FeatureExtractor, get_cost_model
from tilewright.cost_model.choice import choice
from tilewright.cost_model.pairs import xgboost
from tilewright.cost_model.transferable import VERSION
from tilewright.cost_model.xgb import REFIT
from tilewright.database import Database, StoredRun
from tilewright.errors import of_any
from tilewright.kernels.templates import task_space
from tilewright.measure.measuring import MeasurementTarget, Runner
from tilewright.search_space import Space
from tilewright.tuner import user_kernel
from tilewright.tuner.budget import FULL, Budget
from tilewright.tuner.clock import Clock
from tilewright.tuner.final import Final, FinalResult
from tilewright.tuner.observer import Observer
from tilewright.tuner.result import BestKernel, TuneResult, commonest_failure, curve, failures
from tilewright.tuner.session import AHEAD, Limits, Session
from tilewright.tuner.strategies import get_strategy
from tilewright.tuner.warm_start import warm_start

FINALISTS = 8
"""Largest number of trials in the final: single trials are too noisy to rank the fastest few."""
ITSELF = {"ratio": 1.0, "low": 1.0, "high": 1.0}
"""The default schedule's gain over itself."""
BATCH = 4
COST_MODEL = "xgboost"


@dataclass(frozen=True)
class Tools:
    """Measurement target, builder and runner, shared by all runs on one target."""

    place: MeasurementTarget
    builder: Builder
    runner: Runner
    _peaks: dict[tuple[str, ...], Peaks] = field(default_factory=dict)

    def peaks(self, task: Task) -> Peaks:
        """Peak rates of the device for a task's element types, measured once per set of types."""
        w = task.workload
        kind = (*sorted({s.dtype for s in w.inputs}), w.output.dtype, w.precision)
        if kind not in self._peaks:
            self._peaks[kind] = self.place.peaks(task)
        return self._peaks[kind]


class Tuning:
    """A run that the database already holds: :meth:`search`, at once or in parts, then :meth:`finish`.

    ``first``: schedules to try right after the default. ``budget`` includes the final. ``constants_passed``: as of the
    :class:`task <tilewright.core.Task>`.
    """

    def __init__(
        self, database: Database, run: StoredRun, tools: Tools, watcher: Observer, *, budget: Budget | None = None,
        until_converged: bool = False, first: Sequence[Schedule] = (), stop: threading.Event | None = None,
        constants_passed: int = 0,
    ) -> None:  # fmt: skip
        place = tools.place
        self.database, self.run, self.tools, self.watcher = database, run, tools, watcher
        self.interrupted = False
        self.problem: TilewrightError | None = None
        # A target's limits steer schedules but are not part of its identity: use this device's, not the stored ones.
        task = replace(run.task, target=place.target, constants_passed=constants_passed)
        self.kernel = user_kernel.of_run(run)
        templates = user_kernel.templates_of(self.kernel, task)
        self.space: Space = task_space(task, templates)
        self.model = _cost_model(database, run, FeatureExtractor(task, space=self.space), watcher)
        clock = Clock()
        with clock.running(), clock.on("recalling"):
            warm = warm_start(database, run.id, task, place.device.model, self.space, self.model)
        default, *self._others = (t.default(task) for t in templates)
        self.initial = (default, *first, *self._others, *warm)
        batch = _batch(run.trials_wanted, place.runners)
        ahead = _ahead(tools.builder.lanes, batch)
        self.session = Session(
            task=task, run_id=run.id, database=database,
            strategy=get_strategy(run.strategy)(
                self.space, seed=run.seed, cost_model=self.model, initial=self.initial
            ),
            builder=tools.builder, runner=tools.runner,
            limits=Limits(run.trials_wanted, budget, batch, until_converged, ahead),
            observer=watcher, history=database.trials(run.id), overlap=place.apart, clock=clock,
            stop=stop or threading.Event(),
        )  # fmt: skip
        self._fresh = True
        self.budget = budget
        if budget is not None:
            budget.of(run.id, sum(math.prod(map(int, t.shape)) for t in task.workload.inputs))  # at a range's maximum
            if self.session.history:
                budget.took(run.id, 0, 0.0)
        watcher.started(run.id, task, len(self.session.history), run.trials_wanted, self.space.size)

    @property
    def task(self) -> Task:
        return self.session.task

    @property
    def unreached(self) -> bool:
        """Whether the time budget was used up before the first trial."""
        return self.budget is not None and not self.session.history and self.run.trials_wanted > 0

    @property
    def untried(self) -> int:
        """Number of templates without a trial: their improvement is unknown before the first trial."""
        tried = {r.schedule.template for r in self.session.history}
        return sum(s.template not in tried for s in self._others)

    def search(self, trials: int | None = None) -> bool:
        """Run about ``trials`` more, or until a limit is reached. Returns whether more schedules may be left to try.

        Ctrl-C ends the search and keeps its trials; without a successful trial it raises ``KeyboardInterrupt``.
        """
        session, more = self.session, False
        try:
            with session.clock.running(), set_by_signals(session.stop):
                if self._fresh:
                    self._fresh = False
                    if self.budget is not None:
                        self.database.update_summary(self.run.id, {"deadline": time.time() + self.budget.left})
                    if self.kernel is not None and not session.history:
                        with session.clock.on("probe"):
                            user_kernel.probe(self.kernel, self.task, self.tools.builder)
                    session.restore()
                more = self._more(trials)
        except KeyboardInterrupt:
            if session.best is None:
                raise
            session.stop.set()
        if session.stop.is_set():
            self.interrupt()
        return more and not self.interrupted

    def interrupt(self) -> None:
        """Stop the search; a short final follows."""
        self.interrupted, self.session.ended = True, "stopped"

    def _more(self, trials: int | None) -> bool:
        """Continue the search. The first batch measures for the budget how long trials and finals take."""
        session, made = self.session, 0
        if self.budget is not None and not session.history:
            made = self.budget.first if trials is None else min(self.budget.first, trials)
            more = session.search(made)
            self.rehearse()
            if not more or made == trials:
                return more
        more = session.search(None if trials is None else trials - made)
        self.rehearse()
        return more

    def rehearse(self) -> None:
        """Build and check the fastest kernel as the final does, so that a budget learns the duration. The final then
        finds the kernel compiled."""
        best, budget = self.session.best, self.budget
        if best is None or budget is None or budget.rehearsed(self.run.id):
            return
        began, candidate = budget.now(), Candidate(self.task, best.schedule)
        built = self.tools.builder.build([candidate], alone=True)[0]
        if isinstance(built, Artifact):
            self.tools.runner.verify(self.task, (candidate, built))
        budget.rehearsal(self.run.id, budget.now() - began)

    def fail(self, error: Exception) -> None:
        """End the search with an error. Earlier trials stay, and :meth:`finish` may follow."""
        self.problem, self.session.ended = of_any(error), "failed"

    def finish(self, brief: bool = False) -> TuneResult:
        """Run the final, and store and return the result. ``brief``: only the two fastest trials take part.

        A budget sets the number of finalists: at least one. Without any trial there is no final. Ctrl-C shortens the
        final; a second Ctrl-C raises ``KeyboardInterrupt``.
        """
        session, place = self.session, self.tools.place
        try:
            peaks, final = self._ended(brief)
        except KeyboardInterrupt:
            if self.interrupted:
                raise
            self.interrupt()
            peaks, final = self._ended(brief)
        counts = self.tools.builder.gate_counts()
        result = TuneResult(
            task=self.task, run=self.run.id, device=place.device.name, device_model=place.device.model,
            trials=len(session.history), failed=failures(session.history), seconds=session.clock.elapsed,
            best=self._best(final), kept=final.kept, curve=curve(session.history),
            time={k: round(v, 4) for k, v in session.times().items()},
            structures=len({r.schedule.structure_key for r in session.history}), space_size=self.space.size,
            database=self.database.location, interrupted=self.interrupted, ended=session.ended,
            gate=counts.to_json() if counts.seen else None, peaks=peaks, drift=final.drift,
            failure=commonest_failure(session.history),
            paired=_paired(final),
        )  # fmt: skip
        early = self.interrupted or self.unreached
        state = "failed" if self.problem is not None else "interrupted" if early else "done"
        error = {} if self.problem is None else {"error": str(self.problem)}
        self.database.finish_run(self.run.id, state, {**result.to_json(), **error})
        return result

    def _ended(self, brief: bool) -> tuple[Peaks, FinalResult]:
        """Peak rates of the device, and the result of the final."""
        session = self.session
        if self.interrupted:
            self.watcher.stage("stopping: final between the fastest (again to stop at once)")
        if self.unreached:
            return NO_PEAKS, FinalResult((), False)
        # Readers of the database see the phase too, and why the search ended if this process dies now.
        self.database.update_summary(self.run.id, {"phase": "final", "ended": {"why": session.ended}})
        with session.clock.running(), session.clock.on("final"):
            peaks = self.tools.peaks(self.task)
            return peaks, self._final(2 if brief or self.interrupted else FINALISTS, peaks.flops)

    def _final(self, most: int, peak_flops: float | None) -> FinalResult:
        """Run the final between at most ``most`` trials, fewer if its share of a budget is short."""
        place, budget = self.tools.place, self.budget
        untried = () if self.run.trials_wanted else (choice(self.model, self.space, self.initial, self.run.seed),)
        final = Final(
            self.task, self.initial[0], self.run.id, place.device.model, self.database, self.tools.builder,
            self.tools.runner, self.watcher,
        )  # fmt: skip
        if budget is None:
            return final.play(self.session.history, most, peak_flops, untried)
        began, share, short = budget.now(), budget.share(self.run.id), budget.short(self.run.id)
        finalists = min(most, FINALISTS if share >= FULL * short else 2 if share >= 2 * short else 1)
        found = final.play(self.session.history, finalists, peak_flops, untried, max(0.0, share - short))
        budget.held(self.run.id, budget.now() - began, finalists)
        return found

    def _best(self, final: FinalResult) -> BestKernel | None:
        if not final.ranked:
            return None
        k = final.ranked[0]
        own = k.trial_number if k.run_id in (None, self.run.id) else None
        trial = next((r for r in self.session.history if r.number == own), None)
        return BestKernel(
            k.seconds, self.task.workload.flops / k.seconds / 1e9, k.peak_fraction, k.schedule.template, k.schedule,
            k.run_id or self.run.id, k.trial_number if k.trial_number is not None else -1, final.spread,
            final.default, trial.seconds if trial else None,
        )  # fmt: skip


def _paired(final: FinalResult) -> dict[str, dict[str, float]]:
    """Gains by name, as in :class:`~tilewright.tuner.result.TuneResult`."""
    found = {}
    for name, c in final.paired.items():
        parts = {"ratio": c.ratio, "low": c.low, "high": c.high}
        found[name] = {n: value for n, value in parts.items() if 0 < value < math.inf}  # few pairs leave an open end
    return found | ({"default": dict(ITSELF)} if final.default else {})


@contextmanager
def set_by_signals(stop: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM set ``stop`` too: Python drops exceptions raised in finalisers or callbacks."""

    def handler(then: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            stop.set()
            then(number, frame)

        return handle

    in_charge = threading.current_thread() is threading.main_thread()
    found = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)} if in_charge else {}
    held = {n: then for n, then in found.items() if callable(then)}
    try:
        for n, then in held.items():
            signal.signal(n, handler(then))
        yield
    finally:
        for n, then in held.items():
            signal.signal(n, then)


def fail(database: Database, run: StoredRun, error: BaseException) -> None:
    """Store that an error, or a second Ctrl-C, ended a run."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        database.finish_run(run.id, "interrupted", {"ended": {"why": "stopped"}})
    else:
        summary = {"error": str(of_any(error)), "ended": {"why": "failed"}}
        database.finish_run(run.id, "failed", summary)


def _batch(trials: int, runners: int) -> int:
    """Number of trials proposed at once: few, so that the model learns between them, but enough for all runners."""
    return max(BATCH, min(BATCH * runners, trials // 8))


def _ahead(lanes: int, batch: int) -> int:
    """Number of batches in flight besides the measured one: enough for ``lanes`` compilers, and one more."""
    return max(AHEAD, -(-lanes // batch) + 1)


def _cost_model(database: Database, run: StoredRun, features: FeatureExtractor, watcher: Observer) -> CostModel:
    """Make the run's cost model, which starts from the model in the database."""
    name = str(run.settings.get("cost_model", COST_MODEL))
    if name == COST_MODEL and run.trials_wanted > REFIT:
        xgboost()  # load it before kernels are timed: the threads of its libraries spin when they start
    model = get_cost_model(name)(features.task, seed=run.seed, features=features)
    stored = database.load_model(features.task.target.key, str(VERSION))
    if stored is not None:
        try:
            model.load(stored.data)
        except CostModelError as e:
            watcher.warning(f"{e.message}: this run starts from the shipped one")
    return model
