"""What a farm costs: throughput of one runner against a local one, how runners add up, and who is busy.

    python benchmarks/farm_throughput.py --out benchmarks/results/farm_throughput
    git worktree add /tmp/before COMMIT && python benchmarks/farm_throughput.py --beside /tmp/before/src

With ``--beside``, every part is run by this version and by another in turns, each in a process of its own.
Everything talks mutual TLS over loopback. The first part measures real kernels on one core, by a local runner and by
a farm's, in turns. The others have runners whose devices only wait, all in one process with the server, while the
client is another: their figures are of messages and scheduling, which is all that a farm adds.
"""

from __future__ import annotations

import argparse
import gc
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
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.backends import parse_target
from tilewright.backends.cpu.device import device_model, parse_device
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Measurement, Outcome, Task
from tilewright.farm.client import Farm
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.remote import FarmRunner
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import lower, task_space
from tilewright.measure.runner import Item, LocalRunner

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.farm import CODE, SHA256, FarmProcesses, SimulatedFarm, SleepingMeasurer

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
    task = Task(get_operator("matmul").workload(m=512, n=512, k=512), parse_target("cpu:portable"))
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
        start_server(processes)
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
        "what": f"farm of 1 runner / local runner, matmul {size}x{size}x{size}, batches of {BATCH}",
        "wanted": {256: 0.88, 512: 0.95}[size],
        "value": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "rounds": rounds,
        "detail": f"{statistics.median(rates):.0f} trials/s",
    }  # fmt: skip


def start_server(processes: FarmProcesses) -> None:
    """The middle of a farm, which version 0.1 called its scheduler."""
    start = getattr(processes, "server", None) or getattr(processes, "scheduler")  # noqa: B009
    start()


def keep_to(cores: set[int], pids: list[int]) -> None:
    """Keep processes off the measured core: in a farm, client and server are on other machines."""
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
        gc.freeze()  # so many runners' objects are not for every collection of one process to go through
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


def shares(folder: Path, certs: Path, runners: int, seconds: float, long: int, short: int) -> float:
    """Device seconds of two clients whose jobs have so many kernels, while both wait: the smaller over the larger."""
    task, items = pretended(long)
    with waiting_farm(folder, certs, runners, 0.02) as address:
        farms = [Farm(address, certs) for _ in range(2)]
        farms[0].put(CODE)
        payloads = [
            {"do": "measure", "task": task_json(task), "items": [item_json(i) for i in items[:n]], "pairs": None}
            for n in (long, short)
        ]
        had = [0.0, 0.0]
        began = time.perf_counter()
        pending: dict[Future[dict[str, Any]], int] = {}
        while time.perf_counter() - began < seconds:
            for n, farm in enumerate(farms):
                while sum(m == n for m in pending.values()) < 16 * runners:
                    pending[farm.submit(CLASS, payloads[n], [SHA256])] = n
            done, _ = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for job in done:
                n = pending.pop(job)
                if time.perf_counter() - began > 2.0:  # after both are there
                    had[n] += 0.02 * (long, short)[n]
        for farm in farms:
            farm.close()
    return min(had) / max(had)


# --------------------------------------------------------------------------- parts


def part(name: str, folder: Path, certs: Path, rounds: int) -> list[dict[str, Any]]:
    """One part's rows."""
    if name in ("256", "512"):
        return [overhead(folder, certs, rounds, int(name))]
    if name == "four":
        one = throughput(folder / "one", certs, 1, 0.05, 120)
        four = throughput(folder / "four", certs, 4, 0.05, 480)
        ratio = (four["trials"] / four["wall"]) / (one["trials"] / one["wall"])
        detail = f"busy {one['busy']:.1%} and {four['busy']:.1%}, client {four['cpu']:.0%} of a core"
        return [row("4 runners / 1 runner, kernels of 50 ms", 3.9, ratio, detail)]
    if name.startswith("many"):
        clients = int(name[4:])
        found = throughput(folder, certs, 200, 0.5, 6000, clients)
        rate = found["trials"] / found["wall"]
        detail = f"{rate:.0f} trials/s, clients {found['cpu']:.0%} of a core"
        return [
            row(f"200 runners, 500 ms a kernel, {clients} client(s): share of time busy", 0.9, found["busy"], detail)
        ]
    ratio = shares(folder, certs, 4, 30.0, 10, 1)
    return [row("device seconds of two clients, jobs of 200 and 20 ms, 4 runners: smaller / larger", 0.9, ratio, "")]


