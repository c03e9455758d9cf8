"""Whole networks: tuned kernels beside onnxruntime and PyTorch, batch 1, float32.

    python benchmarks/networks.py bert --threads 1 --db bert.db --time-budget 20m
    python benchmarks/networks.py bert --threads 1 --db bert.db --no-tune --out benchmarks/results/networks.json

A network of ``examples/networks.py`` is written, its tasks are tuned (kernels already in ``--db`` stay in it), and it
is run by ``tilewright run``'s network, by onnxruntime (all graph optimisations, sequential), and by PyTorch eager and
under ``torch.compile(mode="max-autotune")`` with frozen weights, for convolutions in both layouts. Every library has
a process of its own on the same cores with as many threads, and one runs at a time: in each round every way gets a
turn, in an order that rotates, with a run to warm up before those that are timed. A ratio is the median over rounds
of the rival's time over ours in the same round: above 1 ours is faster. All outputs are compared with onnxruntime's.
Results are merged by network, threads, machine and its widest instructions.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from suite import geomean
from tilewright.cli.options import Duration
from tilewright.database import Database
from tilewright.measure.local_target import find_local_target
from tilewright.models.extract import Extracted, extract, write_tasks
from tilewright.models.inputs import random_inputs
from tilewright.models.truth import largest_error
from tilewright.tuner.many import tune_many
from tilewright.tuner.task_file import read_tasks

HERE = Path(__file__).parent
NETWORKS = ("resnet50", "mobilenet", "squeezenet", "densenet", "bert", "decoder")
PEERS = {"onnxruntime": "onnxruntime", "PyTorch": "eager", "torch.compile": "compiled"}
"""Columns of the table, and how their ways are called."""
TURN_SECONDS = 0.3
"""Timed runs of a turn take about so long together, one run at least."""
TOLERANCE = 1e-3
"""How far an output may lie from onnxruntime's, as a share of its largest magnitude."""
QUIET_SECONDS = 0.1
"""Between turns: threads of the last one stop spinning."""


