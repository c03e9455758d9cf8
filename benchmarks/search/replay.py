"""Search strategies on recorded spaces: deterministic, in minutes, without measuring anything.

    python benchmarks/search/replay.py                            (ours and random search on every recording)
    python benchmarks/search/replay.py --only skinny square --strategies random evolutionary optuna-tpe
    python benchmarks/search/replay.py --strategies random evolutionary --trials 200     (how far seeds differ)
    python benchmarks/search/replay.py --check                    (exits with 1 where a promise is not kept)

Every strategy searches every recording (`record.py`) with the same seeds and is answered from it. A batch is proposed
while the one before is measured, as in a real run. `evolutionary` starts from a cost model that has seen all
recordings but the one that it searches. Results are the trials until a schedule within 5% and 2% of the recording's
best is found, and the best found after so many trials over that best; by recording, and against random search by
sign-rank tests over recordings and seeds, Holm-corrected. All but "random, no default" begin with the default
schedule. `spread` is the standard deviation over seeds of what was found in the end over the recording's best, a mean
over recordings; `worst` the worst seed of all. No search knows a trial of its recording, so what it has after 8 is
its cold start.

It writes OUT.jsonl, a line a recording and strategy with a number a seed, and OUT.md, the table.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pretrain
import recordings
from recordings import Recording
from report import report, settle

from tilewright.core import Proposal, Schedule, TrialRecord
from tilewright.cost_model import FeatureExtractor
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.tuner.strategies import STRATEGIES, get_strategy
from tilewright.tuner.strategies.base import Strategy

BATCH = 4
MARKS = (8, 16, 32, 64, 128, 200)
NEAR = {"95%": 1 / 0.95, "98%": 1 / 0.98}

COLD = ("8", 1.10, 5 / 6)
"""After so many trials within so much of the best, on this share of the recordings."""
SPREAD = {"64": 0.015, "200": 0.007}
"""Most standard deviation over the seeds of a recording, after so many trials."""
WORST = ("200", 1.03)
"""After so many trials, the worst seed over the recording's best."""

Make = Callable[[Recording, FeatureExtractor, int], Strategy]
"""A strategy for a recording, with features that may be shared by all seeds, and a seed."""
Job = tuple[str, str, int, int, int]
"""A recording, a contestant, a seed, trials and the batch."""
Lines = list[dict[str, Any]]


def _plain(strategy: str, start: bool = True) -> Make:
    """A strategy without a cost model; ``start``: at the template's default schedule."""

    def make(recording: Recording, features: FeatureExtractor, seed: int) -> Strategy:
        return get_strategy(strategy)(recording.space, seed=seed, initial=first(recording) if start else ())

    return make


def ours(knows: str) -> Make:
    """The default search. ``knows``: all other recordings (``tasks``), those of other operators, or ``nothing``."""

    def make(recording: Recording, features: FeatureExtractor, seed: int) -> Strategy:
        unknown = knows == "nothing"
        transfer = None if unknown else pretrain.without(recording.name, knows == "operators")
        model = XGBoostCostModel(recording.task, seed=seed, features=features, transfer=transfer, untrained=unknown)
        return get_strategy("evolutionary")(recording.space, seed=seed, cost_model=model, initial=first(recording))

    return make


def first(recording: Recording) -> tuple[Schedule, ...]:
    return (recording.default,) if recording.default in recording.outcomes else ()


CONTESTANTS: dict[str, Make] = {
    "random": _plain("random"),
    "random, no default": _plain("random", start=False),
    "evolutionary": ours("tasks"),
    "evolutionary, other operators": ours("operators"),
    "evolutionary, untrained": ours("nothing"),
    "evolutionary, no model": _plain("evolutionary"),
    **{name: _plain(name) for name in STRATEGIES if name.startswith("optuna-")},
}


def search(strategy: Strategy, recording: Recording, trials: int, batch: int) -> list[float]:
    """The best time so far after each trial, over the recording's best; infinite before the first success."""
    history: list[TrialRecord] = []
    pending: list[Proposal] = []
    trials = min(trials, len(recording.outcomes))
    while len(history) < trials:
        room = min(batch, trials - len(history) - len(pending))
        ahead = strategy.suggest(room, history, [p.schedule for p in pending]) if room > 0 else []
        history += [TrialRecord(len(history) + i, p, recording.outcomes[p.schedule]) for i, p in enumerate(pending)]
        pending = ahead
    best, curve = math.inf, []
    for r in history:
        best = min(best, r.seconds or math.inf)
        curve.append(best / recording.optimum)
    return curve


