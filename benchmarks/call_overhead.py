"""What one call costs on tiny arrays: np.matmul beside lib.matmul and a bound plan, paired.

    python benchmarks/call_overhead.py --out benchmarks/results/call_overhead.json

Beside them var_mean, a kernel of two outputs, and np.var with np.mean. Where PyTorch is installed, the
same for its tensors: torch.mm beside lib.matmul and the plan; and, with a new output in each call,
torch.mm beside the operator torch.ops.tilewright.mm, and ATen's called in that way.

The contestants take turns within each round of one process; a ratio is the median over rounds of
the rival's time / ours, so drift cancels out. All of them check their arguments and write into
``out``. Times are on the thread's CPU clock, which other processes disturb less. The database is a
temporary one with matmul 4x4x4 and var_mean 4x4, tuned in a few trials; ``--db`` names another that has them.

    python benchmarks/call_overhead.py --compiled

What a call of a small compiled module costs: PyTorch eager, Inductor, ``tilewright.torch.optimize`` with every kernel
placed (``compare=False``), and ``torch.compile(backend="tilewright")`` without any kernel. Each is put beside Inductor
by the difference in each round.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tilewright

SIZES = {"m": 4, "n": 4, "k": 4}
ROWS = {"shape": "4,4", "dim": 1}
IMPORT = "import time; t = time.perf_counter(); import tilewright; tilewright.Library; print(time.perf_counter() - t)"


def loop(call: Callable[..., Any], args: Sequence[Any], out: Any, count: int) -> float:
    """Nanoseconds a call, the loop's own cost included."""
    steps = range(count)
    a, b = args
    start = time.thread_time_ns()
    for _ in steps:
        call(a, b, out=out)
    return (time.thread_time_ns() - start) / count


def loop_new(call: Callable[..., Any], args: Sequence[Any], count: int) -> float:
    """The same with a new output in each call."""
    steps = range(count)
    a, b = args
    start = time.thread_time_ns()
    for _ in steps:
        call(a, b)
    return (time.thread_time_ns() - start) / count


def loop_library(library: Any, args: Sequence[Any], out: Any, count: int) -> float:
    """The same for ``library.matmul``, looked up on the library at every call, as users write it."""
    steps = range(count)
    a, b = args
    start = time.thread_time_ns()
    for _ in steps:
        library.matmul(a, b, out=out)
    return (time.thread_time_ns() - start) / count


def loop_numpy(args: Sequence[Any], out: Any, count: int) -> float:
    """``np.matmul``, looked up on the module at every call, as users write it."""
    steps = range(count)
    a, b = args
    start = time.thread_time_ns()
    for _ in steps:
        np.matmul(a, b, out=out)
    return (time.thread_time_ns() - start) / count


def loop_rows(call: Callable[..., Any], a: Any, out: tuple[Any, Any], count: int) -> float:
    """The same for a call with one input and a tuple as ``out``."""
    steps = range(count)
    start = time.thread_time_ns()
    for _ in steps:
        call(a, out=out)
    return (time.thread_time_ns() - start) / count


def loop_rows_numpy(a: Any, out: tuple[Any, Any], count: int) -> float:
    """``np.var`` and ``np.mean``, looked up on the module at every call, as users write them."""
    steps = range(count)
    var, mean = out
    start = time.thread_time_ns()
    for _ in steps:
        np.var(a, 1, ddof=1, out=var)
        np.mean(a, 1, out=mean)
    return (time.thread_time_ns() - start) / count


def import_seconds(runs: int = 7) -> float:
    """Median seconds for ``import tilewright`` with ``Library``, in fresh processes."""
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(runs)
    )


