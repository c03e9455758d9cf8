"""What a farm costs: throughput of one runner against a local one, how runners add up, and who is busy.

    python benchmarks/farm_throughput.py --out benchmarks/results/farm_throughput

Everything talks mutual TLS over loopback. The first part measures real kernels on one core, by a local runner and by
a farm's, in turns. The others have runners whose devices only wait, all in one process with the scheduler, while the
client is this process: their figures are of messages and scheduling, which is all that a farm adds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.backends import parse_target
from tilewright.backends.cpu.device import device_model, parse_device
from tilewright.core import Artifact, Candidate, Measurement, Outcome, Task
from tilewright.farm.certificates import create_authority
from tilewright.farm.client import Farm
from tilewright.farm.remote import FarmRunner
from tilewright.kernels.operator import get_operator
from tilewright.kernels.templates import lower, task_space
from tilewright.measure.builder import Builder
from tilewright.measure.runner import Item, LocalRunner
from tilewright.testing.farm import CODE, SHA256, FarmProcesses, SimulatedFarm, SleepingMeasurer

CLASS = "cpu-simulated-1c"
BATCH = 16


def sampled(task: Task, count: int, seed: int = 0) -> list[Candidate]:
    """So many different candidates."""
    rng, space = random.Random(seed), task_space(task)
    found: dict[str, Candidate] = {}
    while len(found) < count:
        c = Candidate(task, space.sample(rng))
        found[c.key] = c
    return list(found.values())


def pretended(count: int) -> tuple[Task, list[Item]]:
    """Candidates for devices that only wait, with one artifact between them."""
    task = Task(get_operator("matmul").workload(m=64, n=64, k=64), parse_target("cpu:portable"))
    candidates = sampled(task, count)
    program = lower(candidates[0]).program
    return task, [(c, Artifact("", SHA256, program, task.target, "cc", (), "")) for c in candidates]


# --------------------------------------------------------------------------- one runner against a local one


def overhead(folder: Path, certs: Path, rounds: int, size: int) -> dict[str, Any]:
    """Trials a second of a farm of one runner, relative to a local runner's on the same core."""
    target = parse_target("auto")
    task = Task(get_operator("matmul").workload(m=size, n=size, k=size), target)
    device = parse_device("cpu:0", 1)
    with Builder(target, cores=(max(os.sched_getaffinity(0)),)) as builder:
        built = builder.build(candidates := sampled(task, BATCH * rounds))
    items = [(c, b) for c, b in zip(candidates, built, strict=True) if isinstance(b, Artifact)]
    with FarmProcesses(folder, certs) as processes, LocalRunner(device, target) as local:
        processes.scheduler()
        processes.runner("one", "cpu:0")
        with Farm(processes.address, certs) as farm:
            processes.wait_for(lambda: bool(farm.devices()))
            (device_class,) = farm.devices()
            for sha256 in {a.sha256: a for _, a in items}.values():
                farm.put(Path(sha256.path).read_bytes())
            with FarmRunner(farm, device_class, lambda _sha256: None) as remote:
                incumbent = items[0]
                for runner in (local, remote):  # references, children, connections
                    runner.run(task, items[:2])
                allowed = os.sched_getaffinity(0)
                keep_to(allowed - {0}, [os.getpid(), *(p.pid for p in processes.processes.values())])
                ratios, rates = [], []
                for n in range(rounds):
                    part = items[n * BATCH : (n + 1) * BATCH]
                    order = (local, remote) if n % 2 else (remote, local)
                    took = {id(r): timed(r, task, part, incumbent) for r in order}
                    ratios.append(took[id(local)] / took[id(remote)])
                    rates.append(len(part) / took[id(remote)])
                keep_to(allowed, [os.getpid()])
    return {
        "what": f"farm of 1 runner / local runner, matmul {size}x{size}x{size}, batches of {BATCH}", "wanted": 0.9,
        "value": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "rounds": rounds,
        "detail": f"{statistics.median(rates):.0f} trials/s",
    }  # fmt: skip


def keep_to(cores: set[int], pids: list[int]) -> None:
    """Keep processes off the measured core: in a farm, client and scheduler are on other machines."""
    for pid in pids if cores else ():
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cores)


def timed(runner: Any, task: Task, items: list[Item], incumbent: Item) -> float:
    """Wall seconds of one batch."""
    began = time.perf_counter()
    outcomes: list[Outcome] = runner.run(task, items, incumbent)
    if not all(isinstance(o, Measurement) for o in outcomes):
        raise SystemExit(f"a kernel failed: {outcomes}")
    return time.perf_counter() - began


# --------------------------------------------------------------------------- devices that only wait


