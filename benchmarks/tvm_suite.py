"""Operators against Apache TVM's MetaSchedule at equal trials, one core.

    pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 cloudpickle psutil
    python benchmarks/tvm_suite.py --tune-tvm LIBRARIES              # MetaSchedule, about an hour
    python benchmarks/tvm_suite.py LIBRARIES --out benchmarks/results/tvm_suite

TVM tunes each case with its evolutionary search and XGBoost model and its best schedule is built and kept.
Then Tilewright tunes the same case with as many trials, into an empty database, and the two kernels take turns
in one process, each timed by its own native timer. NHWC activations and HWIO weights in place on both sides:
nothing is rearranged beforehand. How soon TVM's result was reached: seconds from the start of the run to its
first trial that is as fast as TVM's kernel (by the paired ratio of the two winners), and those of the final.
`--check` exits with 1 where a promise is not kept. Use an environment without torch, which TVM's workers would
spend their time limit on importing, and a quiet machine.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suite import Case, arguments, geomean
from tilewright import tune
from tilewright.backends.cpu.device import device_model, measure_machine, parse_device
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.core import TrialRecord, Value
from tilewright.tuner import Observer

Array = np.ndarray[Any, Any]


def _conv(h: int, ci: int, co: int, k: int, **more: Value) -> dict[str, Value]:
    return {"n": 1, "h": h, "w": h, "ci": ci, "co": co, "kh": k, "kw": k, "layout": "NHWC", **more}


CASES = (
    (Case("GMM", "1024", "matmul", {"m": 1024, "n": 1024, "k": 1024}), 192),
    (Case("GMM", "512", "matmul", {"m": 512, "n": 512, "k": 512}), 192),
    (Case("GMM", "128", "matmul", {"m": 128, "n": 128, "k": 128}), 64),
    (Case("GMM", "16x64", "batch_matmul", {"b": 16, "m": 64, "n": 64, "k": 64}), 64),
    (Case("C2D", "56x64 3x3", "conv2d", _conv(56, 64, 64, 3, padding=1)), 192),
    (Case("C2D", "7x512 3x3", "conv2d", _conv(7, 512, 512, 3, padding=1)), 192),
    (Case("C1D", "64x256 5", "conv1d",
          {"n": 1, "w": 64, "ci": 256, "co": 256, "kw": 5, "padding": 2, "layout": "NWC"}), 64),
    (Case("GRP", "14x256 3x3 g4", "conv2d", _conv(14, 256, 256, 3, padding=1, groups=4)), 128),
    (Case("DIL", "14x256 3x3 d2", "conv2d", _conv(14, 256, 256, 3, padding=1, dilation=2)), 64),
    (Case("DEP", "112x32 3x3", "conv2d", _conv(112, 32, 32, 3, padding=1, groups=32)), 192),
    (Case("T2D", "8x256 to 128 4x4", "conv_transpose2d", _conv(8, 256, 128, 4, padding=1, stride=2)), 128),
    (Case("CAP", "8x32 3x3", "capsule_conv2d",
          {"n": 1, "h": 8, "w": 8, "ci": 32, "co": 32, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4, "cap_w": 4,
           "padding": 1}), 128),
    (Case("NRM", "512", "norm", {"shape": "1,512,512", "dim": "1,2"}), 60),
    (Case("softmax", "1024", "softmax", {"shape": "1024,1024"}), 128),
    (Case("layernorm", "1024", "layer_norm", {"shape": "1024,1024"}), 64),
    (Case("conv+bias+relu", "56x64 3x3", "conv2d",
          _conv(56, 64, 64, 3, padding=1, bias=True, activation="relu")), 128),
    (Case("matmul+bias+gelu", "128x3072x768", "matmul",
          {"m": 128, "n": 3072, "k": 768, "bias": True, "activation": "gelu"}), 64),
)  # fmt: skip
"""Each with the trials that both tuners get."""


def library_of(folder: Path, case: Case) -> Path:
    """Where TVM's kernel of a case is kept."""
    return folder / (f"{case.group} {case.name}".replace(" ", "_").replace("+", "_") + ".so")