@functools.cache
def _loaded(name: str) -> tuple[Recording, FeatureExtractor]:
    recording = pretrain.every()[name]
    return recording, FeatureExtractor(recording.task, space=recording.space)


def play(job: Job, contestants: Mapping[str, Make] = CONTESTANTS) -> dict[str, Any]:
    """One contestant on one recording with one seed: a row."""
    name, contestant, seed, trials, batch = job
    recording, features = _loaded(name)
    features.matrix(())  # columns' names are worked out once, in nobody's time
    start = time.process_time()
    curve = search(contestants[contestant](recording, features, seed), recording, trials, batch)
    return {
        "recording": name, "strategy": contestant, "seed": seed,
        "ms_a_trial": 1e3 * (time.process_time() - start) / len(curve),
        "area": statistics.fmean(math.log(min(c, 10.0)) for c in curve),
        "to": {k: next((i + 1 for i, c in enumerate(curve) if c <= near), trials + 1) for k, near in NEAR.items()},
        "best": {str(m): curve[min(m, len(curve)) - 1] for m in MARKS if m <= trials},
    }  # fmt: skip


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for being several (Holm 1979)."""
    out, least = {}, 0.0
    for i, (k, v) in enumerate(sorted(p.items(), key=lambda kv: kv[1])):
        least = max(least, min(1.0, v * (len(p) - i)))
        out[k] = least
    return out


def worse_than(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """p-value of a one-sided sign-rank test: that ``ours`` are larger."""
    from scipy.stats import wilcoxon

    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    return float(wilcoxon(logs, alternative="greater").pvalue) if any(logs) else 1.0


def grouped(rows: Sequence[Mapping[str, Any]]) -> Lines:
    """A line a recording and strategy; lists are by seed."""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for r in rows:
        line = out.setdefault(
            (r["recording"], r["strategy"]),
            {
                "recording": r["recording"],
                "strategy": r["strategy"],
                "area": [],
                "ms_a_trial": [],
                "to": {},
                "best": {},
            },
        )
        line["area"].append(round(r["area"], 5))
        line["ms_a_trial"].append(round(r["ms_a_trial"], 1))
        for part in ("to", "best"):
            for k, v in r[part].items():
                line[part].setdefault(k, []).append(round(v, 4))
    return list(out.values())


def table(lines: Sequence[Mapping[str, Any]], about: str) -> str:
    """The whole, by strategy over all recordings, then by recording."""
    marks = list(lines[0]["best"])
    head = ["to 95%", "to 98%", *(f"at {m}" for m in marks), "area", *(f"spread at {m}" for m in marks if m in SPREAD)]
    head += [f"worst at {marks[-1]}", "ms a trial"]
    rule = "---:|" * len(head)
    names = list(dict.fromkeys(x["strategy"] for x in lines))

    def cells(own: Sequence[Mapping[str, Any]]) -> str:
        to = [f"{statistics.median(v for x in own for v in x['to'][k]):.0f}" for k in NEAR]
        best = [f"{statistics.geometric_mean(min(v, 10.0) for x in own for v in x['best'][m]):.3f}" for m in marks]
        area = statistics.fmean(v for x in own for v in x["area"])
        spent = statistics.fmean(v for x in own for v in x["ms_a_trial"])
        apart = [f"{statistics.fmean(statistics.pstdev(x['best'][m]) for x in own):.4f}" for m in marks if m in SPREAD]
        worst = max(v for x in own for v in x["best"][marks[-1]])
        return " | ".join([*to, *best, f"{area:.4f}", *apart, f"{worst:.3f}", f"{spent:.1f}"])

    mark, near, _ = COLD
    more = [f"within {near - 1:.0%} at {mark}", f"worse than random at {', '.join(marks)}"]
    out = [about, "", f"| strategy, all recordings | {' | '.join(head + more)} |", f"|---|{rule}---:|---|"]
    for name in names:
        own = [x for x in lines if x["strategy"] == name]
        out.append(f"| {name} | {cells(own)} | {len(cold(own))} of {len(own)} | {_against(own, lines, marks)} |")
    out += ["", f"| recording | strategy | {' | '.join(head)} |", f"|---|---|{rule}"]
    out += [f"| {x['recording']} | {x['strategy']} | {cells([x])} |" for x in lines]
    return "\n".join(out) + "\n"


def cold(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """The recordings on which a strategy's cold start is good, in the mean of its seeds."""
    mark, near, _ = COLD
    return [x["recording"] for x in own if statistics.geometric_mean(x["best"].get(mark, [math.inf])) <= near]