@contextmanager
def waiting_farm(folder: Path, certs: Path, runners: int, seconds: float) -> Iterator[str]:
    """A farm in a process of its own: its address."""
    p = subprocess.Popen(
        [sys.executable, __file__, "--serve", str(folder), str(certs), str(runners), str(seconds)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert p.stdin is not None
    assert p.stdout is not None
    try:
        yield p.stdout.readline().strip()
    finally:
        p.stdin.close()
        p.wait(60)
        p.stdout.close()


def serve(folder: str, certs: str, runners: str, seconds: str) -> None:
    """The other process."""
    measurers = [SleepingMeasurer(float(seconds)) for _ in range(int(runners))]
    with SimulatedFarm(Path(folder), measurers, device_class=CLASS, certs=Path(certs)) as farm:
        print(farm.address, flush=True)
        sys.stdin.read()


def throughput(
    folder: Path, certs: Path, runners: int, seconds: float, trials: int, clients: int = 1
) -> dict[str, Any]:
    """Wall seconds for so many trials, how busy the runners were, and the client's own processor time."""
    task, items = pretended(trials + 1)
    with waiting_farm(folder, certs, runners, seconds) as address:
        farms = [Farm(address, certs) for _ in range(clients)]
        farms[0].put(CODE)
        remotes = [FarmRunner(f, CLASS, lambda _sha256: None) for f in farms]
        incumbent = items[0]
        for r in remotes:
            r.run(task, [incumbent])
        began, cpu = time.perf_counter(), time.process_time()
        size = max(BATCH, 4 * runners // clients)  # as a run proposes for so many runners
        jobs: list[Future[list[Outcome]]] = []
        for n, start in enumerate(range(1, trials + 1, size)):
            jobs.append(remotes[n % clients].submit(task, items[start : start + size], incumbent))
        done = sum(len(j.result()) for j in jobs)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        for r in remotes:
            r.close()
        for f in farms:
            f.close()
    return {"wall": wall, "busy": done * seconds / wall / runners, "cpu": cpu / wall, "trials": done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", help="write NAME.jsonl and NAME.md")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certs = folder / "certs"
        create_authority(certs, ["localhost"], 30)
        for size in (256, 512):
            (folder / str(size)).mkdir()
            rows.append(overhead(folder / str(size), certs, args.rounds, size))
            print(rows[-1], flush=True)
        ratios = []
        for n in range(3):
            one = throughput(folder / f"a{n}", certs, 1, 0.05, 120)
            four = throughput(folder / f"b{n}", certs, 4, 0.05, 480)
            ratios.append((four["trials"] / four["wall"]) / (one["trials"] / one["wall"]))
        rows.append({
            "what": "4 runners / 1 runner, kernels of 50 ms", "wanted": 3.6, "value": statistics.median(ratios),
            "low": min(ratios), "high": max(ratios), "rounds": 3,
            "detail": f"busy {one['busy']:.1%} and {four['busy']:.1%}, client {four['cpu']:.0%} of a core",
        })  # fmt: skip
        print(rows[-1], flush=True)
        for seconds, trials, clients in ((0.5, 8000, 1), (0.5, 8000, 4), (0.2, 16000, 4)):
            many = throughput(folder / f"c{seconds}{clients}", certs, 200, seconds, trials, clients)
            rows.append({
                "what": f"200 runners, {seconds * 1e3:.0f} ms a trial, {clients} client(s): share of time busy",
                "wanted": 0.9, "value": many["busy"], "low": many["busy"], "high": many["busy"], "rounds": 1,
                "detail": f"{many['trials'] / many['wall']:.0f} trials/s, clients {many['cpu']:.0%} of a core",
            })  # fmt: skip
            print(rows[-1], flush=True)
    facts = {"date": time.strftime("%Y-%m-%d"), "device": device_model(), "cores": os.cpu_count(),
             "python": platform.python_version()}  # fmt: skip
    text = "\n".join([
        f"Farm throughput, {facts['device']}, {facts['cores']} cores for everything, Python {facts['python']}, "
        f"{facts['date']}. Mutual TLS over loopback.",
        "", "| what | wanted | median | range | rounds | |", "|---|---|---|---|---|---|",
        *(f"| {r['what']} | {r['wanted']} | {r['value']:.3f} | {r['low']:.3f} to {r['high']:.3f} | {r['rounds']} | "
          f"{r['detail']} |" for r in rows),
    ])  # fmt: skip
    print(text)
    if args.out:
        Path(f"{args.out}.md").write_text(text + "\n", encoding="utf-8")
        Path(f"{args.out}.jsonl").write_text("\n".join(json.dumps(r) for r in [facts, *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:6])
    else:
        main()