# --------------------------------------------------------------------------- TVM's side


def tvm_function(case: Case) -> Any:
    """The case as TVM's own test workloads state it, in the same layouts."""
    from tvm import te, tirx, topi
    from tvm.s_tir.meta_schedule.testing import te_workload as tw

    p: Any = case.params
    if case.op in ("matmul", "batch_matmul") and not p.get("bias"):
        tensors = tw.batch_matmul_nkkm(p.get("b", 1), p["m"], p["n"], p["k"])
    elif case.op == "matmul":
        x, w = te.placeholder((p["m"], p["k"]), name="x"), te.placeholder((p["k"], p["n"]), name="w")
        b, k = te.placeholder((p["n"],), name="b"), te.reduce_axis((0, p["k"]), name="k")
        y = te.compute((p["m"], p["n"]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=[k]), name="product")
        z = te.compute(y.shape, lambda i, j: y[i, j] + b[j], name="biased")

        def gelu(i: Any, j: Any) -> Any:
            half, one, root = (tirx.const(v, "float32") for v in (0.5, 1.0, 0.5**0.5))
            return half * z[i, j] * (one + tirx.erf(z[i, j] * root))

        tensors = (x, w, b, te.compute(y.shape, gelu, name="gelu"))
    elif case.op == "conv1d":
        tensors = tw.conv1d_nlc(1, p["w"], p["ci"], p["co"], p["kw"], 1, p["padding"])
    elif case.op == "conv2d" and p.get("groups") == p["ci"]:
        tensors = tw.depthwise_conv2d_nhwc(1, p["h"], p["w"], p["ci"], p["kh"], 1, p["padding"])
    elif case.op == "conv2d":
        dilation, groups = p.get("dilation", 1), p.get("groups", 1)
        size = (1, p["h"], p["w"], p["ci"], p["co"], p["kh"], 1, p["padding"])
        tensors = tw.conv2d_nhwc(*size, dilation, groups)
        if p.get("bias"):
            x, w, y = tensors
            b = te.placeholder((p["co"],), name="b")
            tensors = (x, w, b, topi.nn.relu(te.compute(y.shape, lambda n, i, j, c: y[n, i, j, c] + b[c])))
    elif case.op == "conv_transpose2d":
        tensors = tw.conv2d_transpose_nhwc(1, p["h"], p["w"], p["ci"], p["co"], p["kh"], p["stride"], p["padding"])
    elif case.op == "capsule_conv2d":
        tensors = tw.conv2d_capsule_nhwijc(1, p["h"], p["w"], p["ci"], p["co"], p["kh"], 1, p["padding"], p["cap_h"])
    elif case.op == "norm":
        tensors = tw.norm_bmn(1, 512, 512)
    elif case.op == "softmax":
        tensors = tw.softmax_mn(1024, 1024)
    else:
        x, g, b = (te.placeholder(s, name=n) for s, n in (((1024, 1024), "x"), ((1024,), "g"), ((1024,), "b")))
        tensors = (x, g, b, topi.nn.layer_norm(x, g, b, axis=[1], epsilon=1e-5))
    return te.create_prim_func(list(tensors))


def tune_tvm(case: Case, trials: int, folder: Path, cpu: str, seed: int) -> None:
    """Tune a case with MetaSchedule and keep its best kernel."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    function = tvm_function(case)
    np.random.seed(seed)  # its cost model's first scores come from NumPy's global generator
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        database = ms.tune_tir(
            function, target, work, trials, num_trials_per_iter=min(64, trials),
            builder=ms.builder.LocalBuilder(max_workers=1), num_tuning_cores=1, seed=seed,
            runner=ms.runner.LocalRunner(
                evaluator_config=ms.runner.EvaluatorConfig(
                    number=1, repeat=1, min_repeat_ms=100, enable_cpu_cache_flush=False
                )
            ),
        )  # fmt: skip
        schedule = ms.tir_integration.compile_tir(database, function, target)
    built = tvm.compile(schedule.mod, target=target)
    getattr(built, "mod", built).export_library(str(library_of(folder, case)))
    seconds = time.perf_counter() - began
    library_of(folder, case).with_suffix(".json").write_text(json.dumps({"trials": trials, "seconds": seconds}))
    print(f"{case.group} {case.name}: {trials} trials, {seconds:.0f} s", flush=True)


# --------------------------------------------------------------------------- both


class Watch(Observer):
    """When each trial was stored, in seconds since the run's start, and what it measured."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.trials: list[tuple[float, float]] = []

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        if record.seconds is not None:
            self.trials.append((time.perf_counter() - self.began, record.seconds))


