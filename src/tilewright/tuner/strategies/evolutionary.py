"""Evolutionary search: mutate and cross the fastest, let the cost model pick among the offspring.

A round keeps the fastest schedules so far as parents, breeds a few generations from them (the favourites
of one generation are parents of the next), lets the cost model screen about a thousand offspring cheaply
and rank a shortlist carefully, and proposes a diverse top slice. Some proposals have the values of knobs that the
search has neglected, so that the model also sees what it does not believe in. Several proposals may
share a structure, since other launch arguments need no new binary, but enough structures are new. Where building takes
far longer than measuring, some proposals take a binary that the run has: the device would wait for compilers.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from statistics import fmean

from tilewright.core import IllegalSchedule, Measurement, Pairs, Proposal, Schedule, TrialRecord, Value, fastest
from tilewright.cost_model.base import Scores
from tilewright.tuner.strategies.base import SpaceStrategy, derived_rng, tried
from tilewright.tuner.strategies.random import fresh

WARM_UP = 4
"""Results before anything is bred; until then the cost model ranks random schedules."""
WARM_UP_POOL = 64
"""Random schedules drawn at once while warming up."""
GOOD = 0.25
"""Share of a run's trials that count as successes of their template."""
PARENTS = 24
GENERATIONS = 3
OFFSPRING = 20
"""Offspring of each generation per proposal."""
IMMIGRANTS = 6
"""Random schedules among the candidates, per proposal."""
FEWEST = 4
"""Proposals for which there are candidates even if fewer are asked for."""
SHORTLIST = 4
"""Candidates per proposal that survive the cost model's cheap look."""
CROSSOVER = 0.4
EPSILON = 0.1
"""Share of proposals that are chosen for knob values which the search neglects."""
NEGLECTED_POOL = 64
"""Random schedules that are drawn to find neglected values."""
FAVOURED = 8
"""Drawn schedules with the most neglected values, among which the cost model chooses."""
STALL = 32
"""Trials without a faster one after which as many are bred from elsewhere: of random schedules, by the cost model."""
REAL = 1.01
"""Speedup over the best trial before it from which on a trial counts as faster."""
PER_STRUCTURE = 4
"""Proposals of one round that share a binary."""
STRUCTURES = 3
"""At least one in this many proposals brings a structure that the run has not seen."""

REUSED = 0.4
"""Share of a run's trials that take a binary which the run has, where :data:`BUILDING` holds and there are such."""
BUILDING = 20.0
"""Building a kernel takes so many times as long as measuring it. Many are built at once, one is measured at a time."""

Draw = Callable[[random.Random], Schedule]
Judge = Callable[[Sequence[Schedule]], Sequence[float] | Scores]
"""Scores of schedules, higher is better."""


