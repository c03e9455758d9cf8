"""Two installed versions against each other: the speed of the kernels that they generate, and of their tuners.

    python benchmarks/versions.py --old OLD/bin/python --new NEW/bin/python --out benchmarks/results/NAME

Both generate, for every case, the default schedule's kernel and those of some sampled ones (the old version samples;
the new one takes the same knobs, where it has them, and the least value of others). Kernels whose text is the same are
the same. The others are compiled by the one compiler of this machine with the same flags, checked against each other,
and timed in one process, call by call in turn: a ratio is the median of paired samples, above 1 where the new one is
faster. Compile times are compared in turn too, new over old. The tuners run in turn, each from nothing. One thread;
kernels that cannot be paired are counted and named.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from suite import geomean
from tilewright.backends import get_backend, parse_target
from tilewright.backends.cpu.device import device_model

CASES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "contraction": [
        ("matmul", {"m": 256, "n": 256, "k": 256}),
        ("matmul", {"m": 77, "n": 640, "k": 512}),
        ("batch_matmul", {"b": 8, "m": 128, "n": 128, "k": 128}),
        ("conv2d", {"n": 1, "ci": 64, "h": 28, "w": 28, "co": 64, "kh": 3, "kw": 3, "padding": 1}),
        (
            "conv_transpose2d",
            {"n": 1, "ci": 64, "h": 16, "w": 16, "co": 32, "kh": 4, "kw": 4, "stride": 2, "padding": 1},
        ),
        ("matmul", {"m": 192, "n": 256, "k": 192, "dtype": "bfloat16"}),
    ],
    "attention": [("attention", {"b": 1, "h": 4, "lq": 128, "lk": 128, "d": 64})],
    "row_reduction": [
        ("softmax", {"shape": "512,1000"}),
        ("layer_norm", {"shape": "512,768"}),
        ("sum", {"shape": "1024,1024", "dim": 1}),
        ("argmax", {"shape": "512,1024", "dim": 1}),
    ],
    "reduce_window": [
        ("conv2d", {"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1, "groups": 64}),
        ("max_pool2d", {"n": 1, "c": 64, "h": 56, "w": 56, "kernel_size": 3, "stride": 2, "padding": 1}),
        ("avg_pool2d", {"n": 1, "c": 64, "h": 56, "w": 56, "kernel_size": 2, "stride": 2}),
    ],
    "elementwise": [
        ("elementwise", {"shape": "512,512", "fn": "gelu(x*2 + y)"}),
        ("transpose", {"shape": "700,900"}),
        ("permute", {"shape": "64,128,32", "dims": "2,0,1"}),
        ("embedding", {"shape": "32,128", "num_embeddings": 1000, "embedding_dim": 64}),
    ],
    "recurrence": [("cumsum", {"shape": "256,1024"}), ("cumsum", {"shape": "1024,256", "dim": 0})],
    "generic": [("sum", {"shape": "1024,1024", "dim": 0})],
}
"""Operators and sizes by family; an operator or size that a version does not know is left out, and said."""

EMIT = r"""
import json, random, sys
from tilewright.backends import parse_target
from tilewright.core import Candidate, Task, evaluate
try:
    from tilewright.kernels.operators import get_operator
except ImportError:
    from tilewright.kernels.operator import get_operator
from tilewright.kernels.templates import default_schedule, full_source, lower, templates_for

def kernel(task, schedule):
    c = Candidate(task, schedule)
    k = lower(c)
    launch = {n: int(v) for n, v in schedule.launch}
    return {
        "source": full_source(c).replace(c.symbol, "@"), "template": schedule.template, "values": dict(schedule.values),
        "launches": [[x.symbol.replace(c.symbol, "@"), [launch[a] for a in x.arguments]] for x in k.program.launches],
        "workspace": evaluate(k.program.workspace, launch), "zero": evaluate(k.program.zero_fill, launch),
        "prepack": len(k.program.prepack),
    }