def tune_ours(case: Case, trials: int, seed: int, database: str) -> tuple[Watch, float]:
    """Tune a case; its trials, and the seconds of its final."""
    watch = Watch()
    result = tune(case.op, trials=trials, seed=seed, db=database, params=case.params, observer=watch)
    return watch, result.time["final"]


def reached(watch: Watch, final: float, ratio: float) -> float | None:
    """Seconds until a kernel as fast as TVM's was found and had won a final; ``ratio``: TVM's time over ours."""
    wanted = min(seconds for _, seconds in watch.trials) * ratio
    return next((when + final for when, seconds in watch.trials if seconds <= wanted), None)


def compare(case: Case, library: Path, database: str, rounds: int) -> dict[str, Any]:
    """The two kernels of a case in turns: medians of paired ratios."""
    import tvm

    from tilewright.backends.cpu.loader import load_bytes
    from tilewright.runtime.checked import LINE, empty
    from tilewright.runtime.store import Store

    store, workload = Store(database), case.workload
    (entry,) = store.entries_of(workload.key, case.op)
    launch = {k: int(v) for k, v in entry.schedule.launch}
    kernel = load_bytes(store.code(entry.sha256), entry.sha256).kernel(entry.program, launch, 1)
    rng = np.random.default_rng(0)
    # On cache lines, as TVM's own tensors are.
    inputs = [empty(s.shape, np.float32, LINE) for s in workload.inputs]
    for a in inputs:
        a[...] = rng.uniform(-1, 1, a.shape)
    out = empty(workload.output.shape, np.float32, LINE)
    pointers = [a.ctypes.data for a in (*inputs, out)]
    function = tvm.runtime.load_module(str(library))
    shapes = tvm_shapes(case, [a.shape for a in inputs], out.shape)
    tensors = [tvm.runtime.tensor(a.reshape(s)) for a, s in zip((*inputs, np.zeros_like(out)), shapes, strict=True)]
    function["main"](*tensors)
    kernel.run(pointers)
    theirs = tensors[-1].numpy().reshape(out.shape)
    difference = float(np.abs(theirs - out).max() / np.abs(out).max())
    if difference > 1e-4:
        raise SystemExit(f"{case.group} {case.name}: the two results differ by {difference:.2g}")
    repeats = max(1, round(5e-3 / kernel.time(pointers, 2)))
    # Its timer walks `number` calls; one sample of each takes turns.
    timer = function.time_evaluator("main", tvm.cpu(0), number=repeats, repeat=1)
    pairs = []
    for number in range(rounds):
        if number % 2:
            ours, other = kernel.time(pointers, repeats), timer(*tensors).results[0]
        else:
            other, ours = timer(*tensors).results[0], kernel.time(pointers, repeats)
        pairs.append((ours, other))
    ratios = [other / ours for ours, other in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "microseconds": statistics.median(a for a, _ in pairs) * 1e6,
        "tvm_microseconds": statistics.median(b for _, b in pairs) * 1e6,
        "ratio": [middle, low, high],
        "gflops": workload.flops / statistics.median(a for a, _ in pairs) / 1e9,
        "difference": difference,
    }


