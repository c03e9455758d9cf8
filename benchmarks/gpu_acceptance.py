"""Everything that only a GPU can tell, in one run of at most nine minutes: is it right, and how fast is it?

    python benchmarks/gpu_acceptance.py --out DIR [--budget 520] [--driver cupy] [--prepared DIR]

In order: the primitives' conformance suite, re-recorded and compared with the committed recordings;
every template over odd shapes, checked in the isolated child; compute-sanitizer on a few kernels; then
tuning, and the winners beside PyTorch's libraries and Triton, interleaved. Results are written as they come
(DIR/acceptance.json); a short table is printed last. What was skipped is said, with the reason.

Runs from the source tree without a network. ``--driver emulator`` runs the part that an emulator can.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

GOLDEN = ROOT / "tests" / "golden" / "conformance"
WITHIN = {"conformance": 60.0, "correctness": 150.0, "sanitizer": 45.0}
"""Seconds that a part may take at most; tuning and comparing share the rest."""

FINAL = 10.0
"""Seconds kept for the final between a shape's fastest kernels."""

# m, n, k, dtype, attributes: tile edges, sizes that are no multiple of 8, single rows, transposed operands.
ODD: tuple[tuple[int, int, int, str, dict[str, Any]], ...] = (
    (127, 129, 65, "bfloat16", {}), (1, 4096, 512, "bfloat16", {}), (1000, 37, 513, "bfloat16", {}),
    (256, 256, 256, "float16", {}), (255, 120, 72, "float16", {"trans_a": True}),
    (64, 200, 104, "bfloat16", {"trans_b": True}), (77, 91, 33, "float16", {"trans_a": True, "trans_b": True}),
    (128, 128, 96, "float32", {"precision": "tf32"}), (63, 61, 59, "float32", {"precision": "tf32", "trans_b": True}),
    (192, 136, 160, "int8", {}), (65, 70, 75, "int8", {"trans_b": True}),
    (129, 127, 63, "float32", {}), (1, 1000, 300, "float32", {}), (300, 200, 100, "float64", {}),
    (96, 80, 64, "bfloat16", {"bias": True, "activation": "gelu", "residual": True}),
    (100, 90, 80, "float32", {"bias": True, "activation": "relu"}),
)  # fmt: skip

OPERATORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("batch_matmul", {"b": 3, "m": 65, "n": 72, "k": 40, "dtype": "bfloat16"}),
    ("conv1d", {"n": 2, "ci": 24, "w": 33, "co": 20, "kw": 5, "padding": 2, "stride": 2, "dtype": "float16"}),
    ("conv2d", {"n": 2, "ci": 5, "h": 13, "w": 17, "co": 12, "kh": 3, "kw": 3, "padding": 1}),
    ("conv2d", {"n": 2, "ci": 32, "h": 15, "w": 13, "co": 40, "kh": 3, "kw": 3, "padding": 1, "stride": 2,
                "groups": 2, "layout": "NHWC", "dtype": "bfloat16"}),
    ("conv2d", {"n": 1, "ci": 19, "h": 14, "w": 14, "co": 21, "kh": 3, "kw": 3, "padding": 2, "dilation": 2,
                "dtype": "float16"}),
    ("conv2d", {"n": 2, "ci": 24, "h": 15, "w": 17, "co": 24, "kh": 3, "kw": 3, "padding": 1, "groups": 24,
                "layout": "NHWC", "dtype": "bfloat16"}),
    ("conv3d", {"n": 1, "ci": 8, "d": 7, "h": 9, "w": 8, "co": 12, "kd": 3, "kh": 3, "kw": 3, "padding": 1,
                "layout": "NDHWC", "dtype": "bfloat16"}),
    ("conv_transpose2d", {"n": 2, "ci": 16, "h": 9, "w": 8, "co": 12, "kh": 4, "kw": 4, "stride": 2, "padding": 1,
                          "dtype": "bfloat16"}),
    ("conv_transpose2d", {"n": 1, "ci": 16, "h": 9, "w": 8, "co": 12, "kh": 3, "kw": 3, "stride": 2, "padding": 1,
                          "layout": "NHWC"}),
    ("capsule_conv2d", {"n": 1, "h": 8, "w": 8, "ci": 8, "co": 12, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4,
                        "cap_w": 4, "stride": 2, "padding": 1, "dtype": "float16"}),
    ("softmax", {"shape": "37,1000"}), ("softmax", {"shape": "9,33000", "dtype": "bfloat16"}),
    ("layer_norm", {"shape": "130,769", "dtype": "float16"}), ("rms_norm", {"shape": "65,4096"}),
    ("permute", {"shape": "30,41,52", "dims": "2,0,1", "dtype": "float16"}), ("transpose", {"shape": "1025,515"}),
    ("max_pool2d", {"n": 2, "c": 24, "h": 15, "w": 14, "kernel_size": 3, "stride": 2, "padding": 1}),
    ("sum", {"shape": "300,77", "dim": "0"}), ("argmax", {"shape": "100,3000", "dim": "1"}),
    ("attention", {"b": 2, "h": 4, "lq": 129, "lk": 200, "d": 64, "dtype": "bfloat16"}),
    ("attention", {"b": 1, "h": 6, "hk": 2, "lq": 97, "lk": 97, "d": 128, "is_causal": True, "dtype": "float16"}),
    ("attention", {"b": 1, "h": 2, "lq": 70, "lk": 130, "d": 80, "mask": "bool", "dtype": "bfloat16"}),
    ("attention", {"b": 1, "h": 3, "lq": 90, "lk": 90, "d": 64, "is_causal": True}),
)  # fmt: skip
"""One of every kind beside matmul, at odd sizes."""


def _matmul(m: int, n: int, k: int, dtype: str) -> tuple[str, dict[str, Any]]:
    return "matmul", {"m": m, "n": n, "k": k, "dtype": dtype}


TABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    _matmul(4096, 4096, 4096, "bfloat16"), _matmul(8192, 8192, 8192, "bfloat16"), _matmul(4096, 4096, 4096, "float32"),
    _matmul(16, 4096, 4096, "bfloat16"), _matmul(1000, 37, 513, "bfloat16"), _matmul(49, 512, 4608, "bfloat16"),
    ("conv2d", {"n": 16, "ci": 64, "h": 56, "w": 56, "co": 64, "kh": 3, "kw": 3, "padding": 1, "layout": "NHWC",
                "dtype": "bfloat16"}),
    ("conv2d", {"n": 16, "ci": 256, "h": 14, "w": 14, "co": 256, "kh": 3, "kw": 3, "padding": 1, "layout": "NCHW",
                "dtype": "bfloat16"}),
    ("conv2d", {"n": 16, "ci": 128, "h": 28, "w": 28, "co": 128, "kh": 3, "kw": 3, "padding": 1, "groups": 128,
                "layout": "NHWC", "dtype": "bfloat16"}),
    ("conv_transpose2d", {"n": 16, "ci": 256, "h": 16, "w": 16, "co": 128, "kh": 4, "kw": 4, "stride": 2,
                          "padding": 1, "layout": "NHWC", "dtype": "bfloat16"}),
    ("attention", {"b": 2, "h": 16, "lq": 4096, "lk": 4096, "d": 64, "is_causal": True, "dtype": "bfloat16"}),
    ("attention", {"b": 2, "h": 16, "lq": 2048, "lk": 2048, "d": 128, "dtype": "bfloat16"}),
    ("attention", {"b": 1, "h": 16, "lq": 1024, "lk": 1024, "d": 64}),
    ("softmax", {"shape": "8192,4096"}), ("layer_norm", {"shape": "8192,4096", "dtype": "bfloat16"}),
    ("transpose", {"shape": "8192,8192"}),
)  # fmt: skip
"""What is tuned and compared, the most telling first."""