for line in sys.stdin:
    job = json.loads(line)
    try:
        task = Task(get_operator(job["op"]).workload(**job["params"]), parse_target(job["target"], 1))
        known = {t.name: t for t in templates_for(task)}
        chosen = []
        if "wanted" in job:
            for want in job["wanted"]:
                if want is None:
                    chosen.append(default_schedule(task)); continue
                t = known[want["template"]]
                least = {k.name: k.values[0] for k in t.space(task).knobs}  # of knobs that came since
                chosen.append(t.space(task).schedule({**least, **want["values"]}))
                t.space(task).check(chosen[-1])
        else:
            rng = random.Random(job["seed"])
            chosen = [default_schedule(task)]
            space = known[chosen[0].template].space(task)
            chosen += [space.sample(rng) for _ in range(job["samples"])]
        made = [kernel(task, s) for s in chosen]
        io = [[list(x.shape), x.dtype] for x in (*task.workload.inputs, task.workload.output)]
        answer = {"kernels": made, "tensors": io}
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(answer), flush=True)
"""

TUNE = r"""
import json, os, sys, tempfile, time
from pathlib import Path
from tilewright import tune
size, trials, seed = map(int, sys.argv[1:])
with tempfile.TemporaryDirectory() as folder:
    os.environ["TILEWRIGHT_CACHE"] = str(Path(folder) / "cache")
    start = time.perf_counter()
    r = tune("matmul", trials=trials, seed=seed, db=str(Path(folder) / "t.db"),
             params={"m": size, "n": size, "k": size})
    wall = time.perf_counter() - start
print(json.dumps({"rate": (r.trials - sum(r.failed.values())) / wall,
                  "overhead_ms": 1e3 * r.time["overhead"] / r.trials}))