def write_network(name: str, small: bool, path: Path) -> None:
    spec = importlib.util.spec_from_file_location("example_networks", HERE.parent / "examples" / "networks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    onnx.save(module.NETWORKS[name](small), str(path))


def tune(found: Extracted, work: Path, db: str, threads: int, seconds: float | None, trials: int | None) -> None:
    write_tasks(found.tasks, work / "tasks.toml", threads)
    tune_many(read_tasks(work / "tasks.toml"), time_budget=seconds, trials=trials, db=db)


def tuning_of(found: Extracted, db: str, threads: int) -> dict[str, Any]:
    """What the runs in a database spent on a network's tasks: seconds when any of them ran, and trials."""
    place = find_local_target("auto", "auto", threads)
    keys = {t.workload.key for t in found.tasks}
    with Database.open(db, create=False, readonly=True) as database:
        runs = [r for r in database.runs() if r.task.workload.key in keys and r.task.target == place.target]
    spans = sorted((r.started, r.finished) for r in runs if r.finished is not None)
    total, until = 0.0, 0.0
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return {"tasks": len(keys), "tune_seconds": round(total, 1), "trials": sum(r.trials for r in runs)}


class Contestant:
    """A library in its process. ``facts``: what it said of itself, ``outputs`` by way."""

    def __init__(self, library: str, model: Path, inputs: Path, folder: Path, arguments: Sequence[str]) -> None:
        self.library = library
        folder.mkdir()
        command = [sys.executable, str(HERE / "network_contestant.py"), library, str(model)]
        command += ["--inputs", str(inputs), "--outputs", str(folder), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = self._answer()
        self.outputs: dict[str, dict[str, np.ndarray[Any, Any]]] = {}
        for number, way in enumerate(self.facts.pop("ways")):
            with np.load(folder / f"{number}.npz") as file:
                self.outputs[way] = {n: file[n] for n in file.files}

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # at the end of its input it ends

    def turn(self, way: str, runs: int) -> list[float]:
        """Seconds of so many runs."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{way} {runs}\n")
        self.process.stdin.flush()
        times: list[float] = self._answer()
        return times

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.library} ended: what it said is above")
        return json.loads(line)


def measure(given: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Tune and time one network: a row."""
    db = given.db or str(work / "networks.db")
    write_network(given.network, given.small, work / "model.onnx")
    found = extract(work / "model.onnx")
    if not given.no_tune:
        tune(found, work, db, given.threads, None if given.trials else given.time_budget, given.trials)
    np.savez(work / "inputs.npz", **random_inputs(found.imported))
    place = find_local_target("auto", "auto", given.threads)
    cores = ",".join(map(str, place.device.cores))
    with ExitStack() as stack:
        stack.enter_context(place.lock(on_wait=lambda holder: print(f"waiting for {holder}", file=sys.stderr)))
        contestants = {}
        for library in ("tilewright", "onnxruntime", *(() if given.no_pytorch else ("pytorch",))):
            arguments = ["--threads", str(given.threads), "--cores", cores, "--db", db]
            arguments += ["--no-compile"] if given.no_compile else []
            made = Contestant(library, work / "model.onnx", work / "inputs.npz", work / library, arguments)
            contestants[library] = stack.enter_context(made)
            print(f"{library}: {made.facts['load_seconds']:.1f} s to load", file=sys.stderr, flush=True)
        ways = {
            way if library == "pytorch" else library: (c, way)
            for library, c in contestants.items()
            for way in c.outputs
        }
        (right,) = contestants["onnxruntime"].outputs.values()
        errors = {name: largest_error(c.outputs[way], right) for name, (c, way) in ways.items()}
        wrong = [name for name, error in errors.items() if not error <= TOLERANCE]
        if wrong:
            raise SystemExit(f"{', '.join(wrong)}: outputs are not onnxruntime's: {errors}")
        times = rounds(ways, given.rounds, 0.0 if given.check else TURN_SECONDS)
    ours = times["tilewright"]
    rivals = {n: t for n, t in times.items() if n != "tilewright"}
    row: dict[str, Any] = {
        "network": given.network, "threads": given.threads, "device": place.device.model,
        "target": place.target.variant, "small": given.small,
        "date": time.strftime("%Y-%m-%d"), "rounds": given.rounds, **tuning_of(found, db, given.threads),
        "seconds": {name: statistics.median(t) for name, t in times.items()},
        "ratios": {n: quartiles([r / o for r, o in zip(t, ours, strict=True)]) for n, t in rivals.items()},
        "errors": errors,
        "versions": {n: c.facts["version"] for n, c in contestants.items() if "version" in c.facts},
        **{n: contestants["tilewright"].facts[n] for n in ("served", "left", "served_share_of_time")},
    }  # fmt: skip
    best = [peer_ratio(row, way) for way in PEERS.values()]
    row["best_rival"] = min(b[0] for b in best if b)
    return row


def rounds(ways: Mapping[str, tuple[Contestant, str]], count: int, turn: float) -> dict[str, list[float]]:
    """Seconds of a run, by way and round: medians of turns, of about ``turn`` seconds each."""
    names = list(ways)
    runs = {}
    for name, (contestant, way) in ways.items():
        once = min(contestant.turn(way, 2))
        runs[name] = max(1, round(turn / once))
        time.sleep(QUIET_SECONDS)
    times: dict[str, list[float]] = {n: [] for n in names}
    for r in range(count):
        for k in range(len(names)):
            name = names[(r + k) % len(names)]
            contestant, way = ways[name]
            times[name].append(statistics.median(contestant.turn(way, runs[name])))
            time.sleep(QUIET_SECONDS)
    return times


def quartiles(ratios: Sequence[float]) -> list[float]:
    """The median, and the quartiles around it."""
    low, middle, high = (float(q) for q in np.quantile(ratios, (0.25, 0.5, 0.75)))
    return [middle, low, high]


def peer_ratio(row: Mapping[str, Any], way: str) -> tuple[float, float, float, str] | None:
    """The ratio of a peer's fastest way, its quartiles, and which way that is."""
    found = [(*r, name) for name, r in row["ratios"].items() if name.startswith(way)]
    return min(found) if found else None


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "Whole networks with random weights, batch 1, float32. Ratios are the rival's time over ours (above 1: ours "
        "is faster), medians of paired rounds with quartiles; every library runs in a process of its own on the same "
        "cores, one at a time. PyTorch is in its faster layout; torch.compile is `max-autotune` with frozen weights.",
        "",
        f"| network | target | threads | tuned for | trials | ours | {' | '.join(PEERS)} | fastest rival |",
        "|---|---|---|---|---|---|" + "---|" * len(PEERS) + "---|",
    ]
    for row in rows:
        cells = []
        for way in PEERS.values():
            found = peer_ratio(row, way)
            cells.append("-" if found is None else f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})")
        name = f"{row['network']}{' (small)' if row['small'] else ''}"
        lines.append(
            f"| {name} | {row['target']} | {row['threads']} | {row['tune_seconds'] / 60:.0f} min | {row['trials']} | "
            f"{row['seconds']['tilewright'] * 1e3:.2f} ms | {' | '.join(cells)} | {row['best_rival']:.2f} |"
        )
    for target, threads in sorted({(r["target"], r["threads"]) for r in rows if not r["small"]}):
        some = [r for r in rows if (r["target"], r["threads"]) == (target, threads) and not r["small"]]
        cells = []
        for way in PEERS.values():
            ratios = [p[0] for r in some if (p := peer_ratio(r, way)) is not None]
            cells.append(f"**{geomean(ratios):.2f}**" if ratios else "-")
        best = geomean([r["best_rival"] for r in some])
        lines.append(f"| geometric mean | {target} | {threads} | | | | {' | '.join(cells)} | **{best:.2f}** |")
    machines = sorted({f"{r['device']}, {r['date']}" for r in rows})
    versions = sorted({f"{n} {v}" for r in rows for n, v in r["versions"].items()})
    return "\n".join([*lines, "", f"{'; '.join(machines)}; {', '.join(versions)}."]) + "\n"