class Report:
    """What was found so far; written to disk after every part."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "acceptance.json"
        self.started = time.monotonic()
        self.data: dict[str, Any] = {"date": time.strftime("%Y-%m-%d %H:%M:%S"), "parts": {}, "skipped": []}

    def skip(self, what: str, why: str) -> None:
        print(f"SKIPPED {what}: {why}", flush=True)
        self.data["skipped"].append({"what": what, "why": why})
        self.save()

    def part(self, name: str, result: Any) -> None:
        self.data["parts"][name] = result
        self.save()

    def save(self) -> None:
        self.data["seconds"] = round(time.monotonic() - self.started, 1)
        self.path.write_text(json.dumps(self.data, indent=1) + "\n")


# --------------------------------------------------------------------------- conformance


def conformance(context: Any, target: Any, driver: str, report: Report, deadline: float) -> None:
    """Run every primitive's kernels on the device and compare with the committed recordings."""
    from tilewright.backends import backend_for
    from tilewright.backends.cache import ArtifactCache
    from tilewright.kernels.codegen.prelude import prelude
    from tilewright.kernels.primitives import conformance as suite

    toolchain = backend_for(target, driver == "emulator").toolchain(target, ArtifactCache())
    modules: list[Any] = []

    def run(case: suite.Case) -> Any:
        if time.monotonic() > deadline:
            raise TimeoutError("no time left")
        unit = prelude(target, emulated=driver == "emulator") + case.source
        compiled = toolchain.compile(unit, [case.symbol], 60.0)
        module = context.load(Path(compiled.path).read_bytes())
        modules.append(module)
        from tilewright.backends.driver import resolve

        out = case.output()
        tensors = [np.ascontiguousarray(x) for x in case.inputs] + [out]
        addresses = [context.allocate(max(x.nbytes, 1)) for x in tensors]
        try:
            for address, x in zip(addresses, tensors, strict=True):
                context.upload(address, x)
            for launch in case.program.launches:
                grid, block, shared, parameters = resolve(launch, addresses, 0, case.launch)
                module.function(launch.symbol).launch(grid, block, shared, parameters)
            context.synchronize()
            context.download(addresses[-1], out)
        finally:
            for address in addresses:
                context.free(address)
        return out

    usable = [c for c in suite.cases() if c.primitive.known_to(int(target.limit["cc"]))]
    outputs: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for case in usable:
        try:
            outputs |= suite.record(run, [case], recorded_on=context.model)["cases"]
        except TimeoutError as e:
            report.skip(f"conformance from {case.name} on", str(e))
            break
        except Exception as e:
            failed[case.name] = f"{type(e).__name__}: {e}"
    golden = suite.load(GOLDEN)
    golden["cases"] = {k: v for k, v in golden["cases"].items() if k in outputs}
    differing = suite.check_against(golden, {"cases": outputs})
    for line in (*differing, *(f"{k}: {v}" for k, v in failed.items())):
        print(f"  DIFFERS {line}", flush=True)
    suite.save({"recorded_on": context.model, "cases": outputs}, report.path.parent / "conformance")
    report.part(
        "conformance",
        {
            "device": context.model, "recorded_on": golden["recorded_on"], "run": len(outputs), "failed": failed,
            "differing": list(differing), "of": len(suite.cases()),
        },
    )  # fmt: skip


# --------------------------------------------------------------------------- correctness


def workloads(operators: str = "", limit: int = 10**6) -> list[Any]:
    """The odd shapes of ``operators`` (comma separated; all for ""), at most ``limit`` of each."""
    from tilewright.kernels.operators import get_operator

    wanted = operators.split(",") if operators else []
    every = [*(("matmul", {"m": m, "n": n, "k": k, "dtype": d, **more}) for m, n, k, d, more in ODD), *OPERATORS]
    seen: dict[str, int] = {}
    made = []
    for op, params in every:
        seen[op] = seen.get(op, 0) + 1
        if (not wanted or op in wanted) and seen[op] <= limit:
            made.append(get_operator(op).workload(**params))
    return made


