"""Tunes cases and pairs each stored kernel with its rivals: what the suites of operators share.

Results go to NAME.jsonl, a line a case, as they come, so a run that was cut short goes on where it ended;
NAME.md is the table of all of them.
"""

from __future__ import annotations

import argparse
import math
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows import Rows
from tilewright import tune
from tilewright.backends.cpu.device import device_model, measure_machine, parse_device
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.baselines.compare import compare
from tilewright.core import Value, Workload
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.operators import get_operator

SLOW_SECONDS = 0.05
"""Kernels that take longer get fewer samples."""


@dataclass(frozen=True)
class Case:
    """One line of a table: an operator with its parameters. ``group``: what it is averaged with."""

    group: str
    name: str
    op: str
    params: Mapping[str, Value]

    @property
    def workload(self) -> Workload:
        return get_operator(self.op).workload(**self.params)


def geomean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def bytes_touched(workload: Workload) -> int:
    """Bytes of all inputs and outputs, each counted once."""
    return sum(math.prod(s.shape) * ITEMSIZE[s.dtype] for s in (*workload.inputs, *workload.outputs))


def run_case(case: Case, rivals: Sequence[str], args: argparse.Namespace, database: str) -> dict[str, Any]:
    """Tune one case and compare it: a row."""
    workload = case.workload
    row: dict[str, Any] = {"group": case.group, "name": case.name, "op": case.op, "params": dict(case.params)}
    if args.trials:
        result = tune(
            case.op, trials=args.trials, time_budget=args.budget, threads=args.threads, seed=args.seed, db=database,
            params=case.params,
        )  # fmt: skip
        if result.best is None:
            raise SystemExit(f"{case.group} {case.name}: nothing was measured in {args.budget:.0f} s. Raise --budget")
        row |= {
            "trials": result.trials,
            "tune_seconds": round(result.seconds, 1),
            "failed": dict(result.failed),
            "template": result.best.schedule.template,
            "schedule": dict(result.best.schedule.values),
        }
        slow = result.best.seconds > SLOW_SECONDS
    else:
        slow = False
    cores = parse_device("auto", args.threads).cores
    c = compare(
        database, workload, against=rivals, threads=args.threads, cores=cores,
        rounds=max(6, args.rounds // 3) if slow else args.rounds, processes=args.processes,
        min_round_seconds=5e-3,
    )  # fmt: skip
    row |= {
        "microseconds": c.our_seconds * 1e6,
        "gflops": workload.flops / c.our_seconds / 1e9,
        "peak_fraction": c.peak_fraction,
        "gbytes": bytes_touched(workload) / c.our_seconds / 1e9,
        "ratios": {r.baseline: [r.ratio, r.low, r.high] for r in c.ratios},
        "ways": {r.baseline: r.variant for r in c.ratios},
        "skipped": dict(c.skipped),
    }
    return row


def table(rows: Sequence[Mapping[str, Any]], rivals: Sequence[str]) -> str:
    """The rows as Markdown, with geometric means and shares of cases won."""
    lines = [
        "| case | template | trials | GFLOP/s | share of FMA peak | GB/s | "
        + " | ".join(f"{n} (quartiles) | its way" for n in rivals)
        + " |",
        "|---|---|---|---|---|---|" + "---|---|" * len(rivals),
    ]
    for row in rows:
        cells = []
        for n in rivals:
            if n in row["ratios"]:
                ratio, low, high = row["ratios"][n]
                cells += [f"{ratio:.2f} ({low:.2f} to {high:.2f})", row["ways"][n] or ""]
            else:
                cells += [f"- ({row['skipped'].get(n, '')})", ""]
        lines.append(
            f"| {row['group']} {row['name']} | {row.get('template') or ''} | {row.get('trials', '')} | "
            f"{row['gflops']:.1f} | {100 * row['peak_fraction']:.1f}% | {row['gbytes']:.1f} | "
            + " | ".join(cells)
            + " |"
        )
    groups = list(dict.fromkeys(row["group"] for row in rows))
    for label, chosen in (*((g, [r for r in rows if r["group"] == g]) for g in groups), ("all", list(rows))):
        cells = []
        for n in rivals:
            ratios = [r["ratios"][n][0] for r in chosen if n in r["ratios"]]
            won = sum(x > 1 for x in ratios)
            cells += [f"**{geomean(ratios):.2f}**, {won} of {len(ratios)} won" if ratios else "-", ""]
        lines.append(f"| geometric mean, {label} | | | | | | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that all suites have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="cases whose group and name hold a TEXT")
    parser.add_argument("--trials", type=int, default=200, help="0 reuses the kernels in --db")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tuning a case, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--db", help="keep the tuning database here")
    parser.add_argument("--out", help="write NAME.jsonl and NAME.md; cases that are in it are not repeated")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    return parser


def run(
    cases: Sequence[Case],
    rivals: Sequence[str],
    args: argparse.Namespace,
    title: str,
    facts: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Run the cases that ``args`` chooses, and print and write the table."""
    chosen = [c for c in cases if not args.only or any(t in f"{c.group} {c.name}" for t in args.only)]
    if args.list:
        for c in chosen:
            print(c.group, c.name, c.op, *(f"{k}={v}" for k, v in c.params.items()))
        return
    facts_of_all = {
        "device": device_model(), "python": platform.python_version(), **measure_machine(), "noise": noise_warnings(),
        **facts(),
    }  # fmt: skip
    kept = Rows(Path(f"{args.out}.jsonl") if args.out else None, {}, facts_of_all, ("group", "name"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        database = args.db or str(Path(folder) / "suite.db")
        for case in chosen:
            row = kept.rows.get((case.group, case.name)) or kept.add(run_case(case, rivals, args, database))
            rows.append(row)
            ratios = {n: round(r[0], 2) for n, r in row["ratios"].items()}
            print(case.group, case.name, f"{row['microseconds']:.1f} us", f"{100 * row['peak_fraction']:.0f}%",
                  row.get("template"), ratios, row["skipped"] or "", flush=True)  # fmt: skip
    machine = kept.head
    known = [r for k, r in kept.rows.items() if k not in {(c.group, c.name) for c in chosen}]
    text = (
        f"{title} {args.threads} thread(s), {machine['device']}, {machine['date']}. Ratios are rival time / our time "
        f"(above 1: ours is faster), medians of paired samples over {args.processes} processes, taking turns in each; "
        f"{args.trials} trials a case, or {args.budget:.0f} s. GFLOP/s counts what falls on padding, which kernels may "
        "skip; GB/s counts every input and the output once; "
        f"the core's peak is {machine['peak_gflops']:.0f} GFLOP/s (float32), memory is copied at "
        f"{machine['copy_gbytes']:.0f} GB/s (read and written once).\n\n{table([*known, *rows], rivals)}\n"
    )
    print(text)
    if args.out:
        Path(f"{args.out}.md").write_text(text)
