"""The dashboard at a million trials: how long each page takes, and what fifty open live pages cost.

    python benchmarks/dashboard.py

Fills a SQLite file of its own (a temporary folder, about 2 GB), serves it with ``tilewright dashboard`` and asks for
each kind of page and chart in forty rounds, each of other runs: times are from the request to the last byte, so they
are above what the server takes. Then fifty clients watch a run to which a process adds sixteen trials a second; each
fetches the charts that the events name, and the page itself where they say that its tables have changed, as a browser
does. Writes ``benchmarks/results/dashboard.{jsonl,md}``; the exit status is 1 if a limit is not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

import httpx

from tilewright.backends.cpu.device import device_model
from tilewright.database import Database
from tilewright.database.records import RunFilter

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.million import fill

RESULTS = Path(__file__).parent / "results" / "dashboard"
CLIENTS = 50
WATCHED = 40.0  # seconds

WRITER = """
import sys, time
from tilewright.database import Database
from tilewright.core import Device
from dataclasses import replace
where, source, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with Database.open(where) as db:
    old = db.run(source)
    records = db.trials(source)
    run = db.add_run(old.task, Device("cpu:0", old.device_model), "evolutionary", 7, 1000, {})
    print(run, flush=True)
    began, number = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        some = enumerate(records[number : number + 16])
        batch = [replace(r, number=number + i, created=time.time()) for i, r in some]
        if batch:
            db.add_trials(run, batch)
            number += len(batch)
        time.sleep(1.0)
    db.finish_run(run, "done")
