"""ONNX files: what of them kernels take, whether the outputs are right, and how fast they run beside onnxruntime.

    python benchmarks/onnx_files.py resnet50.onnx bert.onnx --size rows=128
    python benchmarks/onnx_files.py *.onnx --check
    python benchmarks/onnx_files.py *.onnx --tune 600 --out benchmarks/results/onnx_files
    python benchmarks/onnx_files.py net.onnx --size x.2=160..256 --size x.3=160..256 --at x.2=200 --tune 120

A row says how many of the file's operators kernels take, and which are left to onnxruntime and why. ``--check`` runs
it with the first kernel of each task, ``--tune`` with those found in so many seconds, and both compare what all kernels
give with the model in float64, as ``tilewright run`` does. ``--tune`` also times
``tilewright.models.InferenceSession``, in the form that it keeps, and onnxruntime's own (all optimisations, as many
threads) in turns, each in a process of its own: a ratio is the median over rounds of onnxruntime's time over ours in
the same round (above 1: ours is faster), with the interval of order statistics.

``--size NAME=LOW..HIGH`` keeps an axis open, and a size of the file's own may be opened so (``INPUT.AXIS``). Such a
file is timed at the sizes of ``--at``, else the greatest, and a third way takes turns: the session of the same model
with these sizes alone, tuned for as long.

Each file has a process of its own; a crash or a time-out is a row. Rows go to NAME.jsonl as they come, and a run that
was cut short goes on where it ended; NAME.md is the table. Axes without a size in the file need ``--size``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from children import budget, options, preload, run
from networks import TURN_SECONDS, Contestant
from networks import rounds as in_rounds
from rows import Row
from tilewright.models.model_file import Size, size_of
from turns import compared, shown, summary

if TYPE_CHECKING:
    from network_contestant import Arrays
    from tilewright.models.extract import Extracted

PRELOADED = ("onnx", "onnxruntime", "tilewright.models.inference_session", "tilewright.tuner.ranges", "onnx_files")
"""Modules that every child needs: imported once."""


def measured(
    path: Path, sizes: Mapping[str, Size], threads: int, tune: float, check: bool, rounds: int, keep: Path | None,
    at: Mapping[str, int] = MappingProxyType({}),
) -> Row:  # fmt: skip
    """A file's row. Runs in a child. ``keep``: the folder of its databases; else these are not kept. ``at``: sizes of
    open axes at which it is run, else their greatest."""
    from tilewright.models.coverage import RUNTIME, of_model
    from tilewright.models.extract import extract

    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        work = Path(folder)
        path = opened(path, sizes, work)
        known = {name: size for name, size in sizes.items() if name in axes_of(path)}
        found = extract(path, known)
        coverage = of_model(found)
        row: Row = {
            "operators": coverage.operators, "taken": coverage.taken, "whole": coverage.taken == coverage.operators,
            "left": {x.what: {"calls": x.calls, "why": x.why} for x in coverage.lines if x.by == RUNTIME},
            "tasks": len(found.tasks),
        }  # fmt: skip
        if tune or check:
            row |= tuned(path, known, at, threads, tune, rounds, (keep or work) / f"{path.stem}.{threads}")
        return row


def opened(path: Path, sizes: Mapping[str, Size], folder: Path) -> Path:
    """A copy of a file in which axes are open that have a range in ``sizes``; the file itself where they all are."""
    proto = onnx.load(path, load_external_data=False)
    fixed = [
        dim
        for v in proto.graph.input
        for k, dim in enumerate(v.type.tensor_type.shape.dim)
        if dim.dim_value > 0 and isinstance(sizes.get(f"{v.name}.{k}"), tuple)
    ]
    if not fixed:
        return path
    for dim in fixed:
        dim.ClearField("dim_value")
    for v in proto.graph.output:  # what they were is not so at other sizes
        v.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    onnx.save(proto, str(folder / path.name))
    return folder / path.name


def axes_of(path: Path) -> set[str]:
    """The names of a file's open axes, by name and by input and place."""
    from tilewright.models.model_file import read_proto

    places = [(v.name, k, d) for v in read_proto(path).graph.input for k, d in enumerate(v.type.tensor_type.shape.dim)]
    return {n for name, k, d in places if d.dim_value <= 0 for n in (d.dim_param, f"{name}.{k}") if n}


def tuned(
    path: Path, sizes: Mapping[str, Size], at: Mapping[str, int], threads: int, tune: float, rounds: int, kept: Path
) -> Row:
    """What a file's outputs and times are with kernels found in ``tune`` seconds, or with the first ones. ``kept``:
    the beginning of its databases' paths."""
    from tilewright.models import InferenceSession
    from tilewright.models.coverage import NOT_TUNED
    from tilewright.models.extract import extract
    from tilewright.models.inputs import random_inputs
    from tilewright.models.sessions import Session
    from tilewright.models.truth import Truth, compare

    ranges = {n: s for n, s in sizes.items() if isinstance(s, tuple)}
    fixed = {n: at.get(n, s[1]) if isinstance(s, tuple) else s for n, s in sizes.items()}
    found = extract(path, fixed)
    database = kept.with_name(f"{kept.name}.open.db" if ranges else f"{kept.name}.db")
    row: Row = {"tune_seconds": searched(extract(path, sizes) if ranges else found, threads, tune, database)}
    inputs = random_inputs(found.imported)
    ours = InferenceSession(path, db=database, threads=threads, compare=False, sizes=ranges or None)
    truth = Truth(found.imported)
    got = dict(zip((o.name for o in ours.get_outputs()), ours.run(None, inputs), strict=True))
    theirs = [Session.of_file(found.imported.model, threads, optimised=o).run(inputs) for o in (True, False)]
    network = ours.network({n: a.shape for n, a in inputs.items()})
    row["not_tuned"] = {n: x["calls"] for n, x in network.left.items() if x["why"] == NOT_TUNED}
    row |= compare(got, theirs, truth.run(inputs), truth.narrow).to_json()
    if tune:
        ways = {"tilewright": ("session", database, ranges), "onnxruntime": ("onnxruntime", database, {})}
        if ranges:
            alone = kept.with_name(f"{kept.name}.db")
            searched(found, threads, tune, alone)
            ways["fixed"] = ("session", alone, {})
            row |= {"sizes": {n: fixed[n] for n in ranges}, "ranges": ranges}
        row |= timed(path, found, inputs, threads, rounds, ways)
    return row


