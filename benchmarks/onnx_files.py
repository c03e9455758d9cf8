"""ONNX files: what of them kernels take, whether the outputs are right, and how fast they run beside onnxruntime.

    python benchmarks/onnx_files.py resnet50.onnx bert.onnx --size rows=128
    python benchmarks/onnx_files.py *.onnx --check
    python benchmarks/onnx_files.py *.onnx --tune 600 --out benchmarks/results/onnx_files

A row says how many of the file's operators kernels take, and which are left to onnxruntime and why. ``--check`` runs
it with the first kernel of each task, ``--tune`` with those found in so many seconds, and both compare what all kernels
give with the model in float64, as ``tilewright run`` does. ``--tune`` also times
``tilewright.models.InferenceSession``, in the form that it keeps, and onnxruntime's own (all optimisations, as many
threads) in turns, each in a process of its own: a ratio is the median over rounds of onnxruntime's time over ours in
the same round (above 1: ours is faster), with the interval of order statistics.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from children import budget, options, preload, run
from networks import TURN_SECONDS, Contestant
from networks import rounds as in_rounds
from rows import Row
from turns import compared, shown, summary

if TYPE_CHECKING:
    from network_contestant import Arrays
    from tilewright.models.extract import Extracted

PRELOADED = ("onnx", "onnxruntime", "tilewright.models.inference_session", "tilewright.tuner.many", "onnx_files")
"""Modules that every child needs: imported once."""


def measured(
    path: Path, sizes: Mapping[str, int], threads: int, tune: float, check: bool, rounds: int, keep: Path | None
) -> Row:
    """A file's row. Runs in a child. ``keep``: the folder of its database; else that is not kept."""
    from tilewright.models.coverage import RUNTIME, of_model
    from tilewright.models.extract import extract

    known = {name: size for name, size in sizes.items() if name in axes_of(path)}
    found = extract(path, known)
    coverage = of_model(found)
    row: Row = {
        "operators": coverage.operators, "taken": coverage.taken, "whole": coverage.taken == coverage.operators,
        "left": {line.what: {"calls": line.calls, "why": line.why} for line in coverage.lines if line.by == RUNTIME},
        "tasks": len(found.tasks),
    }  # fmt: skip
    if not (tune or check):
        return row
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        database = Path(folder) if keep is None else keep
        return row | tuned(path, known, threads, tune, rounds, database / f"{path.stem}.{threads}.db")


def axes_of(path: Path) -> set[str]:
    """The names of a file's open axes, by name and by input and place."""
    from tilewright.models.model_file import read_proto

    places = [(v.name, k, d) for v in read_proto(path).graph.input for k, d in enumerate(v.type.tensor_type.shape.dim)]
    return {n for name, k, d in places if d.dim_value <= 0 for n in (d.dim_param, f"{name}.{k}")}


def tuned(path: Path, sizes: Mapping[str, int], threads: int, tune: float, rounds: int, database: Path) -> Row:
    """What a file's outputs and times are with kernels found in ``tune`` seconds, or with the first ones."""
    from tilewright.models import InferenceSession
    from tilewright.models.coverage import NOT_TUNED
    from tilewright.models.extract import extract, write_tasks
    from tilewright.models.inputs import random_inputs
    from tilewright.models.sessions import Session
    from tilewright.models.truth import Truth, compare
    from tilewright.tuner.many import tune_many
    from tilewright.tuner.task_file import read_tasks

    found = extract(path, sizes)
    begin = time.monotonic()
    tasks = database.with_suffix(".toml")
    write_tasks(found.tasks, str(tasks), threads)
    tune_many(read_tasks(tasks), db=database, resume=True, **budget(tune))
    row: Row = {"tune_seconds": round(time.monotonic() - begin, 1)}
    inputs = random_inputs(found.imported)
    shapes = {n: a.shape for n, a in inputs.items()}
    ours = InferenceSession(path, db=database, threads=threads, compare=False)
    truth = Truth(found.imported)
    got = dict(zip((o.name for o in ours.get_outputs()), ours.run(None, inputs), strict=True))
    theirs = [Session.of_file(found.imported.model, threads, optimised=o).run(inputs) for o in (True, False)]
    network = ours.network(shapes)
    row["not_tuned"] = {n: x["calls"] for n, x in network.left.items() if x["why"] == NOT_TUNED}
    row |= compare(got, theirs, truth.run(inputs), truth.narrow).to_json()
    if tune:
        row |= beside_onnxruntime(path, found, inputs, threads, rounds, database)
    return row


def beside_onnxruntime(path: Path, found: Extracted, inputs: Arrays, threads: int, rounds: int, database: Path) -> Row:
    """Times of a session and of onnxruntime, each in a process of its own, which take turns."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    arguments = ["--threads", str(threads), "--cores", cores, "--db", str(database)]
    for name, size in found.imported.model.named_sizes.items():
        arguments += ["--size", f"{name}={size}"]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder, ExitStack() as stack:
        work = Path(folder)
        np.savez(work / "inputs.npz", **inputs)
        made = {
            name: stack.enter_context(Contestant(library, path, work / "inputs.npz", work / library, arguments))
            for name, library in (("tilewright", "session"), ("onnxruntime", "onnxruntime"))
        }
        ways = {name: (contestant, next(iter(contestant.outputs))) for name, contestant in made.items()}
        facts = {"form": made["tilewright"].facts["form"], "version": made["onnxruntime"].facts["version"]}
        return facts | compared(in_rounds(ways, rounds, TURN_SECONDS))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, and what they come to."""
    lines = []
    ratios = [r["ratios"]["onnxruntime"] for r in rows if "ratios" in r]
    lines += [summary(ratios, "onnxruntime"), ""] if ratios else []
    lines += [
        "| file | operators taken | left to onnxruntime | error (onnxruntime's) | kept | ours | over onnxruntime |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "failed" in r:
            lines.append(f"| {r['name']} | - | {r['failed']} | - | - | - | - |")
            continue
        left = [f"{n} x {x['calls']} ({x['why']})" for n, x in r["left"].items()]
        left += [f"{n} x {count} (not tuned in the time)" for n, count in r.get("not_tuned", {}).items()]
        error = "-"
        if "right" in r:
            theirs = "no kernel" if r["onnxruntime_error"] is None else f"{r['onnxruntime_error']:.2g}"
            error = f"{r['largest_error']:.2g} ({theirs}){'' if r['right'] else ': WRONG'}"
        ours = f"{r['seconds']['tilewright'] * 1e3:.3g} ms" if "seconds" in r else "-"
        lines.append(
            f"| {r['name']} | {r['taken']} of {r['operators']} | {', '.join(left) or 'nothing'} | {error} | "
            f"{r.get('form', '-')} | {ours} | "
            f"{shown(r.get('ratios', {}).get('onnxruntime'))} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the files that the options choose, and print and write the table."""
    parser = options(__doc__, "file")
    parser.add_argument("files", type=Path, nargs="+", help="ONNX models")
    parser.add_argument(
        "--size", nargs="+", default=(), metavar="NAME=N", help="sizes of open axes, where a file has them"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="of databases, with which a later run goes on")
    args = parser.parse_args()
    preload(*PRELOADED)
    sizes = {name: int(size) for name, _, size in (text.rpartition("=") for text in args.size)}
    asked: list[Any] = [
        ({"name": path.stem}, measured, (path, sizes, args.threads, args.tune, args.check, args.rounds, args.keep))
        for path in args.files
        if not args.only or any(t in path.stem for t in args.only)
    ]
    run(asked, ("name",), args, f"ONNX files, {args.threads} thread(s)", table)


if __name__ == "__main__":
    main()
