"""Which search strategy finds faster schedules: Optuna's samplers, ours, and random search.

    python benchmarks/optuna_samplers.py --cores 1              (ten minutes, on a quiet machine)
    python benchmarks/optuna_samplers.py --cases softmax --strategies random optuna-tpe --seeds 3

As in search_vs_random.py, a thinned space of each operator (some values of each knob, about --size schedules) is
measured once, exhaustively, each schedule paired with the default one; then every strategy searches that recording
with the same seeds, batches and budget, so that all see the same times. Recordings are kept in --recordings and used
again. Results are the time of the best schedule found after so many trials, relative to the best of the whole space
(geometric mean over seeds), in how many seeds that is better than random search with the same seed (ties count
half), the p-value of a sign-rank test, and the processor time that proposing took, a trial.

It writes OUT.jsonl, a line a case, strategy and seed, and OUT.md, the table. --table makes OUT.md from OUT.jsonl alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import search_vs_random as recorded
from tilewright.backends.cpu.device import device_model
from tilewright.core import Outcome, Schedule, Task
from tilewright.cost_model import FeatureExtractor, get_cost_model
from tilewright.search_space import SearchSpace
from tilewright.tuner.strategies import STRATEGIES, get_strategy

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "conv2d": ("conv2d", {"n": 1, "ci": 64, "h": 28, "w": 28, "co": 64, "kh": 3, "kw": 3, "padding": 1}),
    "softmax": ("softmax", {"shape": "1024,1024"}),
}
CONTESTANTS = {
    "random": ("random", None),
    "evolutionary": ("evolutionary", "xgboost"),
    "evolutionary, no model": ("evolutionary", None),
    **{name: (name, None) for name in STRATEGIES if name.startswith("optuna-")},
}
"""A strategy and a cost model, by name."""


def recording(case: str, folder: Path, size: int) -> tuple[Task, SearchSpace, dict[Schedule, Outcome]]:
    """The thinned space of a case with its times, measured now if there is no recording."""
    from tilewright.backends.cpu.targets import parse_target
    from tilewright.kernels.operators import get_operator
    from tilewright.kernels.templates import default_schedule, templates_for

    op, params = CASES[case]
    path = folder / f"{case}-{size}.jsonl.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        task = Task(get_operator(op).workload(**params), parse_target("auto", 1))
        anchor = default_schedule(task)
        space = recorded.thinned(templates_for(task)[0].space(task), anchor, size)
        recorded.save(path, task, space, recorded.settled(task, list(space), anchor))
    return recorded.load(path, lambda t: templates_for(t)[0].space(t))


def contest(
    case: str,
    task: Task,
    space: SearchSpace,
    measured: dict[Schedule, Outcome],
    names: Iterable[str],
    seeds: int,
    marks: list[int],
    batch: int,
) -> Iterable[dict[str, Any]]:
    """A row a strategy and seed."""
    from tilewright.kernels.templates import default_schedule

    features = FeatureExtractor(task, space=space)  # shared: rows do not depend on the seed
    optimum = min(s for s in map(recorded.seconds, measured.values()) if s is not None)
    default = default_schedule(task)
    trials = min(max(marks), len(measured))
    for name in names:
        strategy, model = CONTESTANTS[name]
        for seed in range(seeds):
            cost_model = get_cost_model(model)(task, seed=seed, features=features) if model else None
            search = get_strategy(strategy)(
                space, seed=seed, cost_model=cost_model, initial=(default,) if default in measured else ()
            )
            start = time.process_time()
            curve = recorded.search(search, measured, trials, batch)
            spent = (time.process_time() - start) / trials
            yield {
                "case": case, "workload": task.workload.label, "target": task.target.name, "schedules": len(measured),
                "strategy": name, "seed": seed, "optimum": optimum, "ms_a_trial": 1e3 * spent,
                "best": {str(m): curve[min(m, len(curve)) - 1] for m in marks},
            }  # fmt: skip


def table(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    from scipy.stats import wilcoxon

    lines = [
        f"{about['date']}, {about['machine']}, one core. Optuna's samplers know the knobs alone; `evolutionary` has",
        "its cost model. `better than random`: share of the seeds, ties count half.", "",
    ]  # fmt: skip
    by_case: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_case[row["case"]][row["strategy"]].append(row)
    for runs in by_case.values():
        head = next(iter(runs.values()))
        title = f"{head[0]['workload']} on {head[0]['target']}: {head[0]['schedules']} schedules, {len(head)} seeds"
        lines += [
            f"### {title}", "",
            "| strategy | trials | best found / optimum | median | better than random | p | ms a trial |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]  # fmt: skip
        for name, own in runs.items():
            for mark in own[0]["best"]:
                ratios = [r["best"][mark] / r["optimum"] for r in own]
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                wins = p = ""
                if name != "random" and "random" in runs:
                    rival = {r["seed"]: r["best"][mark] for r in runs["random"]}
                    pairs = [(r["best"][mark], rival[r["seed"]]) for r in own if r["seed"] in rival]
                    share = statistics.fmean((a < b) + 0.5 * (a == b) for a, b in pairs)
                    logs = [math.log(a / b) for a, b in pairs]
                    wins, p = f"{share:.0%}", f"{wilcoxon(logs).pvalue if any(logs) else 1.0:.1g}"
                spent = statistics.fmean(r["ms_a_trial"] for r in own)
                lines.append(
                    f"| {name} | {mark} | {mean:.4f} | {statistics.median(ratios):.4f} | {wins} | {p} | {spent:.1f} |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--strategies", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--size", type=int, default=1000, help="schedules of each thinned space")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--marks", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--cores", help="processors for the searches, as 1 or 0,1; measuring has a core of its own")
    parser.add_argument("--recordings", type=Path, default=Path("build/recordings"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/optuna_samplers"))
    parser.add_argument("--table", action="store_true", help="only write OUT.md anew")
    args = parser.parse_args()

    lines = args.out.with_suffix(".jsonl")
    if not args.table:
        lines.parent.mkdir(parents=True, exist_ok=True)
        found = {case: recording(case, args.recordings, args.size) for case in args.cases}
        if args.cores:
            os.sched_setaffinity(0, {int(c) for c in args.cores.split(",")})
        about = {"date": datetime.date.today().isoformat(), "machine": device_model()}
        with lines.open("w") as out:
            out.write(json.dumps(about) + "\n")
            for case, (task, space, measured) in found.items():
                for row in contest(case, task, space, measured, args.strategies, args.seeds, args.marks, args.batch):
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    print(f"{case} {row['strategy']} seed {row['seed']}: {row['best']}", flush=True)
    about, *rows = (json.loads(line) for line in lines.read_text().splitlines())
    text = table(about, rows)
    args.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
