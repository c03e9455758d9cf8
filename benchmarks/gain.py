"""What tuning gains over the default schedule, and how close 64 trials come to 1,000, one thread.

    python benchmarks/gain.py --seeds 3 --most 1000 --out benchmarks/results/gain
    python benchmarks/gain.py --seeds 3 --most 0 --busy --out benchmarks/results/gain_busy

Of each operator the winner of a run of 64 trials, by seed, and the best of one of 1,000: half of them random, then the
default search, which learns from them, each with a final of its own. The three kernels are then timed in turns by
processes of their own, which know nothing of the finals: libraries built alone, arrays of NumPy. A ratio is the median
of the processes' medians, its interval that of order statistics over the processes. ``--busy`` keeps
another core busy meanwhile, or this one where there is no other.

Results go to NAME.jsonl, a line an operator and seed, as they come; a run that was cut short goes on where it ended.
NAME.md is the table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rows import Rows
from suite import Case, geomean
from tilewright import tune
from tilewright.backends.cpu.device import device_model, measure_machine, parse_device
from tilewright.backends.cpu.loader import load_path, time_rounds
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.core import Artifact, Candidate, Schedule, Task
from tilewright.database import Database
from tilewright.dtypes import numpy_dtype
from tilewright.insight.limits import limits_of
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import default_schedule
from tilewright.measure.local_target import find_local_target
from tilewright.measure.timing import median_interval
from tilewright.testing.kernels import random_arrays
from tilewright.tuner import TuneResult
from turns import shown

PLACES, ROUNDS, WARM = 3, 15, 0.05
SAMPLE = 2e-3
"""Seconds that a sample lasts at least."""
CLOCK = "cpu"
"""The thread's own processor time: being interrupted is no property of a kernel."""
CONV = {"n": 1, "ci": 64, "h": 28, "w": 28, "co": 64, "kh": 3, "kw": 3, "padding": 1}
STEM = {**CONV, "ci": 3, "h": 112, "w": 112, "kh": 7, "kw": 7, "stride": 2, "padding": 3}
DEPTHWISE = {**CONV, "ci": 128, "h": 56, "w": 56, "co": 128, "groups": 128}
POOL = {"n": 1, "c": 64, "h": 112, "w": 112, "kernel_size": 3, "stride": 2, "padding": 1}
CUBE = {"m": 512, "n": 512, "k": 512}
ATTENTION = {"b": 1, "h": 8, "lq": 256, "lk": 256, "d": 64}
CASES = (
    Case("products", "matmul 512^3", "matmul", CUBE),
    Case("products", "matmul 16x4096x1024", "matmul", {"m": 16, "n": 4096, "k": 1024}),
    Case("products", "bmm 32 x 96x96x64", "bmm", {"b": 32, "m": 96, "n": 96, "k": 64}),
    Case("products", "linear 128x768x3072", "linear", {"m": 128, "n": 768, "k": 3072}),
    Case("products", "matmul bfloat16 512^3", "matmul", {**CUBE, "dtype": "bfloat16"}),
    Case("products", "matmul int8 512^3", "matmul", {**CUBE, "dtype": "int8"}),
    Case("convolutions", "conv2d 3x3", "conv2d", CONV),
    Case("convolutions", "conv2d 3x3 NHWC", "conv2d", {**CONV, "layout": "NHWC"}),
    Case("convolutions", "conv2d 7x7 stride 2", "conv2d", STEM),
    Case("convolutions", "conv1d 5", "conv1d", {"n": 8, "ci": 64, "w": 512, "co": 64, "kw": 5, "padding": 2}),
    Case("windows", "depthwise 3x3", "conv2d", DEPTHWISE),
    Case("windows", "max_pool2d 3x3 stride 2", "max_pool2d", POOL),
    Case("rows", "softmax 512x1024", "softmax", {"shape": "512,1024"}),
    Case("rows", "layer_norm 512x1024", "layer_norm", {"shape": "512,1024"}),
    Case("rows", "sum of columns 1024x1024", "sum", {"shape": "1024,1024", "dim": 0}),
    Case("rows", "cumsum 256x4096", "cumsum", {"shape": "256,4096"}),
    Case("maps", "gelu 1024x1024", "gelu", {"shape": "1024,1024"}),
    Case("maps", "transpose 1024x1024", "transpose", {"shape": "1024,1024"}),
    Case("maps", "embedding", "embedding", {"shape": "4096", "num_embeddings": 10000, "embedding_dim": 256}),
    Case("attention", "attention 8 x 256x64", "attention", ATTENTION),
)