class EvolutionaryStrategy(SpaceStrategy):
    """See the module's text. Without a cost model, offspring are picked in random order."""

    def suggest(self, n: int, history: Sequence[TrialRecord], pending: Sequence[Schedule]) -> list[Proposal]:
        rng = derived_rng(self.seed, history, pending)
        seen = tried(history, pending)
        if self.model is not None:
            self.model.update(history)
        first = self.first(n, seen)
        out = self._proposals(first, "default", rng)
        seen.update(first)
        left = n - len(first)
        if not left:
            return out
        screen = None if self.model is None else _Once(self.model.screen)
        blind = min(left, int(EPSILON * n + rng.random()))
        old = [s for s in seen if s not in first]
        draw = self._draw(history)
        reused = _owed_binaries(history, old, left)
        if len(history) < WARM_UP:
            pool = dict.fromkeys(fresh(self.space, rng, WARM_UP_POOL, seen, draw), "sample")
        else:
            pool = self._breed(rng, history, seen, max(n, FEWEST), draw, screen)
            likely = diverse(
                _best_first(pool, screen, rng), SHORTLIST * left, old, (), SHORTLIST * PER_STRUCTURE,
                reused=SHORTLIST * reused,
            )  # fmt: skip
            pool = {s: pool[s] for s, _ in likely}
        # Those with neglected values may bring no new structure, so the others make up for them.
        picked = diverse(self._ranked(pool, rng), left - blind, old, first, extra=blind, reused=reused)
        out += [self._proposal(s, score, pool[s]) for s, score in picked]
        seen.update(s for s, _ in picked)
        return out + self._proposals(self._neglected(rng, n - len(out), seen, draw, screen), "random", rng)

    def _draw(self, history: Sequence[TrialRecord]) -> Draw:
        """Draws random schedules: of a template as likely as it may be the best, from what its trials were worth
        (Thompson 1933; a success is to be among the fastest quarter)."""
        live = self.space.live
        if len(live) == 1:
            return live[0].sample
        order = sorted(history, key=lambda r: r.seconds or math.inf)
        good = {r.number for r in order[: math.ceil(GOOD * len(order))] if r.seconds is not None}
        won = Counter(r.schedule.template for r in history if r.number in good)
        lost = Counter(r.schedule.template for r in history if r.number not in good)

        def draw(rng: random.Random) -> Schedule:
            space = max(live, key=lambda s: rng.betavariate(1 + won[s.template], 1 + lost[s.template]))
            return space.sample(rng)

        return draw

    def _neglected(
        self, rng: random.Random, n: int, seen: set[Schedule], draw: Draw, screen: Judge | None
    ) -> list[Schedule]:
        """``n`` schedules with knob values that random search would have tried more often than this search did."""
        drawn = fresh(self.space, rng, max(n, NEGLECTED_POOL), seen, draw) if n else []
        likely = [s for s, _ in _best_first(drawn, screen, rng)]
        out: list[Schedule] = []
        while len(out) < min(n, len(drawn)):
            owed = _owed(drawn, [*seen, *out])
            most = sorted((s for s in drawn if s not in out), key=owed.__getitem__, reverse=True)[:FAVOURED]
            out.append(min(most, key=likely.index))
        return out

    def _breed(
        self, rng: random.Random, history: Sequence[TrialRecord], seen: set[Schedule], n: int, draw: Draw,
        screen: Judge | None,
    ) -> dict[Schedule, str]:  # fmt: skip
        """New candidates for ``n`` proposals, each with how it came about; ``screen``: the cost model's cheap look."""
        elite = [] if _stalled(history) else self._fastest(history)
        pool = dict.fromkeys(fresh(self.space, rng, IMMIGRANTS * n, seen, draw), "sample")
        parents = elite or list(pool)
        for generation in range(GENERATIONS if parents else 0):
            for _ in range(OFFSPRING * n):
                a = _fit_parent(rng, parents)
                if rng.random() < CROSSOVER:
                    child, origin = self.space.crossover(rng, a, _fit_parent(rng, parents)), "crossover"
                else:
                    child, origin = self.space.mutate(rng, a), "mutation"
                if child not in seen:
                    pool.setdefault(child, origin)
            favourites = _best_first(pool, screen, rng)[:PARENTS] if generation + 1 < GENERATIONS else []
            if favourites and favourites[0][1] != favourites[-1][1]:
                # Alternate: what was measured to be fast, and what is believed to be.
                pairs = zip_longest(elite, [s for s, _ in favourites])
                parents = [s for pair in pairs for s in pair if s is not None]
        return pool

    def _fastest(self, history: Sequence[TrialRecord]) -> list[Schedule]:
        """The fastest trials that are in the space as it is today, few of each structure."""
        timed = sorted((r for r in history if r.seconds is not None), key=lambda r: (r.seconds, r.number))
        count: Counter[Structure] = Counter()
        out: list[Schedule] = []
        for schedule in (r.schedule for r in timed):
            if len(out) == PARENTS:
                break
            if count[structure_of(schedule)] < PER_STRUCTURE:
                try:
                    self.space.check(schedule)
                except IllegalSchedule:
                    continue
                count[structure_of(schedule)] += 1
                out.append(schedule)
        return out

    def _ranked(self, pool: Iterable[Schedule], rng: random.Random) -> Ranked:
        """By the cost model's best judgement."""
        return _best_first(pool, self.model.predict if self.model is not None else None, rng)

    def _proposals(self, schedules: Sequence[Schedule], origin: str, rng: random.Random) -> list[Proposal]:
        score = dict(self._ranked(schedules, rng))
        return [self._proposal(s, score[s], origin) for s in schedules]

    def _proposal(self, schedule: Schedule, score: float | None, origin: str) -> Proposal:
        """A score that only orders is no prediction."""
        return Proposal(schedule, score if self.model is not None and self.model.calibrated else None, origin)


def _stalled(history: Sequence[TrialRecord]) -> bool:
    """Whether the search is to leave its fastest schedules for a while."""
    best = fastest(history)
    as_fast = math.inf if best is None or best.seconds is None else best.seconds * REAL
    since = len(history) - 1 - next((n for n, r in enumerate(history) if (r.seconds or math.inf) <= as_fast), -1)
    return since // STALL % 2 == 1


