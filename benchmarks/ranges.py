"""What a kernel that takes its size loses: against the same schedule at that size alone, and against the best there.

    python benchmarks/ranges.py --out benchmarks/results/ranges.json

A range is tuned from an empty database (``tilewright.tune_range``). Then, at sizes that were not tuned, drawn by their
logarithm: the kernel that is served, paired with the same schedule compiled for this size alone (what taking the
size costs), and with a kernel tuned for this size alone in ``--trials`` trials (what the portfolio loses). Ratios are
of the range's time over the other's, medians of paired samples on one core; above 1 the range's is slower. The regret
at a size is against the faster of the two and the range's own.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tilewright
from tilewright.core import Artifact, Candidate, Schedule, Task
from tilewright.database import Database
from tilewright.kernels.operators import get_operator
from tilewright.kernels.ranges import at, varying
from tilewright.kernels.templates import get_template
from tilewright.measure.local_target import find_local_target
from tilewright.measure.measuring import at_sizes
from tilewright.tuner import Observer

WINDOW = {"n": 1, "ci": 64, "co": 64, "kh": 3, "kw": 3, "padding": 1}
POOL = {"n": 1, "c": 64, "kernel_size": 3, "stride": 2, "padding": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul n=512 k=512": ("matmul", {"m": "1..4096", "n": 512, "k": 512}),
    "matmul m=64 k=512": ("matmul", {"m": 64, "n": "2..4096", "k": 512}),
    "conv2d 3x3": ("conv2d", {**WINDOW, "h": "7..112", "w": 56, "constant": "weight"}),
    "conv2d 3x3 channels last": ("conv2d", {**WINDOW, "h": 56, "w": "7..112", "constant": "weight", "layout": "NHWC"}),
    "depthwise 3x3": ("conv2d", {**WINDOW, "h": "7..112", "w": 56, "groups": 64}),
    "depthwise 3x3 channels last": ("conv2d", {**WINDOW, "h": 56, "w": "7..112", "groups": 64, "layout": "NHWC"}),
    "max_pool2d 3x3": ("max_pool2d", {**POOL, "h": "7..112", "w": 56}),
    "max_pool2d 3x3 of any width": ("max_pool2d", {**POOL, "h": 56, "w": "7..112"}),
    "attention lq=128 d=64": ("attention", {"b": 1, "h": 8, "lq": 128, "lk": "16..1024", "d": 64}),
    "softmax": ("softmax", {"shape": "1024,1..1024"}),
    "layer_norm": ("layer_norm", {"shape": "1024,1..1024"}),
    "cumsum": ("cumsum", {"shape": "64,16..4096"}),
}


def span(task: Task) -> int:
    """How many sizes a range has: the shortest answers."""
    extent = varying(task.workload)
    return 0 if extent is None else extent.high - extent.low


def measure(name: str, kernels: int, count: int, trials: int, search: int, folder: str, seed: int) -> dict[str, Any]:
    op, params = CASES[name]
    db = Path(folder) / "ranges.db"
    started = time.monotonic()
    result = tilewright.tune_range(
        op, params=params, kernels=kernels, trials=search, db=db, observer=lambda place: Observer()
    )
    seconds = time.monotonic() - started
    whole = get_operator(op).workload(**params)
    extent = varying(whole)
    assert extent is not None
    rng = random.Random(seed)
    chosen: set[int] = set()
    while len(chosen) < count:
        size = round(extent.low * (extent.high / extent.low) ** rng.random())
        chosen |= {size} - set(result.tuned)
    sizes = sorted(chosen)
    place = find_local_target("auto", "auto", 1)
    rows = []
    for size in sizes:
        one = Task(at(whole, size), place.target)
        alone = tilewright.tune(
            op, params=dict(one.workload.params), trials=trials, db=Path(folder) / f"{size}.db", observer=Observer()
        )
        assert alone.best is not None
        with (
            Database.open(str(db)) as database,
            place.lock(on_wait=lambda holder: None),
            place.builder() as builder,
            place.runner() as runner,
        ):
            ranges = [k for k in database.kernels(op) if (e := varying(k.task.workload)) is not None and e.takes(size)]
            serving = min(ranges, key=lambda k: span(k.task))
            template = get_template(serving.schedule.template)
            plain = dict(serving.schedule.launch)
            plain.pop(extent.argument)
            schedule = Schedule(template.name, template.version, serving.schedule.structure, tuple(plain.items()))
            same = template.space(one).carried(random.Random(0), schedule, template.default(one))
            candidates = [
                Candidate(serving.task, serving.schedule),
                Candidate(one, same),
                Candidate(one, alone.best.schedule),
            ]
            built = builder.build(candidates, alone=True)
            items = [(c, a) for c, a in zip(candidates, built, strict=True) if isinstance(a, Artifact)]
            _, (ours,) = at_sizes(serving.task, items[:1], {extent.name: size})
            fixed, exact = (runner.compare(one, ours, other).ratio for other in items[1:])
        rows.append({"size": size, "same_schedule": fixed, "tuned_alone": exact})
        print(f"{extent.name}={size}: {fixed:.3f} of its schedule at this size, {exact:.3f} of a tuned one", flush=True)
    regrets = [max(1.0, r["same_schedule"], r["tuned_alone"]) - 1 for r in rows]
    return {
        "case": name, "kernels": len(result.kernels), "trials": search, "seconds": seconds, "rows": rows,
        "intervals": [[k.low, k.high] for k in result.kernels],
        "same_schedule_median": statistics.median(r["same_schedule"] for r in rows),
        "tuned_alone_median": statistics.median(r["tuned_alone"] for r in rows),
        "regret_mean": statistics.mean(regrets), "regret_worst": max(regrets),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, default="matmul n=512 k=512")
    parser.add_argument("--kernels", type=int, default=6)
    parser.add_argument("--sizes", type=int, default=40)
    parser.add_argument("--trials", type=int, default=32, help="of each size that is tuned alone, to compare with")
    parser.add_argument("--search", type=int, default=336, help="trials of the range in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the result here as JSON, and a table beside it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            options.case, options.kernels, options.sizes, options.trials, options.search, folder, options.seed
        )
    place = find_local_target("auto", "auto", 1)
    found |= {
        "schema": 1,
        "device": place.device.model,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
    }
    table = [
        f"{found['case']}, {found['kernels']} kernels for all, {found['trials']} trials in {found['seconds']:.0f} s, "
        f"{len(found['rows'])} other sizes; {found['device']}, {found['date']}.", "",
        "| | of the served kernel |", "|---|---|",
        f"| time over the same schedule compiled for the size, median | {found['same_schedule_median']:.3f} |",
        f"| time over a kernel tuned for the size, median | {found['tuned_alone_median']:.3f} |",
        f"| regret, mean | {found['regret_mean']:.1%} |",
        f"| regret, worst | {found['regret_worst']:.1%} |",
    ]  # fmt: skip
    print("\n".join(table))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        options.out.with_suffix(".md").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
