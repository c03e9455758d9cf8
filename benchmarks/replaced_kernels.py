"""Threads that call one library while its kernels are replaced: how many calls, and how many of them were wrong.

    python benchmarks/replaced_kernels.py --out benchmarks/results/replaced_kernels.json

``--threads`` threads call ``library.matmul`` with matrices of small whole numbers, so that every kernel gives the very
same bits, and compare each result with the right one. Meanwhile another process puts one of two kernels in the place of
the other in the database, ``--every`` seconds, and the library notices by itself.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from tilewright.database import Database, StoredArtifact
from tilewright.measure.local_target import find_local_target
from tilewright.tuner import Observer

SIZES = {"m": 4, "n": 4, "k": 4}


def two_kernels(db: str) -> list[tuple[Any, StoredArtifact]]:
    """Two different kernels of one task, as they are stored."""
    found = []
    for seed in (0, 1):
        tilewright.tune("matmul", params=SIZES, trials=6, cost_model="random", seed=seed, db=db, observer=Observer())
    with Database.open(db) as database:
        task = database.kernels("matmul")[0].task
        for kernel in database.task_kernels(task, find_local_target("auto", "auto", 1).device.model):
            artifact = database.artifact(kernel.artifact_sha256)
            assert artifact is not None
            found.append((kernel, artifact))
    if len({k.artifact_sha256 for k, _ in found}) < 2:
        raise SystemExit("the search found one kernel only: run it again")
    return found[:2]


def replacing(db: str, kernels: list[tuple[Any, StoredArtifact]], every: float, stop: Any, count: Any) -> None:
    with Database.open(db) as database:
        while not stop.wait(every):
            kernel, artifact = kernels[count.value % 2]
            best = replace(kernel, rank=1)
            database.set_kernels(kernel.task, kernel.device_model, kernel.run_id, [best], [artifact])
            count.value += 1


def measure(folder: str, threads: int, calls: int, every: float) -> dict[str, Any]:
    db = os.path.join(folder, "replaced.db")
    kernels = two_kernels(db)
    rng = np.random.default_rng(0)
    library = tilewright.Library(db)
    wrong = [0] * threads
    start = threading.Barrier(threads + 1)

    def call(n: int) -> None:
        a, b = (rng.integers(-8, 8, (4, 4)).astype(np.float32) for _ in range(2))
        expected, out = (a @ b).tobytes(), np.empty((4, 4), np.float32)
        start.wait()
        for _ in range(calls // threads):
            out.fill(-1)
            if library.matmul(a, b, out=out).tobytes() != expected:
                wrong[n] += 1

    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("i", 0)
    process = context.Process(target=replacing, args=(db, kernels, every, stop, count))
    process.start()
    workers = [threading.Thread(target=call, args=(n,)) for n in range(threads)]
    for w in workers:
        w.start()
    start.wait()
    began = time.monotonic()
    for w in workers:
        w.join()
    seconds = time.monotonic() - began
    stop.set()
    process.join()
    tiers = {n: c for n, c in library.stats().tiers.items() if c}
    return {"threads": threads, "calls": sum(tiers.values()), "wrong": sum(wrong), "tiers": tiers,
            "replaced": int(count.value), "seconds": seconds}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--calls", type=int, default=10_000_000, help="of all threads together")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two kernels")
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(folder, options.threads, options.calls, options.every)
    found |= {
        "schema": 1,
        "device": find_local_target("auto", "auto", 1).device.model,
        "date": time.strftime("%Y-%m-%d"),
    }
    text = (
        f"{found['calls']:,} calls of {found['threads']} threads, {found['wrong']} wrong, in {found['seconds']:.0f} s, "
        f"while a kernel took the place of another {found['replaced']} times. {found['device']}, {found['date']}."
    )
    print(text)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
