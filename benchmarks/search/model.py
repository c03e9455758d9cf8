"""What the model of all tasks foresees of tasks that it never saw.

    python benchmarks/search/model.py                            (a few minutes)
    python benchmarks/search/model.py --only skinny square --jobs 1
    python benchmarks/search/model.py --check                    (exits with 1 where a promise is not kept)

Every recording (`record.py`) is judged as a whole, each of its schedules, by

- `other operators`: the model trained on the recordings of all other operators;
- `other shapes`: the one trained on all other recordings. Only those whose operator has another one count in the means
  as held-out shapes; of the others this is the same model as before;
- `analytic`: the prior that stands in where there is no model;
- `random`: what chance gives;
- `ceiling`: knowing each schedule's true time, where what is recorded is a noisy measurement of it.

Columns: share of pairs of schedules in the right order, of all and of those more than 5% apart; the former over the
ceiling's; the fastest of the model's eight favourites, and its favourite, over the recording's best; what a run
without a trial answers (`tilewright tune --trials 0`: the favourite of 64 random schedules and the default), and the
default, over the same. Shares are means over recordings, ratios geometric means.

The ceiling is estimated by measuring anew, as `record.py` does: every schedule once, then the fastest sixth five
times, of which the median counts. What is measured is the recorded times, drawn together around their mean by as much
as noise has spread them; the noise is drawn from the differences, over the root of two, of passes of one schedule
(all but the first, by which those that have several were chosen). How well the times before order those after is what
no model can surpass, on average. It takes noise to be as large on slow schedules as on fast ones, and knows nothing
of what changes between builds.

It writes OUT.jsonl, a line a recording and judge, and OUT.md, the table.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pretrain
from numpy.typing import NDArray
from recordings import Recording, machines
from report import report, settle

from tilewright.core import Schedule
from tilewright.cost_model import FeatureExtractor
from tilewright.cost_model.base import Stateless
from tilewright.cost_model.choice import CONSIDERED, choice
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.insight.calibration import pairwise_accuracy
from tilewright.insight.model_ranking import CLEAR, TOP

Floats = NDArray[np.float64]

SEEDS = 20
"""Answers without a trial, each from other random schedules."""
DRAWS = 4
"""Times that a recording is measured anew for the ceiling."""
HELD_OUT = {"other operators": True, "other shapes": False}
"""The models that are held to the promises, and whether they know none of the recording's operator."""
COLUMNS = ("pairs", "clear", "of_ceiling", "top8", "top1", "untried", "default")
HEAD = ("all pairs", "pairs over 5% apart", "of the ceiling", "best of 8", "favourite", "without a trial", "default")
SHARES = 3
"""So many of the columns are shares, the others ratios of times."""


class Known(Stateless):
    """A cost model that was told every schedule's score."""

    def __init__(self, scores: Mapping[Schedule, float]) -> None:
        self.known = scores

    def predict(self, schedules: Sequence[Schedule]) -> Floats:
        return np.array([self.known[s] for s in schedules])


def in_order(scores: Floats, speeds: Floats, gap: float) -> float:
    """Share of pairs in the right order, as much as guessing where there is none."""
    found = pairwise_accuracy(scores, speeds, gap)
    return 0.5 if found is None else found


def judged(recording: Recording, scores: Floats, logs: Floats, seeds: int = SEEDS) -> dict[str, float]:
    """The columns for scores of all timed schedules, higher is better. ``logs``: of their times, in the same order."""
    schedules = list(recording.seconds)
    order = np.argsort(-scores, kind="stable")
    time_of = dict(zip(schedules, logs, strict=True))
    # What fails is never the answer that counts: it would be refused, and the default served.
    model = Known(dict(zip(schedules, map(float, scores), strict=True)) | dict.fromkeys(recording.failures, -math.inf))
    answers = [choice(model, recording.space, (recording.default,), seed) for seed in range(seeds)]
    best = logs.min()
    return {
        "pairs": in_order(scores, -logs, 0.0),
        "clear": in_order(scores, -logs, CLEAR),
        "top8": math.exp(logs[order[:TOP]].min() - best),
        "top1": math.exp(logs[order[0]] - best),
        "untried": math.exp(statistics.fmean(time_of[s] - best for s in answers)),
        "default": math.exp(time_of[recording.default] - best),
    }


def chance(recording: Recording) -> dict[str, float]:
    """The same for random scores: expectations."""
    logs = np.sort(np.log(list(recording.seconds.values())))
    logs -= logs[0]

    def best_of(count: int) -> float:
        n = len(logs)
        # The fastest of the drawn is number i where it is drawn and the others are slower.
        share = [math.comb(n - 1 - i, count - 1) / math.comb(n, count) for i in range(n - count + 1)]
        return math.exp(float(np.dot(share, logs[: len(share)])))

    default = recording.seconds[recording.default] / recording.optimum
    one = best_of(1)
    return {"pairs": 0.5, "clear": 0.5, "top8": best_of(min(TOP, len(logs))), "top1": one, "untried": one,
            "default": default}  # fmt: skip