def tvm_shapes(case: Case, inputs: Sequence[tuple[int, ...]], output: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes that TVM's function takes: the same memory."""
    if case.op == "matmul" and not case.params.get("bias"):
        return [(1, *s) for s in (*inputs, output)]
    if case.op == "conv2d" and case.params.get("groups") == case.params["ci"]:
        kh, kw, _, co = inputs[1]
        return [inputs[0], (1, kh, kw, co), output]
    return [*inputs, output]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown, with the geometric mean."""
    lines = [
        "| case | trials of each | GFLOP/s | TVM's time / ours (quartiles) | TVM tuned for | reached after | sooner |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        ratio, low, high = r["ratio"]
        soon = f"{r['reached']:.1f} s | {r['tvm_tuned'] / r['reached']:.0f} times" if r["reached"] else "never | "
        lines.append(
            f"| {r['name']} | {r['trials']} | {r['gflops']:.1f} | {ratio:.2f} ({low:.2f} to {high:.2f}) | "
            f"{r['tvm_tuned']:.0f} s | {soon} |"
        )
    lines.append(
        f"| geometric mean of ratios, median of times | | | **{geomean([r['ratio'][0] for r in rows]):.2f}** | | | "
        f"**{sooner(rows):.0f} times** |"
    )
    return "\n".join(lines)


def sooner(rows: Sequence[Mapping[str, Any]]) -> float:
    """How many times sooner TVM's results are reached, in the median; those never reached count as 0."""
    return statistics.median(r["tvm_tuned"] / r["reached"] if r["reached"] else 0.0 for r in rows)


def broken(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The promises that are not kept."""
    out = [f"{r['name']}: {r['ratio'][0]:.2f} of TVM's speed" for r in rows if r["ratio"][0] < 1]
    if (mean := geomean([r["ratio"][0] for r in rows])) < 1.8:
        out.append(f"{mean:.2f} times TVM's speed in the mean, 1.8 are promised")
    if (times := sooner(rows)) < 15:
        out.append(f"TVM's results are reached {times:.1f} times sooner in the median, 15 are promised")
    if (missed := sum(r["reached"] is None for r in rows)) > 2:
        out.append(f"{missed} of TVM's results are not reached")
    return out


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("libraries", type=Path, help="folder of TVM's kernels")
    parser.add_argument("--tune-tvm", action="store_true", help="make them, with MetaSchedule")
    parser.add_argument("--mcpu", default="znver5", help="LLVM's name of this processor")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a promise is not kept")
    args = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = "1"
    chosen = [(c, n) for c, n in CASES if not args.only or any(t in f"{c.group} {c.name}" for t in args.only)]
    everywhere = os.sched_getaffinity(0)
    if args.tune_tvm:
        args.libraries.mkdir(parents=True, exist_ok=True)
        for case, trials in chosen:
            if not library_of(args.libraries, case).exists():
                tune_tvm(case, trials, args.libraries, args.mcpu, args.seed)
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = folder
        for number, (case, trials) in enumerate(chosen):
            database = str(Path(folder) / f"{number}.db")
            library = library_of(args.libraries, case)
            watch, final = tune_ours(case, trials, args.seed, database)
            os.sched_setaffinity(0, parse_device("auto", 1).cores)
            found = compare(case, library, database, args.rounds)
            os.sched_setaffinity(0, everywhere)
            rows.append({
                "name": f"{case.group} {case.name}", "trials": trials, **found,
                "tvm_tuned": json.loads(library.with_suffix(".json").read_text())["seconds"],
                "reached": reached(watch, final, found["ratio"][0]),
            })  # fmt: skip
            print(rows[-1], flush=True)
    facts: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "device": device_model(), **measure_machine(), "noise": noise_warnings()
    }  # fmt: skip
    text = (
        f"Apache TVM MetaSchedule, float32, one thread, {facts['device']}, {facts['date']}. Both tune with the same "
        "number of trials; the kernels take turns in one process (above 1: ours is faster), medians of "
        f"{args.rounds} paired samples. The core's peak is {facts['peak_gflops']:.0f} GFLOP/s.\n\n{table(rows)}\n"
    )
    print(text)
    if args.out:
        Path(f"{args.out}.json").write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)
    wrong = broken(rows)
    print("\n".join(wrong))
    if args.check and wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
