"""The operators of examples/unusual.py against NumPy and PyTorch, one thread.

    python benchmarks/unusual.py --out benchmarks/results/unusual
    python benchmarks/unusual.py --large --budget 60 --out benchmarks/results/unusual_large

Each is tuned, checked against its NumPy function, and timed in this process beside it and PyTorch, call by call. The
share of the roof is the least time that ``roofline.py`` says of its time here. Above 100%: caches beat a copy
in memory, and a triangle's zeros are counted and skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as f

from roofline import roof, seconds_each, work
from suite import geomean
from tilewright import Library, tune
from tilewright.backends.cpu.device import device_model, measure_machine
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import Operator
from tilewright.kernels.operator_file import load_operator
from tilewright.runtime.checked import each_out, returned
from tilewright.testing.kernels import random_arrays

EXAMPLES = Path(__file__).parents[1] / "examples" / "unusual.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
T = torch.Tensor


def _walk(a: T, b: T) -> T:
    out, now = torch.empty_like(b), torch.zeros_like(b[0])
    for t in range(len(b)):
        now = torch.addcmul(b[t], a[t], now)
        out[t] = now
    return out


def _diffusion(x: T, steps: int = 4) -> T:
    for _ in range(steps):
        p = f.pad(x[None], (1, 1, 1, 1), mode="replicate")[0]
        x = 0.2 * (p[1:-1, 1:-1] + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
    return x


def _blur(image: T) -> T:
    taps = torch.tensor((0.0625, 0.25, 0.375, 0.25, 0.0625))
    rows = f.conv2d(image[None, None], taps.view(1, 1, 1, 5))
    return f.conv2d(rows, taps.view(1, 1, 5, 1))[0, 0]


def _butterfly(x: T, w: T) -> T:
    z = torch.view_as_complex(x)
    turned = z[:, 1] * torch.view_as_complex(w)
    return torch.view_as_real(torch.stack((z[:, 0] + turned, z[:, 0] - turned), dim=1))


def _experts(x: T, w: T, expert: T) -> T:
    out = torch.empty(len(x), w.shape[2])
    for e in range(len(w)):
        chosen = (expert == e).nonzero()[:, 0]
        out[chosen] = x[chosen] @ w[e]
    return out


def _selective_scan(x: T, dt: T, a: T, b: T, c: T) -> T:
    decay, push = torch.exp(-dt[..., None] * a), (dt * x)[..., None] * b[:, None, :]
    return (_walk(decay, push) * c[:, None, :]).sum(-1)


def _gated_convolution(x: T, w: T, gate: T) -> T:
    y = f.conv1d(f.pad(x.T[None], (len(w) - 1, 0)), w.T[:, None], groups=x.shape[1])[0].T
    return y * torch.sigmoid(gate)


def _rotary(x: T, angle: T) -> T:
    turn = torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(torch.view_as_complex(x) * turn[:, None])


TORCH: dict[str, Callable[..., Any]] = {
    "complex_product": lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
    "butterfly": _butterfly,
    "gray": lambda image: image @ torch.tensor((0.299, 0.587, 0.114)),
    "rotary": _rotary,
    "histogram": lambda index, weight: torch.bincount(index, weight, 256),
    "gated_recurrence": _walk,
    "exponential_average": lambda x: _walk(torch.full((len(x),), 0.9), 0.1 * x),
    "running_product": lambda x: torch.cumprod(x, 1),
    "selective_scan": _selective_scan,
    "diffusion": _diffusion,
    "blur": _blur,
    "gated_convolution": _gated_convolution,
    "swiglu": lambda x, w, v: f.silu(x @ w) * (x @ v),
    "projections": lambda x, q, k, v: (x @ q, x @ k, x @ v),
    "triangular_product": lambda a, b: torch.tril(a) @ b,
    "experts": _experts,
    "gathered_product": lambda x, rows, w: x[rows] @ w,
    "tropical_product": lambda a, b: (a[:, :, None] + b).amax(1),
    "density": lambda x, y: torch.exp(-(torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") ** 2)).sum(-1),
}
"""What a user of PyTorch would write. Whoever has no better idea than NumPy's loop is left out."""
LARGE: dict[str, dict[str, int]] = {
    "swiglu": {"m": 4096, "n": 1024, "k": 512},
    "projections": {"m": 4096, "n": 16, "k": 4096},
    "density": {"m": 8192, "n": 8192, "k": 8},
}
"""Sizes at which what several kernels of one call share goes past the caches."""


def operators() -> dict[str, Operator]:
    """The operators of the example, in its order."""
    names = [line[4:].split("(")[0] for line in EXAMPLES.read_text().splitlines() if line.startswith("def ")]
    return {n: load_operator(f"{EXAMPLES}:{n}") for n in names if not n.startswith("_")}