def measure(database: str, rounds: int, count: int) -> dict[str, Any]:
    library = tilewright.Library(database)
    for name, params in (("var_mean", ROWS), ("matmul", SIZES)):
        told = library.explain(name, **params)
        if told.tier != "exact":
            raise SystemExit(f"{database} has no kernel for {name} {params}: {told.reason}")
    plan, rows_plan = library.plan("matmul", **SIZES), library.plan("var_mean", **ROWS)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2)]
    out, rows_out = np.empty((4, 4), np.float32), (np.empty(4, np.float32), np.empty(4, np.float32))
    contestants: dict[str, Callable[[], float]] = {
        "np.matmul": lambda: loop_numpy(args, out, count),
        "lib.matmul": lambda: loop_library(library, args, out, count),
        "plan": lambda: loop(plan, args, out, count),
        "np.var, np.mean": lambda: loop_rows_numpy(args[0], rows_out, count),
        "plan of var_mean": lambda: loop_rows(rows_plan, args[0], rows_out, count),
    }
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    torch = None if importlib.util.find_spec("torch") is None else importlib.import_module("torch")
    if torch is not None:
        versions["torch"] = torch.__version__
        tensors, result = [torch.from_numpy(a) for a in args], torch.from_numpy(out)
        contestants |= {
            "torch.mm": lambda: loop(torch.mm, tensors, result, count),
            "lib.matmul of tensors": lambda: loop_library(library, tensors, result, count),
            "plan of tensors": lambda: loop(plan, tensors, result, count),
        }
        importlib.import_module("tilewright.torch").use(library)
        ours, aten = torch.ops.tilewright.mm, torch.ops.aten.mm.default
        contestants |= {
            "torch.mm, new output": lambda: loop_new(torch.mm, tensors, count),
            "torch.ops.aten.mm.default, new output": lambda: loop_new(aten, tensors, count),
            "torch.ops.tilewright.mm, new output": lambda: loop_new(ours, tensors, count),
            "torch.ops.tilewright.mm.default, new output": lambda: loop_new(ours.default, tensors, count),
        }
    for run in contestants.values():
        run()
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for r in range(rounds):
        for name, run in list(contestants.items())[:: -1 if r % 2 else 1]:
            samples[name].append(run())
    rows = {}
    for name, times in samples.items():
        base = samples[_rival(name)]
        ratios = sorted(b / t for b, t in zip(base, times, strict=True))
        low, _, high = statistics.quantiles(ratios, n=4)
        rows[name] = {
            "nanoseconds": statistics.median(times), "ratio": statistics.median(ratios), "low": low, "high": high,
        }  # fmt: skip
    expected = {"exact": (rounds + 1) * count * (3 if torch is None else 7)}
    if {n: c for n, c in library.stats().tiers.items() if c} != expected:
        raise SystemExit(f"some calls were not answered by the kernel: {library.stats()}")
    return {
        "schema": 1, "shape": SIZES, "rounds": rounds, "calls_a_round": count, "rows": rows,
        "import_seconds": import_seconds(), "device": told.device_model, "kernel": told.template,
        **versions,
    }  # fmt: skip


def _rival(name: str) -> str:
    """Beside whom a contestant is put."""
    if "mean" in name:
        return "np.var, np.mean"
    if "new output" in name:
        return "torch.mm, new output"
    return "torch.mm" if "tensors" in name or name == "torch.mm" else "np.matmul"