def correctness(place: Any, report: Report, deadline: float, per_template: int, chosen: list[Any]) -> None:
    """Each template's default and random schedules over odd shapes, verified in the isolated child."""
    import random

    from tilewright.core import Artifact, Candidate, Task
    from tilewright.kernels.templates import templates_for

    rng = random.Random(1)
    rows: list[dict[str, Any]] = []
    with place.builder() as builder, place.runner() as runner:
        for workload in chosen:
            task = Task(workload, place.target)
            for template in templates_for(task):
                space = template.space(task)
                schedules = [template.default(task), *(space.sample(rng) for _ in range(per_template))]
                candidates = [Candidate(task, s) for s in dict.fromkeys(schedules)]
                if time.monotonic() > deadline:
                    report.skip(f"correctness of {workload.label} with {template.name}", "no time left")
                    continue
                for candidate, built in zip(candidates, builder.build(candidates), strict=True):
                    row = {
                        "workload": workload.label,
                        "template": template.name,
                        "schedule": dict(candidate.schedule.values),
                    }
                    if not isinstance(built, Artifact):
                        rows.append({**row, "result": built.kind.value, "message": built.message})
                        continue
                    problem = runner.verify(task, (candidate, built))
                    rows.append({**row, "result": "right" if problem is None else problem.kind.value,
                                 "message": "" if problem is None else problem.message})  # fmt: skip
                    if problem is not None:
                        print(f"  WRONG {workload.label} {template.name}: {problem.message}", flush=True)
                report.part("correctness", rows)
    right = sum(r["result"] == "right" for r in rows)
    gated = sum(r["result"] == "resources" for r in rows)
    print(f"correctness: {right} of {len(rows)} right, {gated} turned down by the static gate", flush=True)


# --------------------------------------------------------------------------- compute-sanitizer

SANITIZED = """
import sys
sys.path.insert(0, {src!r})
import json
import numpy as np
from pathlib import Path
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.driver import resolve
from tilewright.core import LaunchProgram, evaluate
job = json.loads(Path({job!r}).read_text())
context = get_driver({driver!r}).open(0)
program = LaunchProgram.from_json(job["program"])
module = context.load(Path(job["path"]).read_bytes())
tensors = [context.allocate(n) for n in job["bytes"]]
for t, n in zip(tensors, job["bytes"]):
    context.upload(t, np.zeros(n, np.uint8))
size = evaluate(program.workspace, job["launch"])
ws = context.allocate(size) if size else 0
if size:
    context.upload(ws, np.zeros(size, np.uint8))
for launch in program.launches:
    grid, block, shared, parameters = resolve(launch, tensors, ws, job["launch"])
    module.function(launch.symbol).launch(grid, block, shared, parameters)
context.synchronize()
"""