"""


@dataclass(frozen=True)
class Row:
    """One number with the limit that it must keep, both in ``unit``."""

    what: str
    value: float
    unit: str
    limit: float
    samples: int

    @property
    def ok(self) -> bool:
        return self.value <= self.limit


@contextmanager
def serving(db: Path) -> Iterator[tuple[int, int]]:
    """The command on a free port: its port and process id."""
    serve = ["dashboard", "--db", str(db), "--port", "0", "--max-connections", "1000"]
    command = [sys.executable, "-m", "tilewright", *serve]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield int(line.strip().rstrip("/").rsplit(":", 1)[1].split("/")[0].split()[0]), process.pid
    finally:
        process.terminate()
        process.wait(20.0)


CHARTS = ("best", "time", "failures", "calibration", "knob", "parallel", "importance")
RUN_PAGES = ("", "?order=seconds&page=2", "/trials/3", "/diff?trial=0&trial=3", *(f"/charts/{c}.json" for c in CHARTS))


def rounds(db: Path, repeat: int) -> Iterator[dict[str, str]]:
    """For each round, what is asked for: its name, and its address. Another run in each, so that little of it was asked
    for a moment before."""
    with Database.open(db, create=False, readonly=True) as database:
        found = database.list_runs(RunFilter(), repeat + 1)
        ops = [o.op for o in sorted(database.operators(), key=lambda o: -o.trials)]
    long = max(found, key=lambda r: r.trials)
    for n, run in enumerate(r for r in found if r is not long):
        op = quote(ops[n % len(ops)])
        asked = {"/": "/", "/runs": "/runs", "/runs?page=N": f"/runs?page={n + 2}", "/runs?op=OP": f"/runs?op={op}",
                "/runs?q=OP": f"/runs?q={op}+epyc", "/runs?order=best": f"/runs?order=best&page={n + 1}",
                 "/operators": "/operators", "/operators/OP": f"/operators/{op}",
                 "/operators/OP/charts/roofline.json": f"/operators/{op}/charts/roofline.json", "/kernels": "/kernels",
                 "/charts/speedups.json": "/charts/speedups.json", "/charts/failures.json": "/charts/failures.json",
                 "/metrics": "/metrics"}  # fmt: skip
        for name, its in (("RUN", run), ("LONG RUN", long)):
            asked |= {f"/runs/{name}{rest}": f"/runs/{quote(its.id)}{rest}" for rest in RUN_PAGES}
        yield asked


def ask(port: int, path: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    start = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - start
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path} gave {answer.status}")
    return took


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(base: str, run: str, until: float, counts: list[int]) -> None:
    """A page that is open: its events, and the charts that they name."""
    limits = httpx.Limits(max_connections=3)
    async with (
        httpx.AsyncClient(base_url=base, timeout=60, limits=limits) as client,
        client.stream("GET", f"/runs/{run}/live") as stream,
    ):
        name = ""
        async for line in stream.aiter_lines():
            if time.monotonic() > until:
                return
            if line.startswith("event: "):
                name = line[7:]
                counts[0] += 1
            elif line.startswith("data: ") and name == "refresh":
                told = json.loads(line[6:])
                if told["parts"]:
                    (await client.get(f"/runs/{run}")).raise_for_status()
                for chart in told["charts"]:
                    answer = await client.get(f"/runs/{run}/charts/{chart}.json")
                    answer.raise_for_status()
                    counts[1] += 1
            elif name == "end":
                return


def live(db: Path, port: int, pid: int) -> list[Row]:
    """The share of a core that the server takes while clients watch, and how many events reached them."""
    with Database.open(db, create=False, readonly=True) as database:
        source = database.list_runs(RunFilter(), 1, 5)[0].id
    command = [sys.executable, "-c", WRITER, str(db), source, str(WATCHED + 5)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    run = writer.stdout.readline().strip()
    counts = [0, 0]

    async def everyone() -> tuple[float, float]:
        until = time.monotonic() + WATCHED
        watching = [asyncio.create_task(watch(f"http://127.0.0.1:{port}", run, until, counts)) for _ in range(CLIENTS)]
        await asyncio.sleep(3.0)
        began, spent = time.monotonic(), cpu_seconds(pid)
        await asyncio.sleep(WATCHED - 8.0)
        share = (cpu_seconds(pid) - spent) / (time.monotonic() - began)
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        return share, time.monotonic() - began

    share, took = asyncio.run(everyone())
    writer.terminate()
    writer.wait()
    print(f"{CLIENTS} clients: {counts[0]} events, {counts[1]} charts in {took:.0f} s")
    if counts[0] < CLIENTS * took / 4:
        raise SystemExit("the clients saw too few events for this to be a measurement")
    return [Row(f"{CLIENTS} live pages, share of a core", share, "cores", 0.5, counts[1])]


def markdown(about: Mapping[str, object], rows: Sequence[Row]) -> str:
    lines = [
        f"# The dashboard at {about['trials']:,} trials\n",
        f"{about['date']}, {about['machine']}, {about['cores']} cores, SQLite.",
        f"{about['runs']:,} runs of 200 trials, but for a long one of 200,000.\n",
        "Seconds of a request on the same machine, to the last byte. 95 of 100 must keep the limit; the slowest is",
        "mostly the first, with nothing in memory.\n",
        "| page or chart | 95th percentile | slowest | limit |",
        "|---|---|---|---|",
    ]
    for p95, slowest in zip(rows[:-1:2], rows[1::2], strict=True):
        kept = "" if p95.ok else " **missed**"
        lines.append(
            f"| `{p95.what.removesuffix(', p95')}` | {p95.value:.3f}{kept} | {slowest.value:.3f} | {p95.limit} |"
        )
    live = rows[-1]
    lines += [f"\n{live.what}, while a run stores sixteen trials a second: {live.value:.2f} (limit {live.limit}).", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--long", type=int, default=200_000, help="trials of one long run among them")
    parser.add_argument("--repeat", type=int, default=40)
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "million.db"
        fill(db, runs=options.runs, trials=200, long_run=options.long)
        with Database.open(db, create=False, readonly=True) as database:
            totals = database.totals()
        print(f"{totals.trials:,} trials, {db.stat().st_size / 1e9:.1f} GB")
        with serving(db) as (port, pid):
            times: dict[str, list[float]] = {}
            for asked in rounds(db, options.repeat):
                for name, path in asked.items():
                    times.setdefault(name, []).append(ask(port, path))
            for name, found in times.items():
                p95 = statistics.quantiles(found, n=20, method="inclusive")[-1]
                limit = 0.5 if name == "/" else 1.5
                rows.append(Row(f"{name}, p95", p95, "s", limit, len(found)))
                rows.append(replace(rows[-1], what=f"{name}, slowest", value=max(found)))
                print(f"{p95:8.3f} s  {max(found):8.3f} s slowest  {name}", flush=True)
            rows += live(db, port, pid)
    about = {
        "date": datetime.date.today().isoformat(), "machine": device_model(), "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(), "trials": totals.trials, "runs": sum(totals.runs.values()),
    }  # fmt: skip
    with RESULTS.with_suffix(".jsonl").open("w") as out:
        out.write(json.dumps(about) + "\n")
        out.writelines(json.dumps({**asdict(r), "ok": r.ok}) + "\n" for r in rows)
    RESULTS.with_suffix(".md").write_text(markdown(about, rows))
    return 0 if all(r.ok for r in rows if not r.what.endswith("slowest")) else 1


if __name__ == "__main__":
    sys.exit(main())