def tuned(folder: str) -> str:
    """A database with matmul 4x4x4 and var_mean 4x4 tuned in a few trials."""
    path = os.path.join(folder, "call.db")
    for name, params in (("matmul", SIZES), ("var_mean", ROWS)):
        command = [sys.executable, "-m", "tilewright", "tune", name, *(f"{k}={v}" for k, v in params.items())]
        done = subprocess.run(
            [*command, "--trials", "8", "--seed", "0", "--db", path, "--json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"tuning failed: {done.stderr.strip() or done.stdout.strip()}")
    return path


def loop_module(call: Callable[..., Any], x: Any, count: int) -> float:
    """Nanoseconds a call of a module, the loop's own cost included."""
    steps = range(count)
    start = time.thread_time_ns()
    for _ in steps:
        call(x)
    return (time.thread_time_ns() - start) / count


def modules() -> dict[str, tuple[Any, Any]]:
    """Small modules by name, each with an argument."""
    import torch
    from torch import nn

    class Chain(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x * 2).relu() + 1

    rows, image = torch.randn(8, 16), torch.randn(1, 4, 8, 8)
    found = {
        "linear 8x16, 16": (nn.Linear(16, 16), rows),
        "linear, GELU, linear": (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), rows),
        "softmax 8x16": (nn.Softmax(-1), rows),
        "layer norm 8x16": (nn.LayerNorm(16), rows),
        "convolution, ReLU 8x8": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU()), image),
        "elementwise 8x16": (Chain(), rows),
    }
    return {name: (module.eval(), x) for name, (module, x) in found.items()}


def measure_compiled(rounds: int, count: int, folder: str) -> dict[str, Any]:
    """Microseconds a call by module and contestant, and their differences from Inductor's in the same round."""
    import torch

    from tilewright import torch as served
    from tilewright.torch.backend import tilewright as backend

    torch.set_num_threads(1)
    served.use(tilewright.Library(os.path.join(folder, "none.db"), missing_ok=True))
    found = {}
    for name, (module, x) in modules().items():
        torch._dynamo.reset()
        how: dict[str, Any] = {"dynamic": False, "isolate_recompiles": True}
        with torch.no_grad():
            contestants = {
                "eager": module,
                "inductor": torch.compile(module, **how),
                "no kernel": torch.compile(module, backend=backend, **how),
                "kernels": served.optimize(
                    module, (x,), db=os.path.join(folder, "call.db"), trials=8, seed=0, compare=False
                ),
            }
            samples: dict[str, list[float]] = {n: [] for n in contestants}
            for call in contestants.values():
                loop_module(call, x, count)
            for r in range(rounds):
                for n, call in list(contestants.items())[:: -1 if r % 2 else 1]:
                    samples[n].append(loop_module(call, x, count) / 1e3)
        row = {}
        for n, times in samples.items():
            low, middle, high = statistics.quantiles(
                [t - o for t, o in zip(times, samples["inductor"], strict=True)], n=4
            )
            row[n] = {"microseconds": statistics.median(times), "more": middle, "low": low, "high": high}
        found[name] = row
    return {"schema": 1, "rounds": rounds, "calls_a_round": count, "modules": found, "torch": torch.__version__}


def print_compiled(result: dict[str, Any]) -> None:
    names = ("eager", "inductor", "no kernel", "kernels")
    print(f"| compiled module, us a call (more than Inductor: quartiles) | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    for name, row in result["modules"].items():
        cells = [f"{c['microseconds']:.1f} ({c['low']:+.1f} to {c['high']:+.1f})" for c in map(row.get, names)]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", help="a database with kernels for matmul m=4 n=4 k=4 and var_mean shape=4,4 dim=1")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=5000, help="calls of each contestant in a round")
    parser.add_argument("--compiled", action="store_true", help="compiled modules of PyTorch, beside Inductor's")
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.compiled:
            result = measure_compiled(options.rounds, max(1, options.calls // 10), folder)
            print_compiled(result)
        else:
            result = measure(options.db or tuned(folder), options.rounds, options.calls)
            print_calls(result)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def print_calls(result: dict[str, Any]) -> None:
    print("| call on 4x4 float32, out given unless it says new | ns a call | NumPy or torch.mm / it (quartiles) |")
    print("|---|---|---|")
    for name, row in result["rows"].items():
        print(f"| {name} | {row['nanoseconds']:.0f} | {row['ratio']:.2f} ({row['low']:.2f}-{row['high']:.2f}) |")
    print(f"\nimport tilewright with Library: {result['import_seconds']:.3f} s")


if __name__ == "__main__":
    main()