def ceiling(recording: Recording, draws: int = DRAWS) -> dict[str, float]:
    """The same for the true times; see the module's text."""
    rng = np.random.default_rng(0)
    passes = list(recording.passes.values())
    later = [np.log(times[1:]) for times in passes if len(times) > 2]
    pool = np.concatenate([x - np.roll(x, 1) for x in later]) / math.sqrt(2.0)
    logs = np.log(list(recording.seconds.values()))

    again, count = sum(len(times) > 1 for times in passes), max(map(len, passes))
    spread = float(rng.choice(pool, len(logs)).var())
    truth = logs.mean() + math.sqrt(max(0.0, 1.0 - spread / float(logs.var()))) * (logs - logs.mean())

    def measured() -> Floats:
        out = truth + rng.choice(pool, len(truth))
        for i in np.argsort(out, kind="stable")[:again]:
            out[i] = truth[i] + np.median(rng.choice(pool, count))
        return out

    found = [judged(recording, -truth, measured(), 4) for _ in range(draws)]
    return {k: statistics.fmean(f[k] for f in found) for k in found[0]}


def rows(name: str) -> list[dict[str, Any]]:
    """One recording by every judge."""
    recording = pretrain.every()[name]
    features = FeatureExtractor(recording.task, space=recording.space)
    schedules = list(recording.seconds)
    logs = np.log(list(recording.seconds.values()))

    def by(**how: Any) -> dict[str, float]:
        scores = XGBoostCostModel(recording.task, features=features, **how).predict(schedules)
        return judged(recording, scores, logs)

    operators = [r.task.workload.op for r in pretrain.every().values()]
    found = {who: by(transfer=pretrain.without(name, operator)) for who, operator in HELD_OUT.items()}
    found |= {"analytic": by(untrained=True), "random": chance(recording), "ceiling": ceiling(recording)}
    top = found["ceiling"]["pairs"]
    about = {"recording": name, "held_out_shape": operators.count(recording.task.workload.op) > 1}
    return [
        {**about, "judge": who, **{k: round(v, 4) for k, v in (f | {"of_ceiling": f["pairs"] / top}).items()}}
        for who, f in found.items()
    ]


def means(lines: Sequence[Mapping[str, Any]], judge: str) -> dict[str, float]:
    """One judge over all recordings, or over those that count."""
    own = [x for x in lines if x["judge"] == judge and (judge != "other shapes" or x["held_out_shape"])]
    return {
        k: (statistics.fmean if i < SHARES else statistics.geometric_mean)([x[k] for x in own])
        for i, k in enumerate(COLUMNS)
        if own
    }


def table(lines: Sequence[Mapping[str, Any]], about: str) -> str:
    """The whole, by judge over all recordings, then by recording."""
    judges = list(dict.fromkeys(x["judge"] for x in lines))
    rule = "---:|" * len(COLUMNS)

    def cells(found: Mapping[str, float]) -> str:
        return " | ".join(f"{found[k]:.3f}" for k in COLUMNS)

    out = [about, "", f"| judge, all recordings | {' | '.join(HEAD)} |", f"|---|{rule}"]
    out += [f"| {j} | {cells(m)} |" for j in judges if (m := means(lines, j))]
    out += ["", f"| recording | judge | {' | '.join(HEAD)} |", f"|---|---|{rule}"]
    out += [f"| {x['recording']} | {x['judge']} | {cells(x)} |" for x in lines]
    return "\n".join(out) + "\n"


PROMISES: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
    ("other operators", "clear", lambda v: v >= 0.80, "at least 0.80"),
    ("other shapes", "clear", lambda v: v >= 0.90, "at least 0.90"),
    *((judge, "of_ceiling", lambda v: v >= 0.95, "at least 0.95") for judge in HELD_OUT),
    *((judge, "top8", lambda v: v <= 1.05, "at most 1.05") for judge in HELD_OUT),
    *((judge, "untried", lambda v: v <= 1.15, "at most 1.15") for judge in HELD_OUT),
    ("other operators", "default", lambda v: v <= 1.40, "at most 1.40"),
    ("other shapes", "pairs", lambda v: v >= 0.60, "at least 0.60"),
)
"""Of which judge, in which column, what its mean is to be."""
LEAST = 0.50
"""Share of pairs that a model of all other recordings orders rightly on each recording."""


def broken(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The promises that are not kept."""
    names = dict(zip(COLUMNS, HEAD, strict=True))
    out = []
    for judge, column, holds, wanted in PROMISES:
        found = means(lines, judge)
        if found and not holds(found[column]):
            out.append(f"{judge}: {names[column]} is {found[column]:.3f} in the mean, {wanted} is promised")
    return out + [
        f"{x['judge']}: {x['pairs']:.3f} of all pairs on {x['recording']}, {LEAST} is promised on each"
        for x in lines
        if x["judge"] == "other shapes" and x["pairs"] < LEAST
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="recordings (all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a promise is not kept")
    args = parser.parse_args()
    every = pretrain.every()
    names = [n for n in every if not args.only or n in args.only]
    # Those of one operator share a model, so they go to one process.
    grouped = sorted(names, key=lambda n: every[n].task.workload.op)
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        found = dict(zip(grouped, pool.imap(rows, grouped, chunksize=-(-len(names) // args.jobs)), strict=True))
    lines = [row for n in names for row in found[n]]
    counted = sum(found[n][0]["held_out_shape"] for n in names)
    about = (
        f"{len(names)} recordings ({machines(every[n] for n in names)}), {counted} of them of an operator "
        f"that has another; {CONSIDERED} random schedules and {SEEDS} seeds for what is answered without a trial. "
        "Shares of pairs are means, ratios to the recording's best geometric means; `other shapes` over the "
        "recordings that count."
    )
    report(table(lines, about), lines, args.out)
    settle(broken(lines) if args.check else (), args.check)


if __name__ == "__main__":
    main()
