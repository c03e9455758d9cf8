"""How one server carries many runners: connecting, heartbeats, and jobs that only wait.

    python benchmarks/farm_scale.py --runners 2000 --out benchmarks/results/farm_scale

The server and its keeper are one process and its child, the runners another process, the client this one; mutual TLS
over loopback, so all of them share this machine's cores. The devices only wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from farm_throughput import CLASS, pretended
from tilewright.backends import NO_PEAKS
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.device import device_model
from tilewright.farm.client import Farm
from tilewright.farm.jobs import item_json, task_json
from tilewright.farm.link import Endpoint
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.workers.runner import Bench, Runner

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.farm import CODE, SHA256, FarmProcesses, SleepingMeasurer, simulated_device

AT_ONCE = 50  # runners that connect at the same time
REST = 20.0  # seconds over which an idle farm is watched


def cpu(pid: int) -> tuple[float, float]:
    """Processor seconds of a process and of its children."""
    text = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")
    children = 0.0
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            children += sum(cpu(int(child)))
    return own, children


def serve(address: str, certs: str, folder: str, count: str, seconds: str) -> None:
    """The runners, in a process of their own; prints a line when all are connected."""

    async def work() -> None:
        runners, tasks, gate = [], [], asyncio.Semaphore(AT_ONCE)
        cache = ArtifactCache(Path(folder) / "cache")
        measurer = SleepingMeasurer(float(seconds))

        async def one(n: int) -> None:
            name = f"sim-{n}"
            bench = Bench(
                simulated_device(name, CLASS), lambda _t: measurer, contextlib.nullcontext, lambda _t: NO_PEAKS
            )
            runner = Runner(Endpoint(address, Path(certs), "runner"), name, bench, cache)
            runners.append(runner)
            async with gate:
                tasks.append(asyncio.create_task(runner.run()))
                await runner.connected.wait()

        await asyncio.gather(*(one(n) for n in range(int(count))))
        print("all", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)

    asyncio.run(work())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runners", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=10.0, help="that a kernel takes")
    parser.add_argument("--out", help="write NAME.jsonl and NAME.md")
    args = parser.parse_args()
    found: dict[str, Any] = {"runners": args.runners}
    with tempfile.TemporaryDirectory() as name:
        folder, certs = Path(name), Path(name) / "certs"
        create_authority(certs, ["localhost"], 30)
        with FarmProcesses(folder, certs) as processes:
            processes.server()
            hub = processes.processes["server"].pid
            began = time.perf_counter()
            crew = subprocess.Popen(
                [sys.executable, __file__, "--serve", processes.address, str(certs), name, str(args.runners),
                 str(args.seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert crew.stdout is not None
            if not crew.stdout.readline():
                raise SystemExit("the runners did not connect")
            found["connect_seconds"] = time.perf_counter() - began
            with Farm(processes.address, certs) as farm:
                before, began = cpu(hub), time.perf_counter()
                time.sleep(REST)
                took, after = time.perf_counter() - began, cpu(hub)
                found["idle_keeper"], found["idle_server"] = (
                    (a - b) / took for a, b in zip(after, before, strict=True)
                )
                status = farm.status()
                found["workers"], found["memory"] = len(status["workers"]), status["server"]["mem"]
                farm.put(CODE)
                task, items = pretended(1)
                payload = {"do": "measure", "task": task_json(task), "items": [item_json(items[0])], "pairs": None}
                before, began = cpu(hub), time.perf_counter()
                futures: list[Future[dict[str, Any]]] = [
                    farm.submit(CLASS, payload, [SHA256]) for _ in range(args.jobs)
                ]
                for f in futures:
                    if "outcomes" not in f.result(300.0):
                        raise SystemExit(f"a job failed: {f.result()}")
                took, after = time.perf_counter() - began, cpu(hub)
                found["jobs"], found["jobs_seconds"] = args.jobs, took
                found["busy"] = args.jobs * args.seconds / took / args.runners
                found["work_keeper"], found["work_server"] = (
                    (a - b) / took for a, b in zip(after, before, strict=True)
                )
            crew.kill()
            crew.wait()
    facts = {"date": time.strftime("%Y-%m-%d"), "device": device_model(), "cores": os.cpu_count(),
             "python": platform.python_version()}  # fmt: skip
    text = "\n".join([
        f"{found['workers']} runners on one server, {facts['device']}, {facts['cores']} cores for server, runners and "
        f"client, Python {facts['python']}, {facts['date']}. Mutual TLS over loopback, devices that only wait.", "",
        "| what | value |", "|---|---|",
        f"| all connected after | {found['connect_seconds']:.1f} s |",
        f"| idle: nats-server | {found['idle_server']:.0%} of a core, {found['memory'] / (1 << 20):.0f} MiB |",
        f"| idle: keeper | {found['idle_keeper']:.0%} of a core |",
        f"| {found['jobs']} jobs of {args.seconds:.0f} s, all at once | {found['jobs_seconds']:.1f} s, runners "
        f"{found['busy']:.0%} busy |",
        f"| meanwhile: nats-server, keeper | {found['work_server']:.0%}, {found['work_keeper']:.0%} of a core |",
    ])  # fmt: skip
    print(text)
    if args.out:
        Path(f"{args.out}.md").write_text(text + "\n", encoding="utf-8")
        lines = [json.dumps(facts), json.dumps(found)]
        Path(f"{args.out}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:7])
    else:
        main()