def searched(found: Extracted, threads: int, tune: float, database: Path) -> float:
    """Tune the tasks of a model, for ``tune`` seconds or one trial each; the seconds that it took."""
    from tilewright.models.extract import write_tasks
    from tilewright.tuner.ranges import tune_tasks
    from tilewright.tuner.task_file import read_tasks

    begin = time.monotonic()
    tasks = database.with_suffix(".toml")
    write_tasks(found.tasks, str(tasks), threads)
    tune_tasks(read_tasks(tasks), db=database, resume=True, **budget(tune))
    return round(time.monotonic() - begin, 1)


def timed(
    path: Path, found: Extracted, inputs: Arrays, threads: int, rounds: int,
    asked: Mapping[str, tuple[str, Path, Mapping[str, tuple[int, int]]]],
) -> Row:  # fmt: skip
    """Times of sessions and of onnxruntime, by name with their library, database and open sizes, each in a process of
    its own, which take turns."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    shared = ["--threads", str(threads), "--cores", cores]
    for name, size in found.imported.model.named_sizes.items():
        shared += ["--size", f"{name}={size}"]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder, ExitStack() as stack:
        work = Path(folder)
        np.savez(work / "inputs.npz", **inputs)
        made = {}
        for name, (library, database, ranges) in asked.items():
            arguments = [*shared, "--db", str(database)]
            for axis, (low, high) in ranges.items():
                arguments += ["--open", f"{axis}={low}..{high}"]
            made[name] = stack.enter_context(Contestant(library, path, work / "inputs.npz", work / name, arguments))
        ways = {name: (contestant, next(iter(contestant.outputs))) for name, contestant in made.items()}
        facts = {"form": made["tilewright"].facts["form"], "version": made["onnxruntime"].facts["version"]}
        return facts | compared(in_rounds(ways, rounds, TURN_SECONDS))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, and what they come to."""
    lines = []
    ratios = [r["ratios"]["onnxruntime"] for r in rows if "ratios" in r]
    fixed = [r["ratios"]["fixed"] for r in rows if "fixed" in r.get("ratios", {})]
    lines += [summary(ratios, "onnxruntime"), ""] if ratios else []
    lines += [summary(fixed, "sessions of one size"), ""] if fixed else []
    heads = ["file", "operators taken", "left to onnxruntime", "error (onnxruntime's)", "kept", "ours"]
    heads += ["over onnxruntime", *(["sizes", "over one size alone"] if fixed else [])]
    lines += [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for r in rows:
        if "failed" in r:
            lines.append(f"| {r['name']} | - | {r['failed']} |{' - |' * (len(heads) - 3)}")
            continue
        left = [f"{n} x {x['calls']} ({x['why']})" for n, x in r["left"].items()]
        left += [f"{n} x {count} (not tuned in the time)" for n, count in r.get("not_tuned", {}).items()]
        error = "-"
        if "right" in r:
            theirs = "no kernel" if r["onnxruntime_error"] is None else f"{r['onnxruntime_error']:.2g}"
            error = f"{r['largest_error']:.2g} ({theirs}){'' if r['right'] else ': WRONG'}"
        ours = f"{r['seconds']['tilewright'] * 1e3:.3g} ms" if "seconds" in r else "-"
        times = r.get("ratios", {})
        cells = [r["name"], f"{r['taken']} of {r['operators']}", ", ".join(left) or "nothing", error]
        cells += [r.get("form", "-"), ours, shown(times.get("onnxruntime"))]
        if fixed:
            ranges = r.get("ranges", {})
            at = ", ".join(f"{n}={r['sizes'][n]} of {low}..{high}" for n, (low, high) in ranges.items())
            cells += [at or "-", shown(times.get("fixed"))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the files that the options choose, and print and write the table."""
    parser = options(__doc__, "file")
    parser.add_argument("files", type=Path, nargs="+", help="ONNX models")
    parser.add_argument(
        "--size", nargs="+", action="extend", default=[], metavar="NAME=N",
        help="sizes of open axes, where a file has them; LOW..HIGH keeps one open",
    )  # fmt: skip
    parser.add_argument(
        "--at", nargs="+", action="extend", default=[], metavar="NAME=N", help="sizes of axes kept open when timed"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of databases, with which a later run goes on")
    args = parser.parse_args()
    preload(*PRELOADED)
    sizes = {name: size_of(name, size) for name, _, size in (text.rpartition("=") for text in args.size)}
    at = {name: int(size) for name, _, size in (text.rpartition("=") for text in args.at)}
    asked: list[Any] = [
        ({"name": path.stem}, measured, (path, sizes, args.threads, args.tune, args.check, args.rounds, args.keep, at))
        for path in args.files
        if not args.only or any(t in path.stem for t in args.only)
    ]
    run(asked, ("name",), args, f"ONNX files, {args.threads} thread(s)", table)


if __name__ == "__main__":
    main()