def _against(own: Sequence[Mapping[str, Any]], lines: Sequence[Mapping[str, Any]], marks: Sequence[str]) -> str:
    """p-values that a strategy is worse than random search."""
    theirs = {x["recording"]: x["best"] for x in lines if x["strategy"] == "random"}
    if own[0]["strategy"].startswith("random") or not theirs:
        return ""
    p = {
        m: worse_than([v for x in own for v in x["best"][m]], [v for x in own for v in theirs[x["recording"]][m]])
        for m in marks
    }
    return ", ".join(f"{v:.2g}" for v in holm(p).values())


def broken(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The promises that are not kept: trials to 95% and 98%, the cold start, how far seeds differ, never worse than
    random search, better than Optuna."""
    ours = [x for x in lines if x["strategy"] == "evolutionary"]
    random = {x["recording"]: x for x in lines if x["strategy"] == "random"}
    out = []
    for near, most in (("95%", 20), ("98%", 45)):
        found = statistics.median(v for x in ours for v in x["to"][near])
        if found > most:
            out.append(f"{found:.0f} trials to {near} of the best in the median, {most} are promised")
    mark, near, share = COLD
    if len(good := cold(ours)) < share * len(ours):
        out.append(f"within {near - 1:.0%} after {mark} trials on {len(good)} of {len(ours)}, {share:.0%} are promised")
    for mark, most in SPREAD.items():
        apart = {x["recording"]: statistics.pstdev(x["best"][mark]) for x in ours if mark in x["best"]}
        out += [f"seeds differ by {v:.1%} on {n} after {mark} trials" for n, v in apart.items() if v > most]
    mark, near = WORST
    worst = {x["recording"]: max(x["best"][mark]) for x in ours if mark in x["best"]}
    out += [f"the worst seed is {v:.3f} on {n} after {mark} trials" for n, v in worst.items() if v > near]
    for mark in ("16", "32", "64"):
        p = {x["recording"]: worse_than(x["best"][mark], random[x["recording"]]["best"][mark]) for x in ours}
        out += [f"worse than random search on {n} at {mark} (p={v:.2g})" for n, v in holm(p).items() if v < 0.05]
    for x in lines:
        if x["strategy"].startswith("optuna"):
            mine = next(y for y in ours if y["recording"] == x["recording"])
            if statistics.fmean(mine["area"]) > statistics.fmean(x["area"]):
                out.append(f"more area under the curve than {x['strategy']} on {x['recording']}")
    return out


def arguments(about: str | None, contestants: Mapping[str, Make], usual: Sequence[str]) -> argparse.ArgumentParser:
    """The options of a script that replays."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="recordings (all)")
    parser.add_argument("--strategies", nargs="+", choices=contestants, default=usual)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    return parser


def replayed(args: argparse.Namespace, player: Callable[[Job], dict[str, Any]]) -> Lines:
    """What ``player`` answers for every recording, strategy and seed; prints the table, and writes both."""
    made = recordings.load_all(args.only)
    names = [r.name for r in made]
    jobs = [(n, c, s, args.trials, args.batch) for n in names for c in args.strategies for s in range(args.seeds)]
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        rows = []
        for row in pool.imap(player, jobs, chunksize=args.seeds):
            rows.append(row)
            if len(rows) % args.seeds == 0:
                print(f"\r{len(rows)} of {len(jobs)} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    lines = grouped(rows)
    about = (
        f"{len(names)} recordings ({recordings.machines(made)}), {args.seeds} seeds, batches of {args.batch}. Times "
        "over the best of the recording are geometric means; `area`: mean logarithm of the curve."
    )
    report(table(lines, about), lines, args.out)
    return lines


def main() -> None:
    parser = arguments(__doc__, CONTESTANTS, ["random", "evolutionary"])
    parser.add_argument("--check", action="store_true", help="exit with 1 where a promise is not kept")
    args = parser.parse_args()
    if args.check and args.trials < 64:
        parser.error("--check judges 64 trials: leave --trials out, or give more")
    lines = replayed(args, play)
    settle(broken(lines) if args.check else (), args.check)


if __name__ == "__main__":
    main()
