"""Random legal schedules of every CUDA template: do all compile, are all right, is any access astray?

    python benchmarks/cuda_schedules.py --out benchmarks/results/cuda_schedules
    python benchmarks/cuda_schedules.py --quick

No GPU is needed. For each template and architecture, N schedules are drawn; each is printed for four of
twenty odd shapes (benchmarks/cuda_cases.py; all shapes come up equally often) and compiled with NVRTC.
Kernels that pass the static gate run on the emulator, each distinct text once, in three thread orders on
random and on exact inputs; some of them again under the address and undefined-behaviour sanitizers, and
some under the thread sanitizer. The compile rate is measured on sizes that people tune. Ctrl-C writes what
was found. Exit code 1 if any kernel did not compile, was wrong, or was reported.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_cases import ARCHITECTURES, Shape, cuda_templates, dealt, say, shapes_of
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.building.builder import Builder
from tilewright.checking.check import Checked, Checker, Subject, subject_of
from tilewright.core import Artifact, Candidate, Failure, FailureKind, IllegalSchedule, Schedule, Task
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template

RATE_SHAPES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "cuda_simt": (
        ("matmul", {"m": 4096, "n": 4096, "k": 4096}),
        ("matmul", {"m": 1000, "n": 37, "k": 513}),
        ("conv2d", {"n": 8, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1}),
    ),
    "cuda_mma": (
        ("matmul", {"m": 4096, "n": 4096, "k": 4096, "dtype": "bfloat16"}),
        ("matmul", {"m": 4095, "n": 4095, "k": 4095, "dtype": "bfloat16"}),
        ("matmul", {"m": 16, "n": 4096, "k": 4096, "dtype": "float16", "trans_b": True}),
        ("matmul", {"m": 1000, "n": 37, "k": 513, "dtype": "float16", "bias": True, "activation": "gelu"}),
    ),
    "cuda_rows": (
        ("softmax", {"shape": "4096,4096"}),
        ("layer_norm", {"shape": "8192,1024", "dtype": "float16"}),
        ("argmax", {"shape": "128,50257"}),
    ),
    "cuda_map": (
        ("elementwise", {"shape": "4096,4096", "fn": "gelu(x)"}),
        ("transpose", {"shape": "4096,4096", "dtype": "float16"}),
    ),
    "cuda_stencil": (
        ("max_pool2d", {"n": 32, "c": 64, "h": 112, "w": 112, "kernel_size": 3, "stride": 2, "padding": 1}),
        ("avg_pool2d", {"n": 32, "c": 256, "h": 56, "w": 56, "kernel_size": 2, "stride": 2, "layout": "NHWC"}),
    ),
    "cuda_generic": (("softmax", {"shape": "4096,4096"}), ("cumsum", {"shape": "4096,1024"})),
}


@dataclass(frozen=True)
class Case:
    """One kernel: schedule number ``number`` of a template, at one shape, for one architecture."""

    number: int
    shape: Shape
    candidate: Candidate


@dataclass
class Compiling:
    """What NVRTC and the gate said of one template on one architecture."""

    template: str
    arch: str
    kernels: int = 0
    compiled: int = 0
    errors: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    spilled: int = 0
    seconds: float = 0.0
    gate_seconds: float = 0.0
    passed: list[Case] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.compiled / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "template": self.template, "arch": self.arch, "kernels": self.kernels, "compiled": self.compiled,
            "errors": self.errors[:20], "error_count": len(self.errors), "refused": self.refused,
            "passed": len(self.passed), "seconds": round(self.seconds, 3), "rate": round(self.rate, 2),
            "gate_seconds": round(self.gate_seconds, 6),
        }  # fmt: skip


@dataclass
class Running:
    """What the emulator said of one template's kernels."""

    template: str
    what: str  # "orders", "address,undefined", "thread"
    kernels: int = 0
    right: int = 0
    runs: int = 0
    shapes: set[str] = field(default_factory=set)
    bugs: list[dict[str, Any]] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, case: Case, result: Checked) -> None:
        self.kernels += 1
        self.runs += result.runs
        self.shapes.add(case.shape.label)
        self.right += result.state == "right"
        self.unchecked += result.unchecked
        if result.findings:
            schedule = dict(case.candidate.schedule.values)
            arch = case.candidate.task.target.variant
            self.bugs.append(
                {"shape": case.shape.label, "arch": arch, "schedule": schedule,
                 "bugs": [f.to_json() for f in result.findings]}
            )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "template": self.template, "what": self.what, "kernels": self.kernels, "right": self.right,
            "runs": self.runs, "shapes": len(self.shapes), "bugs": self.bugs[:20], "bug_count": len(self.bugs),
            "unchecked": sorted(set(self.unchecked)), "seconds": round(self.seconds, 1),
        }  # fmt: skip