"""

SHIM = r"""
#include <time.h>
typedef void (*tw_body)(void *, long, long);
struct tw_shim_env { void (*parallel_for)(void *, long, tw_body, void *); void *pool; long threads; };
static void serial(void *, long tasks, tw_body body, void *ctx) { for (long t = 0; t < tasks; t++) body(ctx, t, 0); }
extern "C" __attribute__((visibility("default"))) double
tw_shim_time(int n, void **functions, long long **arguments, void **tensors, void *ws, long repeats) {
    tw_shim_env env = {serial, 0, 1};
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long r = 0; r < repeats; r++)
        for (int k = 0; k < n; k++)
            if (((int (*)(void **, long long *, void *, tw_shim_env *))functions[k])(tensors, arguments[k], ws, &env))
                return -1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec)) / repeats;
}
"""

SAMPLE_SECONDS = 2e-3
PLACES = 12
"""Times that operands are laid out anew."""


class Version:
    """An installed version, which generates kernels in a process of its own."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process = subprocess.Popen(
            [python, "-c", EMIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )

    def emit(self, **job: Any) -> dict[str, Any]:
        """The answer of the emitting process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


class Loaded:
    """A compiled kernel on operands that it is given."""

    def __init__(self, made: dict[str, Any], arrays: list[Any], target: str) -> None:
        symbol = "tw_version"
        built = get_backend("cpu").build([made["source"].replace("@", symbol), SHIM], parse_target(target, 1))
        library = ctypes.CDLL(built.path)
        self.time_ = library.tw_shim_time
        self.time_.restype = ctypes.c_double
        workspace = np.zeros(made["workspace"] + 4096, np.uint8)
        at = workspace.ctypes.data + (-workspace.ctypes.data) % 4096
        self.held: list[Any] = [library, workspace]
        n = len(made["launches"])
        functions, arguments = (ctypes.c_void_p * n)(), (ctypes.c_void_p * n)()
        for k, (name, values) in enumerate(made["launches"]):
            functions[k] = ctypes.cast(getattr(library, name.replace("@", symbol)), ctypes.c_void_p)
            held = (ctypes.c_longlong * max(1, len(values)))(*values)
            self.held.append(held)
            arguments[k] = ctypes.cast(held, ctypes.c_void_p)
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self.call = (n, functions, arguments, pointers, ctypes.c_void_p(at))

    def seconds(self, repeats: int) -> float:
        """Seconds a call."""
        took = float(self.time_(*self.call, ctypes.c_long(repeats)))
        if took < 0:
            raise RuntimeError("a kernel failed")
        return took


def operand(shape: list[int], dtype: str, rng: np.random.Generator) -> Any:
    """Random values; 16-bit reals as bits of small ones."""
    if dtype in ("float32", "float64"):
        return np.ascontiguousarray(rng.standard_normal(shape).astype(dtype))
    if dtype == "bfloat16":
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype == "float16":
        return rng.standard_normal(shape).astype(np.float16)
    return rng.integers(0, 5, shape).astype(dtype)


def result(kernel: Loaded, output: Any) -> Any:
    """What a kernel writes into an output that held something else, to be compared."""
    output.view(np.uint8)[...] = 0x5A
    kernel.seconds(1)
    return output.astype(np.float64) if output.dtype.kind == "f" else output.copy()


def paired(old: dict[str, Any], new: dict[str, Any], tensors: list[Any], target: str, pairs: int) -> float:
    """Old time over new time, the median of paired samples, once both gave the same result.

    Where operands lie decides up to a fifth of a memory-bound kernel's time: both work on the same, which are laid out
    anew several times.
    """
    ratios = []
    for place in range(PLACES):
        rng = np.random.default_rng(place)
        pad = np.empty(int(rng.integers(1, 1 << 20)), np.uint8)  # moves what is allocated next
        arrays = [operand(shape, dtype, rng) for shape, dtype in tensors]
        a, b = (Loaded(made, arrays, target) for made in (old, new))
        x, y = (result(v, arrays[-1]) for v in (a, b))
        np.testing.assert_allclose(y, x, rtol=2e-4, atol=2e-4 * float(np.abs(x).max(initial=1)))
        repeats = max(1, int(SAMPLE_SECONDS / max(a.seconds(3), 1e-9)))
        for n in range(pairs // PLACES):
            t = {id(v): v.seconds(repeats) for v in ((a, b) if n % 2 else (b, a))}
            ratios.append(t[id(a)] / t[id(b)])
        del pad
    return statistics.median(ratios)


def compiling(old: dict[str, Any], new: dict[str, Any], target: str) -> float:
    """New compile time over old, the median of three pairs; a symbol of its own each time: nothing is cached."""
    backend, chosen = get_backend("cpu"), parse_target(target, 1)

    def seconds(made: dict[str, Any], symbol: str) -> float:
        begin = time.perf_counter()
        backend.build([made["source"].replace("@", symbol)], chosen)
        return time.perf_counter() - begin

    ratios = []
    for n in range(3):
        took = {
            name: seconds(made, f"tw_{name}_{n}") for name, made in (("old", old), ("new", new))[:: 1 if n % 2 else -1]
        }
        ratios.append(took["new"] / took["old"])
    return statistics.median(ratios)


def kernels(old: Version, new: Version, target: str, samples: int, pairs: int) -> Iterator[dict[str, Any]]:
    """A row for every kernel of every case."""
    for family, cases in CASES.items():
        for op, params in cases:
            case = {"family": family, "op": op, "params": params}
            before = old.emit(op=op, params=params, target=target, seed=1, samples=samples)
            if "error" in before:
                yield {**case, "skipped": f"old: {before['error']}"}
                continue
            for n, made in enumerate(before["kernels"]):
                want = None if n == 0 else {"template": made["template"], "values": made["values"]}
                after = new.emit(op=op, params=params, target=target, wanted=[want])
                row = {**case, "schedule": "default" if n == 0 else f"sample {n}", "template": made["template"]}
                if "error" in after or made["prepack"]:
                    yield {**row, "skipped": f"new: {after.get('error', 'constant inputs')}"}
                    continue
                other = after["kernels"][0]
                same = all(made[k] == other[k] for k in ("source", "launches"))
                ratio = 1.0 if same else paired(made, other, before["tensors"], target, pairs)
                compiled = 1.0 if same else compiling(made, other, target)
                yield {**row, "same_source": same, "ratio": round(ratio, 4), "compile_time": round(compiled, 4)}


def tuners(old: Version, new: Version, rounds: int, trials: int) -> dict[str, Any]:
    """Trials a second and overhead a trial of both, in turn; medians of the rounds."""
    found: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for n in range(rounds):
        for name, version in (("old", old), ("new", new))[:: 1 if n % 2 else -1]:
            out = subprocess.run(
                [version.python, "-c", TUNE, "256", str(trials), str(n)], capture_output=True, text=True, check=True,
                cwd="/",
            )  # fmt: skip
            found[name].append(json.loads(out.stdout.splitlines()[-1]))
    medians = {f"{name}_{k}": statistics.median(r[k] for r in rows) for name, rows in found.items() for k in rows[0]}
    return {
        **{k: round(v, 3) for k, v in medians.items()},
        "rate_ratio": round(statistics.median(
            b["rate"] / a["rate"] for a, b in zip(found["old"], found["new"], strict=True)), 4),
    }  # fmt: skip


def table(rows: list[dict[str, Any]], tuner: dict[str, Any]) -> str:
    """The rows as Markdown, a line a family."""
    lines = [
        "| family | kernels | same text | geometric mean | least | compile time, new over old, median | not paired |",
        "|---|---|---|---|---|---|---|",
    ]
    for family in CASES:
        mine = [r for r in rows if r["family"] == family]
        ratios = [r["ratio"] for r in mine if "ratio" in r]
        if ratios:
            same = sum(r["same_source"] for r in mine if "ratio" in r)
            compiled = statistics.median(r["compile_time"] for r in mine if "ratio" in r)
            lines.append(
                f"| {family} | {len(ratios)} | {same} | {geomean(ratios):.3f} | {min(ratios):.3f} "
                f"| {compiled:.3f} | {len(mine) - len(ratios)} |"
            )
    every = [r["ratio"] for r in rows if "ratio" in r]
    compiled = statistics.median(r["compile_time"] for r in rows if "ratio" in r)
    lines.append(f"| all | {len(every)} | | {geomean(every):.3f} | {min(every):.3f} | {compiled:.3f} | |")
    lines += ["", *(f"Not paired: {r['op']} {r['params']}: {r['skipped']}" for r in rows if "skipped" in r)]
    if tuner:
        lines += [
            "", "| tuner, matmul 256 | old | new |", "|---|---|---|",
            f"| trials a second | {tuner['old_rate']:.2f} | {tuner['new_rate']:.2f} |",
            f"| overhead a trial, ms | {tuner['old_overhead_ms']:.2f} | {tuner['new_overhead_ms']:.2f} |",
            f"| new rate over old, median of pairs | | {tuner['rate_ratio']:.3f} |",
        ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="python of the older version's environment")
    parser.add_argument("--new", default=sys.executable, help="python of the newer one's; this one unless given")
    parser.add_argument("--target", default="cpu", help="of the kernels: cpu, or cpu:VARIANT that this machine has")
    parser.add_argument("--samples", type=int, default=4, help="sampled schedules a case, beside the default")
    parser.add_argument("--pairs", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each tuner; 0: none")
    parser.add_argument("--trials", type=int, default=48, help="of each run")
    parser.add_argument("--out", type=Path, help="write NAME.json and NAME.md")
    parser.add_argument("--note", default="", help="which versions these are: stands above the table")
    options = parser.parse_args()
    old, new = Version(options.old), Version(options.new)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = folder
        rows = []
        for row in kernels(old, new, options.target, options.samples, options.pairs):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    tuner = tuners(old, new, options.rounds, options.trials) if options.rounds else {}
    text = table(rows, tuner)
    print(text)
    if options.out:
        data = {"date": date.today().isoformat(), "device": device_model(), "rows": rows, "tuner": tuner}
        text = f"{options.note}{options.note and ', '}{data['date']}, {data['device']}, one thread.\n\n{text}"
        options.out.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