def _owed_binaries(history: Sequence[TrialRecord], old: Sequence[Schedule], count: int) -> int:
    """How many of ``count`` more proposals are to take a binary of the ``old`` ones; half of them at the most."""
    built = [r.build_seconds for r in history if r.build_seconds > 0]
    measured = [m.verify_seconds + m.measure_seconds for r in history if isinstance(m := r.outcome, Measurement)]
    if not built or not measured or not 0 < BUILDING * fmean(measured) <= fmean(built):
        return 0
    have = len(old) - len({structure_of(s) for s in old})
    return max(0, min(count // 2, int(REUSED * (len(old) + count)) - have))


_KnobValue = tuple[str, str, Value]
"""A template, a knob of it, and a value."""


def _knob_values(s: Schedule) -> list[_KnobValue]:
    return [(s.template, knob, value) for knob, value in s.values.items()]


def _owed(drawn: Sequence[Schedule], tried: Sequence[Schedule]) -> dict[Schedule, float]:
    """For each drawn schedule, the trials that its knob values lack in comparison with random search, summed."""
    expected, have = (Counter(v for s in of for v in _knob_values(s)) for of in (drawn, tried))
    there, trials = (Counter(s.template for s in of) for of in (drawn, tried))

    def owed(s: Schedule) -> float:
        share = trials[s.template] / there[s.template]
        return sum(max(0.0, share * expected[v] - have[v]) for v in _knob_values(s))

    return {s: owed(s) for s in drawn}


class _Once:
    """Judges each schedule once: most of a generation's candidates were candidates before."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[Schedule, float] = {}

    def __call__(self, schedules: Sequence[Schedule]) -> list[float]:
        new = [s for s in schedules if s not in self._known]
        if new:
            self._known.update(zip(new, map(float, self._judge(new)), strict=True))
        return [self._known[s] for s in schedules]


Structure = tuple[str, Pairs]
Ranked = list[tuple[Schedule, float | None]]


def _best_first(pool: Iterable[Schedule], judge: Judge | None, rng: random.Random) -> Ranked:
    """Ties, and the absence of a judge, leave a random order."""
    schedules = list(pool)
    rng.shuffle(schedules)
    if judge is None or not schedules:
        return [(s, None) for s in schedules]
    scores = judge(schedules)
    order = sorted(range(len(schedules)), key=lambda i: -scores[i])
    return [(schedules[i], float(scores[i])) for i in order]


def structure_of(schedule: Schedule) -> Structure:
    return (schedule.template, schedule.structure)


def _fit_parent(rng: random.Random, parents: Sequence[Schedule]) -> Schedule:
    """A parent, the first ones more often."""
    return parents[int(len(parents) * rng.random() ** 2)]


def diverse(
    ranked: Ranked,
    count: int,
    old: Iterable[Schedule],
    first: Sequence[Schedule] = (),
    per_structure: int = PER_STRUCTURE,
    extra: int = 0,
    reused: int = 0,
) -> Ranked:
    """``count`` of ``ranked``, best first, spread over structures as far as that is possible.

    At most ``per_structure`` share one. With those in ``first``, at least one in ``STRUCTURES`` has a
    structure of its own; and counting the ``old`` ones and ``extra`` others, so do the run's trials. ``reused`` of them
    have a structure of the ``old`` ones, or of each other, if there are so many.
    """
    used = Counter(structure_of(s) for s in first)
    done = list(old)
    known = {structure_of(s) for s in done} | set(used)
    own = max(0, -(-(len(first) + count) // STRUCTURES) - len(used))
    new = max(0, -(-(len(done) + len(first) + count + extra) // STRUCTURES) - len(known))
    reused = min(reused, sum(structure_of(s) in known for s, _ in ranked)) if reused else 0
    picked: Ranked = []
    passed: Ranked = []
    for item in ranked:
        slots = count - len(picked)
        if slots <= 0:
            break
        structure = structure_of(item[0])
        is_own, is_new = structure not in used, structure not in known
        wanted = (slots > own or is_own) and (slots > new or is_new) and (slots > reused or not is_new)
        if used[structure] >= per_structure or not wanted:
            passed.append(item)
            continue
        picked.append(item)
        used[structure] += 1
        known.add(structure)
        own -= is_own
        new -= is_new
        reused -= not is_new
    return picked + passed[: count - len(picked)]