def draw(template: str, arch: str, count: int, seed: int = 0) -> list[Case]:
    """``count`` schedules, each at four shapes: the same decisions where they are legal, else drawn anew."""
    target = cuda_target(arch)
    cases: list[Case] = []
    for number, hand in enumerate(dealt(shapes_of(template, target), count, seed=seed)):
        rng = random.Random(f"{seed} {template} {number}")
        carried: Schedule | None = None
        for shape in hand:
            task = Task(shape.workload, target)
            space = get_template(template).space(task)
            schedule: Schedule | None = None
            if carried is not None:
                try:
                    schedule = space.schedule(carried.values)
                except IllegalSchedule:
                    schedule = None
            schedule = schedule or space.sample(rng)
            carried = carried or schedule
            cases.append(Case(number, shape, Candidate(task, schedule)))
    return cases


def compile_cases(template: str, arch: str, cases: Sequence[Case], workers: int, cache: Path) -> Compiling:
    """Compile every case with NVRTC, from an empty cache."""
    out = Compiling(template, arch, kernels=len({c.candidate.binary_key for c in cases}))
    target = cuda_target(arch)
    began = time.perf_counter()
    with Builder(target, cache=ArtifactCache(cache), workers=workers) as builder:
        built = builder.build([c.candidate for c in cases])
        counts = builder.gate_counts()
    out.seconds = time.perf_counter() - began
    out.gate_seconds = counts.gate_seconds
    seen: set[str] = set()
    for case, b in zip(cases, built, strict=True):
        if isinstance(b, Artifact):
            out.passed.append(case)
        if case.candidate.binary_key in seen:
            continue
        seen.add(case.candidate.binary_key)
        if isinstance(b, Failure) and b.kind is not FailureKind.RESOURCES:
            out.errors.append(f"{case.shape.label} {dict(case.candidate.schedule.values)}: {b.message}")
    out.compiled = counts.compiled - len(out.errors)
    out.refused = {**counts.before, **counts.after}
    return out


def distinct(cases: Iterable[Case]) -> list[tuple[Case, Subject]]:
    """Cases by their kernel's text (and shape): what differs in architecture alone runs once."""
    found: dict[tuple[str, str], tuple[Case, Subject]] = {}
    for case in cases:
        subject = subject_of(case.candidate)
        body = subject.source.replace(case.candidate.symbol, "kernel")
        found.setdefault((case.shape.label, body), (case, subject))
    return list(found.values())


def emulate(
    template: str, pairs: Sequence[tuple[Case, Subject]], what: str, workers: int, cache: Path,
    tell: Callable[[Running, int], None] = lambda _r, _n: None,
) -> Running:  # fmt: skip
    """Run kernels on the emulator: ``what`` is ``orders`` or names sanitizers."""
    out = Running(template, what)
    began = time.perf_counter()
    by_shape: dict[str, list[tuple[Case, Subject]]] = {}
    for case, subject in pairs:
        by_shape.setdefault(case.shape.label, []).append((case, subject))
    for group in by_shape.values():
        checker = Checker(group[0][1].workload, cache=cache)
        if what != "orders":
            checker = checker.watching(what.split(","))
        for number, result in checker.check_all([s for _, s in group], workers):
            out.add(group[number][0], result)
            out.seconds = time.perf_counter() - began
            tell(out, len(pairs))
    return out


