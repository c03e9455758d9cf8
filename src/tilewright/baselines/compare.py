"""Paired comparison of a tuned kernel with other libraries, interleaved in one process.

``compare`` starts a fresh process per environment (thread counts and forced kernel sets are read when a library loads),
pinned to the device's cores. In that process, every round times each variant of each baseline in turn. A ratio is the
median over rounds of baseline time / our time, so drift cancels out.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.backends.cpu.targets import parse_target
from tilewright.baselines.libraries import BASELINES, openblas_core
from tilewright.core import TilewrightError, UsageError, Workload
from tilewright.dtypes import DTYPES, numpy_dtype
from tilewright.measure.timing import median_interval

CONFIDENCE = 0.95
"""Confidence level of a ratio's interval."""


@dataclass(frozen=True)
class Ratio:
    """One baseline compared with our kernel: ``ratio`` above 1 means that our kernel is faster.

    ``low`` and ``high``: a 95% interval of the median of the paired ratios; ``None`` for too few rounds. ``seconds``
    and ``our_seconds``: median seconds of one call. ``variant``: the baseline's fastest variant.
    """

    baseline: str
    ratio: float
    low: float | None
    high: float | None
    seconds: float
    our_seconds: float
    rounds: int
    kernels: str | None = None
    variant: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Every baseline that ran, and the reasons why further baselines were skipped.

    ``peak_flops``: the cores' peak in FLOP/s, sampled in every round for as long as a kernel runs. ``peak_fraction``:
    our kernel's fraction of it, paired. ``our_seconds``: seconds of one call. ``run``: the tuning run of our kernel, if
    it was tuned on this device model.
    """

    ratios: tuple[Ratio, ...]
    skipped: Mapping[str, str]
    peak_flops: float
    peak_fraction: float
    our_seconds: float
    run: str | None = None


def check_baselines(names: Sequence[str]) -> None:
    """Raises ``UsageError`` for an unknown baseline."""
    for name in names:
        if name not in BASELINES:
            raise UsageError(f"unknown baseline {name!r}", f"Use {', '.join(BASELINES)}")


def compare(
    database: str | os.PathLike[str],
    workload: Workload,
    *,
    against: Sequence[str] = ("numpy",),
    threads: int = 1,
    target: str = "auto",
    cores: Sequence[int] = (),
    rounds: int = 21,
    processes: int = 1,
    min_round_seconds: float = 2e-3,
) -> Comparison:
    """Pairs the best stored kernel of ``workload`` with each baseline in ``against``.

    ``rounds``: the total over all ``processes``. The addresses of a process's arrays change its times by a few percent,
    so a figure to publish needs several processes. ``target``: the target whose multiply-adds are the peak, and whose
    instructions OpenBLAS may use.

    Raises ``UsageError`` for an unknown baseline and ``TilewrightError`` when no kernel is stored.
    """
    check_baselines(against)
    wide = parse_target(target, threads)
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in against:
        groups.setdefault(tuple(sorted(BASELINES[name].environment(wide).items())), []).append(name)
    request = {
        "database": os.fspath(database),
        "workload": workload.to_json(),
        "threads": threads,
        "target": target,
        "cores": list(cores),
        "rounds": -(-rounds // processes),
        "min_round_seconds": min_round_seconds,
    }
    ratios: dict[str, Ratio] = {}
    skipped: dict[str, str] = {}
    runs: set[str | None] = set()
    ours: list[float] = []
    peaks: list[float] = []
    for environment, names in groups.items():
        parts = [_child({**request, "baselines": names}, dict(environment), threads) for _ in range(processes)]
        mine = [t for p in parts for t in p["times"][""]]
        ours += mine
        peaks += [x for p in parts for x in p["peaks"]]
        runs |= {p["run"] for p in parts}
        for name in names:
            if name in parts[0]["skipped"]:
                skipped[name] = parts[0]["skipped"][name]
                continue
            times = {v: [t for p in parts for t in p["times"][f"{name}/{v}"]] for v in parts[0]["variants"][name]}
            best = min(times, key=lambda v: statistics.median(times[v]))
            ratios[name] = _ratio(name, best, times[best], mine, parts[0]["kernels"])
    return Comparison(
        tuple(ratios[n] for n in against if n in ratios),
        skipped,
        statistics.median(peaks),
        statistics.median(workload.flops / t / p for t, p in zip(ours, peaks, strict=True)),
        statistics.median(ours),
        runs.pop() if len(runs) == 1 else None,
    )


def _ratio(name: str, variant: str, theirs: Sequence[float], ours: Sequence[float], kernels: str | None) -> Ratio:
    pairs = [t / o for t, o in zip(theirs, ours, strict=True)]
    low, high = median_interval(pairs, CONFIDENCE)
    return Ratio(
        baseline=name,
        ratio=statistics.median(pairs),
        low=low or None,
        high=high if high < math.inf else None,
        seconds=statistics.median(theirs),
        our_seconds=statistics.median(ours),
        rounds=len(pairs),
        kernels=kernels if name in ("numpy", "openblas") else None,
        variant=variant,
    )


def _child(request: dict[str, Any], environment: dict[str, str], threads: int) -> dict[str, Any]:
    env = {**os.environ, **environment}
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        env[name] = str(threads)
    # By default, large results of torch and NumPy are fresh mmaps, and their page faults would be timed.
    env.setdefault("MALLOC_MMAP_THRESHOLD_", "4294967296")
    env.setdefault("MALLOC_TRIM_THRESHOLD_", "4294967296")
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.baselines.compare"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    try:
        reply: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise TilewrightError(f"the comparison process failed: {last}") from None
    if "error" in reply:
        raise TilewrightError(reply["error"], reply.get("mend", ""))
    return reply


# --------------------------------------------------------------------------- child process


def _main() -> None:
    request = json.loads(sys.stdin.read())
    if request["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, request["cores"])
    try:
        reply = _compare_here(request)
    except TilewrightError as e:
        reply = {"error": e.message, "mend": e.hint}
    print(json.dumps(reply))
    gc.freeze()  # the final garbage collection would traverse all imported modules


def _compare_here(request: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from tilewright.backends.cores import affinity
    from tilewright.backends.cpu.device import device_model
    from tilewright.backends.cpu.peak import PeakProbe
    from tilewright.kernels.expression.expr import FLOATS
    from tilewright.kernels.expression.numerics import decode, encode
    from tilewright.kernels.expression.program import Program, Tensor
    from tilewright.kernels.expression.value_range import draw
    from tilewright.measure.comparing import in_turns
    from tilewright.runtime import Library
    from tilewright.runtime.binding import ConstantPlan
    from tilewright.runtime.checked import LINE, each_out, empty, returned

    workload = Workload.from_json(request["workload"])
    threads = request["threads"]
    library = Library(request["database"], threads=threads)
    params = dict(workload.params)
    found = library.explain(workload.op, **params)
    if found.tier not in ("exact", "range"):
        raise TilewrightError(
            f"no kernel of {workload.label} is stored that runs here: {found.reason}",
            f"Tune it: tilewright tune {workload.label}",
        )
    plan = library.plan(workload.op, **params)
    own = found.tier == "exact" and found.device_model == device_model()
    rng = np.random.default_rng(0)

    def aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # Aligned like libraries' own memory: large NumPy arrays start 16 bytes past a cache line.
        held = empty(values.shape, values.dtype, LINE)
        held[...] = values
        return held

    def drawn(t: Tensor, positive: bool) -> np.ndarray[Any, Any]:
        values = draw(t, rng, near=(0, 2))
        if positive and t.dtype in FLOATS and t.low is None and t.high is None:
            values = encode(np.abs(decode(values, t.dtype)) + 0.1, t.dtype)
        return aligned(values)

    outs = [empty(s.shape, numpy_dtype(s.dtype), LINE) for s in workload.outputs]
    out = returned(outs)

    def real(result: Any) -> list[np.ndarray[Any, Any]]:
        given = zip(each_out(result), workload.outputs, strict=True)
        return [decode(np.asarray(a), s.dtype).astype(np.float64) for a, s in given]

    def near(theirs: np.ndarray[Any, Any], ours: np.ndarray[Any, Any], dtype: str) -> bool:
        share = max(DTYPES[dtype].agreement.kernel, 1e-3)
        return np.allclose(theirs, ours, rtol=share, atol=share / 10 * (float(np.abs(ours).max()) or 1.0))

    for positive in (False, True):  # a variance is not negative
        inputs = [drawn(t, positive) for t in Program.loads(workload.program).inputs]
        call, given = plan, inputs
        if isinstance(plan, ConstantPlan):
            call = plan.bind(**{s.name: a for s, a in zip(workload.inputs, inputs, strict=True) if s.constant})
            given = [a for s, a in zip(workload.inputs, inputs, strict=True) if not s.constant]
        ours = real(call(*given, out=out))
        if not any(np.isnan(a).any() for a in ours):
            break
    calls: dict[str, Callable[[], Any]] = {"": lambda: call(*given, out=out)}
    skipped: dict[str, str] = {}
    variants: dict[str, list[str]] = {}
    for name in request["baselines"]:
        baseline = BASELINES[name]
        reason = baseline.missing(workload)
        if reason:
            skipped[name] = reason
            continue
        for label, variant in baseline.prepare(
            workload, inputs, empty(outs[0].shape, outs[0].dtype, LINE), threads
        ).items():
            result = variant.call()
            right = variant.result is None or all(
                near(theirs, mine, s.dtype)
                for theirs, mine, s in zip(real(variant.result(result)), ours, workload.outputs, strict=True)
            )
            if not right:
                skipped[name] = "its result differs from ours"
                continue
            variants.setdefault(name, []).append(label)
            calls[f"{name}/{label}"] = variant.call
        if name in variants:
            skipped.pop(name, None)
    target = parse_target(request["target"], threads)
    cores = (request["cores"] or affinity())[:threads]
    peaks: list[float] = []
    with PeakProbe(target, cores) as probe:

        def sample_peak() -> None:
            peaks.append(probe.sample(request["min_round_seconds"]) * 4 / outs[0].itemsize)

        times = in_turns(
            calls, rounds=request["rounds"], budget=math.inf, sample=request["min_round_seconds"], threads=threads,
            # Other processes disturb a thread's own clock less.
            clock=time.thread_time if threads == 1 else None, after_round=sample_peak,
        )  # fmt: skip
    kernels = openblas_core()
    run = found.run if own else None
    return {"times": times, "peaks": peaks, "skipped": skipped, "variants": variants, "kernels": kernels, "run": run}


if __name__ == "__main__":
    _main()
