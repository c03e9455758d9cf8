"""One library that runs a network, in a process of its own: what ``networks.py`` starts.

    python benchmarks/network_contestant.py LIBRARY MODEL --threads N --cores 0,1 [--db FILE]

``LIBRARY`` is ``tilewright``, ``session`` (its ``InferenceSession``), ``onnxruntime`` or ``pytorch``. It loads the
network in each of its ways (PyTorch: eager and compiled), writes their first outputs to ``--outputs`` and their names
to standard output, and then does what it reads on standard input: a line ``WAY RUNS`` has it run the network once to
warm up and ``RUNS`` times, and answer with the seconds of each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]
Way = Callable[[], Any]
"""A run of the network on the inputs that it was made for."""


def tilewright_ways(given: argparse.Namespace, inputs: Arrays) -> tuple[dict[str, Way], dict[str, Any]]:
    from tilewright.models.extract import extract
    from tilewright.models.network import Network
    from tilewright.runtime import Library

    with Library(given.db, threads=given.threads, missing_ok=True, count_misses=False) as library:
        network = Network(extract(given.model), library, given.threads)
    spent: list[float] = []
    network.run(inputs)
    network.run(inputs, spent)
    ours = sum(s for s, (p, _) in zip(spent, network.parts, strict=True) if p.ours)
    facts = {"served": network.served, "left": network.left, "served_share_of_time": ours / sum(spent)}
    return {"tuned": lambda: network.run(inputs)}, facts


def session_ways(given: argparse.Namespace, inputs: Arrays) -> tuple[dict[str, Way], dict[str, Any]]:
    from tilewright.models import InferenceSession

    sizes = dict(text.split("=") for text in given.open)
    session = InferenceSession(given.model, db=given.db, threads=given.threads, sizes=sizes or None)
    names = [o.name for o in session.get_outputs()]
    form = session.network({n: a.shape for n, a in inputs.items()}).form
    return {"tuned": lambda: dict(zip(names, session.run(names, inputs), strict=True))}, {"form": form}


def onnxruntime_ways(given: argparse.Namespace, inputs: Arrays) -> tuple[dict[str, Way], dict[str, Any]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = given.threads, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    for name, _, size in (text.rpartition("=") for text in given.size):
        options.add_free_dimension_override_by_name(name, int(size))
    session = ort.InferenceSession(given.model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return {"all optimisations": lambda: dict(zip(names, session.run(names, inputs), strict=True))}, {
        "version": ort.__version__
    }


def pytorch_ways(given: argparse.Namespace, inputs: Arrays) -> tuple[dict[str, Way], dict[str, Any]]:
    import onnx
    import torch
    import torch._inductor.config as inductor

    from onnx_torch import module_of

    torch.set_num_threads(given.threads)
    inductor.freezing = True
    model = onnx.load(given.model)
    outputs = [v.name for v in model.graph.output]
    tensors = [torch.from_numpy(inputs[v.name]) for v in model.graph.input]
    layouts = {"": torch.contiguous_format}
    if any(t.dim() == 4 and t.shape[1] == 3 for t in tensors):
        layouts[", channels last"] = torch.channels_last
    ways: dict[str, Way] = {}

    def way(module: Any, arguments: list[Any]) -> Way:
        def run() -> Arrays:
            with torch.no_grad():
                return {n: t.numpy() for n, t in zip(outputs, module(*arguments), strict=True)}

        return run

    for text, layout in layouts.items():
        placed = [t.to(memory_format=layout) if t.dim() == 4 and text else t for t in tensors]
        module = module_of(model).to(memory_format=layout)
        ways[f"eager{text}"] = way(module, placed)
        if not given.no_compile:
            torch._dynamo.reset()
            ways[f"compiled{text}"] = way(
                torch.compile(module_of(model).to(memory_format=layout), mode="max-autotune"), placed
            )
            ways[f"compiled{text}"]()
    return ways, {"version": torch.__version__}


LIBRARIES = {
    "tilewright": tilewright_ways,
    "session": session_ways,
    "onnxruntime": onnxruntime_ways,
    "pytorch": pytorch_ways,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("model")
    parser.add_argument("--inputs", required=True, help="an .npz file")
    parser.add_argument("--outputs", type=Path, required=True, help="folder: WAY's outputs as NUMBER.npz")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cores", required=True, help="numbers of cores, with commas between them")
    parser.add_argument("--db")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of an open axis, for onnxruntime"
    )
    parser.add_argument(
        "--open", action="append", default=[], metavar="NAME=LOW..HIGH", help="an axis that a session keeps open"
    )
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    os.sched_setaffinity(0, [int(c) for c in given.cores.split(",")])
    with np.load(given.inputs) as file:
        inputs = {n: file[n] for n in file.files}
    begin = time.monotonic()
    ways, facts = LIBRARIES[given.library](given, inputs)
    for number, run in enumerate(ways.values()):
        np.savez(given.outputs / f"{number}.npz", **run())
    print(json.dumps({"ways": list(ways), "load_seconds": time.monotonic() - begin, **facts}), file=answers, flush=True)
    for line in sys.stdin:
        name, _, runs = line.strip().rpartition(" ")
        run = ways[name]
        run()
        times = []
        for _ in range(int(runs)):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        print(json.dumps(times), file=answers, flush=True)


if __name__ == "__main__":
    main()