def tuned(case: Case, trials: int, seed: int, db: str, strategy: str | None = None) -> TuneResult:
    """One run. Ends the benchmark where no trial succeeds."""
    result = tune(case.op, trials=trials, seed=seed, db=db, strategy=strategy, params=case.params)
    if result.best is None:
        raise SystemExit(f"{case.name}: no trial succeeded")
    return result


def of_trials(case: Case, seed: int, trials: int) -> dict[str, Any]:
    """The winner of a run, with what bounds it."""
    with tempfile.TemporaryDirectory() as folder:
        result = tuned(case, trials, seed, f"{folder}/t.db")
        assert result.best is not None
        with Database.open(f"{folder}/t.db") as database:
            limit = limits_of(database.run(result.run), result.best.schedule, result.best.seconds).nearest
        return {
            "name": case.name, "seed": seed, "schedule": result.best.schedule.to_json(),
            "is_default": result.best.default, "gain": result.gain, "tune_seconds": round(result.seconds, 1),
            "limit": limit.key if limit else None, "share": limit.share if limit else None,
        }  # fmt: skip


def of_most(case: Case, trials: int) -> dict[str, Any]:
    """The best of two runs of half the trials each; the second learns from the first, whose winner it has to beat."""
    with tempfile.TemporaryDirectory() as folder:
        random = tuned(case, trials // 2, 1000, f"{folder}/t.db", "random")
        search = tuned(case, trials - trials // 2, 1001, f"{folder}/t.db")
        assert search.best is not None
        return {
            "name": case.name, "seed": None, "schedule": search.best.schedule.to_json(),
            "tune_seconds": round(random.seconds + search.seconds, 1),
        }  # fmt: skip


# --------------------------------------------------------------------------- timing, in processes of their own


def turns(case: Case, schedules: Sequence[Any], processes: int) -> list[list[float]]:
    """Of each process, the median time of every schedule over the first one's."""
    given = json.dumps({"name": case.name, "schedules": schedules})
    command = [sys.executable, __file__, "--child"]
    return [
        json.loads(subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout)
        for _ in range(processes)
    ]


def child() -> None:
    """Time the schedules that stdin names in turns, as a program of a user's would call them."""
    given = json.load(sys.stdin)
    case = next(c for c in CASES if c.name == given["name"])
    place = find_local_target("cpu")
    os.sched_setaffinity(0, parse_device("auto", 1).cores)
    task = Task(case.workload, place.target)
    candidates = [Candidate(task, Schedule.from_json(s)) for s in given["schedules"]]
    with place.builder() as builder:
        artifacts = builder.build(candidates, alone=True)
    program = Program.loads(case.workload.program)
    ratios: list[list[float]] = []
    for number in range(PLACES):
        arrays = [*random_arrays(program, number), *(np.empty(o.shape, numpy_dtype(o.dtype)) for o in program.outputs)]
        calls = []
        for candidate, artifact in zip(candidates, artifacts, strict=True):
            assert isinstance(artifact, Artifact), artifact.message
            kernel = load_path(artifact.path, artifact.sha256, copy=True).kernel(
                artifact.program, {k: int(v) for k, v in candidate.schedule.launch}, 1
            )  # fmt: skip
            calls.append(kernel.prepare([a.ctypes.data for a in arrays]))
        each = [time_rounds([c], 3, 1, CLOCK)[0][-1] for c in calls]
        repeats = [max(1, int(SAMPLE / s)) for s in each]
        time_rounds(calls, 1 + int(WARM / sum(s * n for s, n in zip(each, repeats, strict=True))), repeats, CLOCK)
        first, *others = time_rounds(calls, ROUNDS, repeats, CLOCK)
        ratios.append([1.0, *(statistics.median(b / a for a, b in zip(first, o, strict=True)) for o in others)])
    json.dump([statistics.median(r) for r in zip(*ratios, strict=True)], sys.stdout)


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A core that computes beside the measured one."""
    if not wanted:
        yield
        return
    measured = set(parse_device("auto", 1).cores)
    cores = sorted(set(os.sched_getaffinity(0)) - measured) or sorted(measured)
    spin = f"import os\nos.sched_setaffinity(0, {{{cores[-1]}}})\nwhile True: sum(range(10**6))"
    with subprocess.Popen([sys.executable, "-c", spin]) as process:
        try:
            yield
        finally:
            process.kill()


def timed(case: Case, found: Mapping[str, Any], most: Mapping[str, Any] | None, processes: int) -> dict[str, Any]:
    """The run's row with its ratios: the second of two kernels' time over the first's, median, low and high."""
    task = Task(case.workload, find_local_target("cpu").target)
    kernels = {"default": default_schedule(task).to_json(), "winner": found["schedule"]}
    kernels |= {"most": most["schedule"]} if most else {}
    different: list[Any] = []
    for s in kernels.values():
        if s not in different:
            different.append(s)
    taken = turns(case, different, processes) if len(different) > 1 else [[1.0]]
    row = dict(found)
    for one, other in (("winner", "default"), ("winner", "most"), ("most", "default")):
        if one in kernels and other in kernels:
            a, b = (different.index(kernels[name]) for name in (one, other))
            ratios = [times[b] / times[a] for times in taken]
            row[f"{one} over {other}"] = [
                statistics.median(ratios),
                *(median_interval(ratios) if a != b else (1.0, 1.0)),
            ]
    return row


# --------------------------------------------------------------------------- the table


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown, and what they come to."""
    lines = [
        "| operator | seed | winner over default | winner over most | most over default | reaches |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        share = f"{r['share']:.0%} of {r['limit']}" if r["share"] else "not known"
        gain = "the default schedule is the best found" if r["is_default"] else shown(r.get("winner over default"), 3)
        rest = (shown(r.get(name), 3) for name in ("winner over most", "most over default"))
        lines.append(f"| {r['name']} | {r['seed']} | {gain} | {' | '.join(rest)} | {share} |")
    for name, least in (("winner over default", 0.99), ("winner over most", 0.98), ("most over default", 0.99)):
        known = [r[name][0] for r in rows if name in r]
        if known:
            lines.append(
                f"\n{name[0].upper()}{name[1:]}: geometric mean {geomean(known):.3f}, least {min(known):.3f}, "
                f"{sum(x < least for x in known)} of {len(known)} under {least}."
            )
    return "\n".join(lines)


def main() -> None:
    """Run the cases that the options choose, and print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="operators whose name holds a TEXT")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--most", type=int, default=1000, help="trials of the best; 0: leave it out")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--busy", action="store_true", help="keep a core busy beside the measured one")
    parser.add_argument("--out", help="write NAME.jsonl and NAME.md; what is in it is not repeated")
    parser.add_argument("--json", action="store_true", help="print the rows instead of the table")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child()
        return
    chosen = [c for c in CASES if not args.only or any(t in c.name for t in args.only)]
    settings = {"trials": args.trials, "most": args.most, "busy": args.busy}
    facts = {"device": device_model(), **measure_machine(), "noise": noise_warnings()}
    kept = Rows(Path(f"{args.out}.jsonl") if args.out else None, settings, facts, ("name", "seed"))
    head, done = kept.head, kept.rows

    with busy(args.busy):
        for case in chosen:
            most = None
            if args.most:
                most = done.get((case.name, None)) or kept.add(of_most(case, args.most))
            for seed in range(args.seeds):
                if (case.name, seed) not in done:
                    row = kept.add(timed(case, of_trials(case, seed, args.trials), most, args.processes))
                    ratios = (shown(row.get(f"winner over {other}"), 3) for other in ("default", "most"))
                    print(row["name"], seed, *ratios, file=sys.stderr, flush=True)
    rows = [row for row in done.values() if row["seed"] is not None]
    beside = ", beside a busy core" if head["busy"] else ""
    text = (
        f"Winners of {head['trials']} trials, and of {head['most']} (most), one thread{beside}, {head['device']}, "
        f"{head['date']}. Ratios of speed, timed in turns by processes of their own (above 1: the first is faster). "
        f"What a winner reaches is of its nearest limit, as its run measured both.\n\n{table(rows)}\n"
    )
    print(json.dumps({"machine": head, "rows": rows}) if args.json else text)
    if args.out:
        Path(f"{args.out}.md").write_text(text)


if __name__ == "__main__":
    main()
