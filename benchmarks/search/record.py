"""Record search spaces: measure (nearly) every schedule of some operators, for `replay.py` and the shipped model.

    python benchmarks/search/record.py                 (what is not recorded yet; two minutes each, a quiet machine)
    python benchmarks/search/record.py skinny --again
    python benchmarks/search/record.py --list

A space is thinned to --size schedules (some values of each knob); each is built, checked and timed in pairs with the
default schedule, on one core that does nothing else meanwhile; the
fastest sixth five times, and the median counts.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import recordings

from tilewright.backends.cpu.device import device_model, parse_device
from tilewright.backends.cpu.noise import noise_warnings
from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.locks import DeviceLock
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Failure, FailureKind, Measurement, Outcome, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule
from tilewright.measure.runner import LocalRunner

_IMAGE = {"n": 1, "layout": "NHWC", "constant": "weight"}
_3X3 = {"kh": 3, "kw": 3, "padding": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "square": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "skinny": ("matmul", {"m": 16, "n": 1024, "k": 512}),
    "narrow": ("matmul", {"m": 1024, "n": 16, "k": 512}),
    "tall": ("matmul", {"m": 77, "n": 640, "k": 2048}),
    "vector": ("matmul", {"m": 1, "n": 4096, "k": 1024}),
    "fused": ("matmul", {"m": 128, "n": 3072, "k": 768, "bias": True, "activation": "gelu"}),
    "batched": ("batch_matmul", {"b": 64, "m": 32, "n": 32, "k": 32}),
    "bfloat16": ("matmul", {"m": 64, "n": 768, "k": 768, "dtype": "bfloat16"}),
    "int8": ("quantized_matmul", {"m": 16, "n": 1024, "k": 1024}),
    "conv1x1": ("conv2d", {**_IMAGE, "ci": 256, "h": 14, "w": 14, "co": 512, "kh": 1, "kw": 1}),
    "conv3x3": ("conv2d", {**_IMAGE, **_3X3, "ci": 256, "h": 14, "w": 14, "co": 256}),
    "late": ("conv2d", {**_IMAGE, **_3X3, "ci": 512, "h": 7, "w": 7, "co": 512}),
    "planes": ("conv2d", {"n": 1, **_3X3, "ci": 64, "h": 56, "w": 56, "co": 64}),
    "strided": ("conv2d", {"n": 1, **_3X3, "ci": 64, "h": 28, "w": 28, "co": 128, "stride": 2}),
    "stem": ("conv2d", {**_IMAGE, "ci": 3, "h": 112, "w": 112, "co": 64, "kh": 7, "kw": 7, "padding": 3, "stride": 2}),
    "volume": ("conv3d", {"n": 1, "ci": 16, "d": 8, "h": 28, "w": 28, "co": 32, "kd": 3, **_3X3}),
    "grouped": ("conv2d", {"n": 1, **_3X3, "ci": 256, "h": 14, "w": 14, "co": 256, "groups": 4}),
    "depthwise": ("conv2d", {**_IMAGE, **_3X3, "ci": 96, "h": 56, "w": 56, "co": 96, "groups": 96}),
    "transposed": (
        "conv_transpose2d", {"n": 1, "ci": 256, "h": 8, "w": 8, "co": 128, "kh": 4, "kw": 4, "stride": 2, "padding": 1}
    ),
    "attention": ("attention", {"b": 1, "h": 4, "lq": 256, "lk": 256, "d": 64}),
    "decode": ("attention", {"b": 8, "h": 8, "lq": 1, "lk": 1024, "d": 64}),
    "rows": ("softmax", {"shape": "512,1024"}),
    "turned": ("transpose", {"shape": "1024,1024"}),
    "pairs": ("einsum", {"equation": "ijk,jil->kl", "a": "8,64,64", "b": "64,8,64"}),
    "inner": ("einsum", {"equation": "abcd,ce->abed", "a": "4,8,64,16", "b": "64,64"}),
}  # fmt: skip
"""An operator and its parameters, by the name of the recording. All on one thread."""
AT_ONCE = 64
"""Schedules that are built together, by two compilers, before they are timed."""
PASSES = 5


def task_of(name: str) -> Task:
    operator, params = CASES[name]
    return Task(get_operator(operator).workload(**params), parse_target("auto", 1))


def measure(task: Task, schedules: Sequence[Schedule], anchor: Schedule) -> Iterator[tuple[Schedule, Outcome]]:
    """The outcome of each schedule, timed in pairs with ``anchor``, of which each ``seconds`` is a multiple."""
    device = parse_device("auto", 1)
    with DeviceLock(device), Builder(task.target, workers=2) as builder, LocalRunner(device, task.target) as runner:
        [reference] = builder.build([Candidate(task, anchor)])
        assert isinstance(reference, Artifact), reference
        incumbent = (Candidate(task, anchor), reference)
        [first] = runner.run(task, [incumbent])
        assert isinstance(first, Measurement), first
        for start in range(0, len(schedules), AT_ONCE):
            candidates = [Candidate(task, s) for s in schedules[start : start + AT_ONCE]]
            built = builder.build(candidates)
            items = [(c, b) for c, b in zip(candidates, built, strict=True) if isinstance(b, Artifact)]
            outcomes = iter(runner.run(task, items, incumbent, pairs=15))
            for c, b in zip(candidates, built, strict=True):
                yield c.schedule, next(outcomes) if isinstance(b, Artifact) else b
            print(f"\r{start + len(candidates)} of {len(schedules)} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def record(name: str, size: int) -> str:
    """Measure one case and write its file; a line on what was found."""
    task = task_of(name)
    space = recordings.thinned_union(task, size)
    schedules = list(space)
    anchor = default_schedule(task)
    start = time.monotonic()
    ratios: dict[Schedule, list[float]] = {}
    failures: dict[Schedule, FailureKind] = {}
    reference = 0.0
    chosen = schedules
    for _ in range(PASSES):
        for schedule, outcome in measure(task, chosen, anchor):
            if isinstance(outcome, Failure):
                if schedule not in ratios:
                    failures[schedule] = outcome.kind
            elif outcome.ratio:
                reference = reference or outcome.seconds / outcome.ratio
                ratios.setdefault(schedule, []).append(outcome.ratio)
        fastest = sorted(ratios, key=lambda s: ratios[s][0])
        chosen = fastest[: max(16, len(fastest) // 6)]
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    machine = {"processor": device_model(), "compiler": compiler, "date": datetime.date.today().isoformat()}
    path = recordings.FOLDER / f"{name}.json.gz"
    passes = {s: [reference * r for r in rs] for s, rs in ratios.items()}
    recordings.save(path, task, space, passes, failures, machine)
    made = recordings.load(path)
    return (
        f"{name}: {len(schedules)} schedules, {len(failures)} failed, noise {made.noise:.1%}, default "
        f"{made.seconds.get(made.default, 0.0) / made.optimum:.2f} of the best, {time.monotonic() - start:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--size", type=int, default=2500, help="schedules of a thinned space, at most")
    parser.add_argument("--again", action="store_true", help="also what is recorded already")
    parser.add_argument("--list", action="store_true", help="only say how large each space is")
    args = parser.parse_args()
    for name in args.names or CASES:
        if name not in CASES:
            parser.error(f"no case is called {name!r}: use {', '.join(CASES)}")
        if args.list:
            sizes = [(s.template, s.size) for s in recordings.thinned_union(task_of(name), args.size).spaces]
            print(name, *(f"{template} {size}" for template, size in sizes))
        elif args.again or not (recordings.FOLDER / f"{name}.json.gz").exists():
            for warning in noise_warnings():
                print(f"warning: {warning}", file=sys.stderr)
            print(record(name, args.size), flush=True)


if __name__ == "__main__":
    main()
