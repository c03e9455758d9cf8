"""What the GPUs' cost model foresees of shapes that it never saw.

    python benchmarks/search/gpu_model.py                                            (four minutes)
    python benchmarks/search/gpu_model.py --out benchmarks/results/gpu_model

Every shape of the committed rows (`gpu_rows.py`) is judged, each of its schedules, by

- `other shapes`: the model trained on the rows of all other shapes;
- `other operators`: the one trained on those of all other operators;
- `bound`: the least clocks that the schedule's loops take (`cost_model/bound.py`);
- `analytic`: the estimate that stands in where there is no model;
- `random`: the mean of what chance gives;
- `default`: the default schedule before all others, which are equal.

Columns: the rank correlation (Spearman's) of scores and speeds; the share of pairs of schedules more than 5% apart in
the right order; the fastest of the judge's two favourites, and its favourite, over the fastest measured. Then the
same among the schedules beside the default, which are what a run chooses from. Correlations and shares are means over
runs, ratios geometric means. It writes OUT.jsonl, a line a run and judge, and OUT.md, the table.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pretrain
from gpu_rows import Timed, machines
from numpy.typing import NDArray
from report import report

from tilewright.cost_model.features import LEAST, static_of
from tilewright.cost_model.gpu_prior import GpuPrior
from tilewright.cost_model.transfer import Run, TransferModel
from tilewright.insight.calibration import pairwise_accuracy
from tilewright.insight.model_ranking import CLEAR
from tilewright.kernels.templates import default_schedule

Floats = NDArray[np.float64]

COLUMNS = ("correlation", "clear", "top2", "top1")
HEAD = ("rank correlation", "pairs over 5% apart", "best of 2", "favourite")
MEANS = 2
"""Columns of which the mean is taken; of the others the geometric mean."""
DRAWS = 50


def ranks(values: Floats) -> Floats:
    """The rank of each value, the mean of their ranks for equal ones."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(count) - (count - 1) / 2.0)[which]
    return found


def correlation(a: Floats, b: Floats) -> float:
    """Spearman's rank correlation, 0 where either has no order."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def judged(scores: Floats, speeds: Floats) -> dict[str, float]:
    """The columns for scores of schedules, higher is better; ``speeds``: ``-log(seconds)``."""
    order = np.argsort(-scores, kind="stable")
    clear = pairwise_accuracy(scores, speeds, CLEAR)
    return {
        "correlation": correlation(scores, speeds),
        "clear": 0.5 if clear is None else clear,
        "top2": math.exp(speeds.max() - speeds[order[:2]].max()),
        "top1": math.exp(speeds.max() - speeds[order[0]]),
    }


def judges(timed: Sequence[tuple[Timed, Run]]) -> dict[str, Callable[[Timed, Run], Floats]]:
    """The scores that each judge gives a run's schedules."""

    @cache
    def without(what: str, name: str) -> TransferModel:
        told = {"shape": lambda t: t.task.workload.label, "operator": lambda t: t.task.workload.op}[what]
        return TransferModel.trained([run for t, run in timed if told(t) != name])

    def held_out(what: str) -> Callable[[Timed, Run], Floats]:
        def scores(t: Timed, run: Run) -> Floats:
            w = t.task.workload
            return without(what, w.label if what == "shape" else w.op).scores(*run[:2])

        return scores

    def bound(t: Timed, _: Run) -> Floats:
        static = static_of(t.task)
        return -np.log([max(static(s)[LEAST], 1.0) for s in t.seconds])

    return {
        "other shapes": held_out("shape"),
        "other operators": held_out("operator"),
        "bound": bound,
        "analytic": lambda t, _: GpuPrior(t.task).predict(list(t.seconds)),
        "default": lambda t, _: np.array([float(s == default_schedule(t.task)) for s in t.seconds]),
    }


def rows(timed: Sequence[tuple[Timed, Run]]) -> list[dict[str, Any]]:
    """Every run by every judge, with and without the default schedule."""
    rng, found = np.random.default_rng(0), list[dict[str, Any]]()
    by = judges(timed)
    for t, run in timed:
        speeds = -np.log(list(t.seconds.values()))
        beside = np.array([s != default_schedule(t.task) for s in t.seconds])
        scores = {judge: of(t, run) for judge, of in by.items()}
        about = {"run": t.name, "schedules": len(speeds)}
        for among, kept in (("all", np.ones_like(beside)), ("beside the default", beside)):
            drawn = [judged(rng.random(kept.sum()), speeds[kept]) for _ in range(DRAWS)]
            lines = {judge: judged(x[kept], speeds[kept]) for judge, x in scores.items()}
            lines["random"] = {k: mean([d[k] for d in drawn], n) for n, k in enumerate(COLUMNS)}
            if among != "all":
                del lines["default"]
            found += [
                {**about, "judge": judge, "among": among, **{k: round(v, 4) for k, v in columns.items()}}
                for judge, columns in lines.items()
            ]
    return found


def mean(values: Sequence[float], column: int) -> float:
    return (statistics.fmean if column < MEANS else statistics.geometric_mean)(values)


def table(lines: Sequence[dict[str, Any]], about: str) -> str:
    """The means by judge, then the runs by the first judge."""
    out = [about]
    for among in ("all", "beside the default"):
        out += ["", f"| judge, {among} | {' | '.join(HEAD)} | worst best of 2 |", f"|---|{'---:|' * 5}"]
        for judge in dict.fromkeys(x["judge"] for x in lines if x["among"] == among):
            own = [x for x in lines if (x["among"], x["judge"]) == (among, judge)]
            cells = [f"{mean([x[k] for x in own], n):.3f}" for n, k in enumerate(COLUMNS)]
            out.append(f"| {judge} | {' | '.join(cells)} | {max(x['top2'] for x in own):.2f} |")
    out += ["", f"| run, by the model of other shapes | schedules | {' | '.join(HEAD)} |", f"|---|{'---:|' * 5}"]
    for x in lines:
        if (x["judge"], x["among"]) == ("other shapes", "all"):
            out.append(f"| {x['run']} | {x['schedules']} | {' | '.join(f'{x[k]:.3f}' for k in COLUMNS)} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    timed = pretrain.gpu_runs()
    lines = rows(timed)
    shapes, schedules = len({t.task.workload.label for t, _ in timed}), sum(len(t.seconds) for t, _ in timed)
    about = (
        f"{schedules} schedules of {shapes} shapes in {len(timed)} runs of the committed rows ({machines()}), as "
        "`python benchmarks/search/gpu_model.py` judges them. Ratios are to the fastest schedule that was measured."
    )
    report(table(lines, about), lines, args.out)


if __name__ == "__main__":
    main()