def compile_rate(template: str, arch: str, count: int, workers: int, cache: Path, seed: int = 0) -> Compiling:
    """Compile ``count`` random schedules of sizes that people tune."""
    target = cuda_target(arch)
    listed = RATE_SHAPES[template]
    rng = random.Random(seed)
    cases = []
    for n in range(count):
        op, params = listed[n % len(listed)]
        task = Task(get_operator(op).workload(**params), target)
        schedule = get_template(template).space(task).sample(rng)
        cases.append(Case(n, Shape(op, tuple(params.items())), Candidate(task, schedule)))
    return compile_cases(template, arch, cases, workers, cache)


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """``count`` of the items, evenly spaced."""
    if len(items) <= count:
        return list(items)
    return [items[n * len(items) // count] for n in range(count)]


def table(data: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| template | architecture | kernels | compiled | errors | refused by the gate | compiled/s | gate's share |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in [*data["compiling"], *data["rates"]]:
        gate = ", ".join(f"{n} {k}" for k, n in r["refused"].items()) or "none"
        note = " (sizes that people tune)" if r in data["rates"] else ""
        share = r["gate_seconds"] / r["seconds"] if r["seconds"] else 0.0
        lines.append(
            f"| {r['template']}{note} | {r['arch']} | {r['kernels']} | {r['compiled']} | {r['error_count']} | {gate} "
            f"| {r['rate']:.1f} | {100 * share:.2f}% |"
        )
    if not data["running"]:
        return "\n".join(lines)
    lines += [
        "",
        "| template | check | distinct kernels | shapes | runs | right | with bugs | not checked |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in data["running"]:
        lines.append(
            f"| {r['template']} | {r['what']} | {r['kernels']} | {r['shapes']} | {r['runs']} | {r['right']} "
            f"| {r['bug_count']} | {len(r['unchecked'])} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="schedules of each template and architecture")
    parser.add_argument("--address", type=int, default=60, help="kernels a template under ASan and UBSan")
    parser.add_argument("--thread", type=int, default=30, help="kernels a template under TSan")
    parser.add_argument("--rate", type=int, default=48, help="kernels a template and architecture for the compile rate")
    parser.add_argument("--quick", action="store_true", help="a sample: 6 schedules, 4 and 2 under sanitizers")
    parser.add_argument("--templates", nargs="+", default=None)
    parser.add_argument("--archs", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip", nargs="+", default=[], choices=["compile", "emulate", "sanitize", "rate"])
    parser.add_argument("--out", help="write NAME.json and NAME.md")
    args = parser.parse_args()
    if args.quick:
        args.count, args.address, args.thread, args.rate = 6, 4, 2, 8
    data: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(), "jobs": args.jobs, "seed": args.seed, "schedules": args.count, "complete": False,
        "compiling": [], "rates": [], "running": [],
    }  # fmt: skip
    try:
        with tempfile.TemporaryDirectory() as folder:
            for template in args.templates or cuda_templates():
                _template(template, args, data, Path(folder))
        data["complete"] = True
    except KeyboardInterrupt:
        say("stopped early; what was found is written")
    state = "" if data["complete"] else ", not complete"
    text = f"{_subject(args)}, {args.jobs} jobs on {data['cores']} cores, {data['date']}{state}.\n\n{table(data)}\n"
    print(text)
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{args.out}.json").write_text(json.dumps(data, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text)
    bad = sum(r["error_count"] for r in data["compiling"] + data["rates"]) + sum(
        r["bug_count"] + len(r["unchecked"]) for r in data["running"]
    )
    return 130 if not data["complete"] else 1 if bad else 0


def _subject(args: argparse.Namespace) -> str:
    if {"compile", "emulate", "sanitize"} <= set(args.skip):
        return f"{args.rate} random legal schedules of each template and architecture"
    return f"{args.count} random legal schedules of each template and architecture, each at four of its odd shapes"


def _template(template: str, args: argparse.Namespace, data: dict[str, Any], folder: Path) -> None:
    drawn: list[Case] = []
    for arch in args.archs:
        cases = draw(template, arch, args.count, args.seed)
        if "compile" in args.skip:
            drawn += cases
        else:
            say(f"{template} {arch}: compiling {len(cases)} kernels")
            compiling = compile_cases(template, arch, cases, args.jobs, folder / f"{template}-{arch}")
            data["compiling"].append(compiling.to_json())
            drawn += compiling.passed
        if "rate" not in args.skip and template in RATE_SHAPES:
            rate = compile_rate(template, arch, args.rate, args.jobs, folder / f"rate-{template}-{arch}", args.seed)
            data["rates"].append(rate.to_json())
            say(f"{template} {arch}: {rate.rate:.1f} compiles a second")
    pairs = distinct(drawn)
    parts = [] if "emulate" in args.skip else [("orders", pairs)]
    if "sanitize" not in args.skip:
        parts += [
            ("address,undefined", spread(pairs, args.address)),
            ("thread", spread(pairs[len(pairs) // 7 :], args.thread)),
        ]
    said = time.monotonic()

    def tell(r: Running, of: int) -> None:
        nonlocal said
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"{template} {r.what}: {r.kernels}/{of} kernels, {r.right} right, {len(r.bugs)} with bugs")

    for what, chosen in parts:
        say(f"{template}: {what}, {len(chosen)} kernels")
        # Appended before it runs, so that Ctrl-C keeps it.
        running = Running(template, what)
        data["running"].append(running.to_json())

        def tell_and_keep(r: Running, of: int) -> None:
            data["running"][-1] = r.to_json()
            tell(r, of)

        data["running"][-1] = emulate(template, chosen, what, args.jobs, folder / "emulated", tell_and_keep).to_json()


if __name__ == "__main__":
    sys.exit(main())