PARTS = ("256", "512", "four", "many1", "many4", "shares")


def row(what: str, wanted: float, value: float, detail: str) -> dict[str, Any]:
    return {"what": what, "wanted": wanted, "value": value, "low": value, "high": value, "rounds": 1, "detail": detail}


def merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same part, several times: the median."""
    values = [r["value"] for r in rows]
    return {
        **rows[-1], "value": statistics.median(values), "low": min(r["low"] for r in rows),
        "high": max(r["high"] for r in rows), "rounds": sum(r["rounds"] for r in rows),
    }  # fmt: skip


def run_part(name: str, source: str, rounds: int) -> list[dict[str, Any]]:
    """A part in a process of its own, by the package in ``source``; nothing: this one."""
    environment = {**os.environ, **({"PYTHONPATH": source} if source else {})}
    done = subprocess.run(
        [sys.executable, __file__, "--part", name, "--rounds", str(rounds)], env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{name} of {source or 'this version'} failed:\n{done.stderr[-3000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="batches of the first part")
    parser.add_argument("--times", type=int, default=1, help="how often everything is run")
    parser.add_argument("--part", help="print this part's rows as JSON, and nothing else", choices=PARTS)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--beside", default="", metavar="SRC", help="src of another version, run in turns")
    parser.add_argument("--out", help="write NAME.jsonl and NAME.md")
    args = parser.parse_args()
    if args.part:
        with tempfile.TemporaryDirectory() as name:
            certs = Path(name) / "certs"
            create_authority(certs, ["localhost"], 30)
            folder = Path(name) / "farm"
            folder.mkdir()
            print(json.dumps(part(args.part, folder, certs, args.rounds)))
        return
    versions = {"this": "", **({"before": args.beside} if args.beside else {})}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for n in range(args.times):
        for name in args.only:
            for version in list(versions) if n % 2 else list(versions)[::-1]:
                for r in run_part(name, versions[version], args.rounds):
                    found.setdefault((r["what"], version), []).append(r)
                    print(version, r, flush=True)
    rows = [{**merged(r), "version": version} for (_, version), r in found.items()]
    facts = {"date": time.strftime("%Y-%m-%d"), "device": device_model(), "cores": os.cpu_count(),
             "python": platform.python_version(), "times": args.times}  # fmt: skip
    lines = [
        f"Farm throughput, {facts['device']}, {facts['cores']} cores for everything, Python {facts['python']}, "
        f"{facts['date']}. Mutual TLS over loopback. Median (range)"
        + ("; before: an earlier version (`--beside`), in turns with this one." if args.beside else "."),
        "", "| what | wanted | this version |" + (" before |" if args.beside else "") + " |",
        "|---|---|---|---|" + ("---|" if args.beside else ""),
    ]  # fmt: skip
    for what in dict.fromkeys(r["what"] for r in rows):
        both = {r["version"]: r for r in rows if r["what"] == what}
        cells = [f"{r['value']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in (both[v] for v in versions)]
        lines.append(f"| {what} | {both['this']['wanted']} | {' | '.join(cells)} | {both['this']['detail']} |")
    text = "\n".join(lines)
    print(text)
    if args.out:
        Path(f"{args.out}.md").write_text(text + "\n", encoding="utf-8")
        Path(f"{args.out}.jsonl").write_text("\n".join(json.dumps(r) for r in [facts, *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:6])
    else:
        main()