def sanitizer(place: Any, driver: str, report: Report, deadline: float) -> None:
    """memcheck, racecheck and synccheck of default kernels on a few odd shapes."""
    tool = shutil.which("compute-sanitizer") or next(
        (str(p) for p in Path("/usr/local").glob("cuda*/bin/compute-sanitizer")), None
    )
    if tool is None:
        return report.skip("compute-sanitizer", "it is not installed")
    from tilewright.core import Artifact, Candidate, Task
    from tilewright.kernels.expression.expr import ITEMSIZE
    from tilewright.kernels.templates import templates_for

    rows = []
    with place.builder() as builder:
        for workload in [*(workloads("matmul")[i] for i in (2, 0, 11)), *workloads("attention", 1)]:
            task = Task(workload, place.target)
            for template in templates_for(task):
                candidate = Candidate(task, template.default(task))
                (built,) = builder.build([candidate])
                if not isinstance(built, Artifact):
                    continue
                specs = [*workload.inputs, workload.output]
                job = report.path.parent / "sanitizer-job.json"
                job.write_text(json.dumps({
                    "program": built.program.to_json(), "path": built.path,
                    "bytes": [int(np.prod(s.shape, dtype=np.int64)) * ITEMSIZE[s.dtype] for s in specs],
                    "launch": {k: int(v) for k, v in candidate.schedule.launch},
                }))  # fmt: skip
                code = SANITIZED.format(src=str(ROOT / "src"), job=str(job), driver=driver)
                for kind in ("memcheck", "racecheck", "synccheck"):
                    left = deadline - time.monotonic()
                    if left < 5:
                        report.skip(f"{kind} of {workload.label} with {template.name}", "no time left")
                        continue
                    words = [tool, "--tool", kind, "--error-exitcode", "9", sys.executable, "-c", code]
                    try:
                        done = subprocess.run(words, capture_output=True, text=True, timeout=left, check=False)
                        said = (done.stdout + done.stderr).strip().splitlines()
                        state = "clean" if done.returncode == 0 else f"exit {done.returncode}"
                    except subprocess.TimeoutExpired:
                        said, state = [], "timed out"
                    rows.append({"workload": workload.label, "template": template.name, "tool": kind, "state": state,
                                 "said": [] if state == "clean" else said[-12:]})  # fmt: skip
                    print(f"  {kind} {workload.label} {template.name}: {state}", flush=True)
                    report.part("sanitizer", rows)
    return None


# --------------------------------------------------------------------------- tuning and comparing


def tuning(report: Report, options: argparse.Namespace, end: float, prepared_for: set[str]) -> None:
    """Tune the table's shapes within the time, then compare the winners in a process of their own."""
    import tilewright
    from tilewright.kernels.operators import get_operator

    db = options.out / "tuned.db"
    compare_seconds = 2.5 * len(TABLE) * 2
    tuned: list[list[Any]] = []
    rows: list[dict[str, Any]] = []
    for number, (op, params) in enumerate(TABLE):
        left = end - time.monotonic() - compare_seconds
        share = left / (len(TABLE) - number) * (1.8 if number < 3 else 1.0)
        workload = get_operator(op).workload(**params)
        if share < FINAL + 3:
            report.skip(f"tuning {workload.label}", "no time left")
            continue
        began = time.monotonic()
        try:
            result = tilewright.tune(
                op,
                target="cuda",
                trials=2000,
                time_budget=share - FINAL,
                db=db,
                prepared=options.prepared if workload.key in prepared_for else None,
                **params,
            )
        except Exception as e:
            traceback.print_exc()
            rows.append({"case": [op, params], "error": f"{type(e).__name__}: {e}"})
            continue
        rows.append({"case": [op, params], **result.to_json(), "wall": time.monotonic() - began})
        tuned.append([op, params])
        best = result.best
        told = "nothing right was found" if best is None else f"{best.template} {best.seconds * 1e6:.1f} us"
        print(f"  tuned {workload.label}: {told}, {result.trials} trials", flush=True)
        report.part("tuning", rows)
    cases = options.out / "cases.json"
    cases.write_text(json.dumps(tuned))
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_rivals.py"), "--db", str(db), "--out", str(options.out),
             "--cases", str(cases), "--seconds-each", "2.5"]  # fmt: skip
    try:
        subprocess.run(words, timeout=max(30.0, end + 20 - time.monotonic()), check=True)
        report.part("rivals", json.loads((options.out / "rivals.json").read_text()))
    except (OSError, subprocess.SubprocessError) as e:
        report.skip("comparison with PyTorch's libraries and Triton", f"{type(e).__name__}: {e}")