def samples(calls: dict[str, Callable[[], Any]], rounds: int, seconds: float = 0.01) -> dict[str, list[float]]:
    """Seconds of a call, ``rounds`` of each, taking turns."""
    repeats = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        repeats[name] = max(1, round(seconds / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return times


def measure(
    op: Operator, params: dict[str, Any], args: argparse.Namespace, database: str, machine: dict[str, float],
    each: dict[str, float],
) -> dict[str, Any]:  # fmt: skip
    """Tune one operator and compare it: a row. ``each``: seconds of an element of each function."""
    workload = op.workload(**params)
    result = None
    if args.trials:
        result = tune(op, trials=args.trials, time_budget=args.budget, threads=1, db=database, params=params)
    plan: Any = Library(database, threads=1).plan(op.name, **params)
    inputs = random_arrays(Program.loads(workload.program))
    tensors = [torch.from_numpy(a) for a in inputs]
    out = returned([np.empty(s.shape, s.dtype) for s in workload.outputs])
    numpy, rival = op.numpy, TORCH.get(op.name)
    assert numpy is not None
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: plan(*inputs, out=out), "numpy": lambda: numpy(*inputs, **params)
    }  # fmt: skip
    if rival is not None:
        calls["torch"] = lambda: rival(*tensors)
    mine = [r.copy() for r in each_out(calls["ours"]())]
    for name, call in calls.items():
        for theirs, ours in zip(each_out(call()), mine, strict=True):
            assert np.allclose(theirs, ours, rtol=1e-3, atol=1e-3 * float(np.abs(ours).max())), f"{op.name}: {name}"
    with torch.inference_mode():
        times = samples(calls, args.rounds)
    seconds = statistics.median(times["ours"])
    schedule = result.best.schedule if result and result.best else None
    strips = schedule is not None and "/" in str(schedule.values.get("cut", ""))
    template = f"{schedule.template}{', in strips' if strips else ''}" if schedule else None
    least, bound = roof(workload, machine, each)
    return {
        "name": op.name, "params": params, "template": template,
        "trials": result.trials if result else None, "microseconds": seconds * 1e6,
        "roof": least / seconds, "bound": bound,
        "ratios": {n: statistics.quantiles([t / o for t, o in zip(times[n], times["ours"], strict=True)], n=4)
                   for n in calls if n != "ours"},
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| operator | sizes | template | trials | share of the roof | NumPy | PyTorch |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        cells = []
        for n in ("numpy", "torch"):
            low, middle, high = r["ratios"].get(n, (0, 0, 0))
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})" if middle else "-")
        share = f"{100 * r['roof']:.0f}% of {r['bound']}"
        sizes = " ".join(f"{k}={v}" for k, v in r["params"].items())
        lines.append(
            f"| {r['name']} | {sizes} | {r['template'] or ''} | {r['trials'] or ''} | {share} | {' | '.join(cells)} |"
        )
    best = [min(q[1] for q in r["ratios"].values()) for r in rows]
    won = f"{sum(b >= 1 for b in best)} of {len(best)} won"
    lines.append(f"| geometric mean over the faster rival | | | | | **{geomean(best):.2f}** | {won} |")
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME")
    parser.add_argument("--large", action="store_true", help="only those of several kernels, in sizes past the caches")
    parser.add_argument("--trials", type=int, default=64, help="0 reuses the kernels in --db")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of tuning an operator, at most")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--db", help="keep the tuning database here")
    parser.add_argument("--out", help="write NAME.json and NAME.md")
    args = parser.parse_args()
    if ONE_THREAD.items() - os.environ.items():  # libraries read them when they load
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    torch.set_num_threads(1)
    machine = measure_machine()
    rows = []
    chosen = [
        (op, LARGE[op.name] if args.large else dict(op.example))
        for op in operators().values()
        if (not args.only or op.name in args.only) and (not args.large or op.name in LARGE)
    ]
    functions = {f for op, params in chosen for f in work(Program.loads(op.workload(**params).program))[1]}
    with tempfile.TemporaryDirectory() as folder:
        database = args.db or str(Path(folder) / "unusual.db")
        each = {f: seconds_each(f, database) for f in sorted(functions)}
        for op, params in chosen:
            rows.append(measure(op, params, args, database, machine, each))
            r = rows[-1]
            print(op.name, f"{r['microseconds']:.0f} us", f"{100 * r['roof']:.0f}% of {r['bound']}", r["template"],
                      {n: round(q[1], 2) for n, q in r["ratios"].items()}, flush=True)  # fmt: skip
    text = (
        f"{device_model()}, {time.strftime('%Y-%m-%d')}, one thread; PyTorch {torch.__version__}, NumPy "
        f"{np.__version__}. Ratios are the rival's time over ours (above 1: ours is faster), medians of {args.rounds} "
        f"paired samples with quartiles. The core's peak is {machine['peak_gflops']:.0f} GFLOP/s (float32); memory is "
        f"copied at {machine['copy_gbytes']:.0f} GB/s (read and written once)"
        f"{''.join(f'; an element of {n} takes {1e9 * s:.2f} ns' for n, s in each.items())}. Shares above 100%: "
        f"what stays in caches is faster than a copy in memory, and zeros of a triangle are skipped.\n\n{table(rows)}\n"
    )
    print(text)
    if args.out:
        facts = {"date": time.strftime("%Y-%m-%d"), "device": device_model(), **machine, "functions": each}
        facts["noise"] = noise_warnings()
        Path(f"{args.out}.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)


if __name__ == "__main__":
    main()
