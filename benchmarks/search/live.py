"""The search on this machine: where its time goes, how far seeds differ, and several tasks under one budget.

    python benchmarks/search/live.py time      (runs of 200 trials, with a database of 10,000 earlier ones; 3 minutes)
    python benchmarks/search/live.py seeds     (five seeds of each case; winners are paired; 6 minutes)
    python benchmarks/search/live.py tasks     (eight tasks under one budget, against equal shares; 12 minutes)
    python benchmarks/search/live.py time seeds tasks --check --out benchmarks/results/search_live

One core, on a quiet machine of two cores or more. `--check` exits with 1 where a promise is not kept.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import recordings
from report import report, settle

from tilewright import tune
from tilewright.backends.cpu.device import device_model, measure_machine
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.core import Artifact, Candidate, Proposal, Task, TrialRecord, Value
from tilewright.database import Database
from tilewright.measure.local_target import find_local_target
from tilewright.tuner import TuneResult, TuneTask, tune_many

CASES: dict[str, tuple[str, Mapping[str, Value]]] = {
    "square": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "skinny": ("matmul", {"m": 16, "n": 1024, "k": 512}),
    "conv3x3": ("conv2d", {"n": 1, "ci": 64, "h": 28, "w": 28, "co": 64, "kh": 3, "kw": 3, "padding": 1,
                           "layout": "NHWC"}),
    "rows": ("softmax", {"shape": "256,1024"}),
}  # fmt: skip
TASKS = (
    TuneTask("matmul", {"m": 512, "n": 512, "k": 512}, 1),
    TuneTask("matmul", {"m": 1, "n": 1024, "k": 1024}, 24),
    TuneTask(
        "conv2d", {"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC"}, 6
    ),
    TuneTask(
        "conv2d", {"n": 1, "ci": 256, "h": 14, "w": 14, "co": 256, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC"}, 5
    ),
    TuneTask("conv2d", {"n": 1, "ci": 64, "h": 56, "w": 56, "co": 256, "kh": 1, "kw": 1, "layout": "NHWC"}, 4),
    TuneTask("softmax", {"shape": "256,1024"}, 2),
    TuneTask("layer_norm", {"shape": "256,1024"}, 2),
    TuneTask("max_pool2d", {"n": 1, "c": 64, "h": 112, "w": 112, "kernel_size": 3, "stride": 2, "padding": 1}, 1),
)
"""Layers of networks with how often they are called."""
BUDGET = 40.0
"""Seconds for all tasks together."""
STORED = 10_000


def fill(database: Path) -> int:
    """Store the recordings as if they had been measured here; how many trials."""
    stored = 0
    target, device = find_local_target("cpu", "auto", 1).target, find_local_target("cpu", "auto", 1).device
    with Database.open(str(database)) as db:
        for recording in recordings.load_all():
            task = Task(recording.task.workload, target)
            run = db.add_run(task, device, "random", 0, len(recording.outcomes), {})
            records = [TrialRecord(i, Proposal(s), o) for i, (s, o) in enumerate(recording.outcomes.items())]
            db.add_trials(run, records[: STORED - stored])
            db.finish_run(run, "done", {})
            stored += len(records[: STORED - stored])
            if stored >= STORED:
                break
    return stored


def fresh_cache(folder: Path) -> None:
    os.environ["TILEWRIGHT_CACHE"] = tempfile.mkdtemp(dir=folder)


def where_time_goes(folder: Path) -> list[dict[str, Any]]:
    """A run of 200 trials of each case: shares of its wall time, with and without earlier trials."""
    rows = []
    for name, (op, params) in CASES.items():
        for earlier in (0, STORED):
            db = folder / f"time {name} {earlier}.db"
            stored = fill(db) if earlier else 0
            fresh_cache(folder)
            r = tune(op, params=params, trials=200, db=db)
            spent = r.time
            rows.append({
                "case": name, "earlier trials": stored, "trials": r.trials, "seconds": r.seconds,
                "trials a second": r.trials / r.seconds, "builds": spent["waiting for builds"] / r.seconds,
                "measurements": spent["waiting for measurements"] / r.seconds, "final": spent["final"] / r.seconds,
                "ms a trial": 1e3 * spent["proposing"] / r.trials, "recalling s": spent["recalling"],
            })  # fmt: skip
            print(rows[-1], file=sys.stderr)
    return rows


def winners(results: list[TuneResult]) -> list[float]:
    """Times of winners over the best of them, each paired with the first."""
    task = results[0].task
    place = find_local_target(task.target, "auto")
    with place.builder() as builder, place.runner() as runner:
        candidates = [Candidate(task, r.best.schedule) for r in results if r.best is not None]
        built = builder.build(candidates, alone=True)
        items = [(c, b) for c, b in zip(candidates, built, strict=True) if isinstance(b, Artifact)]
        ratios = [1.0] + [
            statistics.median(runner.compare(task, item, items[0]).ratio for _ in range(3)) for item in items[1:]
        ]
    return [r / min(ratios) for r in ratios]


def seeds(folder: Path) -> list[dict[str, Any]]:
    """Five seeds of each case, each in a database of its own."""
    rows = []
    for name, (op, params) in CASES.items():
        for trials in (64, 200):
            dbs = [folder / f"{name} {trials} {s}.db" for s in range(5)]
            found = [tune(op, params=params, trials=trials, seed=s, db=db) for s, db in enumerate(dbs)]
            worth = winners(found)
            rows.append({
                "case": name, "trials": trials, "deviation": statistics.pstdev(map(math.log, worth)),
                "worst": max(worth), "seeds": worth,
            })  # fmt: skip
            print(rows[-1], file=sys.stderr)
    return rows


def several(folder: Path, budget: float = BUDGET) -> list[dict[str, Any]]:
    """Weighted time of all calls after one budget, against as many seconds for each task, and both over the best found.

    A share that is already close to the best leaves nothing to be gained by a better division.
    """
    runs: list[tuple[list[TuneResult], list[TuneResult]]] = []
    for seed in range(5):
        fresh_cache(folder)  # for each side: kernels and references of the other would be found
        db = folder / f"many {seed}.db"
        together = [t.result for t in tune_many(TASKS, time_budget=budget, seed=seed, db=db)]
        fresh_cache(folder)
        alone = [
            tune(
                t.operator, params=t.params, time_budget=budget / len(TASKS), trials=1000, seed=seed,
                db=folder / f"alone {seed} {n}.db",
            )
            for n, t in enumerate(TASKS)
        ]  # fmt: skip
        runs.append((together, alone))
        print(f"seed {seed}: {[r.trials for r in together]}, {[r.trials for r in alone]} trials", file=sys.stderr)
    # By task, every run's winner over the best of all, paired; and seconds of all calls of that best.
    over = [winners([side[n] for pair in runs for side in pair]) for n in range(len(TASKS))]
    best = [
        t.weight * min(side[n].best.seconds for pair in runs for side in pair if side[n].best is not None)
        for n, t in enumerate(TASKS)
    ]

    def total(run: int) -> float:
        return sum(seconds * ratios[run] for seconds, ratios in zip(best, over, strict=True))

    return [
        {
            "budget": budget, "seed": seed, "ratio": total(2 * seed) / total(2 * seed + 1),
            "budget over best": total(2 * seed) / sum(best), "shares over best": total(2 * seed + 1) / sum(best),
            "trials": [r.trials for r in together], "equal": [r.trials for r in alone],
        }
        for seed, (together, alone) in enumerate(runs)
    ]  # fmt: skip


PARTS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {"time": where_time_goes, "seeds": seeds, "tasks": several}


def broken(part: str, rows: list[dict[str, Any]]) -> list[str]:
    """The promises that are not kept."""
    out = []
    for r in rows if part == "time" else ():
        waiting = r["builds"] + r["final"]
        if waiting > 0.35:
            out.append(f"{r['case']}: builds and the final are waited for {waiting:.0%} of the time, 35% are promised")
        if r["earlier trials"] and r["ms a trial"] > 8:
            out.append(f"{r['case']}: proposing takes {r['ms a trial']:.1f} ms a trial, 8 are promised")
        if r["case"] == "square" and not r["earlier trials"] and r["trials a second"] < 15:
            out.append(f"square: {r['trials a second']:.1f} trials a second, 15 are promised")
    for r in rows if part == "seeds" else ():
        if r["trials"] == 200 and r["worst"] > 1.015:
            out.append(f"{r['case']}: a seed is {r['worst'] - 1:.1%} over the best, 1.5% are promised")
    if part == "tasks":
        found = statistics.geometric_mean(r["ratio"] for r in rows)
        left = statistics.geometric_mean(1 / r["shares over best"] for r in rows)
        if found > 0.85:
            out.append(
                f"one budget gives {found:.3f} of the time of equal shares, 0.85 are promised; the best of all runs "
                f"would give {left:.3f}"
            )
    return out


def table(part: str, rows: list[dict[str, Any]]) -> str:
    def cell(v: Any) -> str:
        if isinstance(v, list):
            return ", ".join(cell(x) for x in v)
        return f"{v:.3f}" if isinstance(v, float) else str(v)

    head = list(rows[0])
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell(r[k]) for k in head)} |" for r in rows]
    return f"## {part}\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a promise is not kept")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of all tasks together")
    args = parser.parse_args()
    machine = measure_machine()
    figures = ", ".join(f"{k} {v:.0f}" for k, v in machine.items())
    about = f"{device_model()}, {time.strftime('%Y-%m-%d')}, one core: {figures}"
    for warning in noise_warnings():
        print(warning, file=sys.stderr)
    texts, lines, wrong = [about], [], []
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts:
            rows = several(Path(folder), args.budget) if part == "tasks" else PARTS[part](Path(folder))
            texts.append(table(part, rows))
            lines += [{"part": part, **r} for r in rows]
            wrong += broken(part, rows)
    report("\n\n".join(texts), lines, args.out)
    settle(wrong, args.check)


if __name__ == "__main__":
    main()