def table(report: Report) -> str:
    """The short table that is printed last."""
    parts = report.data["parts"]
    lines = [f"device   {report.data.get('device', '?')}, driver {report.data.get('driver', '?')}"]
    if c := parts.get("conformance"):
        bad = len(c["differing"]) + len(c["failed"])
        lines.append(f"conformance   {c['run']} of {c['of']} cases run, {bad} differ (golden from {c['recorded_on']})")
    if rows := parts.get("correctness"):
        right = sum(r["result"] == "right" for r in rows)
        gated = sum(r["result"] == "resources" for r in rows)
        lines.append(f"correctness   {right} right, {gated} gated, {len(rows) - right - gated} wrong or failed")
    if rows := parts.get("sanitizer"):
        lines.append(f"compute-sanitizer   {sum(r['state'] == 'clean' for r in rows)} of {len(rows)} runs clean")
    for r in parts.get("rivals", []):
        share = "" if r["share"] is None else f"  {100 * r['share']:5.1f}% of {r['of']}"
        sizes = " ".join(f"{k}={v}" for k, v in r["params"].items())
        lines.append(
            f"{r['op']} {sizes}  {r['rival']}  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}){share}  error {r['error']:.1e}"
        )
    lines += [f"skipped   {s['what']}: {s['why']}" for s in report.data["skipped"]]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--budget", type=float, default=520.0, help="seconds in all [520]")
    parser.add_argument("--driver", choices=("cupy", "pycuda", "emulator"), help="[cupy, else pycuda]")
    parser.add_argument("--prepared", type=Path, help="what `tilewright prepare` wrote: tried first")
    parser.add_argument("--only", help="parts, comma separated: conformance,correctness,sanitizer,tuning")
    parser.add_argument("--limit", type=int, default=10**6, help="at most that many odd shapes of each operator")
    parser.add_argument("--operators", default="", help="whose odd shapes, comma separated [all]")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    report = Report(options.out)
    begin = time.monotonic()
    end = begin + options.budget

    from tilewright.backends import parse_target
    from tilewright.backends.cuda.driver import get_driver
    from tilewright.core import TilewrightError

    try:
        driver = get_driver(options.driver)
        context = driver.open(0)
        emulated = driver.name == "emulator"
        target = parse_target("cuda:sm_90a" if emulated else "cuda", 1, emulated)
    except TilewrightError as e:
        report.skip("everything", str(e))
        print(table(report))
        return 3
    report.data |= {"device": context.model, "driver": driver.name, "facts": dict(context.facts),
                    "limits": dict(context.limits), "target": target.to_json()}  # fmt: skip
    prepared_for: set[str] = set()
    if options.prepared:
        from tilewright.building.prepared import folders, read

        prepared_for = {read(f).task.workload.key for f in folders(options.prepared)}
    from tilewright.measure.places import find_place

    place = find_place(target.name, "emulator" if emulated else "cuda:0")
    wanted = set((options.only or "conformance,correctness,sanitizer,tuning").split(","))
    steps: list[tuple[str, Callable[[float], None]]] = [
        ("conformance", lambda at: conformance(context, target, driver.name, report, at)),
        ("correctness", lambda at: correctness(place, report, at, 2, workloads(options.operators, options.limit))),
        ("sanitizer", lambda at: sanitizer(place, driver.name, report, at)),
    ]
    if emulated:
        wanted -= {"sanitizer", "tuning"}
        report.skip("compute-sanitizer, tuning and rivals", "an emulator tells nothing about them")
    broken: list[str] = []
    for name, step in steps:
        if name not in wanted:
            continue
        print(f"== {name} ({time.monotonic() - begin:.0f} s)", flush=True)
        try:
            step(min(end, time.monotonic() + WITHIN[name]))
        except Exception as e:  # the parts stand alone: one that breaks must not cost the others
            traceback.print_exc()
            report.skip(name, f"it broke: {type(e).__name__}: {e}")
            broken.append(name)
    if "tuning" in wanted:
        print(f"== tuning ({time.monotonic() - begin:.0f} s)", flush=True)
        tuning(report, options, end, prepared_for)
    report.save()
    text = table(report)
    (options.out / "acceptance.txt").write_text(text + "\n")
    print("\n" + text, flush=True)
    correct = all(r["result"] in ("right", "resources") for r in report.data["parts"].get("correctness", []))
    same = not report.data["parts"].get("conformance", {}).get("differing")
    return 0 if correct and same and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
