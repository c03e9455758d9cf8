"""Tuned matrix products against OpenBLAS, NumPy and PyTorch, paired in one run per shape.

    python benchmarks/gemm_suite.py --trials 200 --out benchmarks/results/NAME

Each shape is tuned from nothing (its own database, unless ``--db`` names one to reuse), then the stored
kernel is called through the run-time library beside its rivals, taking turns in one process. Rivals
use row-major NumPy arrays in and out; nothing is prepacked on either side. ``openblas`` is NumPy with
the target's widest kernels forced, ``numpy`` the stock choice. Writes NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from tilewright import tune
from tilewright.backends.cpu.device import device_model, parse_device
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.backends.cpu.targets import parse_target
from tilewright.baselines.compare import compare
from tilewright.kernels.operators import get_operator

SHAPES = (
    "128x128x128", "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048",
    "1x4096x4096", "16x4096x1024", "1000x37x513", "49x512x4608", "3136x64x576",
)  # fmt: skip
RIVALS = ("openblas", "numpy", "torch")


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def bench(shape: str, args: argparse.Namespace, database: str) -> dict[str, Any]:
    """Tune one shape and compare it; a row of the table."""
    m, n, k = map(int, shape.split("x"))
    params = {"m": m, "n": n, "k": k}
    row: dict[str, Any] = {"shape": shape, "threads": args.threads}
    if args.trials:
        result = tune(
            "matmul", trials=args.trials, target=args.target, threads=args.threads, seed=args.seed, db=database,
            params=params,
        )  # fmt: skip
        row |= {
            "trials": result.trials,
            "tune_seconds": round(result.seconds, 1),
            "failed": dict(result.failed),
            "structures": result.structures,
            "schedule": dict(result.best.schedule.values) if result.best else None,
        }
    workload = get_operator("matmul").workload(**params)
    cores = parse_device("auto", args.threads).cores
    c = compare(
        database, workload, against=RIVALS, threads=args.threads, target=args.target, cores=cores,
        rounds=args.rounds,
        processes=5, min_round_seconds=10e-3,
    )  # fmt: skip
    row |= {
        "gflops": workload.flops / c.our_seconds / 1e9,
        "peak_gflops": c.peak_flops / 1e9,
        "peak_fraction": c.peak_fraction,
        "ratios": {r.baseline: [r.ratio, r.low, r.high] for r in c.ratios},
        "kernels": {r.baseline: r.kernels for r in c.ratios if r.kernels},
        "skipped": dict(c.skipped),
    }
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown, with geometric means."""
    names = [r for r in RIVALS if any(r in row["ratios"] for row in rows)]
    lines = [
        "| m x n x k | GFLOP/s | share of peak | " + " | ".join(f"{n} (quartiles)" for n in names) + " |",
        "|---|---|---|" + "---|" * len(names),
    ]
    for row in rows:
        cells = [
            f"{row['ratios'][n][0]:.2f} ({row['ratios'][n][1]:.2f} to {row['ratios'][n][2]:.2f})"
            if n in row["ratios"]
            else "-"
            for n in names
        ]
        lines.append(
            f"| {row['shape']} | {row['gflops']:.0f} | {100 * row['peak_fraction']:.1f}% | " + " | ".join(cells) + " |"
        )
    for label, chosen in (
        ("all", rows),
        ("squares", [r for r in rows if len(set(r["shape"].split("x"))) == 1]),
    ):
        if chosen:
            means = [geomean([r["ratios"][n][0] for r in chosen if n in r["ratios"]]) for n in names]
            lines.append(f"| geometric mean, {label} | | | " + " | ".join(f"{v:.2f}" for v in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK")
    parser.add_argument("--trials", type=int, default=200, help="0 reuses the kernels in --db")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="auto", help="cpu:avx2: kernels, peak and OpenBLAS without AVX-512")
    parser.add_argument("--rounds", type=int, default=35)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--db", help="keep the tuning database here")
    parser.add_argument("--out", help="write NAME.json and NAME.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = args.db or str(Path(folder) / "suite.db")
        rows = []
        for shape in args.shapes:
            rows.append(bench(shape, args, database))
            r = rows[-1]
            print(
                shape,
                f"{r['gflops']:.0f} GFLOP/s",
                f"{100 * r['peak_fraction']:.1f}%",
                r["ratios"],
                flush=True,
            )
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "device": device_model(),
        "python": platform.python_version(),
        "noise": noise_warnings(),
        "target": parse_target(args.target, args.threads).name,
        "command": f"gemm_suite.py --trials {args.trials} --target {args.target} --threads {args.threads}"
        f" --seed {args.seed}",
    }
    text = (
        f"Matrix products, float32, {args.threads} thread(s), {facts['device']}, {facts['target']}, {facts['date']}. "
        "Ratios are rival time / our time (above 1: ours is faster), medians of "
        f"{args.rounds} paired samples over five processes, taking turns in each.\n\n{table(rows)}\n"
    )
    print(text)
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{args.out}.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)


if __name__ == "__main__":
    main()