def merge(row: Mapping[str, Any], path: Path) -> None:
    """Put a row in the place of an earlier one like it, and write the table again."""
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    key = ("network", "small", "threads", "device", "target")
    kept = [r for r in before if any(r[k] != row[k] for k in key)]
    order = NETWORKS.index
    rows = sorted([*kept, row], key=lambda r: (r["device"], r["target"], r["threads"], r["small"], order(r["network"])))
    path.write_text(json.dumps({"schema": 1, "rows": rows}, indent=1) + "\n")
    path.with_suffix(".md").write_text(table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a network of the same form for a quick try")
    parser.add_argument("--time-budget", type=lambda t: Duration().convert(t, None, None), default="20m")
    parser.add_argument("--trials", type=int, help="trials of all tasks, in the place of a time")
    parser.add_argument("--no-tune", action="store_true", help="run with the kernels that --db holds")
    parser.add_argument("--db", help="keep the tuning database here")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--no-pytorch", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch eager only")
    parser.add_argument(
        "--check",
        action="store_true",
        help="a quick try that all of it works: --small, few trials, a round, no torch.compile",
    )
    parser.add_argument("--out", type=Path, help="merge the result into this JSON file, and write a table beside it")
    given = parser.parse_args()
    if given.check:
        given.small, given.trials, given.rounds, given.no_compile = True, 1, 1, True
    if given.no_tune and not given.db:
        parser.error("--no-tune needs --db")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        row = measure(given, Path(folder))
    print(table([row]))
    if given.out:
        merge(row, given.out)


if __name__ == "__main__":
    main()
