"""Evolutionary search: mutation and crossover of the fastest schedules, with a cost model that selects the offspring.

A round keeps the fastest schedules so far as parents and breeds a few generations from them. The cost model's
favourites of one generation are parents of the next. The cost model screens about a thousand offspring cheaply, ranks a
shortlist carefully, and the round proposes a diverse top slice. Some proposals have neglected knob values, so
that the model also sees schedules that it ranks low. Several proposals may share a structure, since other launch
arguments need no new binary, but enough structures are new. If builds are far slower than measurements, some
proposals reuse a binary of the run: the device does not wait for compilers.
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
"""Number of results before breeding starts; until then the cost model ranks random schedules."""
WARM_UP_POOL = 64
"""Number of random schedules drawn at once during the warm-up."""
GOOD = 0.25
"""Share of a run's trials that count as successes of their template."""
PARENTS = 24
GENERATIONS = 3
OFFSPRING = 20
"""Number of offspring per generation and proposal."""
IMMIGRANTS = 6
"""Number of random schedules among the candidates, per proposal."""
FEWEST = 4
"""Least number of proposals for which candidates are bred, even if fewer are requested."""
SHORTLIST = 4
"""Number of candidates per proposal that pass the cost model's cheap screening."""
CROSSOVER = 0.4
EPSILON = 0.1
"""Share of proposals that are chosen for neglected knob values."""
NEGLECTED_POOL = 64
"""Number of random schedules drawn to find neglected values."""
FAVOURED = 8
"""Number of drawn schedules with the most neglected values, from which the cost model chooses."""
STALL = 32
"""Number of trials without an improvement, after which the same number is bred from random schedules instead."""
REAL = 1.01
"""Smallest speedup over the best earlier trial that counts as an improvement."""
PER_STRUCTURE = 4
"""Largest number of proposals of one round that share a binary."""
STRUCTURES = 3
"""One in this number of proposals, at least, has a structure that is new to the run."""

REUSED = 0.4
"""Share of a run's trials that reuse a binary of the run, if builds are slow (:data:`BUILDING`)."""
BUILDING = 20.0
"""Ratio of build time to measurement time above which builds are slow. Builds run in parallel, measurements do not."""

Draw = Callable[[random.Random], Schedule]
Judge = Callable[[Sequence[Schedule]], Sequence[float] | Scores]
"""Returns scores of schedules, higher is better."""


class EvolutionaryStrategy(SpaceStrategy):
    """The search of this module. Without a cost model, offspring are selected at random."""

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
        # Proposals with neglected values may have no new structure, so the bred proposals bring it.
        picked = diverse(self._ranked(pool, rng), left - blind, old, first, extra=blind, reused=reused)
        out += [self._proposal(s, score, pool[s]) for s, score in picked]
        seen.update(s for s, _ in picked)
        return out + self._proposals(self._neglected(rng, n - len(out), seen, draw, screen), "random", rng)

    def _draw(self, history: Sequence[TrialRecord]) -> Draw:
        """Return a function that draws random schedules. It draws a template with the probability that the template is
        the best one (Thompson sampling, 1933; a success is a trial among the fastest quarter)."""
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
        """``n`` schedules with knob values that random search would have tried more often than this search."""
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
        """Breed new candidates for ``n`` proposals, by schedule with their origin. ``screen``: the cheap cost model."""
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
                # Alternate measured and predicted favourites.
                pairs = zip_longest(elite, [s for s, _ in favourites])
                parents = [s for pair in pairs for s in pair if s is not None]
        return pool

    def _fastest(self, history: Sequence[TrialRecord]) -> list[Schedule]:
        """The fastest trials that today's space still contains, at most ``PER_STRUCTURE`` per structure."""
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
        """Candidates by the cost model's careful prediction, best first."""
        return _best_first(pool, self.model.predict if self.model is not None else None, rng)

    def _proposals(self, schedules: Sequence[Schedule], origin: str, rng: random.Random) -> list[Proposal]:
        score = dict(self._ranked(schedules, rng))
        return [self._proposal(s, score[s], origin) for s in schedules]

    def _proposal(self, schedule: Schedule, score: float | None, origin: str) -> Proposal:
        """A proposal. It stores the score only if the model is calibrated: an uncalibrated score is no prediction."""
        return Proposal(schedule, score if self.model is not None and self.model.calibrated else None, origin)


def _stalled(history: Sequence[TrialRecord]) -> bool:
    """Whether the search has stalled and breeds from random schedules for the next ``STALL`` trials."""
    best = fastest(history)
    as_fast = math.inf if best is None or best.seconds is None else best.seconds * REAL
    since = len(history) - 1 - next((n for n, r in enumerate(history) if (r.seconds or math.inf) <= as_fast), -1)
    return since // STALL % 2 == 1


def _owed_binaries(history: Sequence[TrialRecord], old: Sequence[Schedule], count: int) -> int:
    """Number of the ``count`` next proposals that must reuse a binary of ``old`` schedules; at most half."""
    built = [r.build_seconds for r in history if r.build_seconds > 0]
    measured = [m.verify_seconds + m.measure_seconds for r in history if isinstance(m := r.outcome, Measurement)]
    if not built or not measured or not 0 < BUILDING * fmean(measured) <= fmean(built):
        return 0
    have = len(old) - len({structure_of(s) for s in old})
    return max(0, min(count // 2, int(REUSED * (len(old) + count)) - have))


_KnobValue = tuple[str, str, Value]
"""Template, knob name and value."""


def _knob_values(s: Schedule) -> list[_KnobValue]:
    return [(s.template, knob, value) for knob, value in s.values.items()]


def _owed(drawn: Sequence[Schedule], tried: Sequence[Schedule]) -> dict[Schedule, float]:
    """For each drawn schedule: how often ``tried`` lacks its knob values, relative to random search, summed."""
    expected, have = (Counter(v for s in of for v in _knob_values(s)) for of in (drawn, tried))
    there, trials = (Counter(s.template for s in of) for of in (drawn, tried))

    def owed(s: Schedule) -> float:
        share = trials[s.template] / there[s.template]
        return sum(max(0.0, share * expected[v] - have[v]) for v in _knob_values(s))

    return {s: owed(s) for s in drawn}


class _Once:
    """Caches scores by schedule: most candidates of a generation were candidates before."""

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
    """Schedules with scores, best first. Ties, or no judge, leave a random order."""
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
    """A random parent; the first parents are more likely."""
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
    """Choose ``count`` schedules of ``ranked``, best first, spread over structures as far as possible.

    At most ``per_structure`` share one structure. At least one in ``STRUCTURES`` of ``first`` and the chosen schedules
    has a structure of its own. The share also holds for all trials of the run (``old``, ``first``, the chosen and
    ``extra`` schedules). ``reused`` of the chosen schedules have a structure of ``old`` or of an earlier choice, if
    ``ranked`` has that number.
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
