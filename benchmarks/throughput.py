"""How many checked and timed trials a second the tuner gets through, and where the time goes.

    python benchmarks/throughput.py --out benchmarks/results/NAME

Tunes matrix products from nothing (fresh database, fresh artifact cache) and reports, for each: distinct
successful trials a second of the whole run (compiling and the final included), the share of distinct
structures, and seconds by activity. Compiling overlaps measuring on other cores. ``overhead`` is what the
tuning thread spends on anything but waiting for builds and measurements, outside the final.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from tilewright import tune
from tilewright.backends.cpu.device import device_model


def bench(size: int, trials: int, seed: int) -> dict[str, Any]:
    """One cold run; a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = str(Path(folder) / "cache")
        start = time.perf_counter()
        result = tune(
            "matmul", trials=trials, seed=seed, db=str(Path(folder) / "t.db"), params={"m": size, "n": size, "k": size}
        )
        wall = time.perf_counter() - start
    good = result.trials - sum(result.failed.values())
    return {
        "shape": f"{size}x{size}x{size}",
        "trials": result.trials,
        "failed": dict(result.failed),
        "seconds": round(wall, 2),
        "trials_a_second": round(good / wall, 2),
        "structures": result.structures,
        "structure_share": round(result.structures / result.trials, 3),
        "time": dict(result.time),
        "overhead_ms_a_trial": round(1e3 * result.time["overhead"] / result.trials, 2),
        "overhead_share": round(result.time["overhead"] / wall, 3),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    activities = ("compiling", "verifying", "timing", "proposing", "database", "final")
    lines = [
        "| m x n x k | trials/s | distinct structures | overhead | overhead a trial | "
        + " | ".join(f"{a}, s" for a in activities)
        + " |",
        "|" + "---|" * (5 + len(activities)),
    ]
    lines += [
        f"| {r['shape']} | {r['trials_a_second']:.1f} | {100 * r['structure_share']:.0f}% | "
        f"{100 * r['overhead_share']:.1f}% | {r['overhead_ms_a_trial']:.1f} ms | "
        + " | ".join(f"{r['time'].get(a, 0):.1f}" for a in activities)
        + " |"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=(128, 256, 512))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="write NAME.json and NAME.md")
    args = parser.parse_args()
    rows = []
    for size in args.sizes:
        rows.append(bench(size, args.trials, args.seed))
        print(json.dumps(rows[-1]), flush=True)
    facts = {"date": time.strftime("%Y-%m-%d"), "device": device_model(), "cores": os.cpu_count()}
    text = (
        f"Tuning matmul float32 from nothing, {args.trials} trials each, {facts['device']}, {facts['cores']} cores, "
        f"{facts['date']}. Compiling, verifying and timing overlap.\n\n{table(rows)}\n"
    )
    print(text)
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{args.out}.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)


if __name__ == "__main__":
    main()
